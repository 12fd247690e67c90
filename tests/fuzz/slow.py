"""What the service does fast, done a second time: slowly, and in another way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

CLASSES = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "blank": " \t".__contains__,
    "cntrl": lambda one: ord(one) < 32 or ord(one) == 127,
    "digit": str.isdigit,
    "graph": lambda one: "!" <= one <= "~",
    "lower": str.islower,
    "print": lambda one: " " <= one <= "~",
    "punct": lambda one: "!" <= one <= "~" and not one.isalnum(),
    "space": " \t\n\v\f\r".__contains__,
    "upper": str.isupper,
    "xdigit": "0123456789abcdefABCDEF".__contains__,
}
STAR, STARS, ANY, SET, LITERAL = "star", "stars", "any", "set", "literal"


class UnreadableGlobError(ValueError):
    """A set that does not close, or a class of characters that does not exist: such a pattern fits nothing."""


def git_ignores(patterns: list[str], path: str) -> bool:
    """Whether git leaves out the file at ``path`` under these lines of an ignore file. ASCII only."""
    parts = path.split("/")
    whole = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    return any(_verdict(patterns, one, folder=one != path) for one in whole)


def _verdict(patterns: list[str], path: str, *, folder: bool) -> bool:
    found = [line for line in patterns if _names(line, path, folder=folder)]
    return bool(found) and not found[-1].startswith("!")


def _names(line: str, path: str, *, folder: bool) -> bool:
    glob = _without_spaces(line.removeprefix("!"))
    if line.startswith("#") or not glob:
        return False
    if glob.endswith("/"):
        if not folder:
            return False
        glob = glob[:-1]
    if "/" not in glob:
        return fits(glob, path.rpartition("/")[2])
    return fits(glob.removeprefix("/"), path)


def _without_spaces(glob: str) -> str:
    """Spaces at the end do not count, unless there is a backslash in front."""
    bare = glob.rstrip(" ")
    slashes = len(bare) - len(bare.rstrip("\\"))
    return glob[: len(bare) + 1] if slashes % 2 and len(bare) < len(glob) else bare


def fits(glob: str, path: str) -> bool:
    """Whether the whole of ``path`` fits, ``*`` within a name and ``**`` across folders."""
    try:
        tokens = _tokens_of(glob)
    except UnreadableGlobError:
        return False

    rows = [[False] * len(path) + [True]]
    for at in reversed(range(len(tokens))):
        rows.insert(0, _row(tokens, at, path, rows))
    return rows[0][0]


def _row(tokens: tuple[tuple[str, object], ...], at: int, path: str, rows: list[list[bool]]) -> list[bool]:
    """For each place in the path whether what follows it fits the tokens from ``at`` on; ``rows`` are those behind."""
    kind, value = tokens[at]
    found = [False] * len(path) + [kind in {STAR, STARS} and rows[0][-1]]
    skips = kind == STARS and at + 1 < len(tokens) and tokens[at + 1] == (LITERAL, "/")
    for to in reversed(range(len(path))):
        if kind in {STAR, STARS}:
            goes_on = kind == STARS or path[to] != "/"
            found[to] = rows[0][to] or (goes_on and found[to + 1])
        else:
            found[to] = _takes(kind, value, path[to]) and rows[0][to + 1]
    return [one or rows[1][to] for to, one in enumerate(found)] if skips else found


def _takes(kind: str, value: object, one: str) -> bool:
    if kind == LITERAL:
        return one == value
    if one == "/":
        return False
    if kind == ANY:
        return True
    negated, members = value  # type: ignore[misc]
    return any(member(one) for member in members) != negated


@lru_cache(256)
def _tokens_of(glob: str) -> tuple[tuple[str, object], ...]:
    return tuple(_tokens(glob))


def _tokens(glob: str) -> Iterator[tuple[str, object]]:
    at = 0
    while at < len(glob):
        one = glob[at]
        if one == "*":
            end = at
            while end < len(glob) and glob[end] == "*":
                end += 1
            alone = (at == 0 or glob[at - 1] == "/") and (
                end == len(glob) or glob[end] == "/" or glob[end : end + 2] == "\\/"
            )
            yield (STARS if alone and end - at > 1 else STAR), None
            at = end
        elif one == "[":
            at, negated, members = _set(glob, at + 1)
            yield SET, (negated, members)
        elif one == "?":
            yield ANY, None
            at += 1
        elif one == "\\":
            if at + 1 == len(glob):
                raise UnreadableGlobError(glob)
            yield LITERAL, glob[at + 1]
            at += 2
        else:
            yield LITERAL, one
            at += 1


def _set(glob: str, at: int) -> tuple[int, bool, list[object]]:
    negated = glob[at : at + 1] in {"!", "^"}
    at += negated
    members: list[object] = []
    before: str | None = None
    first = True
    while first or glob[at : at + 1] != "]":
        first = False
        named = re.compile(r"\[:([^\]]*)\]").match(glob, at)
        if named and named[1].endswith(":"):
            if named[1][:-1] not in CLASSES:
                raise UnreadableGlobError(glob)
            members.append(CLASSES[named[1][:-1]])
            at, before = named.end(), None
            continue
        if glob[at : at + 1] == "-" and before is not None and glob[at + 1 : at + 2] not in {"", "]"}:
            last, at = _member(glob, at + 1)
            members.append(lambda one, least=before, most=last: least <= one <= most)
            before = None
            continue
        if glob.startswith("[:", at) and "]" not in glob[at + 2 :]:
            raise UnreadableGlobError(glob)
        before, at = _member(glob, at)
        members.append(before.__eq__)
    return at + 1, negated, members


def _member(glob: str, at: int) -> tuple[str, int]:
    if glob[at : at + 1] == "\\":
        at += 1
    if at >= len(glob):
        raise UnreadableGlobError(glob)
    return glob[at], at + 1


def only_comments_went(text: str, left: str) -> bool:
    """Whether ``left`` is ``text`` but for whole comments and white space."""
    seen: set[tuple[int, int]] = set()
    waiting = [(0, 0)]
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        at, to = here
        if at == len(text) and to == len(left):
            return True
        waiting.extend(_steps(text, left, at, to))
    return False


def _steps(text: str, left: str, at: int, to: int) -> Iterator[tuple[int, int]]:
    end = text.find("-->", at + 4) if text.startswith("<!--", at) else -1
    if end >= 0:
        yield end + 3, to
    if at < len(text) and text[at].isspace():
        yield at + 1, to
    if at < len(text) and to < len(left) and text[at] == left[to]:
        yield at + 1, to + 1
