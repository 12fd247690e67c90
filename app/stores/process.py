"""Sessions in this process, bounded by count and idle time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from cachetools import TTLCache

from app.core.remembered import Remembered
from app.stores.socket import Held


class ProcessStore:
    """Keeps at most ``most`` sessions, each until it was idle for ``idle_seconds``; ``clock`` is in seconds.

    No version is given twice, so that a session which was forgotten is never taken for one that began since.
    """

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._sessions: TTLCache[str, Held] = TTLCache(maxsize=most, ttl=idle_seconds, timer=clock)
        self._writes = count(1)

    async def load(self, key: str) -> Held:
        held = self._sessions.get(key)
        if held is None:
            return Held(0, None)
        self._sessions[key] = held
        return held

    async def save(self, key: str, remembered: Remembered, version: int) -> bool:
        held = self._sessions.get(key)
        if (held.version if held else 0) != version:
            return False
        self._sessions[key] = Held(next(self._writes), remembered)
        return True

    async def forget(self, key: str) -> bool:
        return self._sessions.pop(key, None) is not None

    async def ready(self) -> bool:
        return True
