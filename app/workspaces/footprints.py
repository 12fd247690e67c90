"""Whether what was read from a disk is still so, told with as few questions as possible.

A stamp is what the disk says of a file or folder without opening it: device, inode, size, the time of its content and
the time of its last change of any kind (ctime). Programs can set the first time back, but not the second, so that two
writes leave the same stamp only where both fall into one tick of the clock. A stamp therefore proves nothing until what
it stands for has been left alone for two seconds, which is longer than any tick: until then the bytes are read again
and compared, and so are the names in a folder. After that the stamp alone is the proof. Where ctime says something
else, as on Windows, or where another machine's clock makes the stamps, as on network drives, nothing ever settles, and
bytes are compared each time. Not seen: a write through a shared memory map, whose time the kernel notes late.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from app.core.footprint import Change, FileMark, FolderMark, Footprint
from app.workspaces.descent import Way
from app.workspaces.disk import ABSENT, Disk, word_for
from app.workspaces.fence import SERVER_PATHS, Fence
from app.workspaces.resolving import child

Mark = TypeVar("Mark", FileMark, FolderMark)

MOST_QUICK = 128
"""Marks whose stamps are compared in less time than it takes to hand them to a thread."""

_ITSELF = "."
_GONE = "not_found"


@dataclass(frozen=True, slots=True)
class Footprints:
    """Compares footprints with the disk as it is. ``max_file_bytes`` as in the workspaces that left them."""

    max_file_bytes: int
    disk: Disk

    def renewed(self, footprint: Footprint, fence: Fence) -> Footprint | None:
        """None when an answer made of it could be another now, else the footprint to keep: the same where it can be."""
        folders = _doubtful(footprint.folders)
        files = _doubtful(footprint.files)
        if not folders and not files:
            return footprint
        with closing(self.disk.way(fence)) as way:
            return self._renewed(footprint, folders, files, way)

    def changes(self, footprint: Footprint, fence: Fence) -> tuple[tuple[Change, ...], Footprint]:
        """The paths inside the fence that are not as they were, sorted, and the footprint as of now."""
        if not _doubtful(footprint.folders) and not _doubtful(footprint.files):
            return (), footprint
        with closing(self.disk.way(fence)) as way:
            now = self._now(footprint, way)
        found = _found(footprint, now)
        return tuple(Change(path, found[path]) for path in sorted(found) if fence.may_tell(path)), now

    def is_local(self, footprint: Footprint) -> bool:
        """Whether all of it is on drives of this machine, so that looking at it takes microseconds."""
        marks: tuple[FileMark | FolderMark, ...] = (*footprint.files, *footprint.folders)
        devices = {mark.stamp.device: mark.path for mark in marks if mark.stamp is not None}
        return all(self.disk.drives.is_local(device, path) for device, path in devices.items())

    def is_quick(self, footprint: Footprint) -> bool:
        """Whether a look at it is short enough for an event loop: some stamps on drives of this machine."""
        few = len(footprint.files) + len(footprint.folders) <= MOST_QUICK
        return few and footprint.settled and self.is_local(footprint)

    def _renewed(
        self, footprint: Footprint, folders: list[FolderMark], files: list[FileMark], way: Way
    ) -> Footprint | None:
        taken = self.disk.wall()
        new_folders = {mark.path: self._folder_now(mark, way, taken) for mark in folders}
        if any(_answers(mark) != _answers(new_folders[mark.path]) for mark in folders):
            return None
        new_files = {mark.path: self._file_now(mark, way, taken) for mark in files}
        if any(_answer(mark) != _answer(new_files[mark.path]) for mark in files):
            return None
        return Footprint(
            tuple(new_files.get(mark.path, mark) for mark in footprint.files),
            tuple(new_folders.get(mark.path, mark) for mark in footprint.folders),
        )

    def _now(self, footprint: Footprint, way: Way) -> Footprint:
        taken = self.disk.wall()
        folders = tuple(self._folder_now(mark, way, taken) for mark in footprint.folders)
        return Footprint(tuple(self._file_now(mark, way, taken) for mark in footprint.files), folders)

    def _file_now(self, mark: FileMark, way: Way, taken: int) -> FileMark:
        was_read = mark.sha256 is not None or mark.problem is not None
        facts = None if was_read else self._facts(way, mark.path)
        if facts is not None and stat.S_ISREG(facts.st_mode) and way.fence.holds(mark.path):
            return self.disk.size_mark(mark.path, facts, taken)
        return self.disk.file_mark(mark.path, self.disk.read(way, mark.path, self.max_file_bytes), taken)

    def _folder_now(self, mark: FolderMark, way: Way, taken: int) -> FolderMark:
        facts = self._facts(way, mark.path)
        if facts is not None and not stat.S_ISDIR(facts.st_mode):
            facts = None
        entries = tuple((name, self._word(way, mark.path, name)) for name, _ in mark.entries)
        names = None if mark.names is None else self.disk.names(way, mark.path)
        return self.disk.folder_mark(mark.path, facts, taken, entries, names)

    def _facts(self, way: Way, path: str) -> os.stat_result | None:
        return self.disk.entry(way, path)[1]

    def _word(self, way: Way, folder: str, name: str) -> str:
        if name == _ITSELF:
            return self.disk.access(way, folder).value
        return word_for(self.disk.entry(way, child(SERVER_PATHS, folder, name))[0])


def _doubtful(marks: tuple[Mark, ...]) -> list[Mark]:
    """Those that their stamps do not prove to be as they were."""
    look = os.lstat
    doubtful = []
    for mark in marks:
        try:
            facts = look(mark.path)
        except OSError:
            doubtful.append(mark)
            continue
        now = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if not mark.settled or now != mark.stamp:
            doubtful.append(mark)
    return doubtful


def _answers(mark: FolderMark) -> object:
    return mark.entries, mark.names


def _answer(mark: FileMark) -> object:
    if mark.sha256 is not None or mark.problem is not None:
        return mark.sha256, mark.problem
    return mark.stamp and mark.stamp.size


def _found(before: Footprint, now: Footprint) -> dict[str, str]:
    """The kind of each change, by its path."""
    found: dict[str, str] = {}
    for one, other in zip(before.folders, now.folders, strict=True):
        found.update(_changes_in(one, other))
    for old, new in zip(before.files, now.files, strict=True):
        if _answer(old) != _answer(new):
            found.setdefault(old.path, _kind(was=old.problem != _GONE, is_=new.problem != _GONE))
    return found


def _changes_in(before: FolderMark, now: FolderMark) -> Iterator[tuple[str, str]]:
    for name in set(before.names or ()) ^ set(now.names or ()):
        yield (
            child(SERVER_PATHS, before.path, name),
            _kind(was=name in (before.names or ()), is_=name in (now.names or ())),
        )
    for (name, old), (_, new) in zip(before.entries, now.entries, strict=True):
        if old != new:
            path = before.path if name == _ITSELF else child(SERVER_PATHS, before.path, name)
            yield path, _kind(was=old != ABSENT, is_=new != ABSENT)


def _kind(*, was: bool, is_: bool) -> str:
    if was and is_:
        return "modified"
    return "deleted" if was else "created"
