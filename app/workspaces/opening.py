"""From a caller's descriptor to an open workspace."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from app.core.facts import GitFacts, Kind
from app.core.paths import paths_for
from app.errors import InvalidRequest, WorkspaceNotFound
from app.workspaces.commit import MOUNT, GitWorkspace
from app.workspaces.disk import Disk
from app.workspaces.fence import SERVER_PATHS, Fence
from app.workspaces.inline import InlineFile, InlineWorkspace
from app.workspaces.local import LocalWorkspace
from app.workspaces.overlay import OverlayWorkspace
from app.workspaces.program import GitProgram
from app.workspaces.socket import Workspace


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A folder on this server; ``files`` are unsaved buffers on top of it."""

    cwd: str
    files: Mapping[str, InlineFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InlineSource:
    """The caller's own files, and what the caller knows of git."""

    cwd: str
    files: Mapping[str, InlineFile] = field(default_factory=dict)
    git: GitFacts | None = None


@dataclass(frozen=True, slots=True)
class CommitSource:
    """A commit of a repository on this server, seen at ``mount``; ``cwd`` defaults to the mount."""

    repository: str
    ref: str
    cwd: str | None = None
    mount: str = MOUNT
    files: Mapping[str, InlineFile] = field(default_factory=dict)


Source = LocalSource | InlineSource | CommitSource


@dataclass(frozen=True, slots=True)
class Ground:
    """What this server lends to workspaces. ``max_file_bytes`` is the size of the largest file that is read."""

    fence: Fence
    program: GitProgram
    max_file_bytes: int
    disk: Disk = field(default_factory=Disk)


@dataclass(frozen=True, slots=True)
class Opened:
    """``cwd`` is the real path of the working directory. Whoever opened the workspace closes it."""

    workspace: Workspace
    cwd: str


def open_workspace(source: Source, ground: Ground) -> Opened:
    """Opens ``source``.

    Raises InvalidRequest, WorkspaceNotFound, GitUnavailable, and TreeConflictError for files that make no tree.
    """
    match source:
        case InlineSource():
            return _open_inline(source, ground)
        case LocalSource():
            return _open_local(source, ground)
        case CommitSource():
            return _open_commit(source, ground)


def _open_inline(source: InlineSource, ground: Ground) -> Opened:
    paths = paths_for(source.cwd)
    _require_absolute(source.cwd, absolute=paths.is_absolute(source.cwd))
    workspace = InlineWorkspace(source.files, source.git, paths, ground.max_file_bytes)
    node = workspace.look(source.cwd)
    if node.kind not in (Kind.DIRECTORY, Kind.MISSING):
        raise InvalidRequest(f"The files make {source.cwd} something else than a folder. Give a folder as cwd.")
    return Opened(workspace, node.real)


def _open_local(source: LocalSource, ground: Ground) -> Opened:
    _require_absolute(source.cwd, absolute=SERVER_PATHS.is_absolute(source.cwd))
    workspace = LocalWorkspace(ground.fence, SERVER_PATHS, ground.max_file_bytes, ground.program, ground.disk)
    with ExitStack() as on_failure:
        on_failure.callback(workspace.close)
        if workspace.look(source.cwd).kind is not Kind.DIRECTORY:
            raise WorkspaceNotFound(
                f"There is no folder {source.cwd} that this service may read. "
                "Give a folder inside the roots that it has for you (STRATA_ROOTS, or roots of your key) as cwd."
            )
        opened = _overlaid(workspace, source.files, source.cwd, ground)
        on_failure.pop_all()
    return opened


def _open_commit(source: CommitSource, ground: Ground) -> Opened:
    cwd = source.mount if source.cwd is None else source.cwd
    _require_absolute(cwd, absolute=cwd.startswith("/"))
    workspace = GitWorkspace(
        source.repository,
        source.ref,
        source.mount,
        fence=ground.fence,
        program=ground.program,
        max_file_bytes=ground.max_file_bytes,
    )
    with ExitStack() as on_failure:
        on_failure.callback(workspace.close)
        if workspace.roots(cwd) is None or workspace.look(cwd).kind is not Kind.DIRECTORY:
            raise WorkspaceNotFound(
                f"The commit has no folder {cwd}. Its tree is mounted at {source.mount}; give a folder below it as cwd."
            )
        opened = _overlaid(workspace, source.files, cwd, ground)
        on_failure.pop_all()
    return opened


def _overlaid(base: Workspace, files: Mapping[str, InlineFile], cwd: str, ground: Ground) -> Opened:
    workspace = OverlayWorkspace(base, files, ground.max_file_bytes) if files else base
    node = workspace.look(cwd)
    if node.kind is not Kind.DIRECTORY:
        raise InvalidRequest(f"The files make {cwd} something else than a folder. Give a folder as cwd.")
    return Opened(workspace, node.real)


def _require_absolute(cwd: str, *, absolute: bool) -> None:
    if not absolute:
        raise InvalidRequest(f"The working directory {cwd} is not absolute. Give the whole path as cwd.")
