"""What a client's own requests do to the prompt cache, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from app.wire.lints import LintAnswer
from tests.serving import serve
from tests.standin.server import StandIn

MARK = {"type": "ephemeral"}
STATIC = {"type": "text", "text": "You are an agent. " * 400, "cache_control": MARK}


def turn(*talk: str, **more: Any) -> dict[str, Any]:
    messages = [
        {"role": "assistant" if index % 2 else "user", "content": [{"type": "text", "text": text}]}
        for index, text in enumerate(talk)
    ]
    messages[-1]["content"][-1]["cache_control"] = MARK
    return {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": [STATIC], "messages": messages, **more}


def linted(service: httpx.Client, *bodies: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = service.post("/v1/cache/lint", json={"requests": [{"body": body, **more} for body in bodies]})
    assert answer.status_code == 200, answer.text
    values: dict[str, Any] = answer.json()
    LintAnswer.model_validate(values)
    return values


def test_a_conversation_that_only_grows_is_a_hit_without_findings(service: httpx.Client) -> None:
    found = linted(service, turn("a"), turn("a", "b", "c"), turn("a", "b", "c", "d", "e"))
    assert [(row["hit"], row["cause"]) for row in found["comparisons"]] == [(True, None), (True, None)]
    assert found["findings"] == []


def test_a_date_in_front_is_the_cause_and_a_finding(service: httpx.Client) -> None:
    def dated(day: int) -> dict[str, Any]:
        text = f"Today is 2026-11-{day}. " + str(STATIC["text"])
        return turn("a", system=[{"type": "text", "text": text, "cache_control": MARK}])

    found = linted(service, dated(29), dated(30))
    assert found["comparisons"][0]["cause"] == "system_changed"
    assert found["comparisons"][0]["first_change"]["offset"] == len("Today is 2026-11-")
    assert {row["code"] for row in found["findings"]} == {"volatile_text", "marker_on_changing_block"}


def test_a_secret_near_the_place_is_not_shown(service: httpx.Client) -> None:
    key = "sk-ant-" + "a1B2" * 12
    found = linted(service, turn(f"one {key}"), turn(f"two {key}"))
    assert key[:12] not in json.dumps(found)
    assert found["comparisons"][0]["cause"] == "messages_rewritten"


def test_the_apis_own_word_is_compared(service: httpx.Client) -> None:
    usage = {"input_tokens": 9, "cache_read_input_tokens": 0, "output_tokens": 1}
    row = linted(service, turn("a"), turn("a", "b", "c"), usage=usage)["comparisons"][0]
    assert (row["agreed"], row["cause"]) == (False, "server_side_or_unknown")


def test_the_verdicts_are_those_of_the_stand_ins_cache(
    service: httpx.Client, upstream_url: str, upstream: StandIn
) -> None:
    bodies = [turn("a"), turn("a", "b", "c"), turn("x", "b", "c"), turn("x", "b", "c", "d", "e")]
    read = [
        httpx.post(
            f"{upstream_url}/v1/messages", json=body, headers={"x-api-key": "k", "anthropic-version": "2023-06-01"}
        ).json()["usage"]["cache_read_input_tokens"]
        for body in bodies
    ]
    rows = linted(service, *bodies)["comparisons"]
    assert [row["hit_tokens"] > 0 for row in rows] == [tokens > 0 for tokens in read[1:]]
    assert len(upstream.seen) == len(bodies)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"requests": []}, "/requests"),
        ({"requests": [{"body": {"model": "m"}}]}, "/requests/0/body/messages"),
        ({"requests": [{"body": {"model": "m", "messages": "x"}}]}, "/requests/0/body/messages"),
        ({"requests": [{"body": {"model": "m", "messages": []}, "bogus": 1}]}, "/requests/0/bogus"),
        ({"requests": [{"body": {"model": "m", "messages": [7]}}]}, "/requests/0/body/messages/0"),
    ],
)
def test_what_is_no_request_is_refused_with_its_place(body: Any, pointer: str, service: httpx.Client) -> None:
    answer = service.post("/v1/cache/lint", json=body)
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


PRICES = {"claude-sonnet-5-5": 3.0}


@pytest.fixture
def priced_service() -> Iterator[httpx.Client]:
    with (
        serve(create_app(Settings(roots=(), prices=PRICES, currency="EUR"))) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


def test_without_prices_no_cost_is_told(service: httpx.Client) -> None:
    assert linted(service, turn("a"), turn("b"))["comparisons"][0]["cost"] is None


def test_what_is_written_again_has_its_cost(priced_service: httpx.Client) -> None:
    long = {**STATIC, "cache_control": {**MARK, "ttl": "1h"}}
    bodies = [turn("a"), turn("a", system=[long], tools=[{"name": "a", "input_schema": {}}])]
    row = linted(priced_service, *bodies)["comparisons"][0]
    assert row["rewritten_tokens"] == row["rewritten_5m_tokens"] + row["rewritten_1h_tokens"]
    assert row["rewritten_1h_tokens"] > 1000
    weighed = row["rewritten_5m_tokens"] * 1.25 + row["rewritten_1h_tokens"] * 2
    assert row["cost"] == {"amount": pytest.approx(weighed * 1.3 * 3 / 1e6, abs=1e-6), "currency": "EUR"}


def test_another_model_has_no_cost(priced_service: httpx.Client) -> None:
    bodies = [turn("a", model="my-model"), turn("b", model="my-model")]
    assert linted(priced_service, *bodies)["comparisons"][0]["cost"] is None


def test_markers_that_went_are_told_with_what_they_kept(priced_service: httpx.Client) -> None:
    bare = {"model": "claude-sonnet-5-5", "system": STATIC["text"], "messages": [{"role": "user", "content": "a"}]}
    row = linted(priced_service, turn("a"), bare)["comparisons"][0]
    assert (row["cause"], row["rewritten_tokens"]) == ("markers_moved", 0)
    assert row["unwritten_tokens"] == 1800
    assert row["cost"]["amount"] == pytest.approx(1800 * 1.3 * 3 / 1e6)
