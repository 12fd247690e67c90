"""Reported faults of what usage says: which of it counts, of which request, and what a session learns from it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.asking import CWD, refused
from tests.reference.tallies import BOTH, ESTIMATE, READ, assistant, context, count, parts, user, using

both = pytest.mark.parametrize("asked", BOTH)
FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
CALL = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}}
SECOND = CALL | {"id": "t2"}


def result(identity: str, text: str = "r" * 400) -> dict[str, Any]:
    return user([{"type": "tool_result", "tool_use_id": identity, "content": text}])


def used(body: dict[str, Any]) -> tuple[int, int | None]:
    return body["tokens"]["used"], body["tokens"]["anchored_on"]


# F14: what was read from the cache stands in the window


@both
def test_f14_cached_tokens_count(asked: Any, service: httpx.Client) -> None:
    told = {"input_tokens": 1, "cache_creation_input_tokens": 241, "cache_read_input_tokens": 339_155}
    body = asked(service, [user("Go on."), assistant("Done.", usage=told)], model="sonnet")
    assert used(body) == (339_397, 1)
    assert body["compaction"]["percent_of_window"] == 34


@both
@pytest.mark.parametrize("field", FIELDS)
def test_f14_every_kind_of_token_takes_room(asked: Any, field: str, service: httpx.Client) -> None:
    body = asked(service, [user("Go on."), assistant("Done.", usage={field: 170_000})])
    assert (used(body), body["compaction"]["should_compact"]) == ((170_000, 1), True)


def test_f14_what_else_the_api_tells_in_its_usage_is_taken_along(service: httpx.Client) -> None:
    told = {
        **dict.fromkeys(FIELDS, 100),
        "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        "server_tool_use": {"web_search_requests": 3},
        "service_tier": "standard",
    }
    assert used(count(service, [user("Go on."), assistant("Done.", usage=told)])) == (400, 1)


def test_f14_a_figure_that_is_null_is_none(service: httpx.Client) -> None:
    told = {"input_tokens": 70, "cache_read_input_tokens": None}
    assert used(count(service, [user("Go on."), assistant("Done.", usage=told)])) == (70, 1)


@pytest.mark.parametrize("figure", [-1, 1.5, "9", True, False])
def test_f14_a_figure_that_is_no_count_is_refused(figure: Any, service: httpx.Client) -> None:
    body = {"model": "sonnet", "messages": [assistant("Done.", usage={"cache_read_input_tokens": figure})]}
    answer = service.post("/v1/tokens", json=body)
    refused(answer, 422, "invalid-request", "/messages/0/usage/cache_read_input_tokens")


# F15: the latest request, never a sum


@both
def test_f15_of_many_responses_the_last_one_counts(asked: Any, service: httpx.Client) -> None:
    talk = [one for size in (9_000, 60_000, 154_000, 30_000) for one in using(size)]
    body = asked(service, talk)
    assert used(body) == (30_000, 7)
    assert (body["compaction"]["percent_left"], body["compaction"]["should_compact"]) == (82, False)


@both
def test_f15_what_came_after_it_is_added(asked: Any, service: httpx.Client) -> None:
    talk = [*using(30_000), user("x" * 4_000), assistant("y" * 400), user("z" * 40)]
    assert used(asked(service, talk)) == (30_000 + 1_000 + 100 + 10, 1)


@pytest.mark.parametrize("told", [{}, {"input_tokens": 0}, {"input_tokens": None, "output_tokens": 0}])
def test_f15_a_response_that_tells_nothing_is_passed_over(told: dict[str, Any], service: httpx.Client) -> None:
    talk = [*using(30_000), user("x" * 400), assistant("No answer.", usage=told)]
    assert used(count(service, talk)) == (30_000 + 100 + 3, 1)


def test_f15_usage_on_a_message_of_the_user_is_no_responses(service: httpx.Client) -> None:
    assert used(count(service, [user("x" * 400, usage={"input_tokens": 150_000})])) == (100, None)


# Fragments of one response


def fragments(first: str | None, second: str | None) -> list[dict[str, Any]]:
    """One response written as two messages, with the result of the first call between them, and a result behind."""
    return [
        user("Go on."),
        assistant([CALL], 50_000, id=first),
        result("t1"),
        assistant([SECOND], 50_000, id=second),
        result("t2"),
    ]


@both
def test_fragments_of_one_response_are_one_and_what_stands_between_them_counts(
    asked: Any, service: httpx.Client
) -> None:
    body = asked(service, fragments("msg_1", "msg_1"), tools=[READ])
    later = [tokens for name, tokens in parts(body).items() if name in {f"messages[{at}]" for at in (2, 3, 4)}]
    assert used(body) == (50_000 + sum(later), 1)
    assert len(later) == 3


@pytest.mark.parametrize(("first", "second"), [("msg_1", "msg_2"), (None, "msg_1"), ("msg_1", None), (None, None)])
def test_responses_that_are_not_one_do_not_count_as_one(
    first: str | None, second: str | None, service: httpx.Client
) -> None:
    assert used(count(service, fragments(first, second))) == (50_100, 3)


def test_a_response_of_another_id_ends_the_way_back(service: httpx.Client) -> None:
    talk = [*fragments("msg_1", "msg_2"), assistant("Done.", 60_000, id="msg_1")]
    assert used(count(service, talk)) == (60_000, 5)


def test_the_usage_of_a_fragment_without_figures_is_that_of_another(service: httpx.Client) -> None:
    talk = [user("Go on."), assistant([CALL], 50_000, id="m"), assistant([SECOND], id="m"), result("t1"), result("t2")]
    body = count(service, talk)
    assert used(body) == (50_000 + sum(parts(body)[f"messages[{at}]"] for at in (2, 3, 4)), 1)


# A compaction's boundary


BOUNDARY = {"compact_boundary": True}


@both
def test_usage_before_a_boundary_does_not_count(asked: Any, service: httpx.Client) -> None:
    talk = [*using(190_000), user("A summary.", meta=BOUNDARY), user("x" * 400)]
    body = asked(service, talk)
    assert body["tokens"]["anchored_on"] is None
    assert body["tokens"]["used"] < 10_000
    assert body["compaction"]["should_compact"] is False


@both
@pytest.mark.parametrize(("tokens", "compacts"), [(12_000, False), (166_900, True)])
def test_a_boundarys_own_figure_counts_until_there_is_usage(
    asked: Any, tokens: int, compacts: bool, service: httpx.Client
) -> None:
    talk = [*using(190_000), user("A summary.", meta=BOUNDARY | {"tokens": tokens}), user("x" * 400)]
    body = asked(service, talk)
    assert (used(body), body["compaction"]["should_compact"]) == ((tokens + 100, 2), compacts)
    assert used(asked(service, [*talk, assistant("Done.", 21_000)])) == (21_000, 4)


def test_of_several_boundaries_the_last_one_counts(service: httpx.Client) -> None:
    summary = user("A summary.", meta=BOUNDARY | {"tokens": 9_000})
    talk = [summary, *using(150_000), user("Another.", meta=BOUNDARY), user("x" * 400)]
    assert count(service, talk)["tokens"]["anchored_on"] is None
    assert used(count(service, [*talk[:-2], summary | {"content": "Another."}])) == (9_000, 3)


def test_fragments_are_not_looked_for_before_a_boundary(service: httpx.Client) -> None:
    talk = fragments("m", "m")
    talk[2] |= {"meta": BOUNDARY}
    assert used(count(service, talk)) == (50_100, 3)


def test_a_boundary_is_said_in_so_many_words(service: httpx.Client) -> None:
    for meta in (True, False, None, {"compact_boundary": False, "tokens": 5}):
        assert used(count(service, [*using(190_000), user("x" * 400, meta=meta)])) == (190_100, 1)


# How many more responses there is room for


def test_turns_left_is_the_room_by_the_recent_pace(service: httpx.Client) -> None:
    talk = [one for size in (10_000, 20_000, 40_000, 67_000) for one in using(size)]
    state = count(service, talk)["compaction"]
    assert state["turns_left"] == (167_000 - 67_000) // 19_000
    assert any("19,000 tokens each" in line for line in state["explain"])


def test_turns_left_is_told_by_a_context_as_well(service: httpx.Client) -> None:
    assert context(service, [*using(10_000), *using(20_000)])["compaction"]["turns_left"] == 14


@pytest.mark.parametrize("talk", [[], using(50_000), [*using(50_000), *using(50_000)], [*using(50_000), *using(9_000)]])
def test_turns_left_is_not_guessed(talk: list[dict[str, Any]], service: httpx.Client) -> None:
    assert count(service, talk)["compaction"]["turns_left"] is None


def test_no_turns_are_left_beyond_the_threshold(service: httpx.Client) -> None:
    assert count(service, [*using(150_000), *using(190_000)])["compaction"]["turns_left"] == 0


def test_the_pace_is_of_the_time_since_the_last_compaction(service: httpx.Client) -> None:
    talk = [*using(10_000), *using(90_000), user("A summary.", meta=BOUNDARY), *using(11_000), *using(13_000)]
    assert count(service, talk)["compaction"]["turns_left"] == (167_000 - 13_000) // 2_000


# What a session learns


@settings(max_examples=15, deadline=None)
@given(told=st.lists(st.integers(0, 10**12), min_size=1, max_size=4), method=st.sampled_from(["estimate", "auto"]))
def test_a_calibration_stays_within_bounds_whatever_usage_is_sent(
    service: httpx.Client, told: list[int], method: str
) -> None:
    session, talk = uuid4().hex, [user("Why is the sum wrong? " * 40)]
    options: dict[str, Any] = {"session_id": session, "tokens": {"method": method}}
    for size in told:
        assert 0.5 <= context(service, talk, **options)["tokens"]["calibration"] <= 2
        talk = [*talk, assistant("It is not.", size), user("Look again. " * 20)]
    last = context(service, talk, **options)["tokens"]["calibration"]
    assert 0.5 <= last <= 2
    assert count(service, talk, **options)["tokens"]["calibration"] == last


def test_a_calibration_is_of_its_session_and_its_tokenizer(service: httpx.Client) -> None:
    session, talk = uuid4().hex, [user("Why is the sum wrong? " * 400)]
    options: dict[str, Any] = {"session_id": session, "tokens": ESTIMATE}
    first = context(service, talk, **options)["tokens"]
    talk = [*talk, assistant("It is not.", first["used"] * 2), user("Look again.")]
    learned = context(service, talk, **options)["tokens"]["calibration"]
    assert 1 < learned < 2
    other = options | {"session_id": uuid4().hex}
    assert context(service, talk, **other)["tokens"]["calibration"] == 1
    assert count(service, talk, **options, model="sonnet")["tokens"]["calibration"] == 1


def test_calibrated_parts_add_up_too(service: httpx.Client) -> None:
    session, options = uuid4().hex, {"tokens": ESTIMATE, "tools": [READ], "files": {f"{CWD}/CLAUDE.md": "Top."}}
    talk = [user("Why is the sum wrong? " * 400)]
    for size in (3_000, 9_000, 1_000_000):
        context(service, talk, session_id=session, **options)
        talk = [*talk, assistant("It is not.", size), user("Look again.")]
    body = context(service, [user("Anew.")], session_id=session, **options)
    assert body["tokens"]["calibration"] > 1
    assert body["tokens"]["anchored_on"] is None
