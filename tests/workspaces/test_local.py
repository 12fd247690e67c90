from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.facts import Content, Kind, Node
from app.workspaces.descent import Way, way_within
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from tests.workspaces.trees import LIMIT, POSIX, PROGRAM, local


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text("secret")
    return folder


def test_a_fence_holds_its_roots_and_what_is_below(tmp_path: Path) -> None:
    fence = Fence.of([str(tmp_path)])
    assert fence.holds(str(tmp_path))
    assert fence.holds(f"{tmp_path}/a/b")
    assert not fence.holds(f"{tmp_path}x")
    assert not fence.holds(str(tmp_path.parent))
    assert fence.is_above(str(tmp_path.parent))
    assert not fence.is_above(f"{tmp_path}/a")


def test_a_fence_stands_around_real_folders(inside: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(inside)
    assert Fence.of([f"{tmp_path}/link", str(inside), "", f"{inside}/"]).roots == (str(inside),)


def test_a_fence_around_the_root_holds_everything() -> None:
    assert Fence.of(["/"]).holds("/etc/passwd")


def test_a_fence_around_nothing_holds_nothing() -> None:
    assert not Fence.of([]).holds("/")


def test_outside_looks_the_same_whether_it_exists_or_not(inside: Path, outside: Path) -> None:
    workspace = local(inside)
    for path in (f"{outside}/secret.md", f"{outside}/nothing.md", str(outside), "/", "/etc/passwd", "/no/such"):
        assert workspace.look(path) == Node(Kind.OUTSIDE, path)
        assert workspace.read(path) == Content(None, "outside_fence")
        assert workspace.names(path) == ()


def test_links_that_lead_outside_tell_nothing_of_what_is_there(inside: Path, outside: Path, tmp_path: Path) -> None:
    (inside / "file").symlink_to(outside / "secret.md")
    (inside / "nothing").symlink_to(outside / "nothing.md")
    (inside / "folder").symlink_to("../outside")
    (inside / "there_and_back").symlink_to("../outside/../inside/x.md")
    (inside / "nowhere_and_back").symlink_to("../missing/../inside/x.md")
    (inside / "file_and_back").symlink_to("../outside/secret.md/../../inside/x.md")
    (inside / "x.md").write_text("x")
    (outside / "loop").symlink_to("loop")
    (inside / "loop").symlink_to(outside / "loop")
    workspace = local(inside)
    for name in ("file", "nothing", "folder", "folder/secret.md", "folder/nothing.md", "loop"):
        assert workspace.look(f"{inside}/{name}") == Node(Kind.OUTSIDE, f"{inside}/{name}")
        assert workspace.read(f"{inside}/{name}") == Content(None, "outside_fence")
    for name in ("there_and_back", "nowhere_and_back", "file_and_back"):
        assert workspace.look(f"{inside}/{name}") == Node(Kind.OUTSIDE, f"{inside}/{name}")


def test_a_link_may_pass_above_the_fence(inside: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.md").write_text("a")
    (inside / "link.md").symlink_to("../other/a.md")
    workspace = LocalWorkspace(Fence.of([str(inside), str(other)]), POSIX, LIMIT, PROGRAM)
    assert workspace.look(f"{inside}/link.md") == Node(Kind.FILE, f"{other}/a.md", 1)


def test_a_link_outside_leads_inside_where_a_root_is_written_through_it(inside: Path, tmp_path: Path) -> None:
    (inside / "a.md").write_text("a")
    (tmp_path / "further").symlink_to(inside)
    (tmp_path / "link").symlink_to("further")
    through = LocalWorkspace(Fence.of([f"{tmp_path}/link"]), POSIX, LIMIT, PROGRAM)
    for name in ("link", "further"):
        assert through.look(f"{tmp_path}/{name}/a.md") == Node(Kind.FILE, f"{inside}/a.md", 1)
        assert local(inside).look(f"{tmp_path}/{name}/a.md").kind is Kind.OUTSIDE


def test_nothing_outside_is_even_looked_at(inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (inside / "link").symlink_to("../there/deep/x.md")
    looked = list[str]()
    disk = Disk(way=lambda fence: Noting(way_within(fence), looked))
    workspace = LocalWorkspace(Fence.of([str(inside)]), POSIX, LIMIT, PROGRAM, disk)
    for path in (f"{tmp_path}/there/deep/x.md", f"{tmp_path}/not/deep/x.md", f"{inside}/link"):
        assert workspace.look(path).kind is Kind.OUTSIDE
    allowed = {str(inside), str(inside / "link"), *map(str, inside.parents)}
    assert looked
    assert set(looked) <= allowed


class Noting:
    """A way that notes the places it is asked for."""

    def __init__(self, way: Way, looked: list[str]) -> None:
        self._way, self._looked = way, looked

    def facts(self, path: str) -> os.stat_result:
        self._looked.append(path)
        return self._way.facts(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._way, name)


@pytest.fixture
def special(inside: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    os.mkfifo(inside / "CLAUDE.md")
    (inside / "linked.md").symlink_to("CLAUDE.md")
    monkeypatch.chdir(inside)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.md")
        yield inside


def test_what_is_no_file_is_special_and_never_opened(special: Path) -> None:
    workspace = local(special)
    for name in ("CLAUDE.md", "linked.md", "socket.md"):
        assert workspace.look(f"{special}/{name}").kind is Kind.SPECIAL
        assert workspace.read(f"{special}/{name}") == Content(None, "unreadable")
        assert workspace.names(f"{special}/{name}") == ()
    assert workspace.names(str(special)) == ("CLAUDE.md", "linked.md", "socket.md")


def test_a_device_is_special(inside: Path) -> None:
    try:
        os.mknod(inside / "null.md", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only the administrator makes devices")
    workspace = local(inside)
    assert workspace.look(f"{inside}/null.md").kind is Kind.SPECIAL
    assert workspace.read(f"{inside}/null.md") == Content(None, "unreadable")


@pytest.mark.skipif(sys.platform != "linux", reason="such files are Linux's")
def test_nothing_of_the_kernels_own_folders_is_told_whatever_the_root() -> None:
    for root in ("/", "/proc", "/sys/kernel", "/dev"):
        workspace = local(Path(root))
        for path in ("/proc/self/environ", "/proc/cpuinfo", "/proc/nothing", "/sys/kernel/mm", "/dev/null", "/dev/fd"):
            assert workspace.look(path).kind in (Kind.MISSING, Kind.OUTSIDE)
            assert workspace.read(path).data is None
            assert workspace.names(path) == ()
        for path in ("/proc", "/sys", "/dev"):
            assert workspace.look(path).kind in (Kind.SPECIAL, Kind.OUTSIDE, Kind.MISSING)
            assert workspace.names(path) == ()


def test_names_that_are_not_utf8_are_listed_and_lead_to_nothing(inside: Path) -> None:
    odd = os.fsencode(inside) + b"/caf\xe9.md"
    Path(os.fsdecode(odd)).write_text("odd")
    (inside / "to_odd.md").symlink_to(os.fsdecode(b"caf\xe9.md"))
    (inside / "even.md").write_text("even")
    workspace = local(inside)
    assert workspace.names(str(inside)) == ("caf\ufffd.md", "even.md", "to_odd.md")
    assert workspace.look(f"{inside}/caf\ufffd.md").kind is Kind.MISSING
    assert workspace.look(os.fsdecode(odd)).kind is Kind.MISSING
    assert workspace.look(f"{inside}/to_odd.md") == Node(Kind.DANGLING, f"{inside}/to_odd.md")


def test_an_over_long_path_is_missing(inside: Path) -> None:
    assert local(inside).look(f"{inside}/" + "x" * 5_000).kind is Kind.MISSING


def test_a_folder_swapped_for_a_link_after_the_look_does_not_let_out(inside: Path, outside: Path) -> None:
    (inside / "folder").mkdir()
    (inside / "folder" / "secret.md").write_text("harmless")
    (outside / "more.md").write_text("more")
    workspace = local(inside)
    assert workspace.look(f"{inside}/folder/secret.md").kind is Kind.FILE
    (inside / "folder").rename(inside / "moved")
    (inside / "folder").symlink_to(outside)
    assert workspace.read(f"{inside}/folder/secret.md") == Content(b"harmless")
    assert workspace.names(f"{inside}/folder") == ()
    workspace.close()
    assert workspace.look(f"{inside}/folder/more.md").kind is Kind.MISSING


def test_a_folder_swapped_for_a_link_before_it_was_looked_in_does_not_let_out(inside: Path, outside: Path) -> None:
    (inside / "folder").mkdir()
    (outside / "link.md").symlink_to("target")
    workspace = local(inside)
    assert workspace.look(f"{inside}/folder").kind is Kind.DIRECTORY
    (inside / "folder").rmdir()
    (inside / "folder").symlink_to(outside)
    assert workspace.names(f"{inside}/folder") == ()
    for name in ("secret.md", "link.md", "nothing.md"):
        assert workspace.look(f"{inside}/folder/{name}") == Node(Kind.MISSING, f"{inside}/folder/{name}")
        assert workspace.read(f"{inside}/folder/{name}") == Content(None, "not_found")


def test_a_file_swapped_for_a_link_after_the_look_is_not_followed(inside: Path, outside: Path) -> None:
    (inside / "a.md").write_text("harmless")
    workspace = local(inside)
    assert workspace.look(f"{inside}/a.md").kind is Kind.FILE
    (inside / "a.md").unlink()
    (inside / "a.md").symlink_to(outside / "secret.md")
    assert workspace.read(f"{inside}/a.md") == Content(None, "unreadable")


def test_a_file_swapped_for_a_fifo_after_the_look_does_not_hang(inside: Path) -> None:
    (inside / "a.md").write_text("harmless")
    workspace = local(inside)
    assert workspace.look(f"{inside}/a.md").kind is Kind.FILE
    (inside / "a.md").unlink()
    os.mkfifo(inside / "a.md")
    assert workspace.read(f"{inside}/a.md") == Content(None, "unreadable")


def test_a_file_swapped_for_a_folder_after_the_look_is_a_folder(inside: Path) -> None:
    (inside / "a.md").write_text("harmless")
    workspace = local(inside)
    assert workspace.look(f"{inside}/a.md").kind is Kind.FILE
    (inside / "a.md").unlink()
    (inside / "a.md").mkdir()
    assert workspace.read(f"{inside}/a.md") == Content(None, "is_directory")


def test_a_file_gone_after_the_look_is_not_found(inside: Path) -> None:
    (inside / "a.md").write_text("here")
    (inside / "folder").mkdir()
    workspace = local(inside)
    assert workspace.look(f"{inside}/a.md").kind is Kind.FILE
    assert workspace.look(f"{inside}/folder").kind is Kind.DIRECTORY
    (inside / "a.md").unlink()
    (inside / "folder").rmdir()
    assert workspace.read(f"{inside}/a.md") == Content(None, "not_found")
    assert workspace.names(f"{inside}/folder") == ()


def test_a_file_that_grew_after_the_look_is_measured_again(inside: Path) -> None:
    (inside / "a.md").write_text("small")
    workspace = local(inside)
    assert workspace.look(f"{inside}/a.md").size == 5
    (inside / "a.md").write_bytes(b"x" * (LIMIT + 1))
    assert workspace.read(f"{inside}/a.md") == Content(None, "budget")


AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.workspaces.trees import local
if os.geteuid() == 0:
    os.seteuid(65534)
folder = sys.argv[1]
workspace = local(Path(folder))
for path in ("closed.md", "closed", "closed/a.md", "closed/a.md/b", "listed", "listed/a.md", "link"):
    print(path, workspace.look(f"{folder}/{path}").kind, workspace.read(f"{folder}/{path}").problem,
          workspace.names(f"{folder}/{path}"))
"""


def test_what_may_not_be_read_is_unreadable() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        for name in ("closed", "listed"):
            (folder / name).mkdir()
            (folder / name / "a.md").write_text("a")
        (folder / "closed.md").write_text("closed")
        (folder / "link").symlink_to("closed/a.md")
        for path, mode in {"closed.md": 0o000, "closed": 0o000, "listed": 0o444, "": 0o755}.items():
            (folder / path).chmod(mode)
        asked = [sys.executable, "-c", AS_NOBODY, str(folder)]
        told = subprocess.run(asked, capture_output=True, check=True, cwd=Path(__file__).parents[2]).stdout.decode()
        for path in ("closed", "listed"):
            (folder / path).chmod(0o755)
    assert told.splitlines() == [
        "closed.md file unreadable ()",
        "closed directory is_directory ()",
        "closed/a.md unreadable unreadable ()",
        "closed/a.md/b unreadable unreadable ()",
        "listed directory is_directory ('a.md',)",
        "listed/a.md unreadable unreadable ()",
        "link unreadable unreadable ()",
    ]


def test_one_workspace_shows_one_state_of_the_tree(inside: Path) -> None:
    (inside / "a.md").write_text("a")
    workspace = local(inside)
    assert workspace.look(f"{inside}/a.md").kind is Kind.FILE
    assert workspace.look(f"{inside}/b.md").kind is Kind.MISSING
    (inside / "a.md").rename(inside / "b.md")
    assert workspace.look(f"{inside}/a.md").kind is Kind.FILE
    assert workspace.look(f"{inside}/b.md").kind is Kind.MISSING
    assert local(inside).look(f"{inside}/b.md").kind is Kind.FILE
