"""Sessions in this process only."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.metrics import StoreFigures
from app.stores.shelf import Shelf, bytes_of
from app.stores.socket import Held

NOTHING = Held(0, None)


class ProcessStore:
    """Keeps at most ``most`` sessions of together ``most_bytes``, each until it was idle for ``idle_seconds``.

    ``clock`` is in seconds. Tenants share the room as a `Shelf` has it. A session heavier than ``most_bytes`` without
    the shares of others is not kept, nor what it was before: its next turn begins anew.
    """

    alone = False

    def __init__(self, most: int, most_bytes: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._sessions: Shelf[Held] = Shelf(most, most_bytes, idle_seconds, clock)
        self._writes = count(1)

    @property
    def bytes(self) -> int:
        """What the sessions that are held weigh together."""
        return self._sessions.bytes

    async def load(self, key: str) -> Held:
        return self._sessions.get(key) or NOTHING

    async def save(self, key: str, remembered: Remembered, version: int) -> int:
        if self.version_here(key) != version:
            return 0
        written = next(self._writes)
        self._sessions.put(key, Held(written, remembered), bytes_of(remembered))
        return written

    async def version(self, key: str) -> int:
        return self.version_here(key)

    def version_here(self, key: str) -> int:
        held = self._sessions.get(key)
        return held.version if held else 0

    def notices(self, key: str, remembered: Remembered, *, looks: bool = False) -> tuple[Notice, ...]:  # noqa: ARG002 - the socket's
        return self._sessions.notices(key, remembered)

    async def forget(self, key: str) -> bool:
        return self._sessions.pop(key) is not None

    async def ready(self) -> bool:
        return True

    def figures(self) -> StoreFigures:
        return StoreFigures(sessions=len(self._sessions), bytes=self.bytes)

    async def close(self) -> None:
        """Nothing is open."""
