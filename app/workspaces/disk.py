"""What stands on this server's disk: names without following links, files and folders inside a fence."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeVar

from app.core.facts import Content, Kind
from app.core.footprint import FileMark, FolderMark, Stamp
from app.workspaces.caches import Cache
from app.workspaces.descent import OutsideError, Way, raise_if_too_many, way_within
from app.workspaces.drives import Drives
from app.workspaces.fence import Fence
from app.workspaces.resolving import Entry, is_text, refused

SETTLING_NANOSECONDS = 2_000_000_000
"""Longer than the tick of any local file system's clock: what is older cannot change without another stamp."""

CHUNK = 4_096
NAME_BYTES = 64
"""Of a name in a listing beside its characters."""

MARK_BYTES = 600
"""Of a mark with its stamp and digest beside its path and names."""

ABSENT = "absent"
LINK = "link:"

Mark = TypeVar("Mark", FileMark, FolderMark)
Entries = tuple[tuple[str, str], ...]
Identity = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class Held:
    """A file as it was read. ``stamp`` is from before its bytes were read, None when it could not be opened.

    ``sha256`` is of its bytes in hexadecimal, None where nobody asked yet.
    """

    content: Content
    stamp: Stamp | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    names: tuple[str, ...]
    stamp: Stamp


class Disk:
    """Reads files and folders, and keeps at most ``max_cache_bytes`` of what cannot have changed, whoever asks.

    What is kept is given only for what was opened inside the asker's fence and has the same settled stamp.
    ``wall`` is the clock that files are stamped by, in nanoseconds.
    """

    def __init__(
        self,
        max_cache_bytes: int = 0,
        drives: Drives | None = None,
        wall: Callable[[], int] = time.time_ns,
        way: Callable[[Fence], Way] = way_within,
    ) -> None:
        self.drives = drives or Drives()
        self.wall = wall
        self.way = way
        self._files: Cache[Identity, Held] = Cache(max_cache_bytes // 2, _held_bytes)
        self._listings: Cache[Identity, Listing] = Cache(max_cache_bytes // 4, _listing_bytes)
        self._file_marks: Cache[str, FileMark] = Cache(max_cache_bytes // 8, _file_mark_bytes)
        self._folder_marks: Cache[str, FolderMark] = Cache(max_cache_bytes // 8, _folder_mark_bytes)

    @property
    def file_lookups(self) -> tuple[int, int]:
        """How often a file was found in memory, and how often not."""
        return self._files.lookups

    @property
    def listing_lookups(self) -> tuple[int, int]:
        """The same of listings of folders."""
        return self._listings.lookups

    def is_settled(self, stamp: Stamp, path: str, taken: int) -> bool:
        """Whether ``stamp``, taken at ``taken`` or later, cannot stand for two states of what is at ``path``."""
        newest = max(stamp.modified, stamp.changed)
        return newest < taken - SETTLING_NANOSECONDS and self.drives.is_local(stamp.device, path)

    def entry(self, way: Way, path: str) -> tuple[Entry | None, os.stat_result | None]:
        """What stands at ``path``, links not followed, and what the disk says of it, None when that cannot be told."""
        try:
            facts = way.facts(path)
            if stat.S_ISLNK(facts.st_mode) and self._may_open(facts, path):
                target = way.target(path)
                return Entry(Kind.DANGLING, target=target if is_text(target) else ""), facts
        except PermissionError:
            return Entry(Kind.UNREADABLE), None
        except (OSError, ValueError):  # gone, too long, or holding a NUL
            return None, None
        kind = self._kind(facts, path)
        return Entry(kind, facts.st_size if kind is Kind.FILE else 0), facts

    def access(self, way: Way, folder: str) -> Kind:
        """Kind.DIRECTORY for a folder whose names may be read, else Kind.UNREADABLE."""
        try:
            return Kind.DIRECTORY if way.may_list(folder) else Kind.UNREADABLE
        except OSError:
            return Kind.UNREADABLE

    def read(self, way: Way, real: str, limit: int) -> Held:
        """The file at the real path ``real``, at most ``limit`` bytes of it."""
        if not way.fence.holds(real):
            return Held(refused(Kind.OUTSIDE))
        try:
            return self._read(way, real, limit)
        except OutsideError:
            return Held(refused(Kind.OUTSIDE))
        except (FileNotFoundError, NotADirectoryError):
            return Held(refused(Kind.MISSING))
        except IsADirectoryError:
            return Held(refused(Kind.DIRECTORY))
        except OSError:
            return Held(refused(Kind.UNREADABLE))

    def known(self, facts: os.stat_result, real: str, limit: int, taken: int) -> Held | None:
        """The file of which the disk said ``facts`` at ``taken`` or later, if there is no need to open it."""
        stamp = stamp_of(facts)
        if stamp.size > limit:
            return Held(Content(None, "budget"), stamp)
        kept = self._files.get(stamp[:2])
        return kept if kept is not None and kept.stamp == stamp and self.is_settled(stamp, real, taken) else None

    def names(self, way: Way, real: str) -> tuple[str, ...]:
        """The names in the folder at the real path ``real``, sorted; empty when it cannot be read."""
        if not way.fence.holds(real):
            return ()
        try:
            return self._names(way, real)
        except OSError as error:
            raise_if_too_many(error)
            return ()

    def known_names(self, facts: os.stat_result, real: str, taken: int) -> tuple[str, ...] | None:
        """As `known`, of a folder."""
        stamp = stamp_of(facts)
        kept = self._listings.get(stamp[:2])
        return kept.names if kept is not None and kept.stamp == stamp and self.is_settled(stamp, real, taken) else None

    def file_mark(self, path: str, held: Held, taken: int) -> FileMark:
        """The file at ``path``, which was read as ``held`` at ``taken`` or later."""
        settled = held.stamp is not None and self.is_settled(held.stamp, path, taken)
        digest = held.sha256 or _digest(held.content.data)
        return _one(self._file_marks, FileMark(path, held.stamp, settled, digest, held.content.problem))

    def size_mark(self, path: str, facts: os.stat_result, taken: int) -> FileMark:
        """The file at ``path``, of which only the size was asked for."""
        stamp = stamp_of(facts)
        return _one(self._file_marks, FileMark(path, stamp, self.is_settled(stamp, path, taken), None))

    def folder_mark(
        self, path: str, facts: os.stat_result | None, taken: int, entries: Entries, names: tuple[str, ...] | None
    ) -> FolderMark:
        """The folder at ``path``; ``facts`` are from before anything in it was looked at."""
        stamp = facts and stamp_of(facts)
        settled = stamp is not None and self.is_settled(stamp, path, taken)
        return _one(self._folder_marks, FolderMark(path, stamp, settled, entries, names))

    def _may_open(self, facts: os.stat_result, path: str) -> bool:
        return not self.drives.is_pseudo(facts.st_dev, path)

    def _kind(self, facts: os.stat_result, path: str) -> Kind:
        """Of what is no link."""
        if not self._may_open(facts, path):
            return Kind.SPECIAL
        if stat.S_ISDIR(facts.st_mode):
            return Kind.DIRECTORY
        return Kind.FILE if stat.S_ISREG(facts.st_mode) else Kind.SPECIAL

    def _read(self, way: Way, real: str, limit: int) -> Held:
        taken = self.wall()
        opened, facts = way.file(real)
        try:
            kind = self._kind(facts, real)
            return self._kept(opened, stamp_of(facts), real, limit, taken) if kind is Kind.FILE else Held(refused(kind))
        finally:
            os.close(opened)

    def _kept(self, opened: int, stamp: Stamp, real: str, limit: int, taken: int) -> Held:
        is_settled = self.is_settled(stamp, real, taken)
        held = _read(opened, stamp, limit)
        if is_settled and held.content.data is not None and stamp_of(os.fstat(opened)) == stamp:
            held = replace(held, sha256=_digest(held.content.data))
            self._files.put(stamp[:2], held)
        return held

    def _names(self, way: Way, real: str) -> tuple[str, ...]:
        taken = self.wall()
        opened = way.listing(real)
        if isinstance(opened, str):
            return _names_in(opened)
        try:
            return self._listed(opened, real, taken)
        finally:
            os.close(opened)

    def _listed(self, opened: int, real: str, taken: int) -> tuple[str, ...]:
        facts = os.fstat(opened)
        if not self._may_open(facts, real):
            return ()
        stamp = stamp_of(facts)
        is_settled = self.is_settled(stamp, real, taken)
        names = _names_in(opened)
        if is_settled and stamp_of(os.fstat(opened)) == stamp:
            self._listings.put(stamp[:2], Listing(names, stamp))
        return names


def stamp_of(facts: os.stat_result) -> Stamp:
    return Stamp(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def word_for(entry: Entry | None) -> str:
    """``entry`` as a FolderMark has it."""
    if entry is None:
        return ABSENT
    return entry.kind.value if entry.target is None else LINK + entry.target


def _read(opened: int, stamp: Stamp, limit: int) -> Held:
    if stamp.size > limit:
        return Held(Content(None, "budget"), stamp)
    parts = []
    left = limit + 1
    while left > 0 and (part := os.read(opened, min(left, stamp.size + CHUNK))):
        parts.append(part)
        left -= len(part)
    return Held(Content(b"".join(parts)) if left > 0 else Content(None, "budget"), stamp)


def _one(marks: Cache[str, Mark], mark: Mark) -> Mark:
    """The equal mark that was made last, so that all sessions of a folder hold the same."""
    kept = marks.get(mark.path)
    if kept == mark:
        return kept
    marks.put(mark.path, mark)
    return mark


def _digest(data: bytes | None) -> str | None:
    return None if data is None else sha256(data).hexdigest()


def _held_bytes(held: Held) -> int:
    return len(held.content.data or b"")


def _listing_bytes(listing: Listing) -> int:
    return NAME_BYTES * len(listing.names) + sum(map(len, listing.names))


def _file_mark_bytes(mark: FileMark) -> int:
    return MARK_BYTES + len(mark.path)


def _folder_mark_bytes(mark: FolderMark) -> int:
    names = mark.names or ()
    own = MARK_BYTES + len(mark.path) + NAME_BYTES * (len(names) + 3 * len(mark.entries))
    return own + sum(map(len, names)) + sum(len(name) + len(word) for name, word in mark.entries)


def _names_in(folder: str | int) -> tuple[str, ...]:
    with os.scandir(folder) as entries:
        return tuple(sorted({_as_text(entry.name) for entry in entries}))


def _as_text(name: str) -> str:
    """The name with U+FFFD for bytes that are not UTF-8, so that it can be told; it leads to nothing."""
    return name if is_text(name) else os.fsencode(name).decode("utf-8", "replace")
