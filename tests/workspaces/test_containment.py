"""Which repositories git is shown: those whose parts all lie inside the fence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.core.facts import GitFacts, GitRoots
from app.errors import WorkspaceNotFound
from app.workspaces import containment
from app.workspaces.commit import GitWorkspace
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from tests.reference.programs import git
from tests.workspaces.test_program import facts
from tests.workspaces.trees import LIMIT, POSIX, PROGRAM


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "r"
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


@pytest.mark.parametrize("part", ["objects", "refs", "index", "config", "objects/pack"])
def test_a_repository_with_a_part_outside_the_fence_is_not_given_to_git(
    repository: Path, tmp_path: Path, part: str
) -> None:
    assert facts(repository, fence=repository).branch == "main"
    (repository / ".git" / part).rename(tmp_path / "moved")
    (repository / ".git" / part).symlink_to(tmp_path / "moved")
    assert facts(repository, fence=tmp_path).branch == "main"
    assert facts(repository, fence=repository) == GitFacts(roots=GitRoots(str(repository)))


def test_a_repository_that_borrows_objects_from_outside_the_fence_is_not_given_to_git(
    repository: Path, tmp_path: Path
) -> None:
    fence = tmp_path / "fence"
    fence.mkdir()
    for lender, borrower in ((repository, fence / "near"), (fence / "near", fence / "far")):
        git(tmp_path, "clone", "--quiet", "--shared", str(lender), str(borrower))
    for folder in (fence / "near", fence / "far"):
        assert facts(folder, fence=tmp_path).branch == "main"
        assert facts(folder, fence=fence) == GitFacts(roots=GitRoots(str(folder)))


def test_a_chain_of_lenders_is_followed_as_far_as_git_does(repository: Path, tmp_path: Path) -> None:
    lender = repository
    for number in range(6):
        git(tmp_path, "clone", "--quiet", "--shared", str(lender), str(tmp_path / str(number)))
        lender = tmp_path / str(number)
    assert facts(tmp_path / "4").branch == "main"
    assert facts(tmp_path / "5").branch is None


@pytest.mark.parametrize(("lender", "trusted"), [("# none", True), ("", True), ('"/quoted"', False), ("gone", False)])
def test_only_plain_lenders_are_trusted(repository: Path, lender: str, trusted: bool) -> None:
    (repository / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "objects" / "info" / "alternates").write_text(f"{lender}\n")
    assert (facts(repository).branch == "main") is trusted


def is_shown(repository: Path, fence: Path) -> bool:
    return facts(repository, fence=fence) != GitFacts(roots=GitRoots(str(repository)))


@pytest.mark.parametrize(
    "part",
    [
        *("objects/HEAD", "objects/fan-out", "objects/pack/x.pack", "objects/info/commit-graph", "objects/info"),
        *("refs/heads", "refs/heads/main", "refs/tags/v1", "packed-refs", "index", "info/exclude", "info/attributes"),
        *("info/sparse-checkout", "shallow", "sharedindex.0", "info/grafts"),
    ],
)
def test_no_entry_may_lead_outside(repository: Path, tmp_path: Path, part: str) -> None:
    head = git(repository, "rev-parse", "HEAD")
    names = {"objects/HEAD": f"objects/{head[:2]}/{head[2:]}", "objects/fan-out": f"objects/{head[:2]}"}
    place = repository / ".git" / names.get(part, part)
    if place.exists():
        place.rename(tmp_path / "moved")
    else:
        (tmp_path / "moved").write_text("")
        place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "moved")
    assert is_shown(repository, tmp_path)
    assert not is_shown(repository, repository)


def test_a_head_outside_is_no_repository(repository: Path, tmp_path: Path) -> None:
    (repository / ".git" / "HEAD").rename(tmp_path / "moved")
    (repository / ".git" / "HEAD").symlink_to(tmp_path / "moved")
    assert facts(repository, fence=tmp_path).branch == "main"
    assert LocalWorkspace(Fence.of([str(repository)]), POSIX, 10_000, PROGRAM).git(str(repository)) is None


@pytest.mark.parametrize("place", ["objects/ab", "refs/heads/other"])
@pytest.mark.parametrize("target", [b"gone", b"/outside/\xff", b"ab"])
def test_an_entry_that_leads_nowhere_is_not_trusted(repository: Path, place: str, target: bytes) -> None:
    assert is_shown(repository, repository)
    (repository / ".git" / place).symlink_to(os.fsdecode(target))
    assert not is_shown(repository, repository)


def test_an_entry_may_lead_inside_and_is_followed(repository: Path, tmp_path: Path) -> None:
    (repository / "kept").mkdir()
    (repository / ".git" / "refs" / "kept").symlink_to(repository / "kept")
    (repository / "kept" / "back").symlink_to(repository / ".git" / "refs")
    assert is_shown(repository, repository)
    (tmp_path / "moved").write_text("")
    (repository / "kept" / "out").symlink_to(tmp_path / "moved")
    assert not is_shown(repository, repository)


def test_an_entry_whose_name_is_no_text_may_be_no_link(repository: Path) -> None:
    (repository / ".git" / "refs" / "heads" / os.fsdecode(b"\xff")).symlink_to("main")
    assert not is_shown(repository, repository)


def test_a_repository_with_more_entries_than_are_looked_through_is_not_shown(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containment, "_ENTRIES_LIMIT", 3)
    assert not is_shown(repository, repository)


def test_a_repository_with_very_many_shared_indexes_is_not_shown(repository: Path) -> None:
    for number in range(65):
        (repository / ".git" / f"sharedindex.{number}").write_text("")
    assert not is_shown(repository, repository)


def test_a_reftable_is_looked_through(repository: Path, tmp_path: Path) -> None:
    stacks = repository / ".git" / "reftable"
    stacks.mkdir()
    assert is_shown(repository, repository)
    (tmp_path / "moved").write_text("")
    (stacks / "tables.list").symlink_to(tmp_path / "moved")
    assert not is_shown(repository, repository)
    (stacks / "tables.list").unlink()
    stacks.rmdir()
    stacks.write_text("")
    assert not is_shown(repository, repository)


def test_lenders_are_read_as_git_reads_them(repository: Path, tmp_path: Path) -> None:
    objects = repository / ".git" / "objects"
    for name in (b"a", b"b", b"a\x0bb", b" c", b"d\xff", "d\ufffd".encode(), b"e\r"):
        (objects / os.fsdecode(name)).mkdir()
    (objects / "info").mkdir(exist_ok=True)
    for line in (b"a", b"../objects/b", b"a\n\n#\xff\nb\n", os.fsencode(objects) + b"/a"):
        (objects / "info" / "alternates").write_bytes(line)
        assert is_shown(repository, repository)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "a").mkdir()
    (objects / "up").symlink_to(repository)
    assert is_shown(repository, repository)
    for line in (b"a\x0bb", b" c", b"c ", b"d\xff", b"e\r", b"a\0", b"up/../a", b"../../../elsewhere/a"):
        (objects / "info" / "alternates").write_bytes(b"a\n" + line + b"\n")
        assert not is_shown(repository, repository)


def test_a_commit_is_not_read_from_a_repository_that_leads_outside(repository: Path, tmp_path: Path) -> None:
    fence = Fence.of([str(repository)])
    GitWorkspace(str(repository), "main", fence=fence, program=PROGRAM, max_file_bytes=LIMIT).close()
    (tmp_path / "moved").mkdir()
    (repository / ".git" / "objects" / "00").symlink_to(tmp_path / "moved")
    with pytest.raises(WorkspaceNotFound):
        GitWorkspace(str(repository), "main", fence=fence, program=PROGRAM, max_file_bytes=LIMIT)
