from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.facts import Content, Kind, Node
from app.workspaces.descent import ByPath, Descent, Way, way_within
from app.workspaces.disk import SETTLING_NANOSECONDS, Disk, Held, stamp_of
from app.workspaces.drives import Drives
from app.workspaces.fence import Fence
from app.workspaces.resolving import Entry
from tests.workspaces.trees import LIMIT, in_an_hour, local, pass_a_tick

ROOMY = 1_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "a.md"
    file.write_text("text 000")
    return file


def within(folder: Path) -> Way:
    return way_within(Fence.of([str(folder)]))


def rewritten(file: Path, text: str, modified: int) -> None:
    """In place, with the same size and time: only ctime can tell."""
    with file.open("r+b") as opened:
        opened.write(text.encode())
    os.utime(file, ns=(modified, modified))


def test_a_file_that_was_left_alone_is_read_from_the_disk_once(file: Path) -> None:
    disk = Disk(ROOMY, wall=in_an_hour)
    first = local(file.parent, disk).read(str(file))
    assert first == Content(b"text 000")
    assert local(file.parent, disk).read(str(file)) is first


def test_a_listing_of_a_folder_that_was_left_alone_is_made_once(file: Path) -> None:
    disk = Disk(ROOMY, wall=in_an_hour)
    first = local(file.parent, disk).names(str(file.parent))
    assert first == ("a.md",)
    assert local(file.parent, disk).names(str(file.parent)) is first


def test_nothing_that_was_touched_a_moment_ago_is_kept(file: Path) -> None:
    disk = Disk(ROOMY)
    assert local(file.parent, disk).read(str(file)) is not local(file.parent, disk).read(str(file))
    assert local(file.parent, disk).names(str(file.parent)) is not local(file.parent, disk).names(str(file.parent))


def test_nothing_is_kept_of_a_drive_that_is_not_local(file: Path) -> None:
    disk = Disk(ROOMY, Drives("/nonexistent"), in_an_hour)
    assert local(file.parent, disk).read(str(file)) is not local(file.parent, disk).read(str(file))


def test_without_room_nothing_is_kept(file: Path) -> None:
    disk = Disk(0, wall=in_an_hour)
    assert local(file.parent, disk).read(str(file)) is not local(file.parent, disk).read(str(file))


def test_writes_of_the_same_size_and_time_to_the_same_file_are_never_missed(file: Path) -> None:
    disk = Disk(ROOMY)
    modified = file.stat().st_mtime_ns
    for number in range(500):
        text = f"text {number:03}"
        rewritten(file, text, modified)
        assert local(file.parent, disk).read(str(file)) == Content(text.encode())


def test_a_write_of_the_same_size_and_time_over_what_is_kept_is_seen(file: Path) -> None:
    disk = Disk(ROOMY, wall=in_an_hour)
    modified = file.stat().st_mtime_ns
    for number in range(5):
        text = f"text {number:03}"
        pass_a_tick(file.parent)
        rewritten(file, text, modified)
        first = local(file.parent, disk).read(str(file))
        assert first == Content(text.encode())
        assert local(file.parent, disk).read(str(file)) is first


def test_a_name_that_came_into_a_kept_listing_is_seen(file: Path) -> None:
    disk = Disk(ROOMY, wall=in_an_hour)
    assert local(file.parent, disk).names(str(file.parent)) == ("a.md",)
    pass_a_tick(file.parent)
    (file.parent / "b.md").touch()
    assert local(file.parent, disk).names(str(file.parent)) == ("a.md", "b.md")


def test_what_one_fence_had_kept_is_not_given_to_another(tmp_path: Path) -> None:
    mine, yours = tmp_path / "mine", tmp_path / "yours"
    mine.mkdir()
    yours.mkdir()
    (mine / "secret.md").write_text("secret")
    (yours / "link.md").symlink_to(mine / "secret.md")
    (yours / "folder").symlink_to(mine)
    disk = Disk(ROOMY, wall=in_an_hour)
    assert local(mine, disk).read(f"{mine}/secret.md") == Content(b"secret")
    assert local(mine, disk).names(str(mine)) == ("secret.md",)
    for path in (f"{mine}/secret.md", f"{yours}/link.md", f"{yours}/folder/secret.md"):
        assert local(yours, disk).read(path) == Content(None, "outside_fence")
    assert local(yours, disk).names(str(mine)) == ()
    assert local(yours, disk).names(f"{yours}/folder") == ()


def test_a_kept_file_swapped_for_a_link_to_one_outside_is_not_followed(tmp_path: Path) -> None:
    mine, yours = tmp_path / "mine", tmp_path / "yours"
    mine.mkdir()
    yours.mkdir()
    (mine / "a.md").write_text("secret")
    (yours / "a.md").write_text("harmless")
    disk = Disk(ROOMY, wall=in_an_hour)
    local(mine, disk).read(f"{mine}/a.md")
    workspace = local(yours, disk)
    assert workspace.look(f"{yours}/a.md").real == f"{yours}/a.md"
    (yours / "a.md").unlink()
    (yours / "a.md").symlink_to(mine / "a.md")
    assert workspace.read(f"{yours}/a.md") == Content(None, "unreadable")


def test_a_kept_file_is_not_given_where_less_is_allowed(file: Path) -> None:
    disk = Disk(ROOMY, wall=in_an_hour)
    assert disk.read(within(file.parent), str(file), 8).content == Content(b"text 000")
    assert disk.read(within(file.parent), str(file), 7).content == Content(None, "budget")


def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    for size in (0, 1, LIMIT, 9_000, 100_000):
        (tmp_path / "a.md").write_bytes(b"x" * size)
        assert Disk().read(within(tmp_path), f"{tmp_path}/a.md", size).content == Content(b"x" * size)


def test_a_stamp_settles_two_seconds_after_the_last_change(file: Path) -> None:
    disk = Disk()
    stamp = stamp_of(file.stat())
    newest = max(stamp.modified, stamp.changed)
    assert not disk.is_settled(stamp, str(file), newest)
    assert not disk.is_settled(stamp, str(file), newest + SETTLING_NANOSECONDS)
    assert disk.is_settled(stamp, str(file), newest + SETTLING_NANOSECONDS + 1)


def test_a_file_from_the_future_does_not_settle(file: Path) -> None:
    os.utime(file, ns=(0, in_an_hour()))
    stamp = stamp_of(file.stat())
    assert not Disk().is_settled(stamp, str(file), stamp.changed + 10 * SETTLING_NANOSECONDS)


class Meddling(Drives):
    """Changes something after it was stamped and before it is read."""

    def __init__(self, change: Callable[[], object]) -> None:
        super().__init__()
        self._change = change

    def is_local(self, device: int, path: str) -> bool:
        self._change()
        return True


def test_a_file_that_changes_while_it_is_read_is_not_kept(file: Path) -> None:
    numbers = iter(range(100, 999))

    def change() -> None:
        pass_a_tick(file.parent)
        rewritten(file, f"text {next(numbers)}", 0)

    disk = Disk(ROOMY, Meddling(change), in_an_hour)
    assert disk.read(within(file.parent), str(file), LIMIT).content == Content(b"text 100")
    assert disk.read(within(file.parent), str(file), LIMIT).content == Content(b"text 101")


def test_a_folder_that_changes_while_it_is_listed_is_not_kept(file: Path) -> None:
    numbers = iter(range(1, 9))

    def change() -> None:
        pass_a_tick(file.parent)
        (file.parent / f"{next(numbers)}.md").touch()

    disk = Disk(ROOMY, Meddling(change), in_an_hour)
    assert disk.names(within(file.parent), str(file.parent)) == ("1.md", "a.md")
    assert disk.names(within(file.parent), str(file.parent)) == ("1.md", "2.md", "a.md")


def test_a_file_that_grows_while_it_is_read_is_read_no_further_than_the_limit(file: Path) -> None:
    disk = Disk(ROOMY, Meddling(lambda: file.write_bytes(b"x" * 2 * LIMIT)), in_an_hour)
    assert disk.read(within(file.parent), str(file), LIMIT).content == Content(None, "budget")


@pytest.mark.parametrize("way", [Descent, ByPath])
def test_nothing_is_listed_that_was_swapped_for_a_file(file: Path, way: Callable[[Fence], Way]) -> None:
    assert Disk().names(way(Fence.of([str(file.parent)])), str(file)) == ()


def pseudo(path: str) -> Drives:
    """The same mounts, and one of a pseudo file system at ``path``, by the path alone."""

    class Mounted(Drives):
        def is_pseudo(self, device: int, real: str) -> bool:
            return real == path or real.startswith(f"{path}/")

    return Mounted()


def test_nothing_of_a_pseudo_file_system_is_told_or_read(tmp_path: Path) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "environ").write_text("secret")
    (tmp_path / "mounted" / "link.md").symlink_to("secret")
    disk = Disk(ROOMY, pseudo(f"{tmp_path}/mounted"), in_an_hour)
    workspace, way = local(tmp_path, disk), within(tmp_path)
    assert workspace.look(f"{tmp_path}/mounted") == Node(Kind.SPECIAL, f"{tmp_path}/mounted")
    assert workspace.look(f"{tmp_path}/mounted/environ").kind is Kind.MISSING
    assert workspace.names(f"{tmp_path}/mounted") == disk.names(way, f"{tmp_path}/mounted") == ()
    assert disk.entry(way, f"{tmp_path}/mounted/link.md")[0] == Entry(Kind.SPECIAL)
    assert disk.read(way, f"{tmp_path}/mounted/environ", LIMIT) == Held(Content(None, "unreadable"))


def test_what_was_mounted_over_once_it_was_looked_at_is_not_read(file: Path) -> None:
    mounted = set[str]()

    class Mounting(Drives):
        def is_pseudo(self, device: int, path: str) -> bool:
            return path in mounted

    workspace = local(file.parent, Disk(ROOMY, Mounting()))
    assert workspace.look(str(file)).kind is Kind.FILE
    mounted.update((str(file), str(file.parent)))
    assert workspace.read(str(file)) == Content(None, "unreadable")
    assert workspace.names(str(file.parent)) == ()


def test_what_lies_outside_is_neither_read_nor_listed(file: Path) -> None:
    for way in (within(file.parent / "other"), ByPath(Fence.of([]))):
        assert Disk().read(way, str(file), LIMIT) == Held(Content(None, "outside_fence"))
        assert Disk().names(way, str(file.parent)) == ()


def test_by_paths_too_what_a_folder_that_became_a_link_leads_to_is_outside(file: Path) -> None:
    (file.parent / "inside").mkdir()
    (file.parent / "inside" / "link").symlink_to("..")
    way = ByPath(Fence.of([f"{file.parent}/inside"]))
    assert Disk().read(way, f"{file.parent}/inside/link/a.md", LIMIT) == Held(Content(None, "outside_fence"))
    assert Disk().names(way, f"{file.parent}/inside/link/inside") == ("link",)
    assert Disk().names(way, f"{file.parent}/inside/link/..") == ()


@pytest.mark.parametrize("way", [Descent, ByPath])
def test_a_folder_that_is_gone_cannot_be_read(file: Path, way: Callable[[Fence], Way]) -> None:
    asked = way(Fence.of([str(file.parent)]))
    assert Disk().access(asked, str(file.parent)) is Kind.DIRECTORY
    assert Disk().access(asked, f"{file.parent}/gone") is Kind.UNREADABLE


def test_no_descriptor_stays_open(file: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for fence in (Fence.of([str(file.parent)]), Fence.of([])):
        for path in (str(file), str(file.parent), f"{file}/nothing"):
            Disk().read(way_within(fence), path, 3)
            Disk().names(way_within(fence), path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
