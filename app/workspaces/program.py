"""The git program, run so that a repository made by a stranger can neither run nor reach anything.

Needs git 2.36 or later. It works in a folder of this service's own, so that the only configuration it follows is ours,
whatever happens to the repository's meanwhile.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

from app.core.facts import GitFacts
from app.errors import GitUnavailable
from app.workspaces.collecting import Output, collect, stop
from app.workspaces.configuration import NO, settings_in
from app.workspaces.containment import Proven, Shown
from app.workspaces.fence import SERVER_PATHS
from app.workspaces.git_folder import GitFolder, git_folder
from app.workspaces.landlock import Confinement
from app.workspaces.nested import Nested
from app.workspaces.private_index import copied_index
from app.workspaces.repository import BRANCHES, REMOTE_BRANCHES, REMOTE_HEAD, USUAL_BRANCHES, Branches
from app.workspaces.status import changes_in, written
from app.workspaces.surroundings import environment

Query = tuple[str, ...]

_COMMIT_CHARACTERS = 1_000
_ORDERS = dict.fromkeys((*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0)), "\ufffd")
BRANCH: Query = ("symbolic-ref", "--short", "-q", "HEAD")
STATUS: Query = ("status", "--short", "-z", "--ignore-submodules=all")
REFS: Query = (
    "for-each-ref",
    "--format=%(refname) %(symref)",
    REMOTE_HEAD,
    *(BRANCHES + name for name in USUAL_BRANCHES),
    *(REMOTE_BRANCHES + name for name in USUAL_BRANCHES),
)
TRIES = 3
"""How often a repository that moves is looked at again."""

NAMES: dict[str, Query] = {"branch": BRANCH, "refs": REFS}


def log_of(commit: str) -> Query:
    return ("log", "--oneline", "-n", "5", "--no-decorate", "--no-show-signature", "--no-color", commit, "--")


def user_of(folder: GitFolder) -> dict[str, Query]:
    """The query for ``user``; none when the repository says nothing of its user."""
    if folder.user_config is None:
        return {}
    return {"user": ("config", "--no-includes", "--file", folder.user_config, "user.name")}


def _never() -> None:
    return None


@dataclass(frozen=True, slots=True)
class GitProgram:
    """``executable`` is looked for in PATH. One deadline holds for all queries of a snapshot together.

    ``confinement``: what keeps it from files outside whatever it is made to ask for; None where nothing but care does.
    ``proven``: the folders that need not be looked through again before git sees them.
    """

    executable: str = "git"
    timeout_seconds: float = 5.0
    output_limit_bytes: int = 65_536
    proven: Proven | None = field(default=None, compare=False)
    confinement: Confinement | None = None

    @property
    def confined(self) -> bool | None:
        """Whether the system itself keeps it from files outside; None: there is no such program."""
        return self.confinement is not None if shutil.which(self.executable) else None

    def snapshot(self, shown: Shown, cwd: str) -> GitFacts:
        """What git says of the checkout at ``cwd``; a field is None when git gave no answer to it in time."""
        with self.asking(shown, cwd) as told:
            return told()

    @contextmanager
    def asking(
        self, shown: Shown, cwd: str, again: Callable[[], Shown | None] = _never
    ) -> Iterator[Callable[[], GitFacts]]:
        """As `snapshot`, begun on entering; what is given waits for the answers. No process is left on leaving.

        ``again`` looks at the same repository anew, where it moved while git read it. An answer from then is not told.
        """
        deadline = time.monotonic() + self.timeout_seconds
        with ExitStack() as begun:
            first = begun.enter_context(self._begun(shown, cwd, deadline))

            def told() -> GitFacts:
                facts, seen = first(), shown
                for _ in range(TRIES):
                    if seen.standing.still():
                        return facts
                    begun.close()
                    moved = again()
                    if moved is None:
                        break
                    seen = moved
                    facts = begun.enter_context(self._begun(seen, cwd, deadline))()
                return GitFacts(roots=shown.repository.roots)

            yield told

    @contextmanager
    def _begun(self, shown: Shown, cwd: str, deadline: float) -> Iterator[Callable[[], GitFacts]]:
        nothing = GitFacts(roots=shown.repository.roots)
        try:
            folder = self.open(shown)
        except GitUnavailable:
            yield lambda: nothing
            return
        with closing(folder):
            queries = _queries(folder, shown)
            running: list[subprocess.Popen[bytes]] = []
            try:
                running = self._start_all(folder, tuple(queries.values()))
            except GitUnavailable:
                queries = {}

            def told() -> GitFacts:
                if not queries:
                    return nothing
                outputs = collect(running, deadline, self.output_limit_bytes)
                found = dict(zip(queries, outputs, strict=True))
                return replace(self._told(folder, found, shown, cwd, deadline), roots=nothing.roots)

            try:
                yield told
            finally:
                for process in running:
                    stop(process)

    def open(self, shown: Shown) -> GitFolder:
        """The folder that git works in; whoever opens it closes it. Raises GitUnavailable when there is no room."""
        try:
            return git_folder(shown)
        except OSError as error:
            raise GitUnavailable(
                "There is no room for git's temporary files. Make the folder TMPDIR writable."
            ) from error

    def ask(self, folder: GitFolder, queries: Mapping[str, Query]) -> dict[str, Output]:
        """The answers to ``queries``, asked together. Raises GitUnavailable when one is missing at the deadline."""
        outputs = self._answers(folder, queries, time.monotonic() + self.timeout_seconds)
        answered = {name: output for name, output in outputs.items() if output is not None}
        if len(answered) < len(outputs):
            told = f"git did not answer within {self.timeout_seconds:g} seconds (STRATA_GIT_TIMEOUT_SECONDS)"
            raise GitUnavailable(f"{told}. Try again later.")
        return answered

    def start(self, folder: GitFolder, query: Query, *, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """One git process, its standard output a pipe. Raises GitUnavailable when it cannot be started."""
        command = [self.executable, "--no-pager", *query]

        def begun() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                bufsize=0,
                cwd=folder.start,
                env=environment(folder),
                pass_fds=folder.held.descriptors,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

        try:
            if self.confinement is None:
                return begun()
            return self.confinement.started(begun, folder.held.descriptors, folder.beside, folder.path)
        except OSError as error:
            raise GitUnavailable("The git program cannot be started here. Install git 2.36 or later.") from error

    def _told(
        self, folder: GitFolder, told: dict[str, Output | None], shown: Shown, cwd: str, deadline: float
    ) -> GitFacts:
        branches = shown.branches
        if branches is not None and all(text_of(told.get(name)) is None for name in ("log", "status")):
            try:  # git may not want to know this repository at all
                told |= self._answers(folder, NAMES, deadline)
            except GitUnavailable:
                return GitFacts()
            branches = None
        return _facts(told, branches or _branches_in(told), _status(told.get("status"), folder, shown, cwd))

    def _answers(self, folder: GitFolder, queries: Mapping[str, Query], deadline: float) -> dict[str, Output | None]:
        running = self._start_all(folder, tuple(queries.values()))
        return dict(zip(queries, collect(running, deadline, self.output_limit_bytes), strict=True))

    def _start_all(self, folder: GitFolder, queries: Sequence[Query]) -> list[subprocess.Popen[bytes]]:
        running: list[subprocess.Popen[bytes]] = []
        try:
            for query in queries:
                running.append(self.start(folder, query))  # noqa: PERF401 - kept for stop
        except GitUnavailable:
            for process in running:
                stop(process)
            raise
        return running


def _queries(folder: GitFolder, shown: Shown) -> dict[str, Query]:
    """Those for a snapshot; that for the status only where git then looks for nothing outside of the checkout."""
    names = NAMES if shown.branches is None else {}
    status = {"status": STATUS} if folder.toplevel is not None and copied_index(shown, folder) else {}
    return {"log": log_of("HEAD"), **status, **user_of(folder), **names}


def _branches_in(told: Mapping[str, Output | None]) -> Branches:
    return Branches(text_of(told["branch"]) or None, default_among(lines_of(told["refs"])))


def _status(output: Output | None, folder: GitFolder, shown: Shown, cwd: str) -> str | None:
    """The short status as seen from ``cwd``. A cut one ends with its last whole change."""
    if folder.toplevel is None or output is None or output.status not in (0, None):
        return None
    nested = Nested(shown.workspace, folder.toplevel)
    changes = (change for change in changes_in(os.fsdecode(output.data)) if not nested.hides(change))
    is_relative = dict(settings_in(shown.config)).get("status.relativepaths") not in NO
    here = SERVER_PATHS.relative(cwd, folder.toplevel) if is_relative else None
    return os.fsencode(written(changes, here or "")).decode("utf-8", "replace")


def _facts(told: Mapping[str, Output | None], branches: Branches, status: str | None) -> GitFacts:
    log = commits_of(told["log"])
    return GitFacts(
        branch=branches.current or detached(log),
        default_branch=branches.default or branches.current,
        status=status,
        log=log,
        user=text_of(told.get("user")) or None,
    )


def text_of(output: Output | None) -> str | None:
    """The answer without its last line end; None when there is none. A cut one ends with its last whole line."""
    if output is None or output.status not in (0, None):
        return None
    data = output.data.rpartition(b"\n")[0] if output.is_cut else output.data
    return data.decode("utf-8", "replace").rstrip("\n")


def lines_of(output: Output | None) -> tuple[str, ...]:
    text = text_of(output)
    return tuple(text.split("\n")) if text else ()


def commits_of(output: Output | None) -> tuple[str, ...]:
    """One line for each commit. Its author may write at any length, and orders to a terminal."""
    return tuple(line[:_COMMIT_CHARACTERS].translate(_ORDERS) for line in lines_of(output))


def detached(log: Sequence[str]) -> str | None:
    """The name for a checkout without a branch: ``HEAD`` and the short id of its commit."""
    return f"HEAD {log[0].split(' ')[0]}" if log else None


def default_among(refs: Sequence[str]) -> str | None:
    """The branch that ``origin`` calls its head, else main or master; None when there is none of them."""
    known = dict(line.split(" ", 1) for line in refs)
    head = known.get(REMOTE_HEAD, "")
    if head.startswith(REMOTE_BRANCHES):
        return head.removeprefix(REMOTE_BRANCHES)
    kinds = (BRANCHES, REMOTE_BRANCHES)
    return next((name for name in USUAL_BRANCHES if any(kind + name in known for kind in kinds)), None)
