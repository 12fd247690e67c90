"""One git-ignore pattern, translated as git's own matcher reads it and run by RE2, in time linear in the path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import bracex
import re2

MOST_BRACES = 200
"""Braces in one pattern beyond which it is not expanded: the expander is recursive."""

Ranges = tuple[tuple[int, int], ...]
"""Code points, each range with its two ends."""

NAMED: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}

_TOKEN = re.compile(r"(?P<stars>\*+)|(?P<any>\?)|(?P<set>\[)|\\(?P<escaped>.)|(?P<plain>[^*?\[\\])", re.DOTALL)
_MEMBER = re.compile(
    r"\[:(?P<named>[a-z]*):\]|(?P<low>\\.|[^\\])(?:-(?P<high>\\.|[^\\\]]))?",
    re.DOTALL,
)
_PLAIN_START = re.compile(r"[^*?\[\\]*")
_ANY_FOLDERS = "(?:.*/)?"
_TRAILING_SPACES = re.compile(r"(?<!\\) +$")
_SLASH = ord("/")


class _UnreadableError(ValueError):
    """The pattern fits no path: a set that does not close, or a backslash with nothing behind it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """``include`` is False for a negated pattern; ``folders_only`` is True for one that ends in a slash."""

    glob: str
    regex: re2._Regexp
    include: bool
    folders_only: bool

    def matches(self, path: str) -> bool:
        """Whether the pattern names ``path`` itself (folders end in a slash), not only a folder above it."""
        name = path.removesuffix("/")
        return (name != path or not self.folders_only) and self.regex.fullmatch(name) is not None


def compiled(glob: str) -> Pattern | None:
    """The pattern, or None when it cannot be read or is empty. Upper and lower case differ."""
    bare = _TRAILING_SPACES.sub("", glob)
    include = not bare.startswith("!")
    text = bare if include else bare[1:]
    name = text.removesuffix("/")
    if not name or text.startswith("#"):
        return None
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    try:
        return Pattern(glob, re2.compile("".join(_translated(name)), options), include, name != text)
    except (_UnreadableError, re2.error):
        return None


def _translated(glob: str) -> Iterator[str]:
    """The pattern as a regular expression: at any depth unless it holds a slash."""
    if "/" not in glob:
        yield _ANY_FOLDERS
    bare = glob.removeprefix("/")
    at = 0
    while at < len(bare):
        found = _TOKEN.match(bare, at)
        if found is None:
            raise _UnreadableError(glob)
        at = found.end()
        if found["stars"]:
            crosses = "/" in glob and _crosses_folders(bare, found.start(), at)
            skips = crosses and bare.startswith("/", at)
            at += skips
            yield _ANY_FOLDERS if skips else ".*" if crosses else "[^/]*"
        elif found["any"]:
            yield "[^/]"
        elif found["set"]:
            at, members = _set(bare, at)
            yield members
        else:
            yield re2.escape(found["escaped"] or found["plain"])


def _crosses_folders(glob: str, start: int, end: int) -> bool:
    """Whether the stars from ``start`` to ``end`` are a whole name of two or more."""
    # Git starts matching at the first special character, so that `a**/b` reaches over folders as `**/b` does.
    opens = _PLAIN_START.fullmatch(glob, 0, start) is not None or glob[start - 1] == "/"
    closes = end == len(glob) or glob.startswith(("/", "\\/"), end)
    return end - start > 1 and opens and closes


def _set(glob: str, at: int) -> tuple[int, str]:
    """Where the set that opens before ``at`` ends, and the set; it never holds a slash."""
    negated = glob[at : at + 1] in {"!", "^"}
    start = at = at + negated
    ranges: list[tuple[int, int]] = []
    while at == start or not glob.startswith("]", at):
        found = _MEMBER.match(glob, at)
        if found is None:
            raise _UnreadableError(glob)
        at = found.end()
        ranges.extend(_member(found, glob))
    slash = ((_SLASH, _SLASH),)
    kept = (*ranges, *slash) if negated else tuple(_without_slash(ranges))
    if not kept:
        raise _UnreadableError(glob)
    return at + 1, f"[{'^' if negated else ''}{''.join(map(_span, kept))}]"


def _member(found: re.Match[str], glob: str) -> Ranges:
    if found["named"] is not None:
        if found["named"] not in NAMED:
            raise _UnreadableError(glob)
        return NAMED[found["named"]]
    low = ord(found["low"][-1])
    if found["high"] is None:
        return ((low, low),)
    high = ord(found["high"][-1])
    return ((low, low), (low, high)) if low <= high else ((low, low),)


def _without_slash(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        if low <= _SLASH <= high:
            yield from ((a, b) for a, b in ((low, _SLASH - 1), (_SLASH + 1, high)) if a <= b)
        else:
            yield low, high


def _span(ends: tuple[int, int]) -> str:
    return f"\\x{{{ends[0]:x}}}-\\x{{{ends[1]:x}}}"


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
