"""Ways to what stands at a real path: down from the root, folder by folder, so that nothing can be put in the way.

A real path has no links in it. Whoever may write below a root can put one there after the path was resolved, and every
call that is given the whole path would follow it. Here each folder is opened from the one above it and must be a
folder itself, and what is in it is asked for by its name alone: what is told of a real path is of that place or none.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Protocol

from app.errors import Overloaded
from app.workspaces.fence import Fence

MOST_OPEN = 16
"""Folders that one descent holds open: as deep as most working directories are, and some beside them."""

REOPENING = "/proc/self/fd"
_READING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_REOPENED = _READING & ~getattr(os, "O_NOFOLLOW", 0)
_LISTING = _READING | getattr(os, "O_DIRECTORY", 0)
_PLACE = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _PLACE | getattr(os, "O_DIRECTORY", 0)
_NO_MORE = (errno.EMFILE, errno.ENFILE)
CAN_DESCEND = (
    hasattr(os, "O_PATH")
    and {os.open, os.stat, os.readlink, os.access} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
)


class OutsideError(OSError):
    """A link that was put in the way since led out of the fence."""


class Way(Protocol):
    """What stands at real paths. One thread at a time.

    Each raises OSError, ValueError for what can be no path, and Overloaded where the process may open nothing more.
    Only `file` and `listing` keep to the fence.
    """

    @property
    def fence(self) -> Fence: ...

    def facts(self, real: str) -> os.stat_result:
        """What the disk says of it, links not followed."""

    def target(self, real: str) -> str:
        """Where the link there points, as written."""

    def may_list(self, real: str) -> bool:
        """Whether the names in the folder may be read, and what stands under them."""

    def file(self, real: str) -> tuple[int, os.stat_result]:
        """The file, open for reading, for the caller to close, and what the disk says of it.

        Nothing but a regular file is opened, where that can be had; else the caller has to look what it is.
        """

    def listing(self, real: str) -> int | str:
        """The folder, open for reading, for the caller to close; its path where folders cannot be opened."""

    def close(self) -> None:
        """May be called twice."""


def way_within(fence: Fence) -> Way:
    """The safest that this platform has."""
    return Descent(fence) if CAN_DESCEND else ByPath(fence)


class Descent:
    """By descriptors. At most ``most`` folders stay open, those that were asked for last."""

    def __init__(self, fence: Fence, most: int = MOST_OPEN, reopening: str = REOPENING) -> None:
        self.fence = fence
        self._most = most
        self._reopening = reopening
        self._open: dict[str, _Held] = {}

    def facts(self, real: str) -> os.stat_result:
        above, name = self._place(real)
        return os.stat(name, dir_fd=above.number, follow_symlinks=False)

    def target(self, real: str) -> str:
        above, name = self._place(real)
        return os.readlink(name, dir_fd=above.number)

    def may_list(self, real: str) -> bool:
        return os.access(".", os.R_OK | os.X_OK, dir_fd=self._folder(real).number)

    def file(self, real: str) -> tuple[int, os.stat_result]:
        """A place is held without opening it, which does nothing to a device; only a regular file is opened then."""
        _require_inside(self.fence, real)
        above, name = self._place(real)
        place = _Held(_opened(name, _PLACE, above.number))
        facts = os.fstat(place.number)
        _require_regular(facts)
        try:
            return _opened(f"{self._reopening}/{place.number}", _REOPENED), facts
        except FileNotFoundError:  # no /proc is mounted here
            return _facing(_opened(name, _READING, above.number))

    def listing(self, real: str) -> int:
        _require_inside(self.fence, real)
        above, name = self._place(real)
        return _opened(name, _LISTING, above.number)

    def close(self) -> None:
        self._open.clear()

    def _place(self, real: str) -> tuple[_Held, str]:
        """The folder that it is in, and its name there."""
        at = real.rfind("/")
        return self._folder(real[:at] or "/"), real[at + 1 :] or "."

    def _folder(self, real: str) -> _Held:
        held = self._open.pop(real, None)
        if held is None:
            return self._descended(real)
        self._open[real] = held
        return held

    def _descended(self, real: str) -> _Held:
        """From the nearest folder above that is open."""
        here, below = real, []
        while here != "/" and here not in self._open:
            at = here.rfind("/")
            below.append((here, here[at + 1 :]))
            here = here[:at] or "/"
        folder = self._open.get(here) or self._kept(here, _opened(here, _FOLDER))
        for path, name in reversed(below):
            folder = self._kept(path, _opened(name, _FOLDER, folder.number))
        return folder

    def _kept(self, real: str, number: int) -> _Held:
        if len(self._open) >= self._most:
            del self._open[next(iter(self._open))]
        self._open[real] = folder = _Held(number)
        return folder


class ByPath:
    """By whole paths, each looked at again once it is open. Between two looks a link can show what is outside."""

    def __init__(self, fence: Fence) -> None:
        self.fence = fence

    def facts(self, real: str) -> os.stat_result:
        return os.lstat(real)

    def target(self, real: str) -> str:
        return os.readlink(real)  # noqa: PTH115 - text

    def may_list(self, real: str) -> bool:
        return os.access(real, os.R_OK | os.X_OK)

    def file(self, real: str) -> tuple[int, os.stat_result]:
        return _facing(self._inside(real))

    def _inside(self, real: str) -> int:
        number = _opened(real, _READING)
        try:
            _require_inside(self.fence, os.path.realpath(real))
        except OutsideError:
            os.close(number)
            raise
        return number

    def listing(self, real: str) -> int | str:
        if os.scandir in os.supports_fd:
            return self._inside(real)
        _require_inside(self.fence, os.path.realpath(real))
        return real

    def close(self) -> None:
        pass


class _Held:
    """A descriptor, closed when nobody holds it any more, whichever way that comes."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


def _opened(path: str, flags: int, folder: int | None = None) -> int:
    try:
        return os.open(path, flags, dir_fd=folder)
    except OSError as error:
        raise_if_too_many(error)
        raise


def _facing(number: int) -> tuple[int, os.stat_result]:
    return number, os.fstat(number)


def _require_regular(facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, "a folder")
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


def raise_if_too_many(error: OSError) -> None:
    """Raises Overloaded where ``error`` says nothing of what was asked for."""
    if error.errno in _NO_MORE:
        raise Overloaded("The service has as many files open as it may. Ask again in a moment.") from error


def _require_inside(fence: Fence, real: str) -> None:
    if not fence.holds(real):
        raise OutsideError(errno.EXDEV, "outside the fence")
