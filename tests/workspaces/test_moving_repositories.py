"""Repositories that are swapped for others' just while git reads them, and put back before anybody looks again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.core.facts import GitFacts, GitRoots
from app.errors import GitUnavailable, WorkspaceNotFound
from app.workspaces.commit import GitWorkspace
from app.workspaces.containment import Shown, shown
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from app.workspaces.program import TRIES, GitProgram
from app.workspaces.repository import find_repository
from app.workspaces.standing import Standing
from tests.reference.programs import git
from tests.workspaces.trees import LIMIT, POSIX, PROGRAM

SECRET = "canary-of-another-owner"

SWAPPER = """#!{python}
import os, subprocess, sys
own, others, count, most = {own!r}, {others!r}, {count!r}, {most}
kept = count + ".kept"

def swap():
    if os.path.lexists(own):
        os.rename(own, kept)
    os.symlink(others, own)

def put_back():
    os.unlink(own)
    if os.path.lexists(kept):
        os.rename(kept, own)

if {query!r} not in sys.argv or os.path.getsize(count) >= most:
    os.execvp("git", ["git", *sys.argv[1:]])
with open(count, "a") as file:
    file.write(".")

def asked(given):
    swap()
    try:
        done = subprocess.run(["git", *sys.argv[1:]], input=given, stdout=subprocess.PIPE, close_fds=False)
    finally:
        put_back()
    sys.stdout.buffer.write(done.stdout)
    sys.stdout.buffer.flush()
    return done.returncode

if "cat-file" not in sys.argv:
    sys.exit(asked(b""))
for line in sys.stdin.buffer:
    asked(line)
"""


@dataclass(frozen=True)
class Stage:
    """Somebody's own repository inside the fence, and another's outside of it."""

    own: Path
    others: Path
    folder: Path

    def swapping(self, place: str, others: str, query: str, most: int = 1_000) -> GitProgram:
        """A git that finds ``others`` at ``place`` while it answers ``query``, as often as ``most`` times."""
        count = self.folder / "count"
        count.write_text("")
        program = self.folder / "swapper"
        program.write_text(
            SWAPPER.format(
                python=sys.executable,
                own=str(self.own / place) if place else str(self.own),
                others=str(self.others / others) if others else str(self.others),
                count=str(count),
                most=most,
                query=query,
            )
        )
        program.chmod(0o755)
        return GitProgram(str(program), timeout_seconds=30)

    @property
    def times(self) -> int:
        return len((self.folder / "count").read_text())

    def parts(self) -> Shown:
        workspace = LocalWorkspace(Fence.of([str(self.own.parent)]), POSIX, 100_000, PROGRAM)
        found = find_repository(workspace, str(self.own))
        parts = None if found is None else shown(workspace, found)
        assert parts is not None
        return parts

    def commit(self, program: GitProgram) -> GitWorkspace:
        fence = Fence.of([str(self.own.parent)])
        return GitWorkspace(str(self.own), "main", fence=fence, program=program, max_file_bytes=LIMIT)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    folder = tmp_path.resolve()
    others, own = folder / "outside", folder / "inside" / "own"
    for place, word in ((others, SECRET), (own, "own")):
        git(place, "init", "--quiet", "--initial-branch=main")
        (place / "CLAUDE.md").write_text(word)
        (place / f"{word}.txt").write_text(word)
        git(place, "add", ".")
        git(place, "commit", "--quiet", "-m", word)
    (others / ".git" / "lender").write_text(f"{others}/.git/objects\n")
    (own / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (others / f"{SECRET}-untracked").write_text("")
    return Stage(own, others, folder)


def names_the_secret(stage: Stage) -> None:
    head = git(stage.others, "rev-parse", "HEAD")
    (stage.own / ".git" / "refs" / "heads" / "main").write_text(f"{head}\n")


SWAPS: dict[str, tuple[str, str, str, Callable[[Stage], object]]] = {
    "objects": (".git/objects", ".git/objects", "log", names_the_secret),
    "lenders": (".git/objects/info/alternates", ".git/lender", "log", names_the_secret),
    "index": (".git/index", ".git/index", "status", lambda stage: None),
    "a new index": (".git/index", ".git/index", "status", lambda stage: (stage.own / ".git" / "index").unlink()),
}


@pytest.mark.parametrize("name", list(SWAPS))
def test_what_was_read_while_it_was_anothers_is_not_told(stage: Stage, name: str) -> None:
    place, others, query, prepare = SWAPS[name]
    prepare(stage)
    program, parts = stage.swapping(place, others, query), stage.parts()
    missed = replace(parts, standing=Standing())
    is_copied = place == ".git/index"
    assert is_copied is (SECRET not in str(program.snapshot(missed, str(stage.own))))
    before = stage.times
    with program.asking(parts, str(stage.own), stage.parts) as told:
        found = told()
    assert found == GitFacts(roots=GitRoots(str(stage.own)))
    assert stage.times == before + 1 + TRIES


def test_a_repository_that_moved_once_is_asked_again(stage: Stage) -> None:
    expected = PROGRAM.snapshot(stage.parts(), str(stage.own))
    program = stage.swapping(".git/objects", ".git/objects", "log", most=2)
    with program.asking(stage.parts(), str(stage.own), stage.parts) as told:
        assert told() == expected
    assert stage.times == 2
    assert expected.log[0].endswith("own")


def test_where_nobody_can_look_again_nothing_is_told(stage: Stage) -> None:
    program = stage.swapping(".git/objects", ".git/objects", "log", most=1)
    assert program.snapshot(stage.parts(), str(stage.own)) == GitFacts(roots=GitRoots(str(stage.own)))
    assert PROGRAM.snapshot(stage.parts(), str(stage.own)).branch == "main"


def test_where_the_next_look_leads_outside_nothing_is_told(stage: Stage) -> None:
    program = stage.swapping(".git/objects", ".git/objects", "log")
    with program.asking(stage.parts(), str(stage.own), lambda: None) as told:
        assert told() == GitFacts(roots=GitRoots(str(stage.own)))


@pytest.mark.skipif(sys.platform != "linux", reason="git is given open folders there")
@pytest.mark.parametrize("query", ["log", "status"])
@pytest.mark.parametrize("place", [".", ".git", ".."])
def test_a_folder_above_that_is_anothers_for_a_while_changes_nothing(stage: Stage, place: str, query: str) -> None:
    parts = stage.parts()
    expected = PROGRAM.snapshot(parts, str(stage.own))
    others = {".": "", ".git": ".git", "..": "looks-like-it"}[place]
    (stage.others / "looks-like-it").mkdir()
    (stage.others / "looks-like-it" / "own").symlink_to(stage.others)
    program = stage.swapping(str((stage.own / place).resolve()), others, query)
    assert program.snapshot(replace(parts, standing=Standing()), str(stage.own)) == expected
    assert stage.times == 1


def test_a_file_of_a_commit_is_not_read_from_anothers_objects(stage: Stage) -> None:
    secret = git(stage.others, "rev-parse", "HEAD:CLAUDE.md")
    tree = git(stage.own, "mktree", "--missing", given=f"100644 blob {secret}\tCLAUDE.md\n".encode())
    git(stage.own, "update-ref", "refs/heads/main", git(stage.own, "commit-tree", tree, "-m", "own"))
    workspace = stage.commit(PROGRAM)
    assert workspace.read("/repo/CLAUDE.md").data is None
    workspace.close()
    workspace = stage.commit(stage.swapping(".git/objects", ".git/objects", "cat-file"))
    with pytest.raises(GitUnavailable, match="changes all the time"):
        workspace.read("/repo/CLAUDE.md")
    assert stage.times == TRIES
    workspace.close()
    workspace = stage.commit(stage.swapping(".git/objects", ".git/objects", "cat-file", most=1))
    assert workspace.read("/repo/CLAUDE.md").data is None
    workspace.close()


def test_a_commit_is_not_found_in_anothers_names(stage: Stage) -> None:
    with pytest.raises((GitUnavailable, WorkspaceNotFound)):
        stage.commit(stage.swapping(".git/refs", ".git/refs", "rev-parse"))


def test_a_repository_that_is_written_to_goes_on_being_read(stage: Stage) -> None:
    workspace = stage.commit(PROGRAM)
    assert workspace.read("/repo/CLAUDE.md").data == b"own"
    (stage.own / "CLAUDE.md").write_text("later")
    git(stage.own, "commit", "--quiet", "-am", "later")
    git(stage.own, "gc", "--quiet")
    assert workspace.read("/repo/own.txt").data == b"own"
    found = workspace.git("/repo")
    assert found is not None
    assert [line.split(" ", 1)[1] for line in found.log] == ["own"]
    workspace.close()


def test_a_checkout_that_moved_once_is_looked_at_again(stage: Stage) -> None:
    def told(program: GitProgram) -> GitFacts | None:
        workspace = LocalWorkspace(Fence.of([str(stage.own.parent)]), POSIX, LIMIT, program)
        try:
            return workspace.git(str(stage.own))
        finally:
            workspace.close()

    expected = told(PROGRAM)
    assert expected is not None
    assert expected.branch == "main"
    assert told(stage.swapping(".git/objects", ".git/objects", "log", most=1)) == expected
    assert told(stage.swapping(".git/objects", ".git/objects", "log")) == GitFacts(roots=GitRoots(str(stage.own)))
