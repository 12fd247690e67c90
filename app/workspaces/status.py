"""The words of ``git status``: its answer for programs read, and written as the one for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

UNTRACKED = "??"
_WITH_ORIGIN = frozenset("RC")
_LETTERS = {
    **{number: f"\\{number:03o}" for number in (*range(0x20), 0x7F)},
    **{ord(sign): f"\\{letter}" for sign, letter in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)},
}


@dataclass(frozen=True, slots=True)
class Change:
    """``code``: two letters. Paths are relative to the checkout; that of an untracked folder ends with a slash.

    ``origin``: what a renamed or copied file was.
    """

    code: str
    path: str
    origin: str | None = None


def changes_in(told: str) -> Iterator[Change]:
    """The changes in the answer to ``git status --short -z``, as far as it goes."""
    rows = iter(told.split("\0")[:-1])
    for row in rows:
        change = Change(row[:2], row[3:])
        if _WITH_ORIGIN.isdisjoint(change.code):
            yield change
        elif (origin := next(rows, None)) is not None:
            yield replace(change, origin=origin)


def written(changes: Iterable[Change], folder: str) -> str:
    """The changes as ``git status --short`` writes them, seen from ``folder``, which is relative to the checkout."""
    return "\n".join(_line(change, folder) for change in changes)


def _line(change: Change, folder: str) -> str:
    origin = "" if change.origin is None else f"{_quoted(_seen_from(folder, change.origin))} -> "
    return f"{change.code} {origin}{_quoted(_seen_from(folder, change.path))}"


def _seen_from(folder: str, path: str) -> str:
    steps, names = [name for name in folder.split("/") if name], path.rstrip("/").split("/")
    shared = 0
    while shared < min(len(steps), len(names)) and steps[shared] == names[shared]:
        shared += 1
    below = "/".join(names[shared:])
    ending = "/" if below and path.endswith("/") else ""
    return "../" * (len(steps) - shared) + below + ending or "./"


def _quoted(path: str) -> str:
    escaped = path.translate(_LETTERS)
    return f'"{escaped}"' if escaped != path or " " in path else path
