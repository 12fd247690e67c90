"""The git program: what it tells, and that strangers' repositories can make it do nothing else."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.facts import GitFacts, GitRoots
from app.workspaces.containment import Shown, shown
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from app.workspaces.program import GitProgram
from app.workspaces.repository import find_repository
from tests.reference.programs import first_commit, git
from tests.workspaces.trees import POSIX, PROGRAM


def facts(cwd: Path, program: GitProgram = PROGRAM, fence: Path | None = None) -> GitFacts:
    found = LocalWorkspace(Fence.of([str(fence or "/")]), POSIX, 100_000, program).git(str(cwd))
    assert found is not None
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "r"
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first: größer")
    return folder


def parts_of(cwd: Path) -> Shown:
    workspace = LocalWorkspace(Fence.of(["/"]), POSIX, 100_000, PROGRAM)
    repository = find_repository(workspace, str(cwd))
    parts = None if repository is None else shown(workspace, repository)
    assert parts is not None
    return parts


def by_git_alone(cwd: Path) -> GitFacts:
    """The facts with every name asked of git."""
    return PROGRAM.snapshot(replace(parts_of(cwd), branches=None), str(cwd))


def short_id(repository: Path, ref: str = "HEAD") -> str:
    return git(repository, "rev-parse", "--short", ref)


def test_a_clean_checkout(repository: Path) -> None:
    assert facts(repository) == GitFacts(
        roots=GitRoots(str(repository)),
        branch="main",
        default_branch="main",
        status="",
        log=(f"{short_id(repository)} first: größer",),
        user=None,
    )


def test_outside_a_repository_there_is_nothing(tmp_path: Path) -> None:
    assert LocalWorkspace(Fence.of([str(tmp_path)]), POSIX, 100, PROGRAM).git(str(tmp_path)) is None


def test_the_status_is_short_relative_and_unquoted(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "a.txt").write_text("other\n")
    (repository / "sub" / "größer 文.md").write_text("new")
    assert facts(repository).status == " M a.txt\n?? sub/"
    assert facts(repository / "sub").status == " M ../a.txt\n?? ./"
    git(repository, "add", "sub")
    assert facts(repository).status == ' M a.txt\nA  "sub/größer 文.md"'


def test_at_most_five_commits_newest_first(repository: Path) -> None:
    for number in range(6):
        git(repository, "commit", "--quiet", "--allow-empty", "-m", f"number {number}")
    assert [line.split(" ", 1)[1] for line in facts(repository).log] == [f"number {n}" for n in (5, 4, 3, 2, 1)]


def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=trunk")
    assert facts(tmp_path) == GitFacts(GitRoots(str(tmp_path)), "trunk", "trunk", "", (), None)


def test_a_detached_head_is_told_by_its_commit(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    assert facts(repository).branch == f"HEAD {short_id(repository)}"
    assert facts(repository).default_branch == "main"


def test_the_default_branch_is_what_origin_says_then_a_usual_name_then_the_current_one(repository: Path) -> None:
    git(repository, "checkout", "--quiet", "-b", "topic")
    assert facts(repository).default_branch == "main"
    git(repository, "branch", "-m", "main", "master")
    assert facts(repository).default_branch == "master"
    git(repository, "branch", "-D", "master")
    assert facts(repository).default_branch == "topic"
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    assert facts(repository).default_branch == "main"
    git(repository, "update-ref", "refs/remotes/origin/next/trunk", "HEAD")
    git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/next/trunk")
    assert facts(repository).default_branch == "next/trunk"


def test_the_user_is_the_repositorys_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "user.name", "Grace Größer")
    assert facts(repository).user == "Grace Größer"
    git(repository, "config", "user.name", 'Grace "Größer" # ; \\ x')
    assert facts(repository).user == 'Grace "Größer" # ; \\ x'
    (tmp_path / "other").write_text("[user]\nname = Somebody Else\n")
    git(repository, "config", "--unset", "user.name")
    git(repository, "config", "include.path", str(tmp_path / "other"))
    assert facts(repository).user is None


def test_a_worktree_of_a_bare_repository_has_a_status(tmp_path: Path) -> None:
    git(tmp_path / "r.git", "init", "--quiet", "--bare", "--initial-branch=main")
    first_commit(tmp_path / "r.git")
    git(tmp_path / "r.git", "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "new").write_text("")
    found = facts(tmp_path / "side")
    assert (found.roots, found.branch, found.status) == (
        GitRoots(str(tmp_path / "side"), str(tmp_path / "r.git"), bare=True),
        "side",
        "?? new",
    )


def test_a_folder_that_only_holds_a_bare_repository_has_no_status(tmp_path: Path) -> None:
    git(tmp_path / ".git", "init", "--quiet", "--bare", "--initial-branch=main")
    first_commit(tmp_path / ".git")
    found = facts(tmp_path)
    assert (found.branch, found.status, len(found.log)) == ("main", None, 1)


def test_a_submodule_is_told_on_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "lib")
    (repository / "lib" / "new").write_text("")
    assert facts(repository / "lib").status == "?? new"
    assert facts(repository).status == "A  .gitmodules"
    assert facts(repository / "lib").roots == GitRoots(str(repository / "lib"))


def test_another_owners_repository_is_read(repository: Path) -> None:
    if os.geteuid() == 0:
        for path in (repository, repository / ".git"):
            os.chown(path, 65534, 65534)
    assert facts(repository).branch == "main"


def test_nothing_is_written_into_the_repository(repository: Path) -> None:
    os.utime(repository / "a.txt", (0, 0))
    before = {path: path.stat().st_mtime_ns for path in repository.rglob("*")}
    assert facts(repository).status == ""
    assert {path: path.stat().st_mtime_ns for path in repository.rglob("*")} == before


def test_the_servers_environment_has_no_say(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\nname = Server\n[status]\nshowUntrackedFiles = no\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'user.name'='Env'")
    (repository / "new").write_text("")
    found = facts(repository)
    assert (found.user, found.status) == (None, "?? new")


def test_colours_and_headers_that_a_repository_asks_for_are_left_out(repository: Path) -> None:
    before = facts(repository)
    for key in ("color.ui", "color.status", "color.diff", "status.branch", "log.decorate"):
        git(repository, "config", key, "always" if key.startswith("color") else "true")
    git(repository, "config", "i18n.logOutputEncoding", "latin1")
    assert facts(repository) == before


def test_a_status_over_the_limit_is_cut_at_a_line_end(repository: Path) -> None:
    for number in range(200):
        (repository / f"untracked {number:03}.txt").write_text("")
    found = facts(repository, GitProgram(output_limit_bytes=1_000))
    assert found.status is not None
    lines = found.status.split("\n")
    assert lines == [f'?? "untracked {number:03}.txt"' for number in range(len(lines))]
    assert 900 < len(found.status) <= 1_100
    assert found.branch == "main"


def stand_in(folder: Path, script: str) -> str:
    program = folder / "stand-in"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


ZEROS = "0" * 40


def write(repository: Path, place: str, text: str) -> None:
    path = repository / ".git" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def link(repository: Path, place: str, target: str) -> None:
    path = repository / ".git" / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def git_in(*arguments: str) -> Callable[[Path], object]:
    return lambda repository: git(repository, *arguments)


def written(place: str, text: str) -> Callable[[Path], object]:
    return lambda repository: write(repository, place, text)


def with_commit(place: str) -> Callable[[Path], object]:
    return lambda repository: write(repository, place, git(repository, "rev-parse", "HEAD") + "\n")


def linked(place: str, target: str) -> Callable[[Path], object]:
    return lambda repository: link(repository, place, target)


def in_turn(*steps: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda repository: [step(repository) for step in steps]


def on(branch: str) -> Callable[[Path], object]:
    """On a branch that no command would make."""
    return in_turn(with_commit(f"refs/heads/{branch}"), written("HEAD", f"ref: refs/heads/{branch}\n"))


ORIGIN_TRUNK = git_in("update-ref", "refs/remotes/origin/trunk", "HEAD")
ORIGIN_HEAD = git_in("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
PACKED = git_in("pack-refs", "--all")
TOPIC = git_in("checkout", "--quiet", "-b", "topic")

READ_FROM_FILES: dict[str, Callable[[Path], object]] = {
    "as made": in_turn(),
    "topic": TOPIC,
    "packed": in_turn(TOPIC, ORIGIN_TRUNK, ORIGIN_HEAD, git_in("tag", "-a", "v1", "-m", "one"), PACKED),
    "packed, then moved": in_turn(PACKED, git_in("commit", "--quiet", "--allow-empty", "-m", "second")),
    "master packed": in_turn(TOPIC, git_in("branch", "-m", "main", "master"), PACKED),
    "no usual branch": git_in("branch", "-m", "main", "other"),
    "detached": git_in("checkout", "--quiet", "--detach"),
    "detached, no usual branch": in_turn(
        git_in("checkout", "--quiet", "--detach"), git_in("branch", "-m", "main", "other")
    ),
    "unborn": git_in("checkout", "--quiet", "--orphan", "new"),
    "origin": in_turn(ORIGIN_TRUNK, ORIGIN_HEAD),
    "origin without a head": in_turn(ORIGIN_TRUNK, git_in("update-ref", "refs/remotes/origin/main", "HEAD"), TOPIC),
    "only at origin": in_turn(
        git_in("branch", "-m", "main", "x"), git_in("update-ref", "refs/remotes/origin/master", "HEAD")
    ),
    "the head of origin is gone": in_turn(TOPIC, ORIGIN_HEAD),
    "the head of origin names no branch": in_turn(TOPIC, git_in("update-ref", "refs/remotes/origin/HEAD", "HEAD")),
    "the head of origin is packed": in_turn(TOPIC, git_in("update-ref", "refs/remotes/origin/HEAD", "HEAD"), PACKED),
    "deep": git_in("checkout", "--quiet", "-b", "feature/größer/文-1.2#3@x"),
    "like a command's option": on("-x"),
    "head is a link": linked("HEAD", "refs/heads/main"),
    "another tag": in_turn(git_in("tag", "v1"), git_in("tag", "x/main")),
    "a difference of case": git_in("config", "core.ignorecase", "false"),
}


@pytest.mark.parametrize("prepare", READ_FROM_FILES.values(), ids=list(READ_FROM_FILES))
def test_what_the_small_files_say_is_what_git_says(repository: Path, prepare: Callable[[Path], object]) -> None:
    prepare(repository)
    assert parts_of(repository).branches is not None
    assert facts(repository) == by_git_alone(repository)


LEFT_TO_GIT: dict[str, Callable[[Path], object]] = {
    "a tag of the same name": git_in("tag", "main"),
    "a packed tag of the same name": in_turn(git_in("tag", "main"), PACKED),
    "a name right below refs": git_in("update-ref", "refs/main", "HEAD"),
    "named like a tag": in_turn(git_in("tag", "v1"), git_in("checkout", "--quiet", "-b", "tags/v1")),
    "named like another branch": git_in("checkout", "--quiet", "-b", "heads/main"),
    "HEAD": on("HEAD"),
    "config": on("config"),
    "a whole name": on("refs/heads/main"),
    "a name that must not be": on("a..b"),
    "a name with a lock": on("a.lock"),
    "a name that no disk can hold": written("HEAD", f"ref: refs/heads/{'x' * 300}\n"),
    "a name that is no text": lambda repository: (repository / ".git" / "HEAD").write_bytes(b"ref: refs/heads/\xff\n"),
    "a name with odd signs": git_in("checkout", "--quiet", "-b", "a!b%c&d"),
    "not a branch": in_turn(with_commit("refs/other"), written("HEAD", "ref: refs/other\n")),
    "a head without a line end": written("HEAD", "ref: refs/heads/main"),
    "a head that names nothing": written("HEAD", "nothing\n"),
    "a head of zeros": written("HEAD", f"{ZEROS}\n"),
    "a branch that stands for another": in_turn(
        git_in("symbolic-ref", "refs/heads/alias", "refs/heads/main"), written("HEAD", "ref: refs/heads/alias\n")
    ),
    "a branch that is a link": in_turn(linked("refs/heads/alias", "main"), written("HEAD", "ref: refs/heads/alias\n")),
    "a branch that is a folder": in_turn(git_in("branch", "x/y"), written("HEAD", "ref: refs/heads/x\n")),
    "branches in a linked folder": lambda repository: (
        (repository / ".git" / "refs" / "heads").rename(repository / ".git" / "refs" / "kept"),
        link(repository, "refs/heads", "kept"),
    ),
    "a broken branch": written("refs/heads/main", "gone\n"),
    "an empty branch": written("refs/heads/main", ""),
    "a branch of zeros": in_turn(TOPIC, written("refs/heads/main", f"{ZEROS}\n")),
    "a packed branch of zeros": in_turn(
        TOPIC, git_in("branch", "-D", "main"), written("packed-refs", f"{ZEROS} refs/heads/main\n")
    ),
    "a broken head of origin": in_turn(TOPIC, written("refs/remotes/origin/HEAD", "ref: refs/heads/..\n")),
    "the head of origin names a local branch": in_turn(
        TOPIC, git_in("symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/topic")
    ),
    "the head of origin names itself": in_turn(
        TOPIC, written("refs/remotes/origin/HEAD", "ref: refs/remotes/origin/HEAD\n")
    ),
    "the head of origin in two steps": in_turn(
        ORIGIN_TRUNK,
        git_in("symbolic-ref", "refs/remotes/origin/step", "refs/remotes/origin/trunk"),
        git_in("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/step"),
    ),
    "the head of origin is a link": in_turn(ORIGIN_TRUNK, linked("refs/remotes/origin/HEAD", "trunk")),
    "names without a difference of case": in_turn(TOPIC, git_in("config", "core.ignorecase", "true")),
    "more packed names than are read": lambda repository: write(
        repository, "packed-refs", "".join(f"{number:040x} refs/tags/{number:050}\n" for number in range(1, 1_200))
    ),
}


@pytest.mark.parametrize("prepare", LEFT_TO_GIT.values(), ids=list(LEFT_TO_GIT))
def test_what_the_small_files_do_not_say_plainly_is_asked_of_git(
    repository: Path, prepare: Callable[[Path], object]
) -> None:
    prepare(repository)
    assert parts_of(repository).branches is None
    assert facts(repository) == by_git_alone(repository)


def test_a_worktree_has_a_branch_of_its_own_and_the_names_of_all(repository: Path, tmp_path: Path) -> None:
    git(repository, "update-ref", "refs/remotes/origin/trunk", "HEAD")
    git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    for checkout in (repository, tmp_path / "side"):
        assert parts_of(checkout).branches is not None
        assert facts(checkout) == by_git_alone(checkout)
    assert (facts(tmp_path / "side").branch, facts(tmp_path / "side").default_branch) == ("side", "trunk")


def test_a_repository_that_git_does_not_read_has_no_branch(repository: Path) -> None:
    git(repository, "config", "core.repositoryFormatVersion", "99")
    assert parts_of(repository).branches is not None
    assert facts(repository) == by_git_alone(repository) == GitFacts(roots=GitRoots(str(repository)))


def test_two_programs_are_started_for_a_plain_repository(repository: Path, tmp_path: Path) -> None:
    counted = stand_in(tmp_path, f"echo >> '{tmp_path / 'started'}'; exec git \"$@\"")
    assert facts(repository, GitProgram(counted)).branch == "main"
    assert (tmp_path / "started").read_text() == "\n\n"


def test_what_is_not_told_by_the_deadline_is_left_out(repository: Path, tmp_path: Path) -> None:
    slow = stand_in(tmp_path, 'case "$*" in *status*) sleep 600 & wait;; *) exec git "$@";; esac')
    found = facts(repository, GitProgram(slow, timeout_seconds=1.0))
    assert (found.branch, found.status, len(found.log)) == ("main", None, 1)


def test_a_program_that_lets_go_of_its_output_is_still_held_to_the_deadline(repository: Path, tmp_path: Path) -> None:
    found = facts(repository, GitProgram(stand_in(tmp_path, "exec >&-; sleep 600"), timeout_seconds=0.3))
    assert found == GitFacts(roots=GitRoots(str(repository)))


def test_without_a_git_program_only_the_roots_are_known(repository: Path) -> None:
    found = facts(repository, GitProgram(executable="/nonexistent/git"))
    assert found == GitFacts(roots=GitRoots(str(repository)))


class Trap:
    """A command that leaves a trace when anybody runs it."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "sprung"
        self.command = stand_in(folder, f"touch '{self.trace}'")

    def springs(self, repository: Path, *query: str) -> bool:
        """Whether an unguarded git falls into it; afterwards it is set again."""
        subprocess.run(["git", *query], cwd=repository, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        sprung = self.trace.exists()
        self.trace.unlink(missing_ok=True)
        return sprung


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def touch(repository: Path) -> None:
    """Makes git compare the file's content, because its time says nothing any more."""
    os.utime(repository / "a.txt", (0, 0))


@pytest.mark.parametrize("driver", ["x", "with.dots", "a=b", "größer"])
@pytest.mark.parametrize("kind", ["clean", "process"])
@pytest.mark.parametrize("included", [False, True])
def test_a_filter_is_never_run(repository: Path, trap: Trap, driver: str, kind: str, included: bool) -> None:
    with (repository / ".git" / ("more" if included else "config")).open("a") as file:
        file.write(f'[FILTER "{driver}"]\n\t{kind} = {trap.command}\n\trequired = true\n')
    if included:
        git(repository, "config", "include.path", "more")
    (repository / ".git" / "info" / "attributes").write_text(f"* filter={driver}\n")
    touch(repository)
    assert trap.springs(repository, "status")
    touch(repository)
    found = facts(repository)
    assert not trap.trace.exists()
    assert (found.branch, found.status) == ("main", "")


def test_a_filter_is_not_run_when_the_configuration_changes_meanwhile(repository: Path, trap: Trap) -> None:
    (repository / ".git" / "info" / "attributes").write_text("* filter=x\n")
    config = repository / ".git" / "config"
    harmless = config.read_text()
    evil = f'{harmless}[filter "x"]\n\tclean = {trap.command}\n[core]\n\tfsmonitor = {trap.command}\n'
    is_over = threading.Event()

    def swap() -> None:
        for text in itertools.cycle((evil, harmless)):
            if is_over.is_set():
                return
            (repository / "next").write_text(text)
            (repository / "next").rename(config)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(20):
            touch(repository)
            assert facts(repository).branch in ("main", None)  # it never stands still for long
        assert not trap.trace.exists()
        sprung = False
        for _ in range(200):
            touch(repository)
            sprung = sprung or trap.springs(repository, "status")
        assert sprung
    finally:
        is_over.set()
        swapping.join()


def test_what_the_repository_says_of_its_files_holds(repository: Path) -> None:
    (repository / "a.txt").chmod(0o755)
    (repository / "new").write_text("")
    (repository / "excluded").write_text("")
    (repository / ".git" / "info" / "exclude").write_text("excluded\n")
    assert facts(repository).status == " M a.txt\n?? new"
    git(repository, "config", "core.fileMode", "false")
    git(repository, "config", "core.abbrev", "12")
    assert facts(repository).status == "?? new"
    assert facts(repository).log == (f"{git(repository, 'rev-parse', 'HEAD')[:12]} first: größer",)


def test_what_the_repository_says_of_renames_and_of_new_files_does_not_hold(repository: Path) -> None:
    git(repository, "mv", "a.txt", "b.txt")
    (repository / "sub").mkdir()
    (repository / "sub" / "new").write_text("")
    for renames, untracked in (("copies", "all"), ("false", "no")):
        git(repository, "config", "status.renames", renames)
        git(repository, "config", "status.showUntrackedFiles", untracked)
        assert facts(repository).status == "R  a.txt -> b.txt\n?? sub/"


def test_a_worktrees_own_configuration_holds(repository: Path, tmp_path: Path) -> None:
    side = tmp_path / "side"
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(side))
    git(repository, "config", "extensions.worktreeConfig", "true")
    git(side, "config", "--worktree", "user.name", "Side")
    assert (facts(side).user, facts(side).branch) == ("Side", "side")
    assert (facts(repository).user, facts(repository).branch) == (None, "main")


def test_a_shallow_clone_ends_where_its_history_does(repository: Path, tmp_path: Path) -> None:
    for number in range(3):
        git(repository, "commit", "--quiet", "--allow-empty", "-m", f"number {number}")
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{repository}", str(tmp_path / "clone"))
    found = facts(tmp_path / "clone")
    assert [line.split(" ", 1)[1] for line in found.log] == ["number 2", "number 1"]
    assert (found.branch, found.status, found.default_branch) == ("main", "", "main")


def test_a_split_index_and_packed_parts_are_read(repository: Path) -> None:
    git(repository, "update-index", "--split-index")
    (repository / "b.txt").write_text("")
    git(repository, "add", "b.txt")
    git(repository, "gc", "--quiet")
    git(repository, "pack-refs", "--all")
    assert list((repository / ".git").glob("sharedindex.*"))
    found = facts(repository)
    assert (found.branch, found.status, len(found.log)) == ("main", "A  b.txt", 1)


def test_a_file_that_changed_in_the_moment_its_index_was_written_is_told(repository: Path) -> None:
    git(repository, "config", "core.trustctime", "false")
    moment = 1_700_000_000
    for place in ("a.txt", ".git/index"):
        os.utime(repository / place, (moment, moment))
    git(repository, "update-index", "--refresh")
    (repository / "a.txt").write_text("two\n")
    for place in ("a.txt", ".git/index"):
        os.utime(repository / place, (moment, moment))
    assert facts(repository).status == " M a.txt"


def test_a_sparse_checkout_misses_nothing(repository: Path) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "b.txt").write_text("")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "second")
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "other")
    assert not (repository / "sub").exists()
    assert facts(repository).status == ""


def test_a_repository_of_long_ids_is_told(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    (tmp_path / "a.txt").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    (tmp_path / "a.txt").write_text("other")
    assert (facts(tmp_path).branch, facts(tmp_path).status) == ("main", " M a.txt")
    assert len(facts(tmp_path).log) == 1


def test_a_head_that_is_a_link_names_its_branch(repository: Path) -> None:
    (repository / ".git" / "HEAD").unlink()
    (repository / ".git" / "HEAD").symlink_to("refs/heads/main")
    assert (facts(repository).branch, len(facts(repository).log)) == ("main", 1)


def test_nothing_is_left_of_the_folder_that_git_works_in(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    assert facts(repository).branch == "main"
    facts(repository, GitProgram(executable="/nonexistent/git"))
    assert list(room.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert facts(repository) == GitFacts(roots=GitRoots(str(repository)))


def test_a_file_monitor_is_never_run(repository: Path, trap: Trap) -> None:
    git(repository, "config", "core.fsmonitor", trap.command)
    assert trap.springs(repository, "status")
    assert facts(repository).status == ""
    assert not trap.trace.exists()


def test_a_hook_is_never_run(repository: Path, trap: Trap) -> None:
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(trap.command)
    touch(repository)
    assert trap.springs(repository, "status")
    touch(repository)
    assert facts(repository).status == ""
    assert not trap.trace.exists()


def test_a_signature_is_never_checked(repository: Path, trap: Trap) -> None:
    plain = git(repository, "cat-file", "commit", "HEAD")
    signed = plain.replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n", 1)
    commit = git(repository, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{signed}\n".encode())
    git(repository, "update-ref", "refs/heads/main", commit)
    git(repository, "config", "gpg.program", trap.command)
    git(repository, "config", "log.showSignature", "true")
    assert trap.springs(repository, "log", "--oneline")
    assert len(facts(repository).log) == 1
    assert not trap.trace.exists()


def test_a_missing_object_is_never_fetched(repository: Path, trap: Trap) -> None:
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{trap.command}",
        "protocol.ext.allow": "always",
    }.items():
        git(repository, "config", key, value)
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    assert trap.springs(repository, "status")
    facts(repository)
    assert not trap.trace.exists()


def test_a_work_tree_elsewhere_is_not_looked_at(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret-name").write_text("")
    git(repository, "config", "core.worktree", str(tmp_path / "private"))
    assert "secret-name" not in (facts(repository).status or "")
