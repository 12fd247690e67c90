"""Sessions by the names that callers give them: the store's key holds the service's version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.stores.socket import Held, Store

VERSIONED = "strata:{version}:{session}"


@dataclass(frozen=True, slots=True)
class Sessions:
    """``version`` is the service's: a session of another version is not continued. None: there is no session.

    ``unkept`` tells what a caller should know of a session that ``store`` does not keep, by what it would remember.
    """

    store: Store
    version: str
    unkept: Callable[[Remembered], tuple[Notice, ...]] = lambda _: ()

    async def load(self, session: str | None) -> Held:
        return await self.store.load(self._key(session)) if session else Held(0, None)

    async def peek(self, session: str | None) -> Remembered | None:
        return (await self.load(session)).remembered

    async def save(self, session: str | None, remembered: Remembered, held: Held) -> bool:
        """False when another wrote it since ``held`` was loaded; what would be the same is not written."""
        if session is None or remembered == held.remembered:
            return True
        return await self.store.save(self._key(session), remembered, held.version)

    def notices(self, session: str | None, remembered: Remembered) -> tuple[Notice, ...]:
        """What a caller should know once it was saved."""
        return self.unkept(remembered) if session else ()

    async def forget(self, session: str) -> bool:
        """Whether there was such a session."""
        return await self.store.forget(self._key(session))

    def _key(self, session: str) -> str:
        return VERSIONED.format(version=self.version, session=session)
