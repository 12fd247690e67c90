"""Which drives are this machine's own, and which are none at all."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MOUNTS = "/proc/self/mountinfo"
MOUNTS_SECONDS = 30.0
"""How long a table of mounts is believed: a number of a drive that was taken away can come back as another drive's."""

UNLISTED_SECONDS = 1.0
"""How old a table may be that does not have a device: it may have been mounted since, or be one of those of btrfs."""

_LOCAL = frozenset(
    {
        *("aufs", "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs"),
        *("reiserfs", "rootfs", "squashfs", "tmpfs", "xfs", "zfs"),
    }
)
"""Kinds that only this kernel writes to, by this machine's clock, and whose ctime no program can set."""

_PSEUDO = frozenset(
    {
        *("apparmorfs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset"),
        *("debugfs", "devpts", "devtmpfs", "efivarfs", "functionfs", "fusectl", "hugetlbfs", "ibmasmfs", "mqueue"),
        *("nfsd", "nsfs", "openpromfs", "pipefs", "proc", "pstore", "resctrl", "rpc_pipefs", "securityfs"),
        *("selinuxfs", "smackfs", "sockfs", "spufs", "sysfs", "tracefs", "xenfs"),
    }
)
"""Kinds whose files are the kernel itself, not what somebody wrote there: reading some of them does something."""

_PSEUDO_FOLDERS = ("/proc", "/sys", "/dev")
_IN_PSEUDO_FOLDERS = tuple(f"{folder}/" for folder in _PSEUDO_FOLDERS)

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class _Table:
    """Kinds of file systems by device, and by mount point."""

    read_at: float
    devices: dict[str, str] = field(default_factory=dict)
    points: dict[str, str] = field(default_factory=dict)
    known: dict[int, str] = field(default_factory=dict)


class Drives:
    """Says of devices whether they are local, and whether they are pseudo. No, where it cannot tell."""

    def __init__(self, mounts: str = MOUNTS, clock: Callable[[], float] = time.monotonic) -> None:
        self._mounts = mounts
        self._clock = clock
        self._table = _Table(float("-inf"))

    def is_local(self, device: int, path: str) -> bool:
        """``device`` is that of what stands at the real ``path``."""
        return self._kind(device, path) in _LOCAL

    def is_pseudo(self, device: int, path: str) -> bool:
        """Whether it is the kernel's own, to be told of by no answer. Where no mounts can be read, its path says so."""
        if path.startswith(_IN_PSEUDO_FOLDERS) or path in _PSEUDO_FOLDERS:
            return True
        return self._kind(device, path) in _PSEUDO

    def _kind(self, device: int, path: str) -> str:
        table = self._table
        now = self._clock()
        known = table.known.get(device)
        if known is None or now - table.read_at > MOUNTS_SECONDS:
            table = self._table = _at(table, device, self._mounts, now)
            known = table.known[device] = _kind(table, device, path)
        return known


def _at(table: _Table, device: int, mounts: str, now: float) -> _Table:
    """The table as it can be believed of ``device``."""
    believed = MOUNTS_SECONDS if _name(device) in table.devices else UNLISTED_SECONDS
    return _table(mounts, now) if now - table.read_at > believed else table


def _name(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def _table(mounts: str, now: float) -> _Table:
    table = _Table(now)
    try:
        rows = Path(mounts).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return table
    for row in rows:
        before, _, after = row.partition(" - ")
        _, _, device, _, point, *_ = before.split(" ")
        kind = after.split(" ", 1)[0]
        table.devices[device] = kind
        table.points[_ESCAPED.sub(lambda found: chr(int(found[1], 8)), point)] = kind
    return table


def _kind(table: _Table, device: int, path: str) -> str:
    """Where a file system numbers its files' devices otherwise than its mounts, as btrfs does, the path tells."""
    if not table.points:
        return ""
    return table.devices.get(_name(device)) or _kind_above(table, path)


def _kind_above(table: _Table, path: str) -> str:
    here = Path(path)
    return next((table.points[str(at)] for at in (here, *here.parents) if str(at) in table.points), "")
