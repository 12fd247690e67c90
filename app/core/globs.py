"""One git-ignore pattern: translated by pathspec, run by RE2, which takes time linear in the path."""

from __future__ import annotations

from dataclasses import dataclass

import bracex
import re2
from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MOST_BRACES = 200
"""Braces in one pattern beyond which it is not expanded: the expander is recursive."""

_ANY_FOLDER = "(?P<ps_d>/)"


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
    """The pattern, or None when it cannot be read. Upper and lower case differ."""
    # Where pathspec and git differ: `a/**/` names folders below `a`, and `*/` any folder at any depth.
    exact = glob + "*/" if glob.endswith("/**/") else glob
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(exact)
        if regex is None or include is None:
            return None
        return Pattern(glob, re2.compile(f"^.*{regex}" if regex == _ANY_FOLDER else regex), include)
    except (GitIgnorePatternError, re2.error):
        return None


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
