"""What is told of a session whose record somebody forged: any values of the right types, never an error of ours."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf, nan
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from app.attempts import SessionAttempts
from app.building import build_contexts
from app.context import Contexts
from app.core.budget import Breaker
from app.core.compaction import Attempts
from app.core.late import Late
from app.core.previous import Turn
from app.core.remembered import Remembered
from app.core.sent import Sent
from app.errors import BreakerOpen, CompactingAlready
from app.metrics import Metrics
from app.session_states import SessionStates
from app.settings import Settings
from app.stores.socket import Held
from app.wire.answers import to_bytes
from app.wire.compactions import CompactionReport
from app.wire.sessions import CALENDAR_ENDS, Standing, clear_answer, on_a_calendar, session_answer
from tests.stores.values import REMEMBERED

ANY_SPEED = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
NO_MOMENTS = [inf, -inf, nan, 1e300, -1e300, CALENDAR_ENDS, -1.0]


@pytest.fixture(scope="module")
def contexts() -> Contexts:
    return build_contexts(Settings(roots=(), breaker_cool_down_seconds=0))


def attempts_of(contexts: Contexts) -> SessionAttempts:
    return SessionAttempts(contexts.sessions, contexts.known, Metrics(CollectorRegistry()), 1.0)


async def kept(contexts: Contexts, one: Remembered) -> str:
    session = uuid4().hex
    assert await contexts.sessions.save(session, one, Held(0, None))
    return session


def standing(contexts: Contexts, one: Remembered) -> Standing:
    async def found() -> Standing:
        session = await kept(contexts, one)
        try:
            return await SessionStates(contexts.sessions, contexts.known).standing(session)
        finally:
            await contexts.sessions.forget(session)

    return asyncio.run(found())


def opened(at: float | None) -> Remembered:
    """A session that was asked at the moment at which its breaker opened."""
    turn = Turn(Sent("m", "", (), 0, started=at), 0, 0)
    return Remembered("w", "2026-11-30", turn=turn, attempts=Attempts(Breaker("open", 3), at))


@pytest.mark.parametrize("seconds", NO_MOMENTS)
def test_a_moment_that_no_calendar_has_is_not_told(seconds: float, contexts: Contexts) -> None:
    found = standing(contexts, opened(seconds))
    assert (found.since, found.asked_at) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, "1970-01-01T00:00:00+00:00"), (CALENDAR_ENDS - 1, "9999-12-31T23:59:59+00:00")]
)
def test_every_moment_of_a_calendar_is_told_to_the_second(seconds: float, told: str, contexts: Contexts) -> None:
    found = standing(contexts, opened(seconds))
    assert (found.since, found.asked_at) == (told, told)


@given(st.floats(0, CALENDAR_ENDS, exclude_max=True))
def test_what_is_on_a_calendar_stays_as_it_is(seconds: float) -> None:
    assert on_a_calendar(seconds) == seconds


@pytest.mark.parametrize("seconds", [*NO_MOMENTS, None])
def test_a_breaker_that_opened_nobody_knows_when_is_told_without_a_moment(
    seconds: float | None, contexts: Contexts
) -> None:
    async def asked() -> None:
        session = await kept(contexts, opened(seconds))
        with pytest.raises(BreakerOpen) as raised:
            await attempts_of(contexts).allow(session, "automatic")
        assert "and is off: see to" in str(raised.value)

    asyncio.run(asked())


@given(REMEMBERED)
@example(Remembered("w", "", late=(Late(0, "a", "text", units_per_token=0),)))
@example(opened(nan))
@ANY_SPEED
def test_whatever_a_record_holds_it_can_be_shown_emptied_and_reported_on(contexts: Contexts, one: Remembered) -> None:
    async def used() -> None:
        states = SessionStates(contexts.sessions, contexts.known)
        session = await kept(contexts, one)
        assert to_bytes(session_answer(await states.standing(session)))
        with suppress(BreakerOpen, CompactingAlready):
            await attempts_of(contexts).allow(session, "automatic")
        for outcome in ({"outcome": "failed"}, {"outcome": "ok", "tokens_before": 9, "tokens_after": 4}):
            await attempts_of(contexts).report(session, CompactionReport.model_validate(outcome))
        assert to_bytes(clear_answer(await states.empty(session, "compact")))
        await states.forget(session)

    asyncio.run(used())
