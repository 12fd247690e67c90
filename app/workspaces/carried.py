"""Local settings files that came with a clone: no person on this machine wrote them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from app.core.facts import Kind
from app.workspaces.configuration import settings_in
from app.workspaces.index import UnclearIndexError, holds, index_bytes
from app.workspaces.socket import Workspace

_FILE = (".claude", "settings.local.json")
_SAYS_MORE = (b"additionalDirectories", b"autoMemoryDirectory", b"\\u")  # a key may be written with escapes
_SHARED_INDEX = "sharedindex."
_SPELLS_ONE_WAY = sys.platform == "linux"


def local_settings(workspace: Workspace, toplevel: str, cwd: str) -> tuple[str, ...]:
    """Where the local settings files of a checkout are, seen from the real folder ``cwd``."""
    return tuple(dict.fromkeys(workspace.paths.join(folder, *_FILE) for folder in (toplevel, cwd)))


def carried(workspace: Workspace, git_dir: str, config: str, toplevel: str, cwd: str) -> tuple[str, ...]:
    """Local settings files that git tracks, or that it cannot be told of; none that claim nothing beyond a project's.

    The index is read only where one claims more.
    """
    claims = claiming(workspace, toplevel, cwd)
    return tuple(path for path in claims if is_tracked(workspace, git_dir, config, toplevel, path))


def claiming(workspace: Workspace, toplevel: str, cwd: str) -> tuple[str, ...]:
    """Local settings files that claim more than a project's, whoever wrote them."""
    return tuple(path for path in local_settings(workspace, toplevel, cwd) if _claims_more(workspace, path))


def _claims_more(workspace: Workspace, path: str) -> bool:
    data = workspace.read(path).data
    return data is not None and any(word in data for word in _SAYS_MORE)


def is_tracked(workspace: Workspace, git_dir: str, config: str, toplevel: str, path: str) -> bool:
    """Whether git tracks ``path``, a link on the way to it, or a folder that it does not look into; True in doubt."""
    paths = workspace.paths
    if workspace.look(paths.join(git_dir, "index.lock")).kind is not Kind.MISSING:  # a checkout may be under way
        return True
    if not _SPELLS_ONE_WAY and not _is_spelt_so(workspace, toplevel, path):
        return True
    names = tuple(_names(workspace, toplevel, path))
    object_format = dict(settings_in(config)).get("extensions.objectformat", "sha1")
    shared = (name for name in workspace.names(git_dir) if name.startswith(_SHARED_INDEX))
    try:
        return any(
            holds(data, names, object_format)
            for name in ("index", *shared)
            if (data := _index(workspace, paths.join(git_dir, name))) is not None
        )
    except (UnclearIndexError, OSError):
        return True


def _is_spelt_so(workspace: Workspace, toplevel: str, path: str) -> bool:
    """Whether the disk knows the file by this name, and not by another that it takes for the same."""
    paths = workspace.paths
    below = [place for place in paths.chain(path) if place != toplevel and paths.within(place, toplevel)]
    return all(paths.name(place) in workspace.names(paths.parent(place)) for place in below)


def _names(workspace: Workspace, toplevel: str, path: str) -> Iterator[str]:
    """What an index can call the file, a link on the way to it, and a folder that it does not look into."""
    paths = workspace.paths
    for place in (path, workspace.look(path).real):
        name = paths.relative(place, toplevel)
        while name:
            yield name
            yield f"{name}/"
            name = name.rpartition("/")[0]


def _index(workspace: Workspace, path: str) -> bytes | None:
    """None where there is none. Raises UnclearIndexError and OSError."""
    node = workspace.look(path)
    if node.kind is Kind.MISSING:
        return None
    content = workspace.read(path)
    if content.data is not None:
        return content.data
    if content.problem != "budget":
        raise UnclearIndexError(path)
    return index_bytes(node.real)
