"""Where a footprint would change: the folders that are worth watching, and the names in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.footprint import FolderMark, Footprint
from app.core.paths import paths_for


@dataclass(frozen=True, slots=True)
class Place:
    """A folder as it stands: another one at the same path is another place."""

    path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class Interest:
    """In one root: the ``places`` to watch, the ``paths`` that were asked for, and folders of which any name counts."""

    places: frozenset[Place]
    paths: frozenset[str]
    listings: frozenset[str]


def interests(footprint: Footprint) -> Mapping[str, Interest]:
    """By root: the nearest repository that holds a folder, or the drive where none does."""
    tops = {mark.path for mark in footprint.folders if _is_toplevel(mark)}
    found: dict[str, list[FolderMark]] = {}
    for mark in footprint.folders:
        if mark.stamp is not None:
            found.setdefault(_root(mark.path, tops), []).append(mark)
    return {root: _interest(marks) for root, marks in found.items()}


def shape(footprint: Footprint) -> tuple[object, ...]:
    """Footprints of equal shapes have the same interests; it costs less to tell."""
    return tuple(
        (mark.path, mark.stamp and mark.stamp[:2], _names(mark), mark.names is None, _is_toplevel(mark))
        for mark in footprint.folders
    )


def _names(mark: FolderMark) -> tuple[str, ...]:
    return tuple(name for name, _ in mark.entries)


def _interest(marks: Sequence[FolderMark]) -> Interest:
    return Interest(
        frozenset(Place(mark.path, mark.stamp.device, mark.stamp.inode) for mark in marks if mark.stamp is not None),
        frozenset(path for mark in marks for path in _paths(mark)),
        frozenset(mark.path for mark in marks if mark.names is not None),
    )


def _paths(mark: FolderMark) -> Iterator[str]:
    yield mark.path
    paths = paths_for(mark.path)
    base = mark.path if paths.is_root(mark.path) else mark.path + paths.separator
    for name, _ in mark.entries:
        yield base + name


def _is_toplevel(mark: FolderMark) -> bool:
    return any(name == ".git" and state != "absent" for name, state in mark.entries)


def _root(path: str, tops: set[str]) -> str:
    paths = paths_for(path)
    while path not in tops and not paths.is_root(path):
        path = paths.parent(path)
    return path
