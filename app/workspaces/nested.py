"""Repositories within a checkout, which git asks about as it looks through it: told only where they stay inside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from app.core.facts import Kind, Node
from app.workspaces.repository import POINTER, place_named
from app.workspaces.resolving import child, is_text
from app.workspaces.socket import Workspace
from app.workspaces.status import UNTRACKED, Change

_GIT = ".git"
_ENTRIES_LIMIT = 50_000


def leads_outside(workspace: Workspace, folder: str) -> bool:
    """Whether git looks outside when it asks if ``folder`` is a repository of its own, or could."""
    paths = workspace.paths
    place = child(paths, folder, _GIT)
    if not is_text(folder):
        return os.path.lexists(place)
    found = workspace.look(place)
    own = _pointed_to(workspace, folder, found, POINTER) if found.kind is Kind.FILE else found
    if own is None or own.kind is not Kind.DIRECTORY:
        return own is None or own.kind is Kind.OUTSIDE
    named = workspace.look(paths.join(own.real, "commondir"))
    common = _pointed_to(workspace, own.real, named, b"") if named.kind is Kind.FILE else own
    if common is None:
        return True
    parts = [paths.join(own.real, "HEAD"), *(paths.join(common.real, name) for name in ("objects", "refs"))]
    return any(node.kind is Kind.OUTSIDE for node in (named, common, *map(workspace.look, parts)))


def _pointed_to(workspace: Workspace, base: str, file: Node, opening: bytes) -> Node | None:
    """What the one line of a file names behind ``opening``; the file itself when it begins otherwise.

    None for what only git can tell.
    """
    data = workspace.read(file.real).data
    if data is None or not data.startswith(opening):
        return None if data is None else file
    place = place_named(workspace, base, data.removeprefix(opening).rstrip(b"\r\n"))
    return None if place is None else workspace.look(place)


class Nested:
    """What of one status can be told.

    git looks at where a ``.git`` below an untracked folder points, and lists the folder by what is there.
    """

    def __init__(self, workspace: Workspace, toplevel: str) -> None:
        self._workspace = workspace
        self._toplevel = toplevel
        self._left = _ENTRIES_LIMIT
        self._known: dict[str, bool] = {}

    def hides(self, change: Change) -> bool:
        """Whether the change, or how it is told, can depend on something outside."""
        if change.code != UNTRACKED:
            return self._holds_git(self._at(change.path))
        return any(self._leads_outside(folder) for folder in self._above(change.path)) or (
            change.path.endswith("/") and self._leads_outside_below(self._at(change.path))
        )

    def _at(self, path: str) -> str:
        return child(self._workspace.paths, self._toplevel, path.rstrip("/"))

    def _above(self, path: str) -> Iterator[str]:
        names = path.split("/")[:-1]
        for count in range(1, len(names) + 1):
            yield self._at("/".join(names[:count]))

    def _holds_git(self, folder: str) -> bool:
        """Whether git takes the folder in a file's place for another repository, or could."""
        return os.path.lexists(child(self._workspace.paths, folder, _GIT))

    def _leads_outside(self, folder: str) -> bool:
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = leads_outside(self._workspace, folder)
        return known

    def _leads_outside_below(self, folder: str) -> bool:
        """Also where there is more below than is looked through."""
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            found = self._listed(here)
            if self._left < 0:
                return True
            if _GIT in found and self._leads_outside(here):
                return True
            waiting.extend(child(self._workspace.paths, here, name) for name in found if found[name] and name != _GIT)
        return False

    def _listed(self, folder: str) -> dict[str, bool]:
        """Names, and whether each is a folder; those of links and files other than ``.git`` left out."""
        found: dict[str, bool] = {}
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    break
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or entry.name == _GIT:
                    found[entry.name] = is_folder
        return found
