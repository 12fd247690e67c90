"""What stands on this server's disk: names without following links, files and folders opened inside a fence."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TypeVar

from app.core.facts import Content, Kind
from app.core.footprint import FileMark, FolderMark, Stamp
from app.workspaces.caches import Cache
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
_OPENING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


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
        self, max_cache_bytes: int = 0, drives: Drives | None = None, wall: Callable[[], int] = time.time_ns
    ) -> None:
        self.drives = drives or Drives()
        self.wall = wall
        self._files: Cache[Identity, Held] = Cache(max_cache_bytes // 2, _held_bytes)
        self._listings: Cache[Identity, Listing] = Cache(max_cache_bytes // 4, _listing_bytes)
        self._file_marks: Cache[str, FileMark] = Cache(max_cache_bytes // 8, _file_mark_bytes)
        self._folder_marks: Cache[str, FolderMark] = Cache(max_cache_bytes // 8, _folder_mark_bytes)

    def is_settled(self, stamp: Stamp, path: str, taken: int) -> bool:
        """Whether ``stamp``, taken at ``taken`` or later, cannot stand for two states of what is at ``path``."""
        newest = max(stamp.modified, stamp.changed)
        return newest < taken - SETTLING_NANOSECONDS and self.drives.is_local(stamp.device, path)

    def read(self, fence: Fence, real: str, limit: int) -> Held:
        """The file at the real path ``real``, at most ``limit`` bytes of it."""
        try:
            opened = _opened(fence, real)
        except PermissionError:
            return Held(refused(Kind.UNREADABLE))
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
            return Held(refused(Kind.MISSING if gone else Kind.UNREADABLE))
        if opened is None:
            return Held(refused(Kind.OUTSIDE))
        try:
            return self._read(opened, real, limit)
        except OSError:
            return Held(refused(Kind.UNREADABLE))
        finally:
            os.close(opened)

    def names(self, fence: Fence, real: str) -> tuple[str, ...]:
        """The names in the folder at the real path ``real``, sorted; empty when it cannot be read."""
        try:
            if os.scandir not in os.supports_fd:
                return _names_in(real)
            opened = _opened(fence, real)
        except OSError:
            return ()
        if opened is None:
            return ()
        try:
            return self._names(opened, real)
        except OSError:
            return ()
        finally:
            os.close(opened)

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

    def _read(self, opened: int, real: str, limit: int) -> Held:
        taken = self.wall()
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode):
            return Held(refused(Kind.DIRECTORY if stat.S_ISDIR(facts.st_mode) else Kind.SPECIAL))
        stamp = stamp_of(facts)
        if stamp.size > limit:
            return Held(Content(None, "budget"), stamp)
        if not self.is_settled(stamp, real, taken):
            return _read(opened, stamp, limit)
        kept = self._files.get(stamp[:2])
        return kept if kept is not None and kept.stamp == stamp else self._kept(opened, stamp, limit)

    def _kept(self, opened: int, stamp: Stamp, limit: int) -> Held:
        held = _read(opened, stamp, limit)
        if stamp_of(os.fstat(opened)) == stamp and held.content.data is not None:
            held = replace(held, sha256=_digest(held.content.data))
            self._files.put(stamp[:2], held)
        return held

    def _names(self, opened: int, real: str) -> tuple[str, ...]:
        taken = self.wall()
        stamp = stamp_of(os.fstat(opened))
        if not self.is_settled(stamp, real, taken):
            return _names_in(opened)
        kept = self._listings.get(stamp[:2])
        if kept is not None and kept.stamp == stamp:
            return kept.names
        names = _names_in(opened)
        if stamp_of(os.fstat(opened)) == stamp:
            self._listings.put(stamp[:2], Listing(names, stamp))
        return names


def stamp_of(facts: os.stat_result) -> Stamp:
    return Stamp(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def entry_at(path: str) -> tuple[Entry | None, os.stat_result | None]:
    """What stands at ``path``, links not followed, and what the disk says of it, None when that cannot be told."""
    try:
        facts = os.lstat(path)
        if stat.S_ISLNK(facts.st_mode):
            target = os.readlink(path)  # noqa: PTH115 - text
            return Entry(Kind.DANGLING, target=target if is_text(target) else ""), facts
    except PermissionError:
        return Entry(Kind.UNREADABLE), None
    except (OSError, ValueError):  # gone, too long, or holding a NUL
        return None, None
    if stat.S_ISDIR(facts.st_mode):
        return Entry(Kind.DIRECTORY), facts
    return Entry(Kind.FILE, facts.st_size) if stat.S_ISREG(facts.st_mode) else Entry(Kind.SPECIAL), facts


def word_for(entry: Entry | None) -> str:
    """``entry`` as a FolderMark has it."""
    if entry is None:
        return ABSENT
    return entry.kind.value if entry.target is None else LINK + entry.target


def access_to(folder: str) -> Kind:
    """Kind.DIRECTORY for a folder whose names may be read, else Kind.UNREADABLE."""
    return Kind.DIRECTORY if os.access(folder, os.R_OK | os.X_OK) else Kind.UNREADABLE


def _opened(fence: Fence, real: str) -> int | None:
    """A descriptor for the caller to close; None when a link was put in the way since, and led outside."""
    opened = os.open(real, _OPENING)
    is_inside = False
    try:
        is_inside = fence.holds(_place(opened, real))
    finally:
        if not is_inside:
            os.close(opened)
    return opened if is_inside else None


def _read(opened: int, stamp: Stamp, limit: int) -> Held:
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


def _place(opened: int, real: str) -> str:
    """Where an open file really is; elsewhere than on Linux, where its path leads by now."""
    of_descriptor = f"/proc/self/fd/{opened}"
    return os.readlink(of_descriptor) if sys.platform == "linux" else os.path.realpath(real)  # noqa: PTH115 - text
