"""Reported faults of windows and thresholds: how large a window is, and where in it a conversation is compacted."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.asking import inline, refused
from tests.reference.tallies import BOTH, codes, context, count, user, using

BETA = {"anthropic-beta": "other-2026-01-01, context-1m-2025-08-07"}
both = pytest.mark.parametrize("asked", BOTH)


def compacts(body: dict[str, Any]) -> bool:
    found: bool = body["compaction"]["should_compact"]
    return found


# F01: the tag [1m]


@both
@pytest.mark.parametrize(
    ("spelling", "sent"),
    [
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("claude-opus-4-6[1M]", "claude-opus-4-6"),
        ("claude-sonnet-4-6[1M]", "claude-sonnet-4-6"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5-20250929"),
        ("anthropic/claude-opus-4-6[1M]", "anthropic/claude-opus-4-6"),
        ("us.anthropic.claude-opus-4-6-v1:0[1m]", "us.anthropic.claude-opus-4-6-v1:0"),
        ("opus[1M]", "claude-opus-5-5"),
        ("house-model[1m]", "house-model"),
    ],
)
def test_f01_the_tag_gives_a_million_and_is_not_sent(
    asked: Any, spelling: str, sent: str, service: httpx.Client
) -> None:
    body = asked(service, using(171_000), model=spelling)
    assert (body["compaction"]["window"], compacts(body)) == (1_000_000, False)
    assert body.get("request", {"model": sent})["model"] == sent


def test_f01_the_tag_is_a_beta_value_where_the_api_needs_one(service: httpx.Client) -> None:
    tagged = {model: context(service, [], model=f"{model}[1m]") for model in ("claude-sonnet-4-5", "claude-opus-4-6")}
    assert tagged["claude-sonnet-4-5"]["headers"]["anthropic-beta"].startswith("context-1m-")
    assert tagged["claude-opus-4-6"]["headers"] == {}


@both
def test_f01_a_model_of_a_million_needs_no_tag(asked: Any, service: httpx.Client) -> None:
    for model in ("claude-sonnet-5", "claude-opus-4-7", "claude-haiku-5-5", "fable"):
        body = asked(service, using(195_000), model=model)
        assert (body["compaction"]["window"], compacts(body)) == (1_000_000, False)


# F02: 200,000 where nothing lifts it


@both
@pytest.mark.parametrize(
    "model", ["claude-opus-4-6", "claude-sonnet-4-6", "CLAUDE-OPUS-4-6", "claude-opus-4-6@default"]
)
def test_f02_a_client_gives_these_models_no_million_without_the_tag(
    asked: Any, model: str, service: httpx.Client
) -> None:
    body = asked(service, using(171_000), model=model, headers=BETA)
    assert (body["compaction"]["window"], compacts(body)) == (200_000, True)


@both
@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-opus-4-6[1m]", "opus", "claude-sonnet-4-5[1M]", "x[1m]"])
def test_f02_disable_1m_holds_every_model_to_the_standard_window(asked: Any, model: str, service: httpx.Client) -> None:
    body = asked(service, using(171_000), model=model, tokens={"disable_1m": True}, headers=BETA)
    assert (body["compaction"]["window"], compacts(body)) == (200_000, True)
    assert "disable_1m" in body["compaction"]["explain"][0]
    assert body.get("headers", {}) == {}


@both
@pytest.mark.parametrize(("given_window", "window"), [(400_000, 200_000), (150_000, 150_000)])
def test_f02_disable_1m_holds_a_given_window_too(
    asked: Any, given_window: int, window: int, service: httpx.Client
) -> None:
    options = {"disable_1m": True, "max_context_tokens": given_window}
    assert asked(service, [], model="sonnet", tokens=options)["compaction"]["window"] == window


@both
@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-sonnet-4-5", 1_000_000),
        ("claude-sonnet-4", 1_000_000),
        ("claude-haiku-4-5", 200_000),
        ("claude-opus-4-5", 200_000),
        ("house-model", 200_000),
    ],
)
def test_f02_the_beta_value_counts_for_models_that_take_it(
    asked: Any, model: str, window: int, service: httpx.Client
) -> None:
    assert asked(service, [], model=model, headers=BETA)["compaction"]["window"] == window
    assert asked(service, [], model=model)["compaction"]["window"] == 200_000


# F03: the threshold, at its edge


@both
@pytest.mark.parametrize(
    ("model", "threshold"),
    [
        ("claude-sonnet-5-5", 967_000),
        ("claude-opus-4-6[1m]", 967_000),
        ("claude-opus-4-6", 167_000),
        ("claude-haiku-4-5", 167_000),
        ("claude-3-5-haiku", 200_000 - 8_192 - 13_000),
        ("house-model", 167_000),
    ],
)
def test_f03_a_conversation_compacts_at_its_threshold_and_not_before(
    asked: Any, model: str, threshold: int, service: httpx.Client
) -> None:
    for used, over in (
        (threshold - 1_000, False),
        (threshold - 1, False),
        (threshold, True),
        (threshold + 1_000, True),
    ):
        body = asked(service, using(used), model=model)
        assert (body["tokens"]["used"], body["compaction"]["threshold"]) == (used, threshold)
        assert (compacts(body), body["compaction"]["is_above_auto_compact"]) == (over, over)


@pytest.mark.parametrize(
    ("field", "line"),
    [("is_above_warning", 147_000), ("is_above_error", 147_000), ("is_at_blocking_limit", 177_000)],
)
def test_f03_each_line_is_reached_by_as_many_tokens(field: str, line: int, service: httpx.Client) -> None:
    assert [count(service, using(used))["compaction"][field] for used in (line - 1, line)] == [False, True]


# F04: a percentage only lowers


@both
@pytest.mark.parametrize(
    ("percent", "threshold", "warned"),
    [
        (50, 90_000, False),
        (50.5, 90_900, False),
        (57.1, 102_780, False),
        (1, 1_800, False),
        (92.7, 166_860, False),
        (92.8, 167_000, False),
        (99, 167_000, False),
        (100, 167_000, False),
        (0, 167_000, True),
        (0.8, 167_000, True),
        (0.999, 167_000, True),
        (100.5, 167_000, True),
        (101, 167_000, True),
        (-50, 167_000, True),
    ],
)
def test_f04_a_percentage_of_the_effective_window_lowers_or_is_ignored_with_a_word(
    asked: Any, percent: float, threshold: int, warned: bool, service: httpx.Client
) -> None:
    body = asked(service, [], tokens={"percent_override": percent})
    assert body["compaction"]["threshold"] == threshold
    assert codes(body) == ["percent_override_ignored"] * warned
    assert any(line.startswith("lowered to") for line in body["compaction"]["explain"]) is (threshold < 167_000)


@pytest.mark.parametrize(("percent", "threshold"), [(98, 960_400), (99, 967_000), (50, 490_000)])
def test_f04_what_it_is_a_percentage_of_grows_with_the_window(
    percent: int, threshold: int, service: httpx.Client
) -> None:
    body = count(service, using(threshold), model="sonnet", tokens={"percent_override": percent})
    assert (body["compaction"]["threshold"], compacts(body)) == (threshold, True)


@pytest.mark.parametrize("written", ['"50"', '"abc"', "true", "[50]"])
def test_f04_what_is_no_number_is_refused(written: str, service: httpx.Client) -> None:
    body = json.dumps(inline(tokens={"percent_override": None})).replace("null}", f"{written}}}")
    answer = service.post("/v1/context", content=body, headers={"content-type": "application/json"})
    refused(answer, 422, "invalid-request", "/tokens/percent_override")


# F08: reserves are bounded


@pytest.mark.parametrize("window", [1, 2, 10, 500, 3_000, 20_000, 32_999, 33_000, 99_999, 100_000, 10**30])
def test_f08_no_window_is_so_small_that_nothing_compacts_an_empty_conversation(
    window: int, service: httpx.Client
) -> None:
    for model in ("claude-sonnet-5-5", "claude-3-5-haiku"):
        body = count(service, [], model=model, tokens={"max_context_tokens": window})
        assert (compacts(body), body["compaction"]["percent_left"]) == (False, 100)
        assert body["compaction"]["effective_window"] >= window * 8 // 10


def test_f08_a_larger_output_of_the_model_costs_no_more_than_the_summary_needs(service: httpx.Client) -> None:
    reserve = {
        model: 200_000 - count(service, [], model=model)["compaction"]["effective_window"]
        for model in ("claude-opus-4-6", "claude-opus-4-5", "claude-opus-4-1", "claude-3-5-haiku")
    }
    assert list(reserve.values()) == [20_000, 20_000, 20_000, 8_192]


@settings(max_examples=40, deadline=None)
@given(
    window=st.integers(1, 2_000_000),
    percent=st.none() | st.floats(-10, 200),
    auto=st.booleans(),
    used=st.integers(0, 2_100_000),
)
def test_f08_in_every_window_the_lines_are_in_order(
    service: httpx.Client, window: int, percent: float | None, auto: bool, used: int
) -> None:
    options = {"max_context_tokens": window, "auto_compact": auto}
    body = count(service, using(used), tokens=options | {"percent_override": percent})
    state = body["compaction"]
    unlowered = count(service, [], tokens=options)["compaction"]
    assert state["threshold"] <= unlowered["threshold"]
    assert (unlowered["should_compact"], unlowered["percent_left"]) == (False, 100)
    assert state["should_compact"] is (auto and body["tokens"]["used"] >= state["threshold"])


# F17: of which window


@both
def test_f17_both_percentages_are_told(asked: Any, service: httpx.Client) -> None:
    state = asked(service, using(200_000), model="sonnet", tokens={"max_context_tokens": 400_000})["compaction"]
    assert (state["percent_of_model_window"], state["percent_of_window"]) == (20, 50)
    assert state["explain"][-1].endswith("50 % of the window, 20 % of the model's own")


@both
def test_f17_without_an_override_they_are_one(asked: Any, service: httpx.Client) -> None:
    state = asked(service, using(200_000), model="sonnet")["compaction"]
    assert (state["percent_of_model_window"], state["percent_of_window"]) == (20, 20)


# F24: automatic compaction off


@both
@pytest.mark.parametrize("used", [10, 167_000, 190_000, 10_000_000])
def test_f24_without_auto_compaction_nothing_compacts_by_itself(asked: Any, used: int, service: httpx.Client) -> None:
    state = asked(service, using(used), tokens={"auto_compact": False, "percent_override": 1})["compaction"]
    assert (state["should_compact"], state["is_above_auto_compact"]) == (False, False)
    assert state["is_at_blocking_limit"] is (used >= 177_000)
    assert state["percent_left"] == max(0, round((180_000 - used) / 1_800))
    assert "auto compaction is off: nothing compacts by itself" in state["explain"]


def test_f24_what_is_left_is_then_of_the_effective_window(service: httpx.Client) -> None:
    state = count(service, [user("x" * 360_000)], tokens={"auto_compact": False})["compaction"]
    assert (state["effective_window"], state["percent_left"]) == (180_000, 50)


@pytest.mark.parametrize("window", [500, 1_000, 2_000])
def test_f08_an_empty_conversation_is_not_compacted_however_much_stands_before_it(
    window: int, service: httpx.Client
) -> None:
    body = context(service, [], tokens={"max_context_tokens": window})
    assert body["tokens"]["used"] > body["compaction"]["threshold"]
    assert body["compaction"]["should_compact"] is False


def test_f08_nor_in_a_raw_request(service: httpx.Client) -> None:
    body = count(service, [], system="x" * 4 * 170_000)
    assert body["compaction"]["should_compact"] is False
    assert "the conversation is empty" in body["compaction"]["explain"][-1]


@pytest.mark.parametrize("asked", BOTH)
@pytest.mark.parametrize("spelling", ["claude-opus-4-6[1m] ", "claude-opus-4-6 [1m]", "claude-opus-4-6[1m][1M]"])
def test_f01_a_tag_among_spaces_or_twice_is_read_and_not_sent(asked: Any, spelling: str, service: httpx.Client) -> None:
    body = asked(service, [], model=spelling)
    assert body["compaction"]["window"] == 1_000_000
    assert body.get("request", {"model": "claude-opus-4-6"})["model"] == "claude-opus-4-6"


@pytest.mark.parametrize(
    "tokens",
    [
        {"percent_override": 93},
        {"percent_override": 99},
        {"percent_override": 100},
        {"percent_override": 50, "auto_compact": False},
    ],
)
def test_f04_a_percentage_that_lowers_nothing_is_told(tokens: dict[str, Any], service: httpx.Client) -> None:
    explain = count(service, [], tokens=tokens)["compaction"]["explain"]
    assert any("percent_override" in line and "no effect" in line for line in explain)
