"""Who may compact a session, and what the session keeps of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from math import ceil

from app.core.budget import Breaker, Outcome
from app.core.compaction import Attempts, Trigger
from app.core.compaction_end import Failed, Reported, reported
from app.core.remembered import Remembered
from app.errors import BreakerOpen, CompactingAlready, SessionNotFound, SessionStoreAway
from app.gather import Known
from app.metrics import Metrics
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.wire.compactions import CompactionReport
from app.wire.sessions import on_a_calendar

LEASE_MARGIN_SECONDS = 60.0
"""What a compaction may take beside the model's answer."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to compact a session. ``until`` None: nothing is kept of it, so there is nothing to guard."""

    session: str | None
    until: float | None

    def holds(self, held: Held) -> bool:
        """Whether nobody else has taken it since. A session that is gone is nobody's."""
        return held.remembered is None or held.remembered.compacting_until == self.until

    def outlived(self, held: Held) -> bool:
        """Whether the session has been deleted, or has ended, since: what comes now must not bring it back."""
        return self.until is not None and held.remembered is None


@dataclass(frozen=True, slots=True)
class SessionAttempts:
    """Attempts of sessions. ``seconds``: the longest time that a model's answer takes."""

    sessions: Sessions
    known: Known
    metrics: Metrics
    seconds: float

    def breaker(self, attempts: Attempts) -> Breaker:
        return attempts.at(self.known.now(), self.known.cool_down).breaker

    async def allow(self, session: str | None, trigger: Trigger) -> None:
        """Raises BreakerOpen, or CompactingAlready while another process has the lease."""
        remembered = await self.sessions.peek(session)
        if remembered is None:
            return
        if not remembered.attempts.allow(trigger, self.known.now(), self.known.cool_down):
            raise BreakerOpen(_since(remembered.attempts, self.known))
        self._refuse_leased(remembered)

    @asynccontextmanager
    async def leased(self, session: str | None, trigger: Trigger) -> AsyncIterator[Lease]:
        """Raises CompactingAlready. What is not ended within is given back."""
        lease = await self._taken(session, trigger)
        try:
            yield lease
        finally:
            await self._given_back(lease)

    async def failed(self, lease: Lease, trigger: Trigger, otherwise: Remembered) -> Breaker:
        """Keeps that the attempt failed; ``otherwise`` is kept with it when the session was not there before."""
        now = self.known.now()
        while True:
            held = await self.sessions.load(lease.session)
            before = held.remembered or otherwise
            after = before.attempts.after("failed", trigger, now)
            if lease.outlived(held):
                return self.breaker(after)
            ended = before if not lease.holds(held) else replace(before, attempts=after, compacting_until=None)
            if await self.sessions.save(lease.session, ended, held):
                self._moved(before.attempts, ended.attempts)
                return self.breaker(ended.attempts)

    async def succeeded(self, lease: Lease, held: Held, ended: Remembered) -> bool:
        """Keeps the session as it goes on, unless it is gone; False when another wrote it since ``held`` was loaded."""
        if lease.outlived(held):
            return True
        saved = await self.sessions.save(lease.session, replace(ended, compacting_until=None), held)
        if saved and held.remembered is not None:
            self._moved(held.remembered.attempts, ended.attempts)
        return bool(saved)

    async def report(self, session: str, report: CompactionReport) -> Reported:
        """Raises SessionNotFound, or SessionStoreAway."""
        now = self.known.now()
        while True:
            held = await self.sessions.load(session)
            if held.remembered is None and self.sessions.alone:
                raise SessionStoreAway
            if held.remembered is None:
                raise SessionNotFound("Name a session that had a turn here; sessions end when they were idle too long.")
            failed = _judged(held.remembered, report)
            ended: Outcome = "failed" if failed else report.outcome
            attempts = held.remembered.attempts.after(ended, report.trigger, now)
            if await self.sessions.save(session, replace(held.remembered, attempts=attempts), held):
                self._moved(held.remembered.attempts, attempts)
                self.metrics.compaction(report.trigger, failed.reason if failed else ended)
                return Reported(ended, failed, self.breaker(attempts), report.freed)

    async def _taken(self, session: str | None, trigger: Trigger) -> Lease:
        while True:
            held = await self.sessions.load(session)
            if held.remembered is None:
                return Lease(session, None)
            self._refuse_leased(held.remembered)
            until = self.known.now() + self._longest
            if await self.sessions.save(session, replace(held.remembered, compacting_until=until), held):
                if trigger == "automatic":
                    attempts = held.remembered.attempts
                    self.metrics.breaker(attempts.breaker.state, self.breaker(attempts).state)
                return Lease(session, until)

    async def _given_back(self, lease: Lease) -> None:
        while lease.until is not None:
            held = await self.sessions.load(lease.session)
            if held.remembered is None or not lease.holds(held):
                return
            if await self.sessions.save(lease.session, replace(held.remembered, compacting_until=None), held):
                return

    def _refuse_leased(self, remembered: Remembered) -> None:
        left = (remembered.compacting_until or 0.0) - self.known.now()
        if 0 < left <= self._longest:
            raise CompactingAlready(seconds=left)

    @property
    def _longest(self) -> float:
        """Seconds. A lease that has longer to go was taken by a clock that was wrong, and guards nothing."""
        return self.seconds + LEASE_MARGIN_SECONDS

    def _moved(self, before: Attempts, after: Attempts) -> None:
        self.metrics.breaker(self.breaker(before).state, self.breaker(after).state)


def _judged(remembered: Remembered, report: CompactionReport) -> Failed | None:
    """A success that tells no figures is taken at its word."""
    if report.outcome != "ok" or report.tokens_before is None or report.tokens_after is None:
        return None
    return reported(remembered, report.tokens_before, report.tokens_after)


def _since(attempts: Attempts, known: Known) -> str:
    opened = on_a_calendar(attempts.opened_at)
    since, again = "", ""
    if opened is not None:
        since = f" since {dt.datetime.fromtimestamp(opened, dt.UTC).isoformat(timespec='seconds')}"
        left = opened + known.cool_down - known.now()
        again = f", or wait {ceil(left)} seconds for one more attempt" if known.cool_down else ""
    return (
        f"It failed {attempts.breaker.consecutive_failures} times in a row and is off{since}: see to what the "
        f"failures named, then compact once with trigger manual{again}."
    )
