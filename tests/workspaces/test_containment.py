"""Which repositories git is shown: those whose parts all lie inside the fence."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from app.core.facts import GitFacts, GitRoots
from app.errors import WorkspaceNotFound
from app.workspaces import containment, listing
from app.workspaces.commit import GitWorkspace
from app.workspaces.containment import Proven, shown
from app.workspaces.fence import Fence
from app.workspaces.listing import Listing
from app.workspaces.local import LocalWorkspace
from app.workspaces.program import GitProgram
from app.workspaces.repository import find_repository
from app.workspaces.standing import Stamp
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
    for names, stays in (("0x01-0x02-ab.ref\n", True), (f"x.ref\n{tmp_path}/x.ref\n", False), ("../x.ref\n", False)):
        (stacks / "tables.list").write_text(names)
        assert is_shown(repository, repository) is stays
    (stacks / "tables.list").unlink()
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


AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.workspaces.test_containment import shows
if os.geteuid() == 0:
    os.setuid(65534)
for name in ("closed", "passable"):
    print(name, shows(Path(sys.argv[1]) / name))
"""


def test_a_folder_that_may_be_passed_but_not_listed_is_not_trusted() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        folder.chmod(0o755)
        for name, mode in (("closed", 0o000), ("passable", 0o111)):
            git(folder / name, "init", "--quiet", "--initial-branch=main")
            fan_out = folder / name / ".git" / "objects" / "ab"
            fan_out.mkdir()
            fan_out.chmod(mode)
        asked = [sys.executable, "-c", AS_NOBODY, str(folder)]
        told = subprocess.run(asked, capture_output=True, check=True, cwd=Path(__file__).parents[2]).stdout.decode()
        for name in ("closed", "passable"):
            (folder / name / ".git" / "objects" / "ab").chmod(0o755)
    assert told.splitlines() == ["closed True", "passable False"]


def shows(repository: Path, proven: Proven | None = None, fence: Path | None = None) -> bool:
    workspace = LocalWorkspace(Fence.of([str(fence or repository)]), POSIX, 10_000, PROGRAM)
    found = find_repository(workspace, str(repository))
    assert found is not None
    return shown(workspace, found, proven) is not None


class Watched:
    """Which folders below ``root`` are listed."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root = str(root)
        self._scandir = os.scandir
        self._places: list[str] = []
        monkeypatch.setattr(os, "scandir", self._noting)

    def listed(self) -> list[str]:
        """The folders since the last question, in order of their names."""
        places = sorted(os.path.relpath(place, self._root) for place in self._places if place.startswith(self._root))
        self._places.clear()
        return places

    def _noting(self, folder: int | str) -> object:
        self._places.append(os.path.realpath(f"/proc/self/fd/{folder}") if isinstance(folder, int) else folder)
        return self._scandir(folder)


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="open folders have a place there")


@on_linux
def test_folders_that_are_proven_are_not_listed_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = repository / ".git" / "objects"
    proven = Proven(settled_seconds=-60)
    watched = Watched(objects, monkeypatch)
    assert shows(repository, proven)
    assert {".", "info", "pack"} <= set(watched.listed())
    assert shows(repository, proven)
    assert watched.listed() == []
    assert shows(repository)
    assert {".", "info", "pack"} <= set(watched.listed())
    (objects / "ab").mkdir()
    (objects / "pack" / "new").write_text("")
    assert shows(repository, proven)
    assert watched.listed() == [".", "ab", "pack"]


@on_linux
def test_folders_that_changed_a_moment_ago_are_listed_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proven = Proven(settled_seconds=600)
    watched = Watched(repository / ".git" / "objects", monkeypatch)
    assert shows(repository, proven)
    first = watched.listed()
    os.utime(repository / ".git" / "objects" / "pack", (0, 0))  # the time of its change of state stays new
    assert shows(repository, proven)
    assert watched.listed() == first


@pytest.mark.parametrize("place", ["objects/pack/x.pack", "objects/ab", "refs/heads/other", "refs/more/deep/x"])
def test_a_link_that_leads_outside_is_seen_although_all_was_proven(
    repository: Path, tmp_path: Path, place: str
) -> None:
    proven = Proven(settled_seconds=0.02)
    (repository / ".git" / place).parent.mkdir(parents=True, exist_ok=True)
    time.sleep(0.05)
    assert shows(repository, proven)
    (tmp_path / "moved").write_text("")
    (repository / ".git" / place).symlink_to(tmp_path / "moved")
    assert not shows(repository, proven)
    assert shows(repository, proven, tmp_path)
    (repository / ".git" / place).unlink()
    assert shows(repository, proven)


@on_linux
def test_a_folder_with_a_link_is_never_proven(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = Proven(settled_seconds=-60)
    (tmp_path / "moved").write_text("")
    (repository / ".git" / "objects" / "pack" / "x").symlink_to(tmp_path / "moved")
    watched = Watched(repository / ".git" / "objects", monkeypatch)
    for _ in range(2):
        assert shows(repository, proven, tmp_path)
        assert "pack" in watched.listed()
    assert not shows(repository, proven)


def test_proven_folders_count_against_the_limit_of_entries(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proven = Proven(settled_seconds=-60)
    assert shows(repository, proven)
    monkeypatch.setattr(containment, "_ENTRIES_LIMIT", 3)
    assert not shows(repository, proven)


def test_a_folder_that_was_not_listed_to_its_end_is_not_proven(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = Proven(settled_seconds=-60)
    for number in range(5):
        (repository / ".git" / "objects" / "pack" / str(number)).write_text("")
    with monkeypatch.context() as patched:
        patched.setattr(containment, "_ENTRIES_LIMIT", 3)
        assert not shows(repository, proven)
    (repository / ".git" / "objects" / "pack" / "5").symlink_to("gone")
    assert not shows(repository, proven)


def test_a_system_that_cannot_list_open_folders_lists_them_by_their_paths(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_LISTS_WHAT_IS_OPEN", False)
    proven = Proven(settled_seconds=-60)
    assert shows(repository, proven)
    (tmp_path / "moved").write_text("")
    (repository / ".git" / "objects" / "ab").symlink_to(tmp_path / "moved")
    assert not shows(repository, proven)


def stamp(number: int) -> Stamp:
    return 1, number, 0, 0


def test_the_memory_of_proven_folders_is_bounded() -> None:
    proven = Proven(limit=3)
    for number in range(3):
        proven.keep(stamp(number), Listing(number), 10**18)
    assert proven.listing(stamp(0)) == Listing(0)
    proven.keep(stamp(3), Listing(9, (), ("a",)), 10**18)
    kept = [number for number in range(4) if proven.listing(stamp(number))]
    assert kept == [0, 3]
    proven.keep(stamp(4), Listing(9, (), ("a", "b", "c")), 10**18)
    assert proven.listing(stamp(4)) is None


@pytest.mark.parametrize("times", [(0, 10**18), (10**18, 0), (2 * 10**18, 0), (10**18 - 2 * 10**9, 0)])
def test_a_folder_is_proven_when_both_its_times_are_settled(times: tuple[int, int]) -> None:
    proven = Proven()
    proven.keep((1, 1, *times), Listing(1), 10**18)
    assert proven.listing((1, 1, *times)) is None
    proven.keep((1, 1, *times), Listing(1), max(times) + 2 * 10**9 + 1)
    assert proven.listing((1, 1, *times)) == Listing(1)


@on_linux
def test_a_program_hands_its_memory_to_the_commits_that_are_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = GitProgram(proven=Proven(settled_seconds=-60))
    watched = Watched(repository / ".git" / "objects", monkeypatch)
    fence = Fence.of([str(repository)])
    GitWorkspace(str(repository), "main", fence=fence, program=program, max_file_bytes=LIMIT).close()
    assert watched.listed() != []
    GitWorkspace(str(repository), "main", fence=fence, program=program, max_file_bytes=LIMIT).close()
    assert watched.listed() == []
