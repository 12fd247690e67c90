"""Sessions by the names that callers give them: the store's key holds the service's version."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.metrics import StoreFigures
from app.stores.socket import Held, Store

VERSIONED = "strata:{service}:{session}"


@dataclass(frozen=True, slots=True)
class Sessions:
    """``service`` is the service's version: a session of another one is not continued. None: there is no session."""

    store: Store
    service: str

    @property
    def alone(self) -> bool:
        """Whether this process goes on from its own memory, because it cannot reach the store that it shares."""
        return self.store.alone

    async def load(self, session: str | None) -> Held:
        return await self.store.load(self._key(session)) if session else Held(0, None)

    async def peek(self, session: str | None) -> Remembered | None:
        return (await self.load(session)).remembered

    async def version(self, session: str | None) -> int:
        """That of what would be loaded, for less; 0: nothing."""
        return await self.store.version(self._key(session)) if session else 0

    def version_here(self, session: str) -> int | None:
        """The same where it is known without asking anyone."""
        return self.store.version_here(self._key(session))

    async def save(self, session: str | None, remembered: Remembered, held: Held) -> int:
        """The version it is kept as, 1 without a session; 0 when another wrote it since ``held`` was loaded.

        What would be the same is not written.
        """
        if session is None:
            return 1
        if remembered == held.remembered:
            return held.version
        return await self.store.save(self._key(session), remembered, held.version)

    def notices(self, session: str | None, remembered: Remembered, *, looks: bool = False) -> tuple[Notice, ...]:
        """What a caller should know once it was saved; ``looks``: it was not."""
        return self.store.notices(self._key(session), remembered, looks=looks) if session else ()

    async def forget(self, session: str) -> bool:
        """Whether there was such a session, as far as can be told."""
        return await self.store.forget(self._key(session))

    def figures(self) -> StoreFigures:
        return self.store.figures()

    async def close(self) -> None:
        """Once, when nothing is asked any more."""
        await self.store.close()

    def _key(self, session: str) -> str:
        return VERSIONED.format(service=self.service, session=session)
