"""What an answer was read from, so that it can be told whether that changed. Values only; `workspaces` compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Stamp(NamedTuple):
    """What a disk says of a file or folder without opening it. Times are in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file that was read, by its real path; with neither ``sha256`` nor ``problem``: only its size was asked for.

    ``settled`` False: it was touched so shortly before that another write might leave the same stamp; its bytes tell.
    ``sha256`` is of its bytes in hexadecimal; ``problem`` says why they could not be read.
    """

    path: str
    stamp: Stamp | None
    settled: bool
    sha256: str | None
    problem: str | None = None

    def has_size_of(self, other: FileMark) -> bool:
        """Whether only its size was asked for, and ``other`` says as much."""
        of_size = self.sha256 is None and self.problem is None
        return of_size and self.stamp is not None and other.stamp is not None and self.stamp.size == other.stamp.size


@dataclass(frozen=True, slots=True)
class FolderMark:
    """A folder, by its real path, in which names were looked for.

    ``entries`` are pairs of a name and what stood there: ``absent``, ``directory``, ``file``, ``special``,
    ``unreadable``, or ``link:`` and where it leads, as written. The name ``.`` is the folder itself: ``directory``
    where it may be read, else ``unreadable``. ``names`` is the listing, None where none was asked for.
    While ``settled`` and the stamp is the same, so is all of it; else each is looked at again.
    """

    path: str
    stamp: Stamp | None
    settled: bool
    entries: tuple[tuple[str, str], ...]
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Footprint:
    """All that was read from a disk, absent files and listings included. Empty: nothing was, so nothing can change.

    Both are sorted by path, so that a folder comes before those in it.
    """

    files: tuple[FileMark, ...] = ()
    folders: tuple[FolderMark, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether stamps alone prove it."""
        return all(mark.settled for mark in self.files) and all(mark.settled for mark in self.folders)


@dataclass(frozen=True, slots=True)
class Change:
    """A path that is not as it was. ``kind`` is ``created``, ``modified`` or ``deleted``."""

    path: str
    kind: str


def joined(one: Footprint, other: Footprint) -> Footprint:
    """Both. Where they differ on something, it changed in between: ``one`` counts, which is no longer so."""
    files = {mark.path: mark for mark in other.files}
    for file in one.files:
        read = files.get(file.path, file)
        files[file.path] = read if file.has_size_of(read) else file
    folders = {mark.path: mark for mark in other.folders}
    for mark in one.folders:
        second = folders.get(mark.path, mark)
        folders[mark.path] = mark if second == mark else _both(mark, second)
    return Footprint(tuple(files[path] for path in sorted(files)), tuple(folders[path] for path in sorted(folders)))


def _both(one: FolderMark, other: FolderMark) -> FolderMark:
    return FolderMark(
        one.path,
        one.stamp,
        one.settled and other.settled and one.stamp == other.stamp,
        tuple(sorted({**dict(other.entries), **dict(one.entries)}.items())),
        other.names if one.names is None else one.names,
    )
