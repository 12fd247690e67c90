from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.workspaces.drives import MOUNTS_SECONDS, UNLISTED_SECONDS, Drives

MOUNTS = r"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /srv/network rw,relatime shared:7 - nfs4 server:/srv rw
31 27 0:41 / /srv/with\040space rw,relatime shared:8 master:1 - fuse.sshfs dev@host: rw
32 27 0:42 / /srv/sub rw,relatime - btrfs /dev/vdb rw
33 32 0:43 / /srv/sub/deep rw,relatime - cifs //host/share rw
34 27 0:21 /1 /srv/tenant/bound rw,relatime - proc proc rw
35 27 0:44 / /srv/tenant/kernel rw,relatime - sysfs sysfs rw
36 27 0:45 / /srv/tenant/quick rw,relatime - tmpfs tmpfs rw
37 27 0:46 / /srv/tenant/layers rw,relatime - overlay overlay rw,lowerdir=/a
38 36 0:47 / /srv/tenant/quick/trace rw,relatime - tracefs none rw
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS)
    return file


@pytest.mark.parametrize(
    ("device", "path", "is_local"),
    [
        (os.makedev(254, 0), "/home/dev", True),
        (os.makedev(0, 40), "/srv/network/a", False),
        (os.makedev(0, 41), "/srv/with space/a", False),
        (os.makedev(0, 43), "/srv/sub/deep/a", False),
        (os.makedev(0, 21), "/proc/1", False),
    ],
)
def test_a_device_is_what_its_mount_says(mounts: Path, device: int, path: str, is_local: bool) -> None:
    assert Drives(str(mounts)).is_local(device, path) is is_local


def test_a_device_that_no_mount_has_is_what_its_path_lies_on(mounts: Path) -> None:
    drives = Drives(str(mounts))
    assert drives.is_local(os.makedev(0, 90), "/srv/sub/a/b")
    assert not drives.is_local(os.makedev(0, 91), "/srv/sub/deep/a")
    assert not drives.is_local(os.makedev(0, 92), "/srv/with space")
    assert drives.is_local(os.makedev(0, 93), "/srv")


def test_without_a_table_of_mounts_no_drive_is_local(tmp_path: Path) -> None:
    assert not Drives(str(tmp_path / "nothing")).is_local(tmp_path.stat().st_dev, str(tmp_path))


def test_a_number_that_came_back_as_another_drive_is_looked_up_again(mounts: Path) -> None:
    clock = Clock()
    drives = Drives(str(mounts), clock)
    assert drives.is_local(os.makedev(0, 42), "/srv/sub")
    mounts.write_text(MOUNTS.replace("btrfs", "nfs"))
    assert drives.is_local(os.makedev(0, 42), "/srv/sub")
    clock.now += MOUNTS_SECONDS + 1
    assert not drives.is_local(os.makedev(0, 42), "/srv/sub")


@pytest.mark.parametrize(
    ("device", "path", "is_pseudo"),
    [
        (os.makedev(0, 21), "/srv/tenant/bound", True),
        (os.makedev(0, 21), "/srv/tenant/bound/environ", True),
        (os.makedev(0, 44), "/srv/tenant/kernel/a", True),
        (os.makedev(0, 45), "/srv/tenant/quick/a", False),
        (os.makedev(0, 46), "/srv/tenant/layers/a", False),
        (os.makedev(0, 47), "/srv/tenant/quick/trace/a", True),
        (os.makedev(0, 40), "/srv/network/a", False),
        (os.makedev(0, 99), "/srv/tenant/kernel/unlisted", True),
        (os.makedev(0, 99), "/srv/tenant/quick/unlisted", False),
        (os.makedev(254, 0), "/home/dev", False),
        (os.makedev(254, 0), "/dev", True),
        (os.makedev(254, 0), "/proc/1/environ", True),
        (os.makedev(254, 0), "/sys", True),
        (os.makedev(254, 0), "/devices", False),
    ],
)
def test_what_is_the_kernels_own_is_told_by_its_mount_and_by_its_path(
    mounts: Path, device: int, path: str, is_pseudo: bool
) -> None:
    assert Drives(str(mounts)).is_pseudo(device, path) is is_pseudo


def test_without_a_table_of_mounts_the_path_tells_what_is_the_kernels_own(tmp_path: Path) -> None:
    drives = Drives(str(tmp_path / "nothing"))
    assert drives.is_pseudo(os.makedev(0, 21), "/proc/1")
    assert not drives.is_pseudo(os.makedev(0, 21), "/srv/proc/1")


def test_what_was_mounted_since_the_table_was_read_is_known_a_second_later(mounts: Path) -> None:
    clock = Clock()
    drives = Drives(str(mounts), clock)
    assert drives.is_local(os.makedev(254, 0), "/srv")
    mounts.write_text(f"{MOUNTS}39 27 0:50 / /srv/tenant/new rw - proc proc rw\n")
    clock.now += UNLISTED_SECONDS + 0.5
    assert drives.is_pseudo(os.makedev(0, 50), "/srv/tenant/new/1")
