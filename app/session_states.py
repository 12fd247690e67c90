"""Sessions between their turns: looked at, emptied, and forgotten."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from app.core.remembered import Emptying, LastRequest, Remembered
from app.core.tenants import name_shown
from app.errors import NothingAsked, SessionNotFound, SessionStoreAway
from app.gather import Known
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.wire.sessions import Emptied, Standing, on_a_calendar


@dataclass(frozen=True, slots=True)
class SessionStates:
    """A turn that runs meanwhile finds that it was overtaken when it wants to write, and is assembled again."""

    sessions: Sessions
    known: Known

    async def standing(self, session: str) -> Standing:
        """Raises SessionNotFound, or SessionStoreAway."""
        held, remembered = await self._held(session)
        turn = remembered.turn
        return Standing(
            name_shown(session),
            held.version,
            remembered,
            remembered.attempts.at(self.known.now(), self.known.cool_down).breaker,
            _moment(remembered.attempts.opened_at),
            _moment(turn.sent.started if turn else None),
        )

    async def last_request(self, session: str) -> LastRequest:
        """Raises SessionNotFound, SessionStoreAway or NothingAsked."""
        _, remembered = await self._held(session)
        if remembered.request is None:
            raise NothingAsked("Send POST /v1/context with this session_id first: that is what is assembled again.")
        return remembered.request

    async def empty(self, session: str, reason: Emptying) -> Emptied:
        """Raises SessionNotFound, or SessionStoreAway."""
        while True:
            held, before = await self._held(session)
            after = before.emptied(reason)
            if self.sessions.alone:
                held = await self._cut_off(session)
            if await self.sessions.save(session, after, held):
                breaker = after.attempts.at(self.known.now(), self.known.cool_down).breaker
                return Emptied(reason, before, after, breaker)

    async def forget(self, session: str) -> None:
        """Raises SessionNotFound, or SessionStoreAway."""
        if not await self.sessions.forget(session):
            raise _not_found()

    async def _cut_off(self, session: str) -> Held:
        """Whatever the shared store has of the session is to go: what it was emptied of must not come back with it."""
        await self.sessions.forget(session)
        return await self.sessions.load(session)

    async def _held(self, session: str) -> tuple[Held, Remembered]:
        held = await self.sessions.load(session)
        if held.remembered is None:
            raise SessionStoreAway if self.sessions.alone else _not_found()
        return held, held.remembered


def _not_found() -> SessionNotFound:
    return SessionNotFound(
        "Nothing is held for this session: it had no turn here, was deleted, or was idle too long. Its next turn "
        "begins a new one."
    )


def _moment(seconds: float | None) -> str | None:
    """ISO 8601 in UTC, to the second; None where there is none to tell."""
    known = on_a_calendar(seconds)
    return None if known is None else dt.datetime.fromtimestamp(known, dt.UTC).isoformat(timespec="seconds")
