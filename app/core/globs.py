"""One git-ignore pattern: translated by pathspec, mended where git reads it otherwise, run by RE2 in linear time."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

PATTERN_BYTES = 256 * 1024
"""What one pattern may take when it is compared."""

_ANCHORED = {"/": "^[^/]*/", "(?P<ps_d>/)": "^.*(?P<ps_d>/)"}
"""What pathspec means to be searched for, from the start of a path."""

_PLACE = "\0"
"""Where a set stood: no path holds this character."""

_STARS = re.compile(r"(?:(?<=/)|^)\*{3,}(?=/|$)")
_MEMBER = r"(?>\[:(?P<named>[^\]]*):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\\]]))?)"
_ANONYMOUS = re.sub(r"\?P<\w+>", "?:", _MEMBER)
_SET = re.compile(rf"\\.|\[(?:(?P<negation>[!^])?+(?P<members>{_ANONYMOUS}(?:(?!\]){_ANONYMOUS})*+)\])?+", re.DOTALL)
_MEMBERS = re.compile(_MEMBER, re.DOTALL)
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
    if len(glob) > LONGEST or glob.count("[") > MOST_SETS or _PLACE in glob:
        return None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES
    sets: list[str] = []
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(_mended(glob, sets))
        if regex is None or include is None or not glob.removeprefix("!").strip("/"):
            return None
        regex = _ANCHORED.get(regex) or _with_sets(regex, sets)
        return Pattern(glob, re2.compile(regex, options), include)
    except (GitIgnorePatternError, re.error, re2.error):
        return None


def _without_sets(glob: str, sets: list[str]) -> str:
    """The pattern with a place where each set stood, which goes to ``sets`` as a regular expression.

    A slash in a set fits nothing, and still ties the pattern to its folder. An escaped slash within is a slash.
    """
    slashed: list[bool] = []

    def replaced(found: re.Match[str]) -> str:
        if found[0].startswith("\\"):
            return "/" if found[0] == "\\/" and found.start() > 0 and found.end() < len(glob) else found[0]
        sets.append(_regex_of(found))
        slashed.append("/" in found[0])
        return _PLACE

    left = _SET.sub(replaced, glob)
    return f"/{left}" if any(slashed) and not left.startswith("/") else left


def _with_sets(regex: str, sets: Sequence[str]) -> str:
    waiting = iter(sets)
    return "".join(next(waiting) if one == _PLACE else one for one in regex)


def _mended(glob: str, sets: list[str]) -> str:
    """The pattern in a form that pathspec reads as git does: its sets, its spaces, longer runs of stars, ``a/**/``."""
    bare = glob.removeprefix("!")
    mended = _STARS.sub("**", _without_sets(_trimmed(bare), sets))
    mended = f"{mended}*/" if mended.endswith("/**/") else mended
    return mended if bare == glob else f"!{mended}"


def _trimmed(glob: str) -> str:
    """Without spaces at the end, but for one that is escaped."""
    bare = glob.rstrip(" ")
    escaped = (len(bare) - len(bare.rstrip("\\"))) % 2
    return glob[: len(bare) + escaped]


def _regex_of(found: re.Match[str]) -> str:
    """A set as a regular expression that fits no slash. Raises `re.error`."""
    if found["members"] is None:
        raise re.error("a set that does not close", found[0])
    members = "".join(map(_member, _MEMBERS.finditer(found["members"])))
    if found["negation"]:
        return f"[^/{members}]"
    if not members:
        raise re.error("a set that fits nothing", found[0])
    return f"[{members}]"


def _member(found: re.Match[str]) -> str:
    if found["named"] is not None:
        if found["named"] not in NAMED:
            raise re.error("there is no such class of characters", found[0])
        return NAMED[found["named"]]
    first = found["first"][-1]
    last = found["last"][-1] if found["last"] else first
    ends = (first, last) if first <= last else (first, first)
    return "".join(_range(low, high) for low, high in _beside_slash(*ends) if low <= high)


def _beside_slash(first: str, last: str) -> tuple[tuple[str, str], ...]:
    if not first <= "/" <= last:
        return ((first, last),)
    return (first, "."), ("0", last)


def _range(first: str, last: str) -> str:
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
