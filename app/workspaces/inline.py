"""Files that came with the request: no disk is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.core.footprint import Footprint
from app.core.paths import Paths
from app.workspaces.resolving import Entry, Resolver, child, refused

SHOWN_CHARACTERS = 200  # of a path in an error
MAX_DEPTH = 256
MAX_PATH_CHARACTERS = 4_096  # as Linux has it, also for where a link points
MAX_IMPLIED_FOLDERS = 100_000
MAX_IMPLIED_CHARACTERS = 16_777_216  # of all their paths together


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Binary:
    data: bytes


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; ``target`` is absolute or relative to the link's folder."""

    target: str


@dataclass(frozen=True, slots=True)
class Folder:
    pass


InlineFile = Text | Binary | Link | Folder


class TreeConflictError(ValueError):
    """The files do not make a tree. ``path`` is the caller's key that does not fit."""

    def __init__(self, path: str, reason: str) -> None:
        shown = path if len(path) <= SHOWN_CHARACTERS else path[:SHOWN_CHARACTERS] + "…"
        super().__init__(f"{shown}: {reason}")
        self.path = path
        self.reason = reason


class Tree:
    """The caller's files, each where its folder's links lead, with the folders they imply.

    ``ground`` says what stands at a path that no file mentions. Raises TreeConflictError for a path that is not
    absolute, for a path below a file or in a circle of links, for two different files at one place, and for more or
    deeper folders than are taken.
    """

    def __init__(self, files: Mapping[str, InlineFile], paths: Paths, ground: Callable[[str], Entry | None]) -> None:
        self._paths = paths
        self._ground = ground
        self._standing: dict[str, bytes | Link | Folder] = {}
        self._names: dict[str, set[str]] = {}
        self._implied_characters = 0
        self._plant(files)

    def entry(self, path: str) -> Entry | None:
        standing = self._standing.get(path)
        if standing is None:
            return self._ground(path)
        if isinstance(standing, Link):
            return Entry(Kind.DANGLING, target=standing.target)
        return Entry(Kind.DIRECTORY) if isinstance(standing, Folder) else Entry(Kind.FILE, len(standing))

    def data(self, real: str) -> bytes | None:
        standing = self._standing.get(real)
        return standing if isinstance(standing, bytes) else None

    def names(self, real: str) -> frozenset[str]:
        return frozenset(self._names.get(real, ()))

    def _plant(self, files: Mapping[str, InlineFile]) -> None:
        for path in files:
            if not self._paths.is_absolute(path):
                raise TreeConflictError(path, "the path must be absolute")
            self._require_short(path, files[path])
        links = {self._paths.normal(path) for path, file in files.items() if isinstance(file, Link)}

        def links_above(path: str) -> int:
            return sum(folder in links for folder in self._paths.chain(self._paths.normal(path))[:-1])

        for path in sorted(
            (path for path in files if isinstance(files[path], Link)), key=lambda p: (links_above(p), p)
        ):
            self._place(path, files[path], self._real_folder(path))
        homes: dict[str, str] = {}  # with all links in place, the rest moves no folder
        for path in sorted(path for path in files if not isinstance(files[path], Link)):
            folder = self._paths.parent(self._paths.normal(path))
            if folder not in homes:
                homes[folder] = self._real_folder(path)
            self._place(path, files[path], homes[folder])
        self._require_reachable(files)

    def _require_short(self, path: str, file: InlineFile) -> None:
        if self._is_long(self._paths.normal(path)):
            raise TreeConflictError(
                path, f"a path has at most {MAX_PATH_CHARACTERS:,} characters and {MAX_DEPTH} folders"
            )
        if isinstance(file, Link) and len(file.target) > MAX_PATH_CHARACTERS:
            raise TreeConflictError(path, f"a link's target has at most {MAX_PATH_CHARACTERS:,} characters")

    def _is_long(self, path: str) -> bool:
        return len(path) > MAX_PATH_CHARACTERS or path.count(self._paths.separator) > MAX_DEPTH

    def _require_reachable(self, files: Mapping[str, InlineFile]) -> None:
        resolver = Resolver(self._paths, self.entry)
        for path in files:
            if resolver.resolve(self._paths.parent(self._paths.normal(path))).kind is not Kind.DIRECTORY:
                raise TreeConflictError(path, "it lies below a link that leads nowhere")

    def _real_folder(self, path: str) -> str:
        folder = self._paths.parent(self._paths.normal(path))
        return Resolver(self._paths, self.entry).resolve(folder).real

    def _place(self, path: str, file: InlineFile, folder: str) -> None:
        self._imply(folder, path)
        normal = self._paths.normal(path)
        if self._paths.is_root(normal):
            if not isinstance(file, Folder):
                raise TreeConflictError(path, "this is the root, which is a folder")
            return
        name = self._paths.name(normal)
        real = child(self._paths, folder, name)
        value = _value(file)
        if self._standing.setdefault(real, value) != value:
            raise TreeConflictError(path, f"something else is given at {real} already")
        self._names[folder].add(name)

    def _imply(self, folder: str, path: str) -> None:
        if folder in self._names:
            return
        if self._is_long(folder):
            raise TreeConflictError(path, "its folder's links lead to a path that is too long")
        implied = [folder]
        while not self._paths.is_root(implied[-1]) and self._paths.parent(implied[-1]) not in self._names:
            implied.append(self._paths.parent(implied[-1]))
        self._implied_characters += sum(map(len, implied))
        too_many = len(self._names) + len(implied) > MAX_IMPLIED_FOLDERS
        if too_many or self._implied_characters > MAX_IMPLIED_CHARACTERS:
            raise TreeConflictError(path, "the paths imply more folders than are taken: send fewer files")
        for real in reversed(implied):
            standing = self._standing.setdefault(real, Folder())
            if not isinstance(standing, Folder):
                what = "leads in a circle" if isinstance(standing, Link) else "is a file"
                raise TreeConflictError(path, f"nothing can be below {real}, which {what}")
            self._names[real] = set()
            if not self._paths.is_root(real):
                self._names[self._paths.parent(real)].add(self._paths.name(real))


def _value(file: InlineFile) -> bytes | Link | Folder:
    if isinstance(file, Text):
        return file.text.encode("utf-8", "replace")
    return file.data if isinstance(file, Binary) else file


def bounded(data: bytes, limit: int) -> Content:
    return Content(data) if len(data) <= limit else Content(None, "budget")


class InlineWorkspace:
    """The caller's files as a workspace. ``max_file_bytes``: larger files are there, but are not read."""

    def __init__(
        self, files: Mapping[str, InlineFile], git: GitFacts | None, paths: Paths, max_file_bytes: int
    ) -> None:
        self.paths = paths
        self._limit = max_file_bytes
        self._tree = Tree(files, paths, self._root)
        self._resolver = Resolver(paths, self._tree.entry)
        self._git = git and replace(git, roots=git.roots and self._real_roots(git.roots))

    def look(self, path: str) -> Node:
        return self._resolver.resolve(path)

    def read(self, path: str) -> Content:
        node = self.look(path)
        data = self._tree.data(node.real)
        return refused(node.kind) if node.kind is not Kind.FILE or data is None else bounded(data, self._limit)

    def names(self, path: str) -> tuple[str, ...]:
        node = self.look(path)
        return tuple(sorted(self._tree.names(node.real))) if node.kind is Kind.DIRECTORY else ()

    def roots(self, cwd: str) -> GitRoots | None:
        roots = self._git and self._git.roots
        return roots if roots and self.paths.within(self.look(cwd).real, roots.toplevel) else None

    def carries(self, path: str, toplevel: str) -> bool:  # noqa: ARG002 - the caller gave all of them
        return False

    def git(self, cwd: str) -> GitFacts | None:
        if self._git and self._git.roots and self.roots(cwd) is None:
            return None
        return self._git

    def asking_git(self, cwd: str) -> AbstractContextManager[Callable[[], GitFacts | None]]:
        return nullcontext(partial(self.git, cwd))

    def footprint(self) -> Footprint:
        """Empty: the files come with each request."""
        return Footprint()

    def close(self) -> None:
        pass

    def _root(self, path: str) -> Entry | None:
        return Entry(Kind.DIRECTORY) if path == "/" else None

    def _real_roots(self, roots: GitRoots) -> GitRoots:
        main = roots.main_toplevel
        return replace(roots, toplevel=self.look(roots.toplevel).real, main_toplevel=main and self.look(main).real)
