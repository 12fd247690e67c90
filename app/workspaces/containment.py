"""What of a repository git may be shown: every part is inside the fence by its real path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.core.facts import Kind
from app.workspaces.repository import Repository, config_text, place_named
from app.workspaces.resolving import child, is_text
from app.workspaces.socket import Workspace

_BORROWING_DEPTH = 5  # as git has it
_ENTRIES_LIMIT = 300_000
_SHARED_INDEX = "sharedindex."
_SHARED_INDEXES_LIMIT = 64
_REFS = "refs/"
_OWN_FILES = ("info/sparse-checkout",)
_COMMON_FILES = ("packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts")


@dataclass(frozen=True, slots=True)
class Shown:
    """A repository's parts by their real paths.

    ``head``: what HEAD says. ``config``: the configuration's text. ``index`` is None when there is none. ``linked``:
    further parts, each with its name inside a git folder.
    """

    repository: Repository
    objects: str
    refs: str
    head: bytes = field(repr=False)
    config: str = field(repr=False)
    index: str | None
    linked: tuple[tuple[str, str], ...] = ()


def shown(workspace: Workspace, repository: Repository) -> Shown | None:
    """The parts of ``repository`` on this server's disk; None when one leads where ``workspace`` may not read."""
    paths, git_dir, common_dir = workspace.paths, repository.git_dir, repository.common_dir
    objects, refs = (workspace.look(paths.join(common_dir, name)) for name in ("objects", "refs"))
    index = workspace.look(paths.join(git_dir, "index"))
    head = _head(workspace, paths.join(git_dir, "HEAD"))
    config = config_text(workspace, git_dir, common_dir)
    linked = _linked(workspace, repository)
    if head is None or config is None or linked is None or index.kind not in (Kind.FILE, Kind.MISSING):
        return None
    if any(folder.kind is not Kind.DIRECTORY for folder in (objects, refs)) or not _stays(workspace, refs.real):
        return None
    if not _lends_from_inside(workspace, objects.real, _BORROWING_DEPTH):
        return None
    known_index = index.real if index.kind is Kind.FILE else None
    return Shown(repository, objects.real, refs.real, head, config, known_index, linked)


def _head(workspace: Workspace, path: str) -> bytes | None:
    """What HEAD says; a link to a branch, as old repositories have it, says the branch's name."""
    try:
        target = os.readlink(path)  # noqa: PTH115 - text
    except OSError:
        return workspace.read(path).data
    if target.startswith(_REFS) and is_text(target):
        return f"ref: {target}\n".encode()
    return workspace.read(path).data


def _linked(workspace: Workspace, repository: Repository) -> tuple[tuple[str, str], ...] | None:
    paths = workspace.paths
    indexes = [name for name in workspace.names(repository.git_dir) if name.startswith(_SHARED_INDEX)]
    if len(indexes) > _SHARED_INDEXES_LIMIT:
        return None
    wanted = (
        *((name, repository.common_dir) for name in _COMMON_FILES),
        *((name, repository.git_dir) for name in (*_OWN_FILES, *indexes)),
    )
    nodes = [(name, workspace.look(paths.join(folder, name))) for name, folder in wanted]
    stacks = workspace.look(paths.join(repository.common_dir, "reftable"))
    if any(node.kind not in (Kind.FILE, Kind.MISSING) for _, node in nodes):
        return None
    if stacks.kind is Kind.DIRECTORY and _stays(workspace, stacks.real):
        nodes.append(("reftable", stacks))
    elif stacks.kind is not Kind.MISSING:
        return None
    return tuple((name, node.real) for name, node in nodes if node.kind is not Kind.MISSING)


def _lends_from_inside(workspace: Workspace, objects: str, depth: int) -> bool:
    """Whether a store of objects, and each that it borrows from, stays inside."""
    lenders = workspace.look(workspace.paths.join(objects, "info", "alternates"))
    if not _stays(workspace, objects):
        return False
    if lenders.kind is not Kind.FILE:
        return lenders.kind is Kind.MISSING
    data = workspace.read(lenders.real).data
    if data is None or depth == 0:
        return False
    return all(_is_lender(workspace, objects, line, depth) for line in data.split(b"\n") if line[:1] not in (b"", b"#"))


def _is_lender(workspace: Workspace, objects: str, line: bytes, depth: int) -> bool:
    if line.startswith(b'"'):  # a quoted path; git writes none of its own accord
        return False
    place = place_named(workspace, objects, line)
    lender = None if place is None else workspace.look(place)
    if lender is None or lender.kind is not Kind.DIRECTORY:
        return False
    return _lends_from_inside(workspace, lender.real, depth - 1)


def _stays(workspace: Workspace, folder: str) -> bool:
    """Whether nothing below the real ``folder`` leads outside, nowhere, or to more than is looked through."""
    waiting, seen, left = [folder], {folder}, _ENTRIES_LIMIT
    while waiting:
        for path, is_link, is_folder in _entries(workspace, waiting.pop()):
            left -= 1
            if left < 0:
                return False
            if is_link:
                node = workspace.look(path)
                if node.kind not in (Kind.FILE, Kind.DIRECTORY):
                    return False
                path, is_folder = node.real, node.kind is Kind.DIRECTORY  # noqa: PLW2901 - the link is followed
            if is_folder and path not in seen:
                seen.add(path)
                waiting.append(path)
    return True


def _entries(workspace: Workspace, folder: str) -> Iterator[tuple[str, bool, bool]]:
    """Path, whether it is a link, whether it is a folder; empty for a folder that cannot be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = child(workspace.paths, folder, entry.name)
                yield path, entry.is_symlink(), entry.is_dir(follow_symlinks=False)
    except OSError:
        return
