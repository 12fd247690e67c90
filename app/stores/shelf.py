"""A place for things of sessions in this process, bounded by count, by memory and by idle time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Generic, TypeVar

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.core.weight import weight
from app.stores.shares import Holdings, Measure, tenant_of

T = TypeVar("T")

ENTRY = 1024
"""Bytes that holding any session takes, its key included."""

MEBIBYTE = 1024 * 1024

RENEWALS = 50
"""Into how many parts an idle time is cut: use renews it once in each, so that it may end one part early."""

COUNT: Measure = attrgetter("count")
BYTES: Measure = attrgetter("bytes")


def bytes_of(remembered: Remembered) -> int:
    """The memory that keeping it takes."""
    return ENTRY + weight(remembered)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """``until`` is when its idle time is renewed again by use, ``ends`` when that is over."""

    value: T
    bytes: int
    tenant: str
    until: float
    ends: float


class Shelf(Generic[T]):
    """Keeps at most ``most`` values of together ``most_bytes``, each until it was idle for ``idle_seconds``.

    Where room is short, the tenant that holds the most of it makes room, with what it used longest ago: who holds no
    more than an equal share loses nothing to others. What is heavier than ``most_bytes`` without the shares of others
    is not kept. ``clock`` is in seconds, and never goes back.
    """

    def __init__(self, most: int, most_bytes: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._clock, self._idle, self._renewed_for = clock, idle_seconds, idle_seconds / RENEWALS
        self._kept: OrderedDict[str, _Kept[T]] = OrderedDict()
        self._bytes = 0
        self._holdings = Holdings()

    def __len__(self) -> int:
        self._end_idle()
        return len(self._kept)

    def __iter__(self) -> Iterator[str]:
        self._end_idle()
        return iter(tuple(self._kept))

    @property
    def bytes(self) -> int:
        self._end_idle()
        return self._bytes

    def fits(self, size: int) -> bool:
        """Whether it could be kept if there were no others."""
        return size <= self._most_bytes

    def get(self, key: str) -> T | None:
        """None: it is not there. Asking is use."""
        now = self._end_idle()
        kept = self._kept.get(key)
        if kept is None:
            return None
        self._holdings.use(kept.tenant, key)
        if now >= kept.until:
            self._kept[key] = replace(kept, until=now + self._renewed_for, ends=now + self._idle)
            self._kept.move_to_end(key)
        return kept.value

    def peek(self, key: str) -> T | None:
        """As `get`, without being use."""
        self._end_idle()
        kept = self._kept.get(key)
        return kept.value if kept else None

    def put(self, key: str, value: T, size: int) -> bool:
        """``size`` in bytes. False: it is too heavy to be kept, and what was there is gone."""
        now, tenant = self._end_idle(), tenant_of(key)
        self._remove(key)
        if not self._has_room(tenant, size):
            return False
        self._make_room(tenant, size)
        self._kept[key] = _Kept(value, size, tenant, now + self._renewed_for, now + self._idle)
        self._holdings.add(tenant, key, size)
        self._bytes += size
        return True

    def pop(self, key: str) -> T | None:
        self._end_idle()
        kept = self._remove(key)
        return kept.value if kept else None

    def notices(self, key: str, remembered: Remembered, *, elsewhere: bool = False) -> tuple[Notice, ...]:
        """A word where the session at ``key`` was too heavy to be kept.

        ``elsewhere``: what only found no room beside other tenants is kept by another store.
        """
        if self.peek(key) is not None:
            return ()
        found = bytes_of(remembered)
        if not self.fits(found):
            more = f"than all sessions may together ({_mebibytes(self._most_bytes)})"
        elif not elsewhere and not self._has_room(tenant_of(key), found):
            more = "than there is room for beside the sessions of others"
        else:
            return ()
        message = (
            f"The session takes about {_mebibytes(found)}, more {more}: it was not kept, and its next turn begins "
            "anew. Raise STRATA_MAX_SESSION_BYTES."
        )
        return (Notice("session_not_kept", message, "session_id"),)

    def _end_idle(self) -> float:
        """The moment, in which nothing is there that was idle for too long."""
        now = self._clock()
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if now < kept.ends:
                break
            self._remove(key)
        return now

    def _remove(self, key: str) -> _Kept[T] | None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._holdings.remove(kept.tenant, key, kept.bytes)
            self._bytes -= kept.bytes
        return kept

    def _has_room(self, tenant: str, size: int) -> bool:
        return self._bytes + size <= self._most_bytes or size <= self._holdings.left_for(tenant, self._most_bytes)

    def _make_room(self, tenant: str, size: int) -> None:
        by_count = self._holdings.first_to_go(COUNT, tenant, 1)
        while len(self._kept) >= self._most:
            self._remove(next(by_count))
        by_bytes = self._holdings.first_to_go(BYTES, tenant, size)
        while self._bytes + size > self._most_bytes:
            self._remove(next(by_bytes))


def _mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:,.1f} MiB"
