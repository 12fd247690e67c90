"""The pace of a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.pace import Meter, Rate

RATES = st.builds(Rate, st.integers(1, 1000), st.integers(1, 50))
PAUSES = st.lists(st.floats(0, 90), max_size=60)


@given(RATES, PAUSES)
def test_no_window_holds_more_than_the_burst_and_the_pace(rate: Rate, pauses: list[float]) -> None:
    meter, now, taken = Meter(), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if not meter.take(rate, now):
            taken.append(now)
    for first, begin in enumerate(taken):
        for count, end in enumerate(taken[first:], 1):
            assert count <= rate.burst + (end - begin) * rate.per_minute / 60 + 1e-6


@given(RATES, PAUSES)
def test_who_waits_as_long_as_was_told_may_ask(rate: Rate, pauses: list[float]) -> None:
    meter, now = Meter(), 0.0
    for pause in pauses:
        now += pause
        wait = meter.take(rate, now)
        if wait:
            now += wait + 1e-6
            assert meter.take(rate, now) == 0


@given(RATES)
def test_a_burst_is_taken_at_once(rate: Rate) -> None:
    meter = Meter()
    assert [meter.take(rate, 5.0) for _ in range(rate.burst)] == [0] * rate.burst
    assert meter.take(rate, 5.0) > 0


def test_a_refusal_does_not_count() -> None:
    meter = Meter()
    waits = [meter.take(Rate(60, 1), 0.0) for _ in range(5)]
    assert waits == [0, 1, 1, 1, 1]
