"""One git-ignore pattern: translated by pathspec, mended where git reads it otherwise, run by RE2 in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass

import bracex
import re2
from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MOST_BRACES = 200
"""Braces in one pattern beyond which it is not expanded: the expander is recursive."""

LONGEST = 1024
MOST_SETS = 64
"""Characters and sets of a pattern beyond which it counts as unreadable."""

_ANY_FOLDER = "(?P<ps_d>/)"
_BRACKET = "\\]"
_STARS = re.compile(r"(?:(?<=/)|^)\*{3,}(?=/|$)")
_SET = re.compile(r"\[(?P<negation>[!^]?)(?P<members>(?:\\.|[^\]\\])*)\]")
_SET_OF_REGEX = re.compile(r"\\.|\[(?P<negation>\^?)(?P<members>\]?(?:\\\\|[^\]\\])*)\]", re.DOTALL)
_MEMBER = re.compile(r"\\?(?P<first>.)(?:-\\?(?P<last>.))?", re.DOTALL)
NAMED = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \t",
    "cntrl": "\x01-\x1f\x7f",
    "digit": "0-9",
    "graph": '"-~!',
    "lower": "a-z",
    "print": " -~",
    "punct": '"-.:-@[-`{-~!',
    "space": " \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """``include`` is False for a negated pattern."""

    glob: str
    regex: re2._Regexp
    include: bool

    def matches(self, path: str) -> bool:
        """Whether the pattern names ``path`` itself (folders end in a slash), not only a folder above it."""
        found = self.regex.match(path)
        if found is None:
            return False
        if "ps_d" not in self.regex.groupindex:
            return not self.regex.pattern.endswith("/") or found.end() < len(path)
        return found.group("ps_d") is None or found.end() == len(path)


def compiled(glob: str) -> Pattern | None:
    """The pattern, or None when it cannot be read or is empty. Upper and lower case differ."""
    if len(glob) > LONGEST or glob.count("[") > MOST_SETS:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(_mended(glob))
        if regex is None or include is None or not glob.removeprefix("!").strip("/"):
            return None
        regex = f"^.*{regex}" if regex == _ANY_FOLDER else _SET_OF_REGEX.sub(_within_a_name, regex)
        return Pattern(glob, re2.compile(regex, options), include)
    except (GitIgnorePatternError, re.error, re2.error):
        return None


def _mended(glob: str) -> str:
    """The pattern in a form that pathspec reads as git does: longer runs of stars, ``a/**/``, character classes."""
    negation = "!" if glob.startswith("!") else ""
    mended = negation + _STARS.sub("**", glob.removeprefix("!"))
    if "\\]" in mended:
        mended = _SET.sub(_with_bracket_first, mended)
    if "[:" in mended:
        for name, members in NAMED.items():
            mended = mended.replace(f"[:{name}:]", members)
    return f"{mended}*/" if mended.endswith("/**/") else mended


def _with_bracket_first(found: re.Match[str]) -> str:
    """A set with an escaped bracket, which pathspec does not read, has it in front instead, where it is literal."""
    members = found["members"]
    if "\\]" not in members:
        return found[0]
    return f"[{found['negation']}]{members.replace(_BRACKET, '')}]"


def _within_a_name(found: re.Match[str]) -> str:
    """A set of the regular expression without the slash, which no set of git's matches."""
    if found["members"] is None:
        return found[0]
    if "[:" in found["members"] and found["members"].endswith(":"):
        raise re.error("there is no such class of characters", found[0])
    members = "".join(_range(first, last) for first, last in _MEMBER.findall(found["members"]) if first != "/")
    return f"[^/{members}]" if found["negation"] else f"[{members}]"


def _range(first: str, last: str) -> str:
    if not last:
        return re.escape(first)
    if first < "/" < last:
        return f"{re.escape(first)}-.0-{re.escape(last)}"
    return f"{re.escape(first)}-{re.escape(last)}"


def expanded(glob: str, most: int, characters: int) -> tuple[str, ...] | None:
    """``glob`` with its braces expanded as in bash; None when that takes more than ``most`` or ``characters``."""
    if "{" not in glob:
        return (glob,)
    if glob.count("{") > MOST_BRACES or most <= 0:
        return None
    found: list[str] = []
    try:
        for one in bracex.iexpand(glob, keep_escapes=True, limit=most):
            characters -= len(one)
            if characters < 0:
                return None
            found.append(one)
    except bracex.ExpansionLimitException:
        return None
    return tuple(found)
