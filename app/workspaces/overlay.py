"""Unsaved buffers on top of another workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.core.footprint import Footprint
from app.workspaces.inline import InlineFile, Tree, bounded
from app.workspaces.resolving import Entry, Resolver, refused
from app.workspaces.socket import Workspace


class OverlayWorkspace:
    """``files`` win over what ``base`` has at the same place; everything else is the base's answer.

    A file's folder goes through the base's links; a file over a link or a folder hides it. Raises TreeConflictError
    when the files do not make a tree. Git is asked of the base: buffers are not in its status. ``..`` in the target of
    a base's link goes up from what the base has there, not from a link in ``files``.
    """

    def __init__(self, base: Workspace, files: Mapping[str, InlineFile], max_file_bytes: int) -> None:
        self.paths = base.paths
        self._base = base
        self._limit = max_file_bytes
        self._tree = Tree(files, base.paths, self._below)
        self._resolver = Resolver(base.paths, self._tree.entry)

    def look(self, path: str) -> Node:
        return self._resolver.resolve(path)

    def read(self, path: str) -> Content:
        node = self.look(path)
        if node.kind is not Kind.FILE:
            return refused(node.kind)
        data = self._tree.data(node.real)
        return self._base.read(node.real) if data is None else bounded(data, self._limit)

    def names(self, path: str) -> tuple[str, ...]:
        node = self.look(path)
        if node.kind is not Kind.DIRECTORY:
            return ()
        below = self._base.names(node.real) if self._is_base_folder(node.real) else ()
        return tuple(sorted(self._tree.names(node.real).union(below)))

    def roots(self, cwd: str) -> GitRoots | None:
        return self._base.roots(cwd)

    def carries(self, path: str, toplevel: str) -> bool:
        return self._base.carries(path, toplevel)

    def git(self, cwd: str) -> GitFacts | None:
        return self._base.git(cwd)

    def asking_git(self, cwd: str) -> AbstractContextManager[Callable[[], GitFacts | None]]:
        return self._base.asking_git(cwd)

    def footprint(self) -> Footprint | None:
        """The base's: ``files`` come with each request."""
        return self._base.footprint()

    def close(self) -> None:
        self._base.close()

    def _below(self, path: str) -> Entry | None:
        """What the base has at ``path``; a link of the base counts as one to where it leads in the base."""
        if not self._is_base_folder(self.paths.parent(path)):
            return None  # the folder is an overlaid one, whatever the base has in its place
        node = self._base.look(path)
        if node.kind is Kind.MISSING:
            return None
        is_link = node.real != path
        if node.kind is Kind.DANGLING and self._base.look(node.real).kind not in (Kind.MISSING, Kind.DANGLING):
            is_link = False  # it takes a file for a folder
        return Entry(node.kind, target=node.real) if is_link else Entry(node.kind, node.size)

    def _is_base_folder(self, real: str) -> bool:
        node = self._base.look(real)
        return node.kind in (Kind.DIRECTORY, Kind.OUTSIDE) and node.real == real
