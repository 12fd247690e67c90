"""Which drives are this machine's own."""

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

_LOCAL = frozenset(
    {
        *("aufs", "bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay", "ramfs"),
        *("reiserfs", "rootfs", "squashfs", "tmpfs", "xfs", "zfs"),
    }
)
"""Kinds that only this kernel writes to, by this machine's clock, and whose ctime no program can set."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class _Table:
    """Kinds of file systems by device, and by mount point."""

    read_at: float
    devices: dict[str, str] = field(default_factory=dict)
    points: dict[str, str] = field(default_factory=dict)
    known: dict[int, bool] = field(default_factory=dict)


class Drives:
    """Says of devices whether they are local; of those that it cannot tell, and outside Linux, it says no."""

    def __init__(self, mounts: str = MOUNTS, clock: Callable[[], float] = time.monotonic) -> None:
        self._mounts = mounts
        self._clock = clock
        self._table = _Table(float("-inf"))

    def is_local(self, device: int, path: str) -> bool:
        """``device`` is that of what stands at the real ``path``."""
        table = self._table
        now = self._clock()
        if now - table.read_at > MOUNTS_SECONDS:
            table = self._table = _table(self._mounts, now)
        known = table.known.get(device)
        if known is None:
            known = table.known[device] = _kind(table, device, path) in _LOCAL
        return known


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
    return table.devices.get(f"{os.major(device)}:{os.minor(device)}") or _kind_above(table, path)


def _kind_above(table: _Table, path: str) -> str:
    here = Path(path)
    return next((table.points[str(at)] for at in (here, *here.parents) if str(at) in table.points), "")
