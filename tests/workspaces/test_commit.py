from __future__ import annotations

import gc
import os
import tempfile
from pathlib import Path

import pytest

from app.core.facts import Content, GitFacts, GitRoots, Kind, Node
from app.errors import GitUnavailable, InvalidRequest, WorkspaceNotFound
from app.workspaces.commit import GitWorkspace
from app.workspaces.fence import Fence
from app.workspaces.inline import Binary, Folder, InlineFile, Link, Text
from app.workspaces.objects import TreeEntry, parse_tree
from app.workspaces.program import GitProgram
from tests.reference.programs import git
from tests.workspaces.test_program import Trap, stand_in
from tests.workspaces.trees import LIMIT, PROGRAM, committed, lay_in_commit

FILES: dict[str, InlineFile] = {
    "CLAUDE.md": Text("committed"),
    "src/a.ts": Text("a"),
    "lib": Folder(),
    "out": Link("/etc/passwd"),
    "up": Link("../../.."),
    "mount": Link("/repo/src"),
    "odd": Link("x" * 5_000),
    "huge.bin": Binary(bytes(3_000_000)),
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("srv") / "app.git"
    lay_in_commit(FILES, folder)
    return folder


def test_outside_the_mount_there_are_only_the_folders_above_it(repository: Path) -> None:
    workspace = committed(repository, mount="/srv/checkouts/app")
    assert workspace.look("/srv") == Node(Kind.DIRECTORY, "/srv")
    assert workspace.names("/") == ("srv",)
    assert workspace.names("/srv") == ("checkouts",)
    assert workspace.names("/srv/checkouts") == ("app",)
    assert workspace.look("/srv/other").kind is Kind.MISSING
    assert workspace.look("/etc/passwd").kind is Kind.MISSING
    assert workspace.read("/srv/checkouts/app/CLAUDE.md") == Content(b"committed")
    workspace.close()


def test_the_mount_may_be_the_root(repository: Path) -> None:
    workspace = committed(repository, mount="/")
    assert workspace.read("/CLAUDE.md") == Content(b"committed")
    assert workspace.roots("/src") == GitRoots("/")
    workspace.close()


def test_links_that_leave_the_mount_lead_nowhere(repository: Path) -> None:
    workspace = committed(repository)
    assert workspace.look("/repo/out").kind is Kind.DANGLING
    assert workspace.look("/repo/up").kind is Kind.DANGLING
    assert workspace.names("/repo/up") == ()
    assert workspace.look("/repo/odd").kind is Kind.DANGLING
    assert workspace.look("/repo/mount/a.ts").real == "/repo/src/a.ts"
    workspace.close()


def test_a_submodule_is_an_empty_folder(repository: Path) -> None:
    workspace = committed(repository)
    assert workspace.look("/repo/lib") == Node(Kind.DIRECTORY, "/repo/lib")
    assert workspace.names("/repo/lib") == ()
    workspace.close()


def test_a_huge_file_is_measured_not_read(repository: Path) -> None:
    workspace = committed(repository)
    assert workspace.look("/repo/huge.bin").size == 3_000_000
    assert workspace.read("/repo/huge.bin") == Content(None, "budget")
    workspace.close()


def test_the_commit_is_fixed_when_the_branch_moves(tmp_path: Path) -> None:
    lay_in_commit({"a.md": Text("old")}, tmp_path)
    workspace = committed(tmp_path)
    lay_in_commit({"a.md": Text("new"), "b.md": Text("b")}, tmp_path)
    assert workspace.read("/repo/a.md") == Content(b"old")
    later = committed(tmp_path)
    assert later.read("/repo/a.md") == Content(b"new")
    workspace.close()
    later.close()


def test_an_empty_commit_is_an_empty_folder(tmp_path: Path) -> None:
    lay_in_commit({}, tmp_path)
    workspace = committed(tmp_path)
    assert workspace.look("/repo") == Node(Kind.DIRECTORY, "/repo")
    assert workspace.names("/repo") == ()
    workspace.close()


def test_roots_are_the_mount(repository: Path) -> None:
    workspace = committed(repository)
    assert workspace.roots("/repo/src") == GitRoots("/repo")
    assert workspace.roots("/") is None
    assert workspace.git("/elsewhere") is None
    workspace.close()


def test_git_tells_the_commits_own_history(tmp_path: Path) -> None:
    lay_in_commit({"a.md": Text("a")}, tmp_path)
    for number in range(6):
        commit = git(tmp_path, "commit-tree", "main^{tree}", "-p", "main", "-m", f"number {number}")
        git(tmp_path, "update-ref", "refs/heads/main", commit)
    git(tmp_path, "update-ref", "refs/heads/feature/x", "main~1")
    git(tmp_path, "tag", "v1", "main~5")
    git(tmp_path, "config", "user.name", "Server")

    def told(ref: str) -> GitFacts:
        workspace = committed(tmp_path, ref)
        found = workspace.git("/repo")
        workspace.close()
        assert found is not None
        return found

    assert told("feature/x").branch == "feature/x"
    assert told("refs/heads/feature/x").branch == "feature/x"
    assert told("HEAD").branch == "main"
    assert [line.split(" ", 1)[1] for line in told("feature/x").log] == [f"number {n}" for n in (4, 3, 2, 1, 0)]
    for ref in ("v1", git(tmp_path, "rev-parse", "v1")):
        assert told(ref).branch == f"HEAD {git(tmp_path, 'rev-parse', '--short', 'v1')}"
        assert told(ref) == told("v1")
        assert len(told(ref).log) == 2
    assert (told("v1").roots, told("v1").default_branch) == (GitRoots("/repo"), "main")
    assert (told("main").status, told("main").user) == ("", "Server")


def test_a_checkout_and_a_linked_worktree_are_repositories_too(tmp_path: Path) -> None:
    main = tmp_path / "r"
    git(main, "init", "--quiet", "--initial-branch=main")
    (main / "a.md").write_text("a")
    git(main, "add", ".")
    git(main, "commit", "--quiet", "-m", "first")
    (main / "a.md").write_text("not committed")
    git(main, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    for path in (main, main / ".git", tmp_path / "side"):
        workspace = GitWorkspace(
            str(path), "HEAD", fence=Fence.of([str(tmp_path)]), program=PROGRAM, max_file_bytes=LIMIT
        )
        assert workspace.read("/repo/a.md") == Content(b"a")
        workspace.close()


@pytest.mark.parametrize(
    "ref",
    [
        "gone",
        "-x",
        "--help",
        "--all",
        "^HEAD",
        "^main",
        "",
        "main:CLAUDE.md",
        "main^{tree}",
        "f" * 40,
        "main..main",
        "a\nb",
        "\0",
        "\udc80",
    ],
)
def test_a_ref_that_is_no_commit_is_refused(repository: Path, ref: str) -> None:
    with pytest.raises(WorkspaceNotFound, match="Give a branch"):
        committed(repository, ref)


def test_no_repository_and_one_outside_look_alike(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(repository)
    git(tmp_path / "own", "init", "--quiet")
    (tmp_path / "own" / "sub").mkdir()
    for path in (
        repository,
        tmp_path / "gone",
        tmp_path / "plain",
        tmp_path / "file",
        tmp_path / "link",
        tmp_path / "own/sub",
    ):
        with pytest.raises(WorkspaceNotFound) as caught:
            GitWorkspace(str(path), "main", fence=Fence.of([str(tmp_path)]), program=PROGRAM, max_file_bytes=LIMIT)
        assert caught.value.detail.replace(str(path), "PATH") == (
            "There is no git repository at PATH that this service may read. "
            "Give the path of a repository inside the roots that it has for you (STRATA_ROOTS, or roots of your key)."
        )


def test_a_relative_repository_is_refused(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository.parent)
    with pytest.raises(WorkspaceNotFound):
        GitWorkspace("app.git", "main", fence=Fence.of(["/"]), program=PROGRAM, max_file_bytes=LIMIT)


def test_a_mount_that_is_not_absolute_is_refused(repository: Path) -> None:
    with pytest.raises(InvalidRequest, match="absolute"):
        committed(repository, mount="repo")


def test_without_git_the_source_is_unavailable(repository: Path) -> None:
    with pytest.raises(GitUnavailable):
        GitWorkspace(
            str(repository), "main", fence=Fence.of(["/"]), program=GitProgram("/nonexistent/git"), max_file_bytes=LIMIT
        )


def opened(repository: Path, program: GitProgram) -> GitWorkspace:
    return GitWorkspace(str(repository), "main", fence=Fence.of(["/"]), program=program, max_file_bytes=LIMIT)


def test_git_that_does_not_answer_is_unavailable(repository: Path, tmp_path: Path) -> None:
    slow = GitProgram(stand_in(tmp_path, "sleep 600"), timeout_seconds=0.2)
    with pytest.raises(GitUnavailable, match="did not answer"):
        opened(repository, slow)


@pytest.mark.parametrize(
    ("script", "reason"), [("sleep 600", "did not answer"), ("exit 1", "ended"), ("read x", "ended")]
)
def test_git_that_stops_answering_is_unavailable(repository: Path, tmp_path: Path, script: str, reason: str) -> None:
    failing = stand_in(tmp_path, f'case "$*" in *cat-file*) {script};; *) exec git "$@";; esac')
    workspace = opened(repository, GitProgram(failing, timeout_seconds=0.3))
    for _ in range(2):
        with pytest.raises(GitUnavailable, match=reason):
            workspace.look("/repo/CLAUDE.md")
    workspace.close()


def test_a_new_process_is_started_when_the_last_one_ended(repository: Path, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    once = stand_in(
        tmp_path,
        f'case "$*" in *cat-file*) test -e {failed} || {{ touch {failed}; exit 1; }};; esac; exec git "$@"',
    )
    workspace = opened(repository, GitProgram(once))
    with pytest.raises(GitUnavailable):
        workspace.read("/repo/CLAUDE.md")
    assert workspace.read("/repo/CLAUDE.md") == Content(b"committed")
    workspace.close()


def test_missing_objects_are_unreadable_and_never_fetched(tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    bare = tmp_path / "r.git"
    lay_in_commit({"a.md": Text("a"), "b/c.md": Text("c"), "l": Link("a.md")}, bare)
    gone = [git(bare, "rev-parse", name) for name in ("main:a.md", "main:b", "main:l")]
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{trap.command}",
        "protocol.ext.allow": "always",
    }.items():
        git(bare, "config", key, value)
    for name in gone:
        (bare / "objects" / name[:2] / name[2:]).unlink()
    assert trap.springs(bare, "cat-file", "-p", gone[0])
    workspace = committed(bare)
    assert workspace.names("/repo") == ("a.md", "b", "l")
    for path in ("a.md", "b", "b/c.md", "l"):
        assert workspace.look(f"/repo/{path}").kind is Kind.UNREADABLE
        assert workspace.read(f"/repo/{path}") == Content(None, "unreadable")
        assert workspace.names(f"/repo/{path}") == ()
    assert not trap.trace.exists()
    workspace.close()


def test_names_that_no_folder_can_have_are_left_out(tmp_path: Path) -> None:
    lay_in_commit({"a.md": Text("a")}, tmp_path)
    blob = bytes.fromhex(git(tmp_path, "rev-parse", "main:a.md"))
    link = bytes.fromhex(git(tmp_path, "hash-object", "-w", "--stdin", given=b"caf\xe9.md"))
    names = (b".", b"..", b"", b"x/y", b"caf\xe9.md", b"good.md")
    rows = b"".join(b"100644 " + name + b"\0" + blob for name in names) + b"120000 odd\0" + link
    tree = git(tmp_path, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=rows)
    git(tmp_path, "update-ref", "refs/heads/main", git(tmp_path, "commit-tree", tree, "-m", "hostile"))
    workspace = committed(tmp_path)
    assert workspace.names("/repo") == ("good.md", "odd")
    assert workspace.read("/repo/good.md") == Content(b"a")
    assert workspace.look("/repo/odd").kind is Kind.DANGLING
    assert workspace.look("/repo/x/y").kind is Kind.MISSING
    assert workspace.look("/repo/" + os.fsdecode(b"caf\xe9.md")).kind is Kind.MISSING
    workspace.close()


def test_a_tree_that_breaks_off_is_read_as_far_as_it_goes() -> None:
    whole = b"100644 a\0" + b"\1" * 20
    assert parse_tree(whole + b"40000 b", 20) == {"a": TreeEntry(0o100000, "01" * 20)}
    assert parse_tree(b"mode a\0" + b"\1" * 20 + whole, 20) == {"a": TreeEntry(0o100000, "01" * 20)}
    assert parse_tree(b"", 20) == {}


def test_of_two_equal_names_the_first_counts() -> None:
    twice = b"100644 a\0" + b"\1" * 20 + b"40000 a\0" + b"\2" * 20
    assert parse_tree(twice, 20) == {"a": TreeEntry(0o100000, "01" * 20)}


def test_nothing_is_left_when_a_workspace_is_closed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workspace = opened(repository, PROGRAM)
    assert workspace.read("/repo/CLAUDE.md") == Content(b"committed")
    (own,) = tmp_path.iterdir()
    assert own.stat().st_mode & 0o777 == 0o700
    process = workspace._objects._process
    assert process is not None
    workspace.close()
    assert process.returncode is not None
    workspace.close()
    with pytest.raises(WorkspaceNotFound):
        committed(repository, "gone")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_workspace_that_nobody_closes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    workspace = opened(repository, PROGRAM)
    assert workspace.roots("/repo") == GitRoots("/repo")
    assert len(list(tmp_path.iterdir())) == 1
    del workspace
    gc.collect()
    assert list(tmp_path.iterdir()) == []
