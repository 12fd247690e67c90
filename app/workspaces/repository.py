"""Where a repository keeps its parts, read from its own small files without the git program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.core.facts import GitRoots, Kind
from app.workspaces.socket import Workspace

_STORE = ("objects", "refs")
_PARTS = (
    *_STORE,
    *("HEAD", "config", "config.worktree", "index", "info", "logs", "packed-refs", "reftable"),
    *("objects/info", "objects/pack", "refs/heads", "refs/remotes", "refs/tags"),
)
_BORROWING_DEPTH = 5  # as git has it
_SECTION = re.compile(r"\[\s*([\w.-]+)\s*(?:\"[^\"]*\"\s*)?\]\s*")
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_YES = ("true", "yes", "on", "1")


@dataclass(frozen=True, slots=True)
class Repository:
    """Real paths. ``common_dir`` differs from ``git_dir`` in a linked worktree.

    ``roots`` is None for a repository that was named by its own folder. ``config`` is the text of the repository's
    configuration, without the files it includes; None when it could not be read.
    """

    git_dir: str
    common_dir: str
    roots: GitRoots | None
    config: str | None = field(repr=False)

    @property
    def has_checkout(self) -> bool:
        """Whether ``roots.toplevel`` holds files: a bare repository's own folder does not, its worktrees do."""
        return self.roots is not None and (not self.roots.bare or self.git_dir != self.common_dir)


def find_repository(workspace: Workspace, cwd: str) -> Repository | None:
    """The repository whose checkout holds ``cwd``; None when there is none, it is broken, or a part is outside."""
    folder = workspace.look(cwd).real
    while True:
        found = workspace.look(workspace.paths.join(folder, ".git"))
        if found.kind is Kind.FILE:
            return _linked(workspace, folder, found.real)
        if found.kind in (Kind.OUTSIDE, Kind.UNREADABLE):
            return None
        if found.kind is Kind.DIRECTORY and _is_git_dir(workspace, found.real):
            return _described(workspace, found.real, found.real, folder)
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


def is_contained(workspace: Workspace, repository: Repository) -> bool:
    """Whether git, reading ``repository``, stays where ``workspace`` may read: no part leads outside."""
    paths = workspace.paths
    parts = (paths.join(folder, part) for folder in (repository.git_dir, repository.common_dir) for part in _PARTS)
    if any(workspace.look(part).kind is Kind.OUTSIDE for part in parts):
        return False
    return _borrows_inside(workspace, paths.join(repository.common_dir, "objects"), _BORROWING_DEPTH)


def _borrows_inside(workspace: Workspace, objects: str, depth: int) -> bool:
    paths = workspace.paths
    lenders = paths.join(objects, "info", "alternates")
    kind = workspace.look(lenders).kind
    if kind is not Kind.FILE:
        return kind is Kind.MISSING
    text = _text(workspace, lenders)
    if text is None or depth == 0:
        return False
    for line in text.splitlines():
        if line.startswith('"'):  # a quoted path; git writes none of its own accord
            return False
        if not line or line.startswith("#"):
            continue
        lender = workspace.look(paths.join(objects, line))
        if lender.kind is not Kind.DIRECTORY or not _borrows_inside(workspace, lender.real, depth - 1):
            return False
    return True


def _linked(workspace: Workspace, folder: str, file: str) -> Repository | None:
    """The repository that a ``.git`` file points to: a linked worktree's or a submodule's."""
    paths = workspace.paths
    text = _text(workspace, file)
    if text is None or not text.startswith("gitdir:"):
        return None
    git_dir = workspace.look(paths.join(folder, text.removeprefix("gitdir:").strip()))
    if git_dir.kind is not Kind.DIRECTORY or not _is_git_dir(workspace, git_dir.real):
        return None
    pointer = workspace.look(paths.join(git_dir.real, "commondir"))
    if pointer.kind is Kind.MISSING:
        return _described(workspace, git_dir.real, git_dir.real, folder)
    text = _text(workspace, pointer.real) if pointer.kind is Kind.FILE else None
    if text is None:
        return None
    common = workspace.look(paths.join(git_dir.real, text.strip()))
    return _described(workspace, git_dir.real, common.real, folder) if common.kind is Kind.DIRECTORY else None


def _described(workspace: Workspace, git_dir: str, common_dir: str, toplevel: str | None) -> Repository:
    paths = workspace.paths
    main = None
    if git_dir != common_dir:
        main = paths.parent(common_dir) if paths.name(common_dir) == ".git" else common_dir
    roots = toplevel and GitRoots(toplevel, main, _is_bare(workspace, common_dir))
    return Repository(git_dir, common_dir, roots or None, _config(workspace, git_dir, common_dir))


def _is_git_dir(workspace: Workspace, folder: str) -> bool:
    """Whether ``folder`` holds HEAD, which in old repositories is a link to a branch that may not exist yet."""
    return workspace.look(workspace.paths.join(folder, "HEAD")).kind in (Kind.FILE, Kind.DANGLING)


def _config(workspace: Workspace, git_dir: str, common_dir: str) -> str | None:
    paths = (workspace.paths.join(common_dir, "config"), workspace.paths.join(git_dir, "config.worktree"))
    texts = [_text(workspace, path) for path in paths if workspace.look(path).kind is not Kind.MISSING]
    known = [text for text in texts if text is not None]
    return "\n".join(known) if len(known) == len(texts) else None


def _is_bare(workspace: Workspace, common_dir: str) -> bool:
    own = dict(_settings(_text(workspace, workspace.paths.join(common_dir, "config")) or ""))
    if own.get("extensions.worktreeconfig") in _YES:
        own |= _settings(_text(workspace, workspace.paths.join(common_dir, "config.worktree")) or "")
    return own.get("core.bare") in _YES


def _settings(config: str) -> Iterator[tuple[str, str]]:
    """``section.key`` and value of each line, in lower case; sections with a name of their own are passed over."""
    section = ""
    for line in config.splitlines():
        rest = line.strip()
        opening = _SECTION.match(rest)
        if opening:
            section = "" if '"' in opening[0] else opening[1].lower()
            rest = rest[opening.end() :]
        setting = _SETTING.match(re.split(r"\s*[#;]", rest, maxsplit=1)[0])
        if setting and section:
            value = setting[2]
            yield f"{section}.{setting[1].lower()}", "true" if value is None else value.strip().strip('"').lower()


def _text(workspace: Workspace, path: str) -> str | None:
    data = workspace.read(path).data
    return None if data is None else data.decode("utf-8", "replace")
