"""A folder on this server's disk, inside the fence."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.core.paths import Paths
from app.workspaces.containment import shown
from app.workspaces.fence import Fence
from app.workspaces.program import GitProgram
from app.workspaces.repository import find_repository
from app.workspaces.resolving import Entry, Resolver, is_text, refused

_OPENING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class _LedOutsideError(Exception):
    """A link that was put in the way after the path was resolved."""


class LocalWorkspace:
    """Files on disk. What lies outside ``fence`` by its real path is Kind.OUTSIDE, whether it exists or not.

    Every name is asked for once and remembered, so that one workspace shows one state of the tree; make a new one
    for every request. ``max_file_bytes``: larger files are there, but are not read.
    """

    def __init__(self, fence: Fence, paths: Paths, max_file_bytes: int, git: GitProgram) -> None:
        self.paths = paths
        self._fence = fence
        self._limit = max_file_bytes
        self._program = git
        self._resolver = Resolver(paths, _entry, self._may_tell)

    def look(self, path: str) -> Node:
        node = self._resolver.resolve(path)
        if not self.paths.is_absolute(path) or (node.kind is not Kind.OUTSIDE and self._fence.holds(node.real)):
            return node
        return Node(Kind.OUTSIDE, self.paths.normal(path))

    def read(self, path: str) -> Content:
        node = self.look(path)
        if node.kind is Kind.DIRECTORY and not os.access(node.real, os.R_OK | os.X_OK):
            return refused(Kind.UNREADABLE)
        if node.kind is not Kind.FILE:
            return refused(node.kind)
        try:
            with self._opened(node.real) as opened:
                return self._content(opened)
        except _LedOutsideError:
            return refused(Kind.OUTSIDE)
        except PermissionError:
            return refused(Kind.UNREADABLE)
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
            return refused(Kind.MISSING if gone else Kind.UNREADABLE)

    def names(self, path: str) -> tuple[str, ...]:
        node = self.look(path)
        if node.kind is not Kind.DIRECTORY:
            return ()
        try:
            return tuple(sorted({_as_text(name) for name in self._listed(node.real)}))
        except (_LedOutsideError, OSError):
            return ()

    def roots(self, cwd: str) -> GitRoots | None:
        repository = find_repository(self, cwd)
        return None if repository is None else repository.roots

    def git(self, cwd: str) -> GitFacts | None:
        repository = find_repository(self, cwd)
        if repository is None:
            return None
        parts = shown(self, repository)
        if parts is None:
            return GitFacts(roots=repository.roots)
        return self._program.snapshot(parts, self.look(cwd).real)

    def close(self) -> None:
        pass

    def _may_tell(self, real: str) -> bool:
        return self._fence.holds(real) or self._fence.is_above(real)

    @contextmanager
    def _opened(self, real: str) -> Iterator[int]:
        opened = os.open(real, _OPENING)
        try:
            if not self._fence.holds(_place(opened, real)):
                raise _LedOutsideError(real)
            yield opened
        finally:
            os.close(opened)

    def _content(self, opened: int) -> Content:
        facts = os.fstat(opened)
        if not stat.S_ISREG(facts.st_mode):
            return refused(Kind.DIRECTORY if stat.S_ISDIR(facts.st_mode) else Kind.SPECIAL)
        if facts.st_size > self._limit:
            return Content(None, "budget")
        with open(opened, "rb", closefd=False) as file:
            data = file.read(self._limit + 1)
        return Content(data) if len(data) <= self._limit else Content(None, "budget")

    def _listed(self, real: str) -> list[str]:
        if os.scandir not in os.supports_fd:
            return _names_in(real)
        with self._opened(real) as opened:
            return _names_in(opened)


def _as_text(name: str) -> str:
    """The name with U+FFFD for bytes that are not UTF-8, so that it can be told; it leads to nothing."""
    return name if is_text(name) else os.fsencode(name).decode("utf-8", "replace")


def _names_in(folder: str | int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _place(opened: int, real: str) -> str:
    """Where an open file really is; elsewhere than on Linux, where its path leads by now."""
    of_descriptor = f"/proc/self/fd/{opened}"
    return os.readlink(of_descriptor) if sys.platform == "linux" else os.path.realpath(real)  # noqa: PTH115 - text


def _entry(path: str) -> Entry | None:
    if not is_text(path):
        return None
    try:
        facts = os.lstat(path)
        if stat.S_ISLNK(facts.st_mode):
            target = os.readlink(path)  # noqa: PTH115 - text
            return Entry(Kind.DANGLING, target=target if is_text(target) else "")
    except PermissionError:
        return Entry(Kind.UNREADABLE)
    except (OSError, ValueError):  # gone, too long, or holding a NUL
        return None
    if stat.S_ISDIR(facts.st_mode):
        return Entry(Kind.DIRECTORY)
    return Entry(Kind.FILE, facts.st_size) if stat.S_ISREG(facts.st_mode) else Entry(Kind.SPECIAL)
