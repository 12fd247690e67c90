"""Where sessions are remembered: the questions a store answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.metrics import StoreFigures


@dataclass(frozen=True, slots=True)
class Held:
    """What a store holds for a session. ``version`` is another one after each write; 0: it holds nothing."""

    version: int
    remembered: Remembered | None


class Store(Protocol):
    """Sessions by key. Several turns of one session may run at once, in any process: the first to write wins.

    No version is given twice, so that a session which was forgotten is never taken for one that began since.
    """

    @property
    def alone(self) -> bool:
        """Whether a store that processes share cannot be reached, and this one goes on from its own memory."""

    async def load(self, key: str) -> Held:
        """Asking is use: a session ends when it was idle for too long."""

    async def save(self, key: str, remembered: Remembered, version: int) -> int:
        """The version it was written as; 0, and nothing changed, when it was written since ``version`` was loaded."""

    async def version(self, key: str) -> int:
        """That of `load`, for less."""

    def version_here(self, key: str) -> int | None:
        """That of `version`, where it is known without asking anyone; None: it has to be asked."""

    async def forget(self, key: str) -> bool:
        """Whether there was something to forget, as far as can be told."""

    def notices(self, key: str, remembered: Remembered, *, looks: bool = False) -> tuple[Notice, ...]:
        """What a caller should know once ``remembered`` was saved. What is told only once is then told.

        ``looks``: it was not saved, and all of it is told again.
        """

    async def ready(self) -> bool:
        """Whether sessions can be written where they belong."""

    def figures(self) -> StoreFigures: ...

    async def close(self) -> None: ...
