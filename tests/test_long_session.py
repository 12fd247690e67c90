"""Sessions that are compacted again and again, played by an agent that obeys: the laws hold, whatever fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.bench.long_session import Run, Scenario, breaches, played

LOW = 20
"""Per cent of the window: a compaction comes every few turns."""


@pytest.fixture(scope="module")
def cooling() -> Run:
    return played(Scenario("cooling", 90, percent=LOW))


@pytest.fixture(scope="module")
def latched() -> Run:
    """The breaker never closes by itself, so that the conversation grows to the blocking limit."""
    return played(Scenario("latched", 100, percent=LOW, cool_down=0))


@pytest.fixture(scope="module")
def hopeless() -> Run:
    """The CLAUDE.md alone is above the threshold."""
    return played(
        Scenario("hopeless", 30, 60_000, 150_000, results=3_000, percent=50, cool_down=0, troubled=False),
    )


@pytest.mark.parametrize("name", ["cooling", "latched", "hopeless"])
def test_no_law_is_breached(name: str, request: pytest.FixtureRequest) -> None:
    assert breaches(request.getfixturevalue(name)) == []


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("at the blocking limit", {"told": 77_000, "should": True}),
    ("were sent", {"truth": 77_000}),
    ("more than the window", {"truth": 100_001}),
    ("against the figures", {"should": True}),
    ("what no compaction can help", {"should": True, "beyond": True}),
]


@pytest.mark.parametrize(("told", "change"), CHANGES)
def test_a_law_notices_its_breach(told: str, change: dict[str, Any], cooling: Run) -> None:
    first, *rest = cooling.turns
    changed = replace(cooling, turns=(replace(first, **change), *rest))
    assert any(told in one for one in breaches(changed))


def test_two_compactions_without_an_answer_between_them_are_noticed(cooling: Run) -> None:
    number, one = cooling.helped[0]
    turn = cooling.turns[number]
    twice = replace(turn, attempts=(one, replace(one, trigger="manual")))
    turns = (*cooling.turns[:number], twice, *cooling.turns[number + 1 :])
    assert breaches(replace(cooling, turns=turns)) == [f"turn {number}: compacted twice in a row"]


def test_a_breaker_that_opens_too_early_is_noticed(cooling: Run) -> None:
    turn = replace(cooling.turns[0], attempts=(replace(cooling.helped[0][1], reason="empty", breaker="open"),))
    found = breaches(replace(cooling, turns=(turn, *cooling.turns[1:])))
    assert "turn 0: the breaker is open after 1 failures in a row" in found


def test_a_session_is_compacted_often_and_goes_on_after_every_failure(cooling: Run) -> None:
    assert len(cooling.helped) >= 10
    assert {one.reason for _, one in cooling.attempts} == {None, "overloaded", "refused", "empty"}
    assert all(turn.truth for turn in cooling.turns)
    assert all(one.after is not None and one.after < cooling.threshold for _, one in cooling.helped)


def test_an_open_breaker_is_tried_again_after_the_cool_down_and_closed_by_a_success(cooling: Run) -> None:
    [opened, *_] = [number for number, one in cooling.attempts if one.breaker == "open"]
    states = [turn.breaker for turn in cooling.turns[opened + 1 : opened + 6]]
    assert states == ["open", "open", "open", "half_open", "closed"]
    assert [one.reason for one in cooling.turns[opened + 4].attempts] == [None]


def test_the_blocking_limit_is_reached_only_with_an_open_breaker_and_a_person_frees_the_session(latched: Run) -> None:
    at_limit = [turn for turn in latched.turns if turn.told >= latched.blocking]
    assert [turn.breaker for turn in at_limit] == ["open"]
    assert [(one.trigger, one.reason, one.breaker) for one in at_limit[0].attempts] == [("manual", None, "closed")]
    assert at_limit[0].sent < latched.threshold


def test_the_cache_is_missed_only_where_the_conversation_or_the_instructions_changed(cooling: Run) -> None:
    missed = [(number, turn.cause) for number, turn in enumerate(cooling.turns) if turn.hit is False]
    assert {cause for _, cause in missed} <= {"messages_rewritten", "memory_changed"}
    assert [number for number, cause in missed if cause == "messages_rewritten"] == [n for n, _ in cooling.helped]


def test_what_no_compaction_can_help_is_not_asked_for_and_told_to_a_person_without_a_call(hopeless: Run) -> None:
    assert {(turn.beyond, turn.should, turn.breaker) for turn in hopeless.turns} == {(True, False, "closed")}
    first = next(number for number, turn in enumerate(hopeless.turns) if turn.told >= hopeless.blocking)
    attempts = [(number, one.trigger, one.reason, one.calls) for number, one in hopeless.attempts]
    assert attempts == [(first, "manual", "fixed_parts_too_large", 0)]
