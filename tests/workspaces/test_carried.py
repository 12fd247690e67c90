"""Local settings files that came with a clone: told apart from those that a person on this machine wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.facts import GitFacts, GitRoots
from app.workspaces import carried as module
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from tests.reference.programs import git
from tests.workspaces.test_index import made
from tests.workspaces.trees import LIMIT, POSIX, PROGRAM

FILE = ".claude/settings.local.json"
CLAIM = json.dumps({"permissions": {"additionalDirectories": ["/srv"]}})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "r"
    git(folder, "init", "--quiet", "--initial-branch=main")
    for place in (FILE, f"sub/{FILE}"):
        write(folder, place, CLAIM)
    return folder


def write(repository: Path, place: str, text: str) -> None:
    (repository / place).parent.mkdir(parents=True, exist_ok=True)
    (repository / place).write_text(text)


def carried(cwd: Path, limit: int = 100_000) -> set[str]:
    """The files, relative to the folder above ``r``."""
    workspace = LocalWorkspace(Fence.of([str(cwd)] if cwd.name == "r" else ["/"]), POSIX, limit, PROGRAM)
    roots = workspace.roots(str(cwd))
    assert roots is not None
    workspace.close()
    return {path.removeprefix(f"{roots.toplevel}/") for path in roots.carried}


def test_files_that_git_does_not_track_are_a_persons(repository: Path) -> None:
    assert carried(repository) == set()
    write(repository, "other", "")
    git(repository, "add", "other")
    assert carried(repository / "sub") == set()


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_files_that_git_tracks_came_with_the_clone(repository: Path, version: str) -> None:
    git(repository, "add", "-f", f"sub/{FILE}")
    git(repository, "update-index", "--index-version", version, "--force-write-index")
    assert carried(repository) == set()
    assert carried(repository / "sub") == {f"sub/{FILE}"}
    git(repository, "add", "-f", ".")
    assert carried(repository / "sub") == {FILE, f"sub/{FILE}"}


def test_an_index_is_asked_only_where_a_file_claims_more_than_a_projects(repository: Path) -> None:
    git(repository, "add", "-f", ".")
    write(repository, FILE, json.dumps({"language": "de", "permissions": {"allow": ["Bash"]}}))
    workspace = LocalWorkspace(Fence.of([str(repository)]), POSIX, LIMIT, PROGRAM)
    assert workspace.roots(str(repository)) == GitRoots(str(repository))
    assert str(repository / ".git" / "index") not in {mark.path for mark in workspace.footprint().files}
    write(repository, FILE, CLAIM)
    workspace = LocalWorkspace(Fence.of([str(repository)]), POSIX, LIMIT, PROGRAM)
    assert workspace.roots(str(repository)) == GitRoots(str(repository), carried=(str(repository / FILE),))
    assert str(repository / ".git" / "index") in {mark.path for mark in workspace.footprint().files}


@pytest.mark.parametrize(
    "text",
    [
        '{"autoMemoryDirectory": "/x"}',
        '{"additionalDirectories": ["/x"]}',
        '{"\\u0061dditionalDirectories": ["/x"]}',
        '{"auto\\u004demoryDirectory": "/x"}',
    ],
)
def test_a_claim_is_seen_however_it_is_written(repository: Path, text: str) -> None:
    git(repository, "add", "-f", ".")
    write(repository, FILE, text)
    assert carried(repository) == {FILE}


HIDDEN: dict[str, Callable[[Path], object]] = {
    "a split index": lambda r: (git(r, "add", "-f", "."), git(r, "update-index", "--split-index")),
    "a change beside a split index": lambda r: (
        git(r, "update-index", "--split-index"),
        git(r, "add", "-f", "."),
    ),
    "a link that is tracked": lambda r: (
        (r / ".claude").rename(r / "elsewhere"),
        (r / ".claude").symlink_to("elsewhere"),
        git(r, "add", ".claude"),
    ),
    "a file that is tracked behind a person's link": lambda r: (
        (r / ".claude").rename(r / "elsewhere"),
        (r / ".claude").symlink_to("elsewhere"),
        git(r, "add", "-f", "elsewhere"),
    ),
    "a file that is a tracked link": lambda r: (
        (r / FILE).rename(r / "elsewhere.json"),
        (r / FILE).symlink_to("../elsewhere.json"),
        git(r, "add", "-f", ".claude"),
    ),
    "a folder of another repository that is tracked": lambda r: git(
        r, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},.claude"
    ),
    "another case": lambda r: git(
        r, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},.Claude/Settings.LOCAL.json"
    ),
    "a checkout under way": lambda r: (r / ".git" / "index.lock").write_text(""),
    "a broken index": lambda r: (r / ".git" / "index").write_bytes(b"DIRC\0\0\0\7\0\0\0\0"),
    "an index that is a folder": lambda r: (r / ".git" / "index").mkdir(),
}


@pytest.mark.parametrize("name", list(HIDDEN))
def test_a_file_of_which_it_cannot_be_told_came_with_the_clone(repository: Path, name: str) -> None:
    HIDDEN[name](repository)
    assert FILE in carried(repository)


def test_a_folder_that_a_sparse_index_does_not_look_into_came_with_the_clone(repository: Path) -> None:
    write(repository, "kept/x", "")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "--quiet", "-m", "first")
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    write(repository, f"sub/{FILE}", CLAIM)
    assert carried(repository / "sub") == {f"sub/{FILE}"}


def test_an_index_over_the_limit_of_files_is_read_all_the_same(repository: Path) -> None:
    git(repository, "update-index", "-z", "--index-info", given=b"".join(
        f"100644 {'1' * 40}\tmany/{number:06}\0".encode() for number in range(2_000)
    ))  # fmt: skip
    assert carried(repository, limit=10_000) == set()
    git(repository, "add", "-f", ".claude")
    assert carried(repository, limit=10_000) == {FILE}


def test_an_index_of_long_ids_is_read(tmp_path: Path) -> None:
    made(tmp_path, 4, "sha256")
    write(tmp_path, FILE, CLAIM)
    assert carried(tmp_path) == {FILE}


def test_a_name_that_the_disk_takes_for_the_same_is_not_trusted(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SPELLS_ONE_WAY", False)
    assert carried(repository / "sub") == set()

    class Alike(LocalWorkspace):
        """A disk that takes names for the same without regard to case."""

        def names(self, path: str) -> tuple[str, ...]:
            return tuple(name.upper() for name in super().names(path))

    workspace = Alike(Fence.of([str(repository)]), POSIX, LIMIT, PROGRAM)
    assert workspace.roots(str(repository)) == GitRoots(str(repository), carried=(str(repository / FILE),))


def test_a_worktree_has_an_index_of_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "first")
    side = tmp_path.resolve() / "side"
    git(repository, "worktree", "add", "--quiet", "-b", "side", str(side))
    write(side, FILE, CLAIM)
    git(repository, "add", "-f", ".")
    assert carried(repository) == {FILE}
    assert carried(side) == set()
    git(side, "add", "-f", ".")
    assert carried(side) == {FILE}


def fenced(root: Path, cwd: Path) -> GitRoots | None:
    workspace = LocalWorkspace(Fence.of([str(root)]), POSIX, LIMIT, PROGRAM)
    try:
        return workspace.roots(str(cwd))
    finally:
        workspace.close()


UNFOLLOWED: dict[str, Callable[[Path, Path], object]] = {
    "a worktree of a repository outside": lambda r, outside: (r / ".git").write_text(f"gitdir: {outside}/.git\n"),
    "a pointer to nothing": lambda r, outside: (r / ".git").write_text("gitdir: /nonexistent/.git\n"),
    "a link that leads outside": lambda r, outside: (r / ".git").symlink_to(outside / ".git"),
}


@pytest.mark.parametrize("name", list(UNFOLLOWED))
def test_beside_a_repository_that_is_not_followed_nobody_can_tell_what_came_with_it(
    repository: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    (repository / ".git").rename(outside / ".git")
    UNFOLLOWED[name](repository, outside)
    both = (str(repository / FILE), str(repository / "sub" / FILE))
    found = fenced(repository, repository / "sub")
    assert found == GitRoots(str(repository), carried=both)
    workspace = LocalWorkspace(Fence.of([str(repository)]), POSIX, LIMIT, PROGRAM)
    assert workspace.carries(str(repository / "sub" / "x"), str(repository))
    assert workspace.git(str(repository)) == GitFacts(GitRoots(str(repository), carried=both[:1]))
    for place in (FILE, f"sub/{FILE}"):
        write(repository, place, "{}")
    assert fenced(repository, repository / "sub") is None


def test_above_the_roots_nobody_looks_for_a_repository(repository: Path) -> None:
    git(repository, "add", "-f", ".")
    assert fenced(repository / "sub", repository / "sub") is None
