"""Sessions in this process, bounded by count, by the memory they keep, and by idle time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from cachetools import TTLCache

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.core.weight import weight
from app.stores.socket import Held

ENTRY = 1024
"""Bytes that holding any session takes, its key included."""

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Kept:
    held: Held
    bytes: int


class ProcessStore:
    """Keeps at most ``most`` sessions of together ``most_bytes``, each until it was idle for ``idle_seconds``.

    ``clock`` is in seconds; it stands still within one operation, or a session could end halfway through. A session
    heavier than ``most_bytes`` is not kept, nor what it was before: its next turn begins anew.
    No version is given twice, so that a session which was forgotten is never taken for one that began since.
    """

    def __init__(self, most: int, most_bytes: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._sessions: TTLCache[str, _Kept] = TTLCache(most_bytes, idle_seconds, clock, lambda kept: kept.bytes)
        self._writes = count(1)

    @property
    def bytes(self) -> int:
        """What the sessions that are held weigh together."""
        return int(self._sessions.currsize)

    async def load(self, key: str) -> Held:
        with self._sessions.timer:
            kept = self._sessions.get(key)
            if kept is None:
                return Held(0, None)
            self._sessions[key] = kept
            return kept.held

    async def save(self, key: str, remembered: Remembered, version: int) -> bool:
        with self._sessions.timer:
            if (await self.load(key)).version != version:
                return False
            self._sessions.pop(key, None)
            self._keep(key, _Kept(Held(next(self._writes), remembered), _bytes(remembered)))
            return True

    def notices(self, remembered: Remembered) -> tuple[Notice, ...]:
        found, most = _bytes(remembered), self._most_bytes
        if found <= most:
            return ()
        message = (
            f"The session takes about {_mebibytes(found)}, more than all sessions may together "
            f"({_mebibytes(most)}): it was not kept, and its next turn begins anew. Raise STRATA_MAX_SESSION_BYTES."
        )
        return (Notice("session_not_kept", message, "session_id"),)

    async def forget(self, key: str) -> bool:
        with self._sessions.timer:
            return self._sessions.pop(key, None) is not None

    async def ready(self) -> bool:
        return True

    def _keep(self, key: str, kept: _Kept) -> None:
        if kept.bytes > self._most_bytes:
            return
        while len(self._sessions) >= self._most:
            self._sessions.popitem()
        self._sessions[key] = kept


def _bytes(remembered: Remembered) -> int:
    return ENTRY + weight(remembered)


def _mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:,.1f} MiB"
