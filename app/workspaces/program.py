"""The git program, run so that a repository made by a stranger can neither run nor reach anything.

Needs git 2.36 or later. It works in a folder of this service's own, so that the only configuration it follows is ours,
whatever happens to the repository's meanwhile.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from app.core.facts import GitFacts
from app.errors import GitUnavailable
from app.workspaces.collecting import Output, collect, stop
from app.workspaces.containment import Shown
from app.workspaces.git_folder import GitFolder, git_folder

Setting = tuple[str, str]
Query = tuple[str, ...]

SETTINGS: tuple[Setting, ...] = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.quotePath", "false"),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("protocol.allow", "never"),
    ("safe.directory", "*"),
    ("log.showSignature", "false"),
    ("log.mailmap", "false"),
    ("status.branch", "false"),
    ("status.submoduleSummary", "false"),
    ("color.ui", "false"),
    ("color.status", "false"),
    ("color.diff", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
)
BRANCH: Query = ("symbolic-ref", "--short", "-q", "HEAD")
STATUS: Query = ("status", "--short", "--ignore-submodules=all")
REMOTE_HEAD = "refs/remotes/origin/HEAD"
REMOTE_BRANCHES = "refs/remotes/origin/"
BRANCHES = "refs/heads/"
USUAL_BRANCHES = ("main", "master")
REFS: Query = (
    "for-each-ref",
    "--format=%(refname) %(symref)",
    REMOTE_HEAD,
    *(BRANCHES + name for name in USUAL_BRANCHES),
    *(REMOTE_BRANCHES + name for name in USUAL_BRANCHES),
)


def log_of(commit: str) -> Query:
    return ("log", "--oneline", "-n", "5", "--no-decorate", "--no-show-signature", "--no-color", commit, "--")


def user_of(folder: GitFolder) -> Query:
    return ("config", "--no-includes", "--file", folder.user_config, "user.name")


@dataclass(frozen=True, slots=True)
class GitProgram:
    """``executable`` is looked for in PATH. One deadline holds for all queries of a snapshot together."""

    executable: str = "git"
    timeout_seconds: float = 5.0
    output_limit_bytes: int = 65_536

    def snapshot(self, shown: Shown, cwd: str) -> GitFacts:
        """What git says of the checkout at ``cwd``; a field is None when git gave no answer to it in time."""
        roots = shown.repository.roots
        try:
            with closing(self.open(shown)) as folder:
                return replace(self._told(folder, cwd), roots=roots)
        except GitUnavailable:
            return GitFacts(roots=roots)

    def open(self, shown: Shown) -> GitFolder:
        """The folder that git works in; whoever opens it closes it. Raises GitUnavailable when there is no room."""
        try:
            return git_folder(shown)
        except OSError as error:
            raise GitUnavailable(
                "There is no room for git's temporary files. Make the folder TMPDIR writable."
            ) from error

    def ask(self, folder: GitFolder, queries: Sequence[Query]) -> tuple[Output, ...]:
        """The answers to ``queries``, asked together. Raises GitUnavailable when one is missing at the deadline."""
        deadline = time.monotonic() + self.timeout_seconds
        outputs = collect(self._start_all(folder, queries, folder.path), deadline, self.output_limit_bytes)
        answered = tuple(output for output in outputs if output is not None)
        if len(answered) < len(outputs):
            raise GitUnavailable(f"git did not answer within {self.timeout_seconds:g} seconds. Try again later.")
        return answered

    def start(
        self, folder: GitFolder, query: Query, cwd: str, *, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """One git process, its standard output a pipe. Raises GitUnavailable when it cannot be started."""
        command = [self.executable, "--no-pager", *query]
        try:
            return subprocess.Popen(
                command,
                bufsize=0,
                cwd=cwd,
                env=_environment(folder),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise GitUnavailable("The git program cannot be started here. Install git 2.36 or later.") from error

    def _told(self, folder: GitFolder, cwd: str) -> GitFacts:
        deadline = time.monotonic() + self.timeout_seconds
        queries = (BRANCH, REFS, log_of("HEAD"), user_of(folder), *(() if folder.toplevel is None else (STATUS,)))
        running = self._start_all(folder, queries, cwd)
        branch, refs, log, user, *status = collect(running, deadline, self.output_limit_bytes)
        current = text_of(branch)
        return GitFacts(
            branch=current or detached(lines_of(log)),
            default_branch=default_branch(lines_of(refs), current),
            status=text_of(status[0]) if status else None,
            log=lines_of(log),
            user=text_of(user) or None,
        )

    def _start_all(self, folder: GitFolder, queries: Sequence[Query], cwd: str) -> list[subprocess.Popen[bytes]]:
        running: list[subprocess.Popen[bytes]] = []
        try:
            for query in queries:
                running.append(self.start(folder, query, cwd))  # noqa: PERF401 - kept for stop
        except GitUnavailable:
            for process in running:
                stop(process)
            raise
        return running


def _environment(folder: GitFolder) -> dict[str, str]:
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_DIR": folder.path,
        "GIT_OBJECT_DIRECTORY": folder.objects,
        "GIT_INDEX_FILE": folder.index,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(SETTINGS)),
    }
    if "SYSTEMROOT" in os.environ:
        environment["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    if folder.toplevel is not None:
        environment["GIT_WORK_TREE"] = folder.toplevel
    for number, (key, value) in enumerate(SETTINGS):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment


def text_of(output: Output | None) -> str | None:
    """The answer without its last line end; None when there is none. A cut one ends with its last whole line."""
    if output is None or output.status not in (0, None):
        return None
    data = output.data.rpartition(b"\n")[0] if output.is_cut else output.data
    return data.decode("utf-8", "replace").rstrip("\n")


def lines_of(output: Output | None) -> tuple[str, ...]:
    text = text_of(output)
    return tuple(text.split("\n")) if text else ()


def detached(log: Sequence[str]) -> str | None:
    """The name for a checkout without a branch: ``HEAD`` and the short id of its commit."""
    return f"HEAD {log[0].split(' ')[0]}" if log else None


def default_branch(refs: Sequence[str], current: str | None) -> str | None:
    """The branch that ``origin`` calls its head, else main or master if there is one, else the current one."""
    known = dict(line.split(" ", 1) for line in refs)
    head = known.get(REMOTE_HEAD, "")
    if head.startswith(REMOTE_BRANCHES):
        return head.removeprefix(REMOTE_BRANCHES)
    for name in USUAL_BRANCHES:
        if BRANCHES + name in known or REMOTE_BRANCHES + name in known:
            return name
    return current
