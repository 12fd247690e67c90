"""A folder on this server's disk, inside the fence."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.core.footprint import FileMark, FolderMark, Footprint
from app.core.paths import Paths
from app.workspaces.containment import Shown, shown
from app.workspaces.descent import Way
from app.workspaces.disk import Disk, Held, word_for
from app.workspaces.fence import Fence
from app.workspaces.program import GitProgram
from app.workspaces.repository import Repository, carries, find_repository
from app.workspaces.resolving import Entry, Resolver, is_text, refused


class _Seen:
    """What stood where, each asked for once. Knows nothing of its workspace, so that both end with the request."""

    def __init__(self, disk: Disk, way: Way) -> None:
        self._disk = disk
        self._way = way
        self.entries: dict[str, tuple[Entry | None, os.stat_result | None]] = {}

    def entry(self, path: str) -> Entry | None:
        if not is_text(path):
            return None
        known = self.entries.get(path)
        if known is None:
            known = self.entries[path] = self._disk.entry(self._way, path)
        return known[0]


class LocalWorkspace:
    """Files on disk. What lies outside ``fence`` by its real path is Kind.OUTSIDE, whether it exists or not.

    Every name is asked for once and remembered, so that one workspace shows one state of the tree; make a new one
    for every request. ``max_file_bytes``: larger files are there, but are not read.
    """

    def __init__(
        self, fence: Fence, paths: Paths, max_file_bytes: int, git: GitProgram, disk: Disk | None = None
    ) -> None:
        self.paths = paths
        self._fence = fence
        self._limit = max_file_bytes
        self._program = git
        self._disk = disk or Disk()
        self._way = self._disk.way(fence)
        self._seen = _Seen(self._disk, self._way)
        self._resolver = Resolver(paths, self._seen.entry, fence.may_tell)
        self._taken = self._disk.wall()
        self._accesses: dict[str, Kind] = {}
        self._listings: dict[str, tuple[str, ...]] = {}
        self._files: dict[str, Held] = {}
        self._sized: set[str] = set()

    def look(self, path: str) -> Node:
        node = self._resolver.resolve(path)
        if not self.paths.is_absolute(path) or (node.kind is not Kind.OUTSIDE and self._fence.holds(node.real)):
            if node.kind is Kind.FILE:
                self._sized.add(node.real)
            return node
        return Node(Kind.OUTSIDE, self.paths.normal(path))

    def read(self, path: str) -> Content:
        node = self.look(path)
        if node.kind is Kind.DIRECTORY and self._access(node.real) is Kind.UNREADABLE:
            return refused(Kind.UNREADABLE)
        if node.kind is not Kind.FILE:
            return refused(node.kind)
        held = self._files.get(node.real)
        if held is None:
            held = self._files[node.real] = self._held(node.real)
        return held.content

    def names(self, path: str) -> tuple[str, ...]:
        node = self.look(path)
        if node.kind is not Kind.DIRECTORY:
            return ()
        names = self._listings.get(node.real)
        if names is None:
            names = self._listings[node.real] = self._listed(node.real)
        return names

    def roots(self, cwd: str) -> GitRoots | None:
        sized = set(self._sized)
        repository = find_repository(self, cwd)
        self._sized = sized  # HEAD counts only as being there
        return None if repository is None else repository.roots

    def carries(self, path: str, toplevel: str) -> bool:
        return carries(self, path, toplevel)

    def git(self, cwd: str) -> GitFacts | None:
        """A snapshot of its own time: what it is read from is no part of the footprint."""
        with self.asking_git(cwd) as told:
            return told()

    @contextmanager
    def asking_git(self, cwd: str) -> Iterator[Callable[[], GitFacts | None]]:
        with ExitStack() as looked:

            def again() -> tuple[Repository | None, Shown | None]:
                looked.close()
                apart = LocalWorkspace(self._fence, self.paths, self._limit, self._program, self._disk)
                looked.callback(apart.close)
                found = find_repository(apart, cwd)
                return found, shown(apart, found, self._program.proven) if found else None

            repository, parts = again()
            if repository is None or parts is None:
                yield lambda: GitFacts(roots=repository.roots) if repository else None
                return
            with self._program.asking(parts, parts.workspace.look(cwd).real, lambda: again()[1]) as told:
                yield told

    def footprint(self) -> Footprint:
        read = (self._disk.file_mark(path, held, self._taken) for path, held in self._files.items())
        return Footprint(
            files=tuple(sorted((*read, *self._size_marks()), key=lambda mark: mark.path)),
            folders=tuple(self._folder_mark(path, found) for path, found in sorted(self._found().items())),
        )

    def close(self) -> None:
        self._way.close()

    def _held(self, real: str) -> Held:
        facts = self._facts(real)
        known = facts and self._disk.known(facts, real, self._limit, self._taken)
        return known or self._disk.read(self._way, real, self._limit)

    def _listed(self, real: str) -> tuple[str, ...]:
        facts = self._facts(real)
        known = None if facts is None else self._disk.known_names(facts, real, self._taken)
        return self._disk.names(self._way, real) if known is None else known

    def _facts(self, real: str) -> os.stat_result | None:
        """What the disk said when it was looked at."""
        return self._seen.entries.get(real, (None, None))[1]

    def _access(self, folder: str) -> Kind:
        known = self._accesses.get(folder)
        if known is None:
            known = self._accesses[folder] = self._disk.access(self._way, folder)
        return known

    def _found(self) -> dict[str, list[tuple[str, str]]]:
        """What stood under which name, by folder."""
        separator = self.paths.separator
        beginnings: dict[str, list[tuple[str, str]]] = {}
        for path, (entry, _) in self._seen.entries.items():
            at = path.rfind(separator) + 1
            if at < len(path):
                beginnings.setdefault(path[:at], []).append((path[at:], word_for(entry)))
        found = {self.paths.parent(beginning + "_"): entries for beginning, entries in beginnings.items()}
        for folder in self._listings:
            found.setdefault(folder, [])
        for folder, access in self._accesses.items():
            found.setdefault(folder, []).append((".", access.value))
        return found

    def _folder_mark(self, path: str, found: list[tuple[str, str]]) -> FolderMark:
        return self._disk.folder_mark(
            path, self._facts(path), self._taken, tuple(sorted(found)), self._listings.get(path)
        )

    def _size_marks(self) -> Iterator[FileMark]:
        for path in self._sized.difference(self._files):
            facts = self._facts(path)
            if facts is not None:
                yield self._disk.size_mark(path, facts, self._taken)
