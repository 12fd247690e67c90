"""A place for things of sessions in this process, bounded by count, by memory and by idle time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cachetools import TTLCache

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.core.weight import weight

T = TypeVar("T")

ENTRY = 1024
"""Bytes that holding any session takes, its key included."""

MEBIBYTE = 1024 * 1024

RENEWALS = 50
"""Into how many parts an idle time is cut: use renews it once in each, so that it may end one part early."""


def bytes_of(remembered: Remembered) -> int:
    """The memory that keeping it takes."""
    return ENTRY + weight(remembered)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """``until`` is when its idle time is renewed again by use."""

    value: T
    bytes: int
    until: float


class Shelf(Generic[T]):
    """Keeps at most ``most`` values of together ``most_bytes``, each until it was idle for ``idle_seconds``.

    Those used longest ago make room; one that is heavier than ``most_bytes`` is not kept. ``clock`` is in seconds.
    """

    def __init__(self, most: int, most_bytes: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._clock, self._renewed_for = clock, idle_seconds / RENEWALS
        self._kept: TTLCache[str, _Kept[T]] = TTLCache(most_bytes, idle_seconds, clock, lambda kept: kept.bytes)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._kept))

    @property
    def bytes(self) -> int:
        return int(self._kept.currsize)

    def moment(self) -> AbstractContextManager[Any]:
        """Time stands still within, or a value could go halfway through an operation."""
        return self._kept.timer

    def fits(self, size: int) -> bool:
        return size <= self._most_bytes

    def get(self, key: str) -> T | None:
        """None: it is not there. Asking is use."""
        kept = self._kept.get(key)
        if kept is None:
            return None
        if self._clock() >= kept.until:
            self._keep(key, kept.value, kept.bytes)
        return kept.value

    def peek(self, key: str) -> T | None:
        """As `get`, without being use."""
        kept = self._kept.get(key)
        return kept.value if kept else None

    def put(self, key: str, value: T, size: int) -> None:
        """``size`` in bytes."""
        with self.moment():
            self._kept.pop(key, None)
            if self.fits(size):
                self._make_room()
                self._keep(key, value, size)

    def pop(self, key: str) -> T | None:
        with self.moment():
            kept = self._kept.pop(key, None)
            return kept.value if kept else None

    def notices(self, key: str, remembered: Remembered) -> tuple[Notice, ...]:
        """A word where the session at ``key`` was too heavy to be kept."""
        if key in self._kept:
            return ()
        found = bytes_of(remembered)
        if self.fits(found):
            return ()
        message = (
            f"The session takes about {_mebibytes(found)}, more than all sessions may together "
            f"({_mebibytes(self._most_bytes)}): it was not kept, and its next turn begins anew. "
            "Raise STRATA_MAX_SESSION_BYTES."
        )
        return (Notice("session_not_kept", message, "session_id"),)

    def _keep(self, key: str, value: T, size: int) -> None:
        self._kept[key] = _Kept(value, size, self._clock() + self._renewed_for)

    def _make_room(self) -> None:
        while len(self._kept) >= self._most:
            self._kept.popitem()


def _mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:,.1f} MiB"
