"""Counting over HTTP: with the real SDK against a stand-in for the API, and without anybody to ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.asking import answered, ask, inline, refused
from tests.serving import serve
from tests.standin.server import Failure, StandIn

READ = {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object"}}
TALK = [{"role": "user", "content": "Why is the sum wrong? " * 20}]
KEY = "sk-ant-test-0123456789"


@pytest.fixture
def counting(upstream_url: str) -> Iterator[httpx.Client]:
    """A service that may ask the stand-in, with a key of its own."""
    settings = Settings(upstream_url=upstream_url, anthropic_api_key=KEY, upstream_retries=0)
    with (
        serve(create_app(settings)) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


@pytest.fixture
def keyless(upstream_url: str) -> Iterator[httpx.Client]:
    with (
        serve(create_app(Settings(upstream_url=upstream_url, anthropic_api_key=None))) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


def count(client: httpx.Client, **body: Any) -> dict[str, Any]:
    headers = body.pop("headers", {})
    response = client.post("/v1/tokens", json={"model": "claude-sonnet-4-5"} | body, headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    assert sum(part["tokens"] for part in found["tokens"]["parts"]) == found["tokens"]["used"]
    assert KEY not in response.text
    return found


def codes(body: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in body["warnings"]]


def names(body: dict[str, Any]) -> list[str]:
    return [part["part"] for part in body["tokens"]["parts"]]


def test_a_raw_request_is_counted_part_by_part(service: httpx.Client) -> None:
    system = [{"type": "text", "text": "x" * 40}, {"type": "text", "text": "y" * 4}]
    body = count(service, messages=TALK, system=system, tools=[READ])
    assert names(body) == ["system[0]", "system[1]", "tool:Read", "messages[0]"]
    assert [part["tokens"] for part in body["tokens"]["parts"]][:2] == [10, 1]
    assert (body["tokens"]["method"], body["tokens"]["calibration"]) == ("rough", None)
    assert body["compaction"]["threshold"] == 167_000


def test_a_system_prompt_may_be_a_text(service: httpx.Client) -> None:
    assert names(count(service, messages=TALK, system="Be brief.")) == ["system[0]", "messages[0]"]
    assert names(count(service, messages=TALK, system="")) == ["messages[0]"]


def test_fields_of_the_api_that_cost_nothing_are_taken(service: httpx.Client) -> None:
    more = {"cache_control": {"type": "ephemeral"}, "max_tokens": 9, "stream": True, "temperature": 0.5, "metadata": {}}
    assert count(service, messages=TALK, **more)["tokens"] == count(service, messages=TALK)["tokens"]
    built = ask(service, inline(messages=TALK, cache_control={"type": "ephemeral"}))["request"]
    assert service.post("/v1/tokens", json=built).status_code == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"messages": []}, "/model"),
        ({"model": "x", "system": 3}, "/system"),
        ({"model": "x", "tokens": {"method": "guess"}}, "/tokens/method"),
        ({"model": "x", "workspace": {}}, "/workspace"),
    ],
)
def test_what_is_no_request_is_refused(body: Any, pointer: str, service: httpx.Client) -> None:
    refused(service.post("/v1/tokens", json=body), 422, "invalid-request", pointer)


def test_an_estimate_knows_the_generation_and_counts_the_overhead_of_tools_once(service: httpx.Client) -> None:
    one = count(service, messages=TALK, tools=[READ, READ | {"name": "Write"}], tokens={"method": "estimate"})
    assert names(one).count("tool_overhead") == 1
    assert (one["tokens"]["method"], one["tokens"]["calibration"]) == ("estimate", 1.0)
    later = count(service, model="claude-sonnet-5-5", messages=TALK, tokens={"method": "estimate"})
    earlier = count(service, messages=TALK, tokens={"method": "estimate"})
    assert later["tokens"]["used"] == pytest.approx(1.3 * earlier["tokens"]["used"], abs=1)


def test_an_exact_count_is_the_apis_own(counting: httpx.Client, upstream: StandIn) -> None:
    body = count(counting, messages=TALK, system="Be brief.", tools=[READ], tokens={"method": "exact"})
    assert body["tokens"]["method"] == "exact"
    assert names(body)[-1] == "count_difference"
    assert codes(body) == []
    sent = [call for call in upstream.seen if call.path.endswith("count_tokens")]
    assert sent[0].body["tools"] == [READ]
    again = count(counting, messages=TALK, system="Be brief.", tools=[READ], tokens={"method": "exact"})
    assert again["tokens"] == body["tokens"]
    assert len([call for call in upstream.seen if call.path.endswith("count_tokens")]) == len(sent)


def test_a_context_can_be_counted_exactly_too(counting: httpx.Client, upstream: StandIn) -> None:
    body = ask(counting, inline(messages=TALK, tools=[READ], tokens={"method": "exact"}))
    assert body["tokens"]["method"] == "exact"
    assert [part["part"] for part in body["tokens"]["parts"]][-1] == "count_difference"
    assert upstream.seen[0].body["system"] == body["request"]["system"]


def test_what_fails_falls_to_a_small_model_and_then_to_the_estimate(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(529))
    body = count(counting, messages=TALK, tokens={"method": "exact"})
    assert (body["tokens"]["method"], codes(body)) == ("fallback_model", ["exact_count_fallback"])
    upstream.answer_next(*[Failure(529)] * 2)
    body = count(counting, messages=[*TALK, *TALK], tokens={"method": "exact"})
    assert (body["tokens"]["method"], codes(body)) == ("estimate", ["exact_count_unavailable"])


def test_a_key_of_the_caller_is_used_for_its_request_alone(keyless: httpx.Client, upstream: StandIn) -> None:
    exact: dict[str, Any] = {"messages": TALK, "tokens": {"method": "exact"}}
    assert codes(count(keyless, **exact)) == ["exact_count_unavailable"]
    assert upstream.seen == []
    body = count(keyless, **exact, headers={"x-upstream-api-key": KEY})
    assert (body["tokens"]["method"], codes(body)) == ("exact", [])
    assert codes(count(keyless, **exact)) == ["exact_count_unavailable"]


def test_auto_asks_only_where_it_matters(counting: httpx.Client, upstream: StandIn) -> None:
    assert count(counting, messages=TALK, tokens={"method": "auto"})["tokens"]["method"] == "estimate"
    assert upstream.seen == []
    tight = {"method": "auto", "max_context_tokens": 200}
    assert count(counting, messages=TALK, tokens=tight)["tokens"]["method"] == "exact"


def test_auto_without_a_key_estimates_without_a_word(keyless: httpx.Client) -> None:
    body = count(keyless, messages=TALK, tokens={"method": "auto", "max_context_tokens": 200})
    assert (body["tokens"]["method"], codes(body)) == ("estimate", [])


def test_a_sessions_own_usage_corrects_its_estimates(service: httpx.Client) -> None:
    session, estimate = uuid4().hex, {"method": "estimate"}
    first = ask(service, inline(session_id=session, messages=TALK, tokens=estimate))
    told = {"input_tokens": first["tokens"]["used"] * 3 // 2, "output_tokens": 20}
    talk = [*TALK, {"role": "assistant", "content": "It is not.", "usage": told}, *TALK]
    second = ask(service, inline(session_id=session, messages=talk, tokens=estimate))
    assert 1.1 < second["tokens"]["calibration"] < 1.5
    raw = count(service, messages=TALK, tokens=estimate)["tokens"]
    learned = count(service, messages=TALK, tokens=estimate, session_id=session)["tokens"]
    assert (raw["calibration"], learned["calibration"]) == (1.0, second["tokens"]["calibration"])
    assert learned["used"] == pytest.approx(raw["used"] * learned["calibration"], abs=1)


def test_right_behind_a_compaction_its_own_figure_counts(service: httpx.Client) -> None:
    before = {"role": "assistant", "content": "Long ago.", "usage": {"input_tokens": 150_000, "output_tokens": 1}}
    summary = {"role": "user", "content": "Summary.", "meta": {"compact_boundary": True, "tokens": 12_000}}
    body = count(service, messages=[*TALK, before, summary, {"role": "user", "content": "x" * 40}])
    assert (body["tokens"]["used"], body["tokens"]["anchored_on"]) == (12_010, 2)


def test_the_recent_pace_says_how_many_responses_there_is_room_for(service: httpx.Client) -> None:
    talk = [
        one
        for number in range(1, 5)
        for one in (*TALK, {"role": "assistant", "content": "ok", "usage": {"input_tokens": 10_000 * number}})
    ]
    state = count(service, messages=talk)["compaction"]
    assert state["turns_left"] == (167_000 - 40_000) // 10_000
    assert "room for about 12 more responses at the recent pace of 10,000 tokens each" in state["explain"]


def test_the_answer_is_as_the_contract_has_it(service: httpx.Client) -> None:
    response = service.post("/v1/context", json=inline(tokens={"method": "estimate"}, tools=[READ]))
    assert "tool_overhead" in [part["part"] for part in answered(response)["tokens"]["parts"]]
