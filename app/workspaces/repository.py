"""Where a repository keeps its parts, read from its own small files without the git program."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app.core.facts import GitRoots, Kind
from app.workspaces.carried import carried, claiming, is_tracked
from app.workspaces.configuration import SIZE_LIMIT_BYTES, YES, settings_in, uses_worktree_config
from app.workspaces.socket import Workspace

_STORE = ("objects", "refs")
POINTER = b"gitdir: "
_POINTER_LIMIT_BYTES = 4_096
_DELETE = 0x7F
BRANCHES = "refs/heads/"
REMOTE_BRANCHES = "refs/remotes/origin/"
REMOTE_HEAD = "refs/remotes/origin/HEAD"
USUAL_BRANCHES = ("main", "master")
_ID = rb"(?!0{40})[0-9a-f]{40}"
_ID_LINE = re.compile(_ID + rb"\n")
_BRANCH_LINE = re.compile(b"ref: " + BRANCHES.encode() + rb"([^\n]+)\n")
_REMOTE_LINE = re.compile(b"ref: " + REMOTE_BRANCHES.encode() + rb"([^\n]+)\n")
_NAME_LIMIT_BYTES = 200  # far below what any disk can hold
_PLAIN_NAME = re.compile(r"[\w+#=,-]+(?:[./@][\w+#=,-]+)*")
_NAMES_IN_A_GIT_FOLDER = frozenset(
    {*("HEAD", "config", "index", "info", "main-worktree", "objects"), *("packed-refs", "refs", "shallow", "user")}
)
_STORED_OTHERWISE = ("core.ignorecase", "extensions.objectformat", "extensions.refstorage")


@dataclass(frozen=True, slots=True)
class Repository:
    """Real paths. ``common_dir`` differs from ``git_dir`` in a linked worktree.

    ``roots`` is None for a repository that was named by its own folder. Unless it ``is_followed``, none is known.
    """

    git_dir: str
    common_dir: str
    roots: GitRoots | None
    is_followed: bool = True

    @property
    def has_checkout(self) -> bool:
        """Whether ``roots.toplevel`` holds files: a bare repository's own folder does not, its worktrees do."""
        return self.roots is not None and (not self.roots.bare or self.git_dir != self.common_dir)


@dataclass(frozen=True, slots=True)
class Branches:
    """Short names. ``current`` is None when HEAD is detached, ``default`` when there is no other than the current."""

    current: str | None
    default: str | None


class _UnclearError(Exception):
    """What git alone can tell."""


def find_repository(workspace: Workspace, cwd: str) -> Repository | None:
    """The repository whose checkout holds ``cwd``; None when there is none, it is broken, or a part is outside.

    One that is not followed is told where local settings would otherwise pass for a person's own.
    """
    real = folder = workspace.look(cwd).real
    while True:
        found = workspace.look(workspace.paths.join(folder, ".git"))
        if found.kind is Kind.FILE:
            return _linked(workspace, folder, found.real, real) or _unfollowed(workspace, folder, real)
        if found.kind in (Kind.OUTSIDE, Kind.UNREADABLE):
            return _unfollowed(workspace, folder, real)
        if found.kind is Kind.DIRECTORY and _is_git_dir(workspace, found.real):
            return _described(workspace, found.real, found.real, (folder, real))
        if workspace.paths.is_root(folder):
            return None
        folder = workspace.paths.parent(folder)


def named_repository(workspace: Workspace, path: str) -> Repository | None:
    """The repository at ``path`` itself: a checkout, or a folder that is a repository."""
    node = workspace.look(path)
    checkout = find_repository(workspace, node.real)
    if checkout is not None and checkout.roots is not None and checkout.roots.toplevel == node.real:
        return checkout
    stores = (workspace.look(workspace.paths.join(node.real, part)) for part in _STORE)
    if any(store.kind is not Kind.DIRECTORY for store in stores) or not _is_git_dir(workspace, node.real):
        return None
    return _described(workspace, node.real, node.real, None)


def place_named(workspace: Workspace, base: str, written: bytes) -> str | None:
    """Where git finds what one of its files calls ``written``, seen from the real folder ``base``.

    None for what another reader could take for another place: bytes that are not UTF-8, control characters, white
    space at an end, and ``..`` behind a link or behind what cannot be looked at.
    """
    name = _plain(written)
    if name is None:
        return None
    paths = workspace.paths
    here = base
    parts = paths.slashed(name).split("/")
    for position, part in enumerate(parts):
        if part == ".." and not _is_folder_itself(workspace, here, base):
            return None
        here = paths.join(here, paths.separator if position == 0 and not part else part)
    return here


def carries(workspace: Workspace, path: str, toplevel: str) -> bool:
    """Whether the checkout at ``toplevel`` carries ``path``, or a link on the way to it; True where that is unclear."""
    repository = find_repository(workspace, toplevel)
    if repository is None or not workspace.paths.within(path, toplevel):
        return False
    config = _own_config(workspace, repository)
    return config is None or is_tracked(workspace, repository.git_dir, config, toplevel, path)


def config_text(workspace: Workspace, git_dir: str, common_dir: str) -> str | None:
    """The repository's own configuration without the files it includes; None when it cannot be read."""
    own = _config(workspace, common_dir, "config")
    if own is None or not uses_worktree_config(own):
        return own
    more = _config(workspace, git_dir, "config.worktree")
    return None if more is None else f"{own}\n{more}"


def _own_config(workspace: Workspace, repository: Repository) -> str | None:
    if not repository.is_followed:
        return None
    return config_text(workspace, repository.common_dir, repository.common_dir)


def branches_of(workspace: Workspace, common_dir: str, head: bytes, config: str) -> Branches | None:
    """What git calls the current branch and the default one; None where its small files are not of the usual kind.

    A branch whose commit is missing counts as there.
    """
    settings = dict(settings_in(config))
    if any(settings.get(key, "false") != "false" for key in _STORED_OTHERWISE):
        return None
    names = _Names(workspace, common_dir)
    try:
        return Branches(_current(names, head), _default(names))
    except _UnclearError:
        return None


def _plain(written: bytes) -> str | None:
    try:
        name = written.decode()
    except UnicodeDecodeError:
        return None
    is_plain = all(character >= " " and ord(character) != _DELETE for character in name)
    return name if name and is_plain and name == name.strip() and len(written) <= _POINTER_LIMIT_BYTES else None


def _is_folder_itself(workspace: Workspace, folder: str, base: str) -> bool:
    if workspace.paths.within(base, folder):  # above a real folder nothing is a link
        return True
    node = workspace.look(folder)
    return node.kind is Kind.DIRECTORY and node.real == folder


def _linked(workspace: Workspace, folder: str, file: str, cwd: str) -> Repository | None:
    """The repository that a ``.git`` file points to: a linked worktree's or a submodule's."""
    data = workspace.read(file).data
    if data is None or not data.startswith(POINTER):
        return None
    git_dir = _pointed_to(workspace, folder, data.removeprefix(POINTER))
    if git_dir is None or not _is_git_dir(workspace, git_dir):
        return None
    pointer = workspace.look(workspace.paths.join(git_dir, "commondir"))
    if pointer.kind is Kind.MISSING:
        return _described(workspace, git_dir, git_dir, (folder, cwd))
    data = workspace.read(pointer.real).data
    common = None if data is None else _pointed_to(workspace, git_dir, data)
    return None if common is None else _described(workspace, git_dir, common, (folder, cwd))


def _unfollowed(workspace: Workspace, toplevel: str, cwd: str) -> Repository | None:
    if workspace.look(toplevel).kind is not Kind.DIRECTORY:  # above the roots nobody can tell
        return None
    claims = claiming(workspace, toplevel, cwd)
    return Repository("", "", GitRoots(toplevel, carried=claims), is_followed=False) if claims else None


def _pointed_to(workspace: Workspace, base: str, line: bytes) -> str | None:
    """The real folder that the one line of a file names; line ends are cut off as git does."""
    place = place_named(workspace, base, line.rstrip(b"\r\n"))
    node = None if place is None else workspace.look(place)
    return node.real if node is not None and node.kind is Kind.DIRECTORY else None


def _described(workspace: Workspace, git_dir: str, common_dir: str, checkout: tuple[str, str] | None) -> Repository:
    """``checkout``: its folder, and the one in it that is asked about."""
    if checkout is None:
        return Repository(git_dir, common_dir, None)
    paths, (toplevel, cwd) = workspace.paths, checkout
    main = None
    if git_dir != common_dir:
        main = paths.parent(common_dir) if paths.name(common_dir) == ".git" else common_dir
    config = config_text(workspace, common_dir, common_dir) or ""
    bare = dict(settings_in(config)).get("core.bare") in YES
    roots = GitRoots(toplevel, main, bare, carried(workspace, git_dir, config, toplevel, cwd))
    return Repository(git_dir, common_dir, roots)


def _is_git_dir(workspace: Workspace, folder: str) -> bool:
    """Whether ``folder`` holds HEAD, which in old repositories is a link to a branch that may not exist yet."""
    return workspace.look(workspace.paths.join(folder, "HEAD")).kind in (Kind.FILE, Kind.DANGLING)


def _config(workspace: Workspace, folder: str, name: str) -> str | None:
    """A configuration file's text, cut at the last whole line within the limit; empty when there is none."""
    path = workspace.paths.join(folder, name)
    if workspace.look(path).kind is Kind.MISSING:
        return ""
    data = workspace.read(path).data
    if data is None:
        return None
    whole = data if len(data) <= SIZE_LIMIT_BYTES else data[:SIZE_LIMIT_BYTES].rpartition(b"\n")[0]
    return whole.decode("utf-8", "replace")


class _Names:
    """The repository's names for commits, in files of their own or packed in one."""

    def __init__(self, workspace: Workspace, common_dir: str) -> None:
        self._workspace = workspace
        self._folder = workspace.look(workspace.paths.join(common_dir, "refs")).real
        self._packed_path = workspace.paths.join(common_dir, "packed-refs")

    def text(self, name: str) -> bytes | None:
        """What the file of ``name`` says; None when there is none. Raises _UnclearError."""
        path = self._workspace.paths.join(self._folder, *name.split("/")[1:])
        node = self._workspace.look(path)
        if node.kind is Kind.MISSING:
            return None
        if node.kind is not Kind.FILE or node.real != path:
            raise _UnclearError(name)
        return self._read(path)

    def holds(self, name: str) -> bool:
        """Whether ``name`` is there. Raises _UnclearError when it stands for another one or is broken."""
        text = self.text(name)
        if text is None:
            return self._packs(name)
        if not _ID_LINE.fullmatch(text):
            raise _UnclearError(name)
        return True

    def _packs(self, name: str) -> bool:
        if self._workspace.look(self._packed_path).kind is Kind.MISSING:
            return False
        lines = self._read(self._packed_path)
        ending = f" {name}\n".encode()
        if ending not in lines:
            return False
        if not re.search(rb"^" + _ID + re.escape(ending), lines, re.MULTILINE):
            raise _UnclearError(name)
        return True

    def _read(self, path: str) -> bytes:
        data = self._workspace.read(path).data
        if data is None:
            raise _UnclearError(path)
        return data


def _current(names: _Names, head: bytes) -> str | None:
    if _ID_LINE.fullmatch(head):
        return None
    name = _named(_BRANCH_LINE.fullmatch(head))
    names.holds(BRANCHES + name)
    if name.split("/")[0] in _NAMES_IN_A_GIT_FOLDER or names.holds(f"refs/{name}") or names.holds(f"refs/tags/{name}"):
        raise _UnclearError(name)  # git makes the name longer where another could be meant
    return name


def _default(names: _Names) -> str | None:
    head = names.text(REMOTE_HEAD)
    if head is not None and not _ID_LINE.fullmatch(head):
        name = _named(_REMOTE_LINE.fullmatch(head))
        if names.holds(REMOTE_BRANCHES + name):
            return name
    kinds = (BRANCHES, REMOTE_BRANCHES)
    return next((name for name in USUAL_BRANCHES if any(names.holds(kind + name) for kind in kinds)), None)


def _named(line: re.Match[bytes] | None) -> str:
    """The name in a line, when it is one that git surely allows."""
    name = "" if line is None else line[1].decode("utf-8", "replace")
    if not _PLAIN_NAME.fullmatch(name) or ".lock" in name or len(name.encode()) > _NAME_LIMIT_BYTES:
        raise _UnclearError(name)
    return name
