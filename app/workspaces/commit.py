"""One commit of a repository on this server, read without a checkout."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from functools import partial
from typing import TypeVar
from weakref import finalize

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.core.footprint import Footprint
from app.core.paths import Paths
from app.errors import GitUnavailable, InvalidRequest, WorkspaceNotFound
from app.workspaces.carried import local_settings
from app.workspaces.collecting import Output
from app.workspaces.containment import Shown, shown
from app.workspaces.fence import SERVER_PATHS, Fence
from app.workspaces.git_folder import GitFolder
from app.workspaces.inline import bounded
from app.workspaces.local import LocalWorkspace
from app.workspaces.objects import Described, Objects, TreeEntry, parse_tree
from app.workspaces.program import (
    REFS,
    TRIES,
    GitProgram,
    Query,
    commits_of,
    default_among,
    detached,
    lines_of,
    log_of,
    text_of,
    user_of,
)
from app.workspaces.repository import BRANCHES, named_repository
from app.workspaces.resolving import Entry, Resolver, is_text, refused

T = TypeVar("T")
S_IFGITLINK = 0o160000  # a submodule
TREE_LIMIT_BYTES = 16_777_216
LINK_LIMIT_BYTES = 4_096
CONFIG_LIMIT_BYTES = 1_048_576
MOUNT = "/repo"
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitWorkspace:
    """The tree of commit ``ref`` of ``repository``, seen at ``mount``.

    Nothing exists outside the mount but the folders above it; a link that leaves the mount leads nowhere. Submodules
    are empty folders. Raises WorkspaceNotFound when there is no such repository inside ``fence`` or no such commit,
    GitUnavailable when git does not answer, InvalidRequest when the mount is not an absolute POSIX path.
    """

    def __init__(
        self,
        repository: str,
        ref: str,
        mount: str = MOUNT,
        *,
        fence: Fence,
        program: GitProgram,
        max_file_bytes: int,
    ) -> None:
        self.paths = Paths()
        if not self.paths.is_absolute(mount):
            raise InvalidRequest(f"The mount {mount} must be an absolute path with slashes, such as {MOUNT}.")
        self._mount = self.paths.normal(mount)
        self._ref = ref
        self._limit = max_file_bytes
        self._program = program
        self._shown = partial(_repository_shown, repository, fence, program)
        self._open()
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            self._commit, self._branch = self._asked(partial(self._resolved, ref))
            on_failure.pop_all()

    def look(self, path: str) -> Node:
        return self._asked(partial(self._looked, path))

    def read(self, path: str) -> Content:
        return self._asked(partial(self._read, path))

    def names(self, path: str) -> tuple[str, ...]:
        return self._asked(partial(self._names, path))

    def roots(self, cwd: str) -> GitRoots | None:
        real = self.look(cwd).real
        if not self._is_mounted(real):
            return None
        places = local_settings(self, self._mount, real)
        return GitRoots(self._mount, carried=tuple(path for path in places if self.look(path).kind is Kind.FILE))

    def carries(self, path: str, toplevel: str) -> bool:
        return self.paths.within(path, toplevel)

    def git(self, cwd: str) -> GitFacts | None:
        """The commit's own history, with a clean status."""
        return None if self.roots(cwd) is None else self._asked(partial(self._told, cwd))

    def asking_git(self, cwd: str) -> AbstractContextManager[Callable[[], GitFacts | None]]:
        return nullcontext(partial(self.git, cwd))

    def footprint(self) -> Footprint | None:
        """Empty where ``ref`` is the commit's own id; None for a branch or a tag, which may move at any time."""
        return Footprint() if self._ref == self._commit else None

    def close(self) -> None:
        self._leave()

    def _open(self) -> None:
        self._parts = self._shown()
        self._git_folder = self._program.open(self._parts)
        self._objects = Objects(self._git_folder, self._program)
        self._leave = finalize(self, _let_go, self._objects, self._git_folder)  # also when a caller went away
        self._trees: dict[str, Mapping[str, TreeEntry]] = {}  # by real path
        self._files: dict[str, str] = {}  # ids by real path
        self._resolver = Resolver(self.paths, self._entry)
        self._is_proven = True

    def _asked(self, question: Callable[[], T]) -> T:
        """An answer from while the repository stood still. Raises GitUnavailable where it never does."""
        for _ in range(TRIES):
            answer = question()
            self._is_proven = self._is_proven or self._parts.standing.still()
            if self._is_proven:
                return answer
            self.close()
            self._open()
        raise GitUnavailable("The repository changes all the time. Try again later.")

    def _describe(self, name: str) -> Described | None:
        self._is_proven = False
        return self._objects.describe(name)

    def _contents(self, name: str) -> bytes | None:
        self._is_proven = False
        return self._objects.contents(name)

    def _git(self, queries: Mapping[str, Query]) -> dict[str, Output]:
        self._is_proven = False
        return self._program.ask(self._git_folder, queries)

    def _looked(self, path: str) -> Node:
        node = self._resolver.resolve(path)
        left = node.kind is Kind.DIRECTORY and not self._is_mounted(node.real) and node.real != self.paths.normal(path)
        return Node(Kind.DANGLING, node.real) if left else node

    def _read(self, path: str) -> Content:
        node = self.look(path)
        if node.kind is not Kind.FILE:
            return refused(node.kind)
        if node.size > self._limit:
            return Content(None, "budget")
        data = self._contents(self._files[node.real])
        return refused(Kind.UNREADABLE) if data is None else bounded(data, self._limit)

    def _names(self, path: str) -> tuple[str, ...]:
        node = self.look(path)
        if node.kind is not Kind.DIRECTORY:
            return ()
        if self._is_mounted(node.real):
            return tuple(sorted(self._tree(node.real)))
        return (next(self.paths.name(p) for p in self.paths.chain(self._mount) if self.paths.parent(p) == node.real),)

    def _told(self, cwd: str) -> GitFacts:
        roots, branches = self.roots(cwd), self._parts.branches
        queries = {"log": log_of(self._commit), **user_of(self._git_folder)}
        if branches is None:
            queries["refs"] = REFS
        told = self._git(queries)
        log = commits_of(told["log"])
        default = default_among(lines_of(told["refs"])) if branches is None else branches.default
        return GitFacts(
            roots,
            branch=self._branch or detached(log),
            default_branch=default or self._branch,
            status="",
            log=log,
            user=text_of(told.get("user")) or None,
        )

    def _is_mounted(self, real: str) -> bool:
        return self.paths.within(real, self._mount)

    def _resolved(self, ref: str) -> tuple[str, str | None]:
        """The commit's id, and the short name of the branch that ``ref`` is."""
        missing = WorkspaceNotFound(
            f"The repository has no commit {ref!r}. Give a branch, a tag or a commit id as ref."
        )
        if not ref or ref.startswith("-") or not ref.isprintable() or not is_text(ref):
            raise missing
        verify = ("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
        full_name = ("rev-parse", "--symbolic-full-name", "--verify", "--end-of-options", ref)
        told = self._git({"commit": verify, "name": full_name})
        found = text_of(told["commit"]) or ""
        if not _ID.fullmatch(found):  # "^HEAD" is answered with "^" and an id
            raise missing
        full = text_of(told["name"]) or ""
        return found, full.removeprefix(BRANCHES) if full.startswith(BRANCHES) else None

    def _entry(self, path: str) -> Entry | None:
        if self.paths.within(self._mount, path):
            return Entry(Kind.DIRECTORY)
        folder = self.paths.parent(path)
        if not self._is_mounted(folder):
            return None
        entry = self._tree(folder).get(self.paths.name(path))
        return None if entry is None else self._described(path, entry)

    def _described(self, path: str, entry: TreeEntry) -> Entry:
        if entry.type == S_IFGITLINK:
            self._trees[path] = {}
            return Entry(Kind.DIRECTORY)
        found = self._describe(entry.id)
        if found is None:
            return Entry(Kind.UNREADABLE)
        if entry.type == stat.S_IFDIR:
            return self._folder(path, entry.id, found.size)
        if entry.type == stat.S_IFLNK:
            return Entry(Kind.DANGLING, target=self._target(entry.id, found.size))
        self._files[path] = entry.id
        return Entry(Kind.FILE, found.size)

    def _folder(self, path: str, tree: str, size: int) -> Entry:
        data = self._contents(tree) if size <= TREE_LIMIT_BYTES else None
        if data is None:
            return Entry(Kind.UNREADABLE)
        self._trees[path] = parse_tree(data, len(self._commit) // 2)
        return Entry(Kind.DIRECTORY)

    def _tree(self, real: str) -> Mapping[str, TreeEntry]:
        if real == self._mount and real not in self._trees:
            root = self._describe(f"{self._commit}^{{tree}}")
            if root is not None:
                self._folder(real, root.id, root.size)
        return self._trees.get(real, {})

    def _target(self, blob: str, size: int) -> str:
        """Where a link points; empty, which leads nowhere, when no path can be like that."""
        data = self._contents(blob) if size <= LINK_LIMIT_BYTES else None
        target = (data or b"").decode("utf-8", "surrogateescape")
        return target if is_text(target) else ""


def _let_go(objects: Objects, folder: GitFolder) -> None:
    objects.close()
    folder.close()


def _repository_shown(path: str, fence: Fence, program: GitProgram) -> Shown:
    server = LocalWorkspace(fence, SERVER_PATHS, CONFIG_LIMIT_BYTES, program)
    with closing(server):
        found = named_repository(server, path)
        parts = None if found is None else shown(server, found, program.proven)
    if parts is None:
        raise WorkspaceNotFound(
            f"There is no git repository at {path} that this service may read. "
            "Give the path of a repository inside the roots that it has for you (STRATA_ROOTS, or roots of your key)."
        )
    return parts
