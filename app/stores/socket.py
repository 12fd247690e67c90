"""Where sessions are remembered: the questions a store answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.core.remembered import Remembered


@dataclass(frozen=True, slots=True)
class Held:
    """What a store holds for a session. ``version`` is another one after each write; 0: it holds nothing."""

    version: int
    remembered: Remembered | None


class Store(Protocol):
    """Sessions by key. Several turns of one session may run at once: the first to write wins."""

    async def load(self, key: str) -> Held: ...

    async def save(self, key: str, remembered: Remembered, version: int) -> bool:
        """Writes, unless the session was written since ``version`` was loaded; then False, and nothing changed."""

    async def forget(self, key: str) -> bool:
        """Whether there was something to forget."""

    async def ready(self) -> bool: ...
