"""The git program kept inside by the system itself: whatever it is made to do, it reads and writes nothing outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from app.core.facts import GitFacts
from app.workspaces import landlock as module
from app.workspaces.commit import GitWorkspace
from app.workspaces.fence import Fence
from app.workspaces.landlock import Confinement, confinement_of
from app.workspaces.local import LocalWorkspace
from app.workspaces.program import GitProgram
from tests.reference.programs import first_commit, git
from tests.workspaces.test_program import stand_in
from tests.workspaces.trees import LIMIT, POSIX, PROGRAM

SECRET = "canary-of-another-owner"
FOUND = confinement_of("git")
offered = pytest.mark.skipif(FOUND is None, reason="this system does not confine programs")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A repository in the only root, beside another owner's."""
    folder = tmp_path.resolve()
    for place, word in (("outside", SECRET), ("inside/r", "own")):
        git(folder / place, "init", "--quiet", "--initial-branch=main")
        (folder / place / "CLAUDE.md").write_text(word)
        git(folder / place, "add", ".")
        git(folder / place, "commit", "--quiet", "-m", word)
    return folder / "inside"


def confined(executable: str) -> GitProgram:
    """Under the same rules, though the program itself is one that they would not let run in every place."""
    found = confinement_of("git")
    assert found is not None
    return GitProgram(executable, confinement=replace(found, executable=os.path.realpath(executable)))


def facts(program: GitProgram, root: Path, cwd: Path) -> GitFacts:
    workspace = LocalWorkspace(Fence.of([str(root)]), POSIX, LIMIT, program)
    try:
        found = workspace.git(str(cwd))
    finally:
        workspace.close()
    assert found is not None
    return found


def worktree(inside: Path) -> Path:
    git(inside / "r", "worktree", "add", "--quiet", "-b", "side", str(inside / "side"))
    return inside / "side"


def borrowing(inside: Path) -> Path:
    git(inside, "clone", "--quiet", "--shared", str(inside / "r"), str(inside / "near"))
    return inside / "near"


def linked_objects(inside: Path) -> Path:
    (inside / "r" / ".git" / "objects").rename(inside / "kept")
    (inside / "r" / ".git" / "objects").symlink_to(inside / "kept")
    return inside / "r"


def linked_names(inside: Path) -> Path:
    git(inside / "r", "pack-refs", "--all")
    (inside / "r" / ".git" / "packed-refs").rename(inside / "packed")
    (inside / "r" / ".git" / "packed-refs").symlink_to(inside / "packed")
    return inside / "r"


def split(inside: Path) -> Path:
    git(inside / "r", "update-index", "--split-index")
    return inside / "r"


def of_a_bare_one(inside: Path) -> Path:
    git(inside / "b.git", "init", "--quiet", "--bare", "--initial-branch=main")
    first_commit(inside / "b.git")
    git(inside / "b.git", "worktree", "add", "--quiet", "-b", "side", str(inside / "side"))
    return inside / "side"


CHECKOUTS: dict[str, Callable[[Path], Path]] = {
    "plain": lambda inside: inside / "r",
    "worktree": worktree,
    "worktree of a bare one": of_a_bare_one,
    "borrowing": borrowing,
    "linked objects": linked_objects,
    "linked names": linked_names,
    "split index": split,
}


@offered
@pytest.mark.parametrize("name", list(CHECKOUTS))
def test_a_program_that_is_confined_tells_what_a_free_one_tells(inside: Path, name: str) -> None:
    cwd = CHECKOUTS[name](inside)
    git(cwd, "config", "user.name", "Ada")
    (cwd / "new").write_text("")
    free = facts(PROGRAM, inside, cwd)
    assert None not in (free.branch, free.status, free.user)
    assert free.log
    assert facts(confined("git"), inside, cwd) == free


@offered
@pytest.mark.parametrize("is_bare", [False, True])
def test_a_commit_is_read_by_a_program_that_is_confined(inside: Path, is_bare: bool) -> None:
    place = inside / "r"
    if is_bare:
        git(inside, "clone", "--quiet", "--bare", str(place), str(inside / "b.git"))
        place = inside / "b.git"
    fence = Fence.of([str(inside)])
    workspace = GitWorkspace(str(place), "main", fence=fence, program=confined("git"), max_file_bytes=LIMIT)
    assert workspace.read("/repo/CLAUDE.md").data == b"own"
    told = workspace.git("/repo")
    assert told is not None
    assert told.log
    workspace.close()


ACTS: dict[str, str] = {
    "reading": "cat '{outside}/CLAUDE.md' > out",
    "reading through a link": "cat '{inside}/r/link' > out",
    "reading above": "cat ../../outside/CLAUDE.md > '{own}/out'",
    "listing": "ls '{outside}' > out",
    "reading a process": "cat /proc/$PPID/environ > out",
    "writing": "echo x > '{outside}/out'",
    "writing into the repository": "echo x > '{inside}/r/out'",
    "removing": "rm '{outside}/CLAUDE.md'",
    "making a folder": "mkdir '{outside}/out'",
    "moving": "mv '{outside}/CLAUDE.md' '{outside}/out'",
    "linking": "ln '{outside}/CLAUDE.md' '{own}/out'",
    "running what a repository holds": "'{inside}/r/run'",
}


def started(inside: Path, own: Path, program: str, confinement: Confinement | None) -> int:
    start = partial(subprocess.Popen[bytes], [program], cwd=own, stderr=subprocess.DEVNULL)
    descriptor = os.open(inside, os.O_PATH)
    try:
        process = start() if confinement is None else confinement.started(start, (descriptor,), (), str(own))
        return process.wait(60)
    finally:
        os.close(descriptor)


@offered
@pytest.mark.parametrize("name", list(ACTS))
def test_a_program_that_is_confined_can_do_nothing_outside(inside: Path, tmp_path: Path, name: str) -> None:
    own, outside = tmp_path / "own", inside.parent / "outside"
    own.mkdir()
    (inside / "r" / "link").symlink_to(outside / "CLAUDE.md")
    (inside / "r" / "run").write_text("#!/bin/sh\n")
    (inside / "r" / "run").chmod(0o755)
    act = ACTS[name].format(outside=outside, inside=inside, own=own)
    program = stand_in(tmp_path, act)
    before = {path: path.read_bytes() for path in (outside, inside) for path in path.rglob("*") if path.is_file()}
    assert started(inside, own, program, confined(program).confinement) != 0
    assert before == {
        path: path.read_bytes() for path in (outside, inside) for path in path.rglob("*") if path.is_file()
    }
    assert not any((own / "out").parent.glob("out/*"))
    assert name == "reading above" or started(inside, own, program, None) == 0


@offered
def test_a_program_that_is_confined_reads_inside_and_writes_in_its_own_folder(inside: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    program = stand_in(tmp_path, f"cat '{inside}/r/CLAUDE.md' > out && mkdir f && mv out f/out && ls '{inside}' > all")
    assert started(inside, own, program, confined(program).confinement) == 0
    assert (own / "f" / "out").read_text() == "own"
    assert (own / "all").read_text() == "r\n"


@offered
def test_what_took_the_place_of_a_real_path_meanwhile_is_not_read(inside: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (inside / "swapped").symlink_to(inside.parent / "outside")
    program = stand_in(tmp_path, f"cat '{inside.parent}/outside/CLAUDE.md'")
    confinement = confined(program).confinement
    assert confinement is not None
    start = partial(subprocess.Popen[bytes], [program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for beside, succeeds in ((str(inside / "swapped"), False), (str(inside.parent / "outside"), True)):
        assert (confinement.started(start, (), (beside, str(tmp_path / "gone")), str(own)).wait(60) == 0) is succeeds


@offered
def test_lenders_that_git_finds_outside_are_not_read(inside: Path) -> None:
    """A look at the lenders that was too early does no harm."""
    secret = git(inside.parent / "outside", "rev-parse", "HEAD")
    lenders = inside / "r" / ".git" / "objects" / "info" / "alternates"
    late = stand_in(inside.parent, f'exec {shutil.which("git")} "$@"')
    fence = Fence.of([str(inside)])
    read = {}
    for program in (GitProgram(late), confined(late)):
        lenders.unlink(missing_ok=True)
        workspace = GitWorkspace(str(inside / "r"), "main", fence=fence, program=program, max_file_bytes=LIMIT)
        workspace._objects.close()
        lenders.write_text(f"{inside.parent}/outside/.git/objects\n")
        read[program.confined] = workspace._objects.describe(secret)
        workspace.close()
    assert read[False] is not None
    assert read[True] is None


@offered
def test_this_service_itself_gives_up_nothing(inside: Path, tmp_path: Path) -> None:
    assert facts(confined("git"), inside, inside / "r").branch == "main"
    (tmp_path / "written").write_text((inside.parent / "outside" / "CLAUDE.md").read_text())
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit((tmp_path / "written").read_text).result() == SECRET


@offered
def test_a_program_that_is_missing_is_told_as_without_confinement(inside: Path) -> None:
    missing = GitProgram("/nonexistent/git", confinement=confined("git").confinement)
    assert facts(missing, inside, inside / "r") == facts(GitProgram("/nonexistent/git"), inside, inside / "r")


def test_where_the_system_offers_none_nothing_is_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    assert confinement_of("/nonexistent/git") is None
    monkeypatch.setattr(module, "_CREATE", 100_000)
    assert confinement_of("git") is None
    assert not GitProgram(confinement=confinement_of("git")).confined


def test_a_program_that_does_not_run_confined_is_not_confined(tmp_path: Path) -> None:
    assert confinement_of(stand_in(tmp_path, "exit 1")) is None


@offered
def test_where_no_thread_can_be_started_the_program_is_not(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    program = confined("git")
    monkeypatch.setattr(ThreadPoolExecutor, "submit", refused)
    assert facts(program, inside, inside / "r").log == ()
