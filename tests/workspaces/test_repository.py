"""Where a repository's checkouts are, read without the git program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.facts import GitRoots
from app.workspaces.fence import Fence
from app.workspaces.inline import InlineWorkspace
from app.workspaces.local import LocalWorkspace
from app.workspaces.program import GitProgram
from app.workspaces.repository import Branches, branches_of
from tests.reference.programs import first_commit, git
from tests.workspaces.trees import POSIX

NO_GIT = GitProgram(executable="/nonexistent/git")


def roots(cwd: Path, *fence: Path) -> GitRoots | None:
    return LocalWorkspace(Fence.of([str(folder) for folder in fence]), POSIX, 10_000, NO_GIT).roots(str(cwd))


def repository(folder: Path) -> Path:
    git(folder, "init", "--quiet", "--initial-branch=main")
    first_commit(folder)
    return folder


def worktree(main: Path, folder: Path) -> Path:
    git(main, "worktree", "add", "--quiet", "-b", folder.name, str(folder), "main")
    return folder


def bare(folder: Path) -> Path:
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main")
    first_commit(folder)
    return folder


def test_a_checkout_holds_itself_and_its_folders(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    (main / "sub" / "deep").mkdir(parents=True)
    assert roots(main, tmp_path) == GitRoots(str(main))
    assert roots(main / "sub" / "deep", tmp_path) == GitRoots(str(main))
    assert roots(main / "sub" / "missing", tmp_path) == GitRoots(str(main))


def test_without_a_repository_there_are_no_roots(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert roots(tmp_path, tmp_path) is None


def test_a_git_folder_without_a_head_is_passed_by(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    (main / "sub" / ".git").mkdir(parents=True)
    (main / "link").mkdir()
    (main / "link" / ".git").symlink_to("nowhere")
    assert roots(main / "sub", tmp_path) == GitRoots(str(main))
    assert roots(main / "link", tmp_path) == GitRoots(str(main))


def test_a_head_that_is_a_link_to_an_unborn_branch_is_a_head(tmp_path: Path) -> None:
    (tmp_path / "r" / ".git").mkdir(parents=True)
    (tmp_path / "r" / ".git" / "HEAD").symlink_to("refs/heads/main")
    assert roots(tmp_path / "r", tmp_path) == GitRoots(str(tmp_path / "r"))


@pytest.mark.parametrize("place", ["beside", "r/.worktrees/inside"])
def test_a_linked_worktree_knows_its_main_checkout(tmp_path: Path, place: str) -> None:
    main = repository(tmp_path / "r")
    side = worktree(main, tmp_path / place)
    (side / "sub").mkdir()
    assert roots(side / "sub", tmp_path) == GitRoots(str(side), str(main))


def test_a_worktree_reached_through_a_link_is_told_by_its_real_path(tmp_path: Path) -> None:
    side = worktree(repository(tmp_path / "r"), tmp_path / "side")
    (tmp_path / "link").symlink_to(side)
    assert roots(tmp_path / "link", tmp_path) == GitRoots(str(side), str(tmp_path / "r"))


@pytest.mark.parametrize(
    ("place", "main"), [(".git", ""), (".bare", "/.bare"), (".", ""), ("app.git", "/app.git")], ids=str
)
def test_a_bare_repository_has_no_checkout(tmp_path: Path, place: str, main: str) -> None:
    fleet = tmp_path / "fleet"
    side = worktree(bare(fleet / place), fleet / "child")
    assert roots(side, tmp_path) == GitRoots(str(side), str(fleet) + main, bare=True)


def test_the_folder_of_a_bare_repository_is_bare_itself(tmp_path: Path) -> None:
    bare(tmp_path / "fleet" / ".git")
    assert roots(tmp_path / "fleet", tmp_path) == GitRoots(str(tmp_path / "fleet"), bare=True)


@pytest.mark.parametrize(
    ("config", "is_bare"),
    [
        ("[core]\n\tbare = true\n", True),
        ("[CORE]\n\tBare=YES ; comment\n", True),
        ("[core] bare = on\n", True),
        ("[core]\nbare\n", True),
        ('[core]\nbare = "true" # so\n', True),
        ("[core]\nbare = false\nbare = 1\n", True),
        ("[core]\nbare = true\nbare = no\n", False),
        ("[core]\n# bare = true\n", False),
        ('[core "bare"]\nbare = true\n', False),
        ("[other]\nbare = true\n", False),
        ("bare = true\n", False),
        ("", False),
        ("[extensions]\nworktreeConfig = true\n[core]\nbare = true\n", False),
    ],
)
def test_bare_is_what_the_configuration_says_last(tmp_path: Path, config: str, is_bare: bool) -> None:
    main = repository(tmp_path / "r")
    (main / ".git" / "config").write_text(config)
    (main / ".git" / "config.worktree").write_text("[core]\nbare = false\n")
    assert roots(main, tmp_path) == GitRoots(str(main), bare=is_bare)


def test_a_repository_without_a_configuration_is_not_bare(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    (main / ".git" / "config").unlink()
    assert roots(main, tmp_path) == GitRoots(str(main))


def test_a_long_configuration_counts_as_far_as_its_first_64_kilobytes(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    config = "[core]\nbare = true\n" + "# more\n" * 12_000
    (main / ".git" / "config").write_text(config)
    fence = Fence.of([str(tmp_path)])
    assert LocalWorkspace(fence, POSIX, 1_000_000, NO_GIT).roots(str(main)) == GitRoots(str(main), bare=True)
    (main / ".git" / "config").write_text(config + "bare = false\n")
    assert LocalWorkspace(fence, POSIX, 1_000_000, NO_GIT).roots(str(main)) == GitRoots(str(main), bare=True)


def test_a_submodule_is_not_a_worktree(tmp_path: Path) -> None:
    library = repository(tmp_path / "library")
    main = repository(tmp_path / "r")
    git(main, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    assert (main / "lib" / ".git").is_file()
    assert roots(main / "lib", tmp_path) == GitRoots(str(main / "lib"))


@pytest.mark.parametrize(
    "pointer",
    [
        *("gitdir: ../.git/worktrees/gone\n", "gitdir: ../sub\n", "../r/.git\n", "", "gitdir:\n", "gitdir: \0\n"),
        *("\xff", "gitdir:../.git\n", "gitdir:  ../.git\n", "gitdir: ../.git \n", "gitdir: ../.git\t\n"),
        *("gitdir: ../.git\n\n../.git\n", "gitdir: ../.git\x7f\n", "gitdir: ../x\xff/../.git\n"),
        *("gitdir: ../gone/../.git\n", "gitdir: " + "./" * 2_048 + "../.git\n"),
    ],
)
def test_a_broken_pointer_means_no_repository_although_one_is_above(tmp_path: Path, pointer: str) -> None:
    main = repository(tmp_path / "r")
    (main / "sub").mkdir()
    (main / "sub" / ".git").write_bytes(pointer.encode("latin-1"))
    assert roots(main / "sub", tmp_path) is None


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_line_ends_behind_a_pointer_are_cut_off(tmp_path: Path, ending: str) -> None:
    main = repository(tmp_path / "r")
    (main / "sub").mkdir()
    (main / "sub" / ".git").write_bytes(b"gitdir: ../.git" + ending.encode())
    assert roots(main / "sub", tmp_path) == GitRoots(str(main / "sub"))


@pytest.mark.parametrize(
    "written", [b" ../x\n", b"../x \n", b"../x\x0b\n", b"x\xff\n", b"link/../x\n", b"", b"\n", b"../x\0\n", b"\x85"]
)
def test_a_common_folder_that_git_may_read_otherwise_is_none(tmp_path: Path, written: bytes) -> None:
    side = worktree(repository(tmp_path / "r"), tmp_path / "side")
    private = tmp_path / "r" / ".git" / "worktrees" / "side"
    for name in (b"x", b" ", b"x\xff", "x\ufffd".encode(), b"../x", b"../x ", b"../x\x0b"):
        (private / os.fsdecode(name)).symlink_to(tmp_path / "r" / ".git")
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (private / "link").symlink_to(tmp_path / "elsewhere" / "deep")
    (private / "commondir").write_bytes(b"../x\n")
    assert roots(side, tmp_path) == GitRoots(str(side), str(tmp_path / "r"))
    (private / "commondir").write_bytes(written)
    assert roots(side, tmp_path) is None


def test_an_absolute_pointer_may_go_up_from_real_folders_only(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    (main / "sub").mkdir()
    (tmp_path / "link").symlink_to(main)
    pointer = main / "sub" / ".git"
    pointer.write_text(f"gitdir: {main}/sub/../.git\n")
    assert roots(main / "sub", tmp_path) == GitRoots(str(main / "sub"))
    pointer.write_text(f"gitdir: {tmp_path}/link/.git\n")
    assert roots(main / "sub", tmp_path) == GitRoots(str(main / "sub"))
    pointer.write_text(f"gitdir: {tmp_path}/link/../r/.git\n")
    assert roots(main / "sub", tmp_path) is None


def test_a_worktree_whose_common_folder_is_gone_is_none(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    side = worktree(main, tmp_path / "side")
    common = main / ".git" / "worktrees" / "side" / "commondir"
    common.write_text("../../gone\n")
    assert roots(side, tmp_path) is None
    common.unlink()
    common.mkdir()
    assert roots(side, tmp_path) is None


def test_what_leads_outside_the_fence_is_none(tmp_path: Path) -> None:
    main = repository(tmp_path / "outside" / "r")
    inside = tmp_path / "inside"
    side = worktree(main, inside / "side")
    assert roots(side, tmp_path) is not None
    assert roots(side, inside) is None
    (inside / "linked").mkdir()
    (inside / "linked" / ".git").symlink_to(main / ".git")
    assert roots(inside / "linked", tmp_path) == GitRoots(str(inside / "linked"))
    assert roots(inside / "linked", inside) is None


def test_a_common_folder_outside_the_fence_is_none(tmp_path: Path) -> None:
    main = repository(tmp_path / "outside" / "r")
    side = worktree(main, tmp_path / "inside" / "side")
    moved = tmp_path / "inside" / "private"
    (main / ".git" / "worktrees" / "side").rename(moved)
    (moved / "commondir").write_text(f"{main}/.git\n")
    (side / ".git").write_text(f"gitdir: {moved}\n")
    assert roots(side, tmp_path) == GitRoots(str(side), str(main))
    assert roots(side, tmp_path / "inside") is None


def test_a_repository_above_the_fence_is_not_seen(tmp_path: Path) -> None:
    main = repository(tmp_path / "r")
    (main / "sub").mkdir()
    assert roots(main / "sub", main / "sub") is None
    assert roots(main, main / "sub") is None


EMPTY = InlineWorkspace({}, None, POSIX, 10_000)
PARTS = st.sampled_from(
    ["a", "文", "ö", "_", "0", "-", "#", "+", "=", ",", "@", ".", "..", "/", "//", "lock", "{", "~"]
)
NAMES = st.lists(PARTS, min_size=1, max_size=6).map("".join)


@given(NAMES)
def test_a_name_that_is_taken_from_head_is_one_that_git_allows(name: str) -> None:
    head = f"ref: refs/heads/{name}\n".encode()
    if branches_of(EMPTY, "/r/.git", head, "") == Branches(name, None):
        asked = ["git", "check-ref-format", f"refs/heads/{name}"]
        assert subprocess.run(asked, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", ["main", "feature/a-1.2", "größer", "user@host", "a#3"])
def test_usual_names_are_taken_from_head(name: str) -> None:
    assert branches_of(EMPTY, "/r/.git", f"ref: refs/heads/{name}\n".encode(), "") == Branches(name, None)
