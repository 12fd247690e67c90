"""Reported faults of exact counts: backends that leave parts out, that refuse, and that answer with something else."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.reference.tallies import BOTH, EXACT, READ, assistant, codes, count, parts, user, using
from tests.standin.server import Failure, StandIn, Words

COUNTS, CREATES = "/v1/messages/count_tokens", "/v1/messages"
SYSTEM = "Be brief. " * 40
TALK = [user("Why is the sum wrong? " * 20)]
THOUGHT = {"type": "thinking", "thinking": "Let me see. " * 300, "signature": "s"}
THINKING = [*TALK, assistant([THOUGHT, {"type": "text", "text": "It is."}]), user("Go on.")]
both = pytest.mark.parametrize("asked", BOTH)


def exactly(client: httpx.Client, talk: Any = TALK, **more: Any) -> dict[str, Any]:
    return count(client, talk, tokens=EXACT, **more)


def paths(upstream: StandIn) -> list[str]:
    return [call.path for call in upstream.seen]


def said(body: dict[str, Any]) -> str:
    return " ".join(one["message"] for one in body["warnings"] if one["where"] == "tokens.method")


# F10: a count without system and tools is none


def test_f10_system_and_tools_count(counting: httpx.Client) -> None:
    bare = exactly(counting)["tokens"]["used"]
    for more in ({"system": SYSTEM}, {"tools": [READ]}):
        body = exactly(counting, **more)
        assert (body["tokens"]["method"], codes(body)) == ("exact", [])
        assert body["tokens"]["used"] > bare


@pytest.mark.parametrize("method", ["rough", "estimate"])
def test_f10_they_count_where_nobody_is_asked(method: str, service: httpx.Client) -> None:
    options = {"method": method}
    sizes = [count(service, TALK, tokens=options, **more)["tokens"]["used"] for more in ({}, {"system": SYSTEM})]
    sizes.append(count(service, TALK, tokens=options, system=SYSTEM, tools=[READ])["tokens"]["used"])
    assert sizes == sorted(set(sizes))


@both
@pytest.mark.parametrize("deaf", [{"tools"}, {"system"}, {"tools", "system"}])
def test_f10_a_backend_that_leaves_parts_out_is_not_believed(
    asked: Any, deaf: set[str], counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.deaf = frozenset(deaf)
    system = {"system": SYSTEM} if asked is count else {}
    body = asked(counting, TALK, tools=[READ], tokens=EXACT, **system)
    assert (body["tokens"]["method"], codes(body)) == ("fallback_model", ["exact_count_fallback"])
    assert f"Left out: {', '.join(sorted(deaf))}." in said(body)


def test_f10_it_is_asked_only_for_what_it_counts(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.deaf = frozenset({"tools"})
    exactly(counting, tools=[READ])
    upstream.seen.clear()
    assert exactly(counting, [*TALK, *TALK], tools=[READ])["tokens"]["method"] == "fallback_model"
    assert paths(upstream) == [CREATES]
    assert exactly(counting, system=SYSTEM)["tokens"]["method"] == "exact"
    assert exactly(counting)["tokens"]["method"] == "exact"


def test_f10_a_backend_of_one_model_says_nothing_of_another(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.deaf = frozenset({"tools"})
    assert exactly(counting, tools=[READ])["tokens"]["method"] == "fallback_model"
    upstream.deaf = frozenset()
    assert exactly(counting, tools=[READ], model="claude-opus-5-5")["tokens"]["method"] == "exact"


@both
def test_f10_the_same_small_number_for_everything_is_not_believed(
    asked: Any, counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(*[Words(b'{"input_tokens": 10}')] * 3, Failure(500))
    body = asked(counting, TALK, tools=[READ], tokens=EXACT)
    assert (body["tokens"]["method"], codes(body)) == ("estimate", ["exact_count_unavailable"])
    assert body["tokens"]["used"] > 400


# F12: a backend that refuses


@both
@pytest.mark.parametrize("status", [400, 403, 404, 405, 413, 429, 500, 503, 529])
def test_f12_a_refusal_falls_to_the_next_level_and_says_so(
    asked: Any, status: int, counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(Failure(status, "not here"))
    body = asked(counting, TALK, tokens=EXACT)
    assert (body["tokens"]["method"], codes(body)) == ("fallback_model", ["exact_count_fallback"])
    assert "not here" in said(body)
    assert paths(upstream) == [COUNTS, CREATES]


@both
@pytest.mark.parametrize("status", [400, 403, 404, 413, 429, 500, 529])
def test_f12_when_every_level_refuses_it_is_estimated_and_said_so(
    asked: Any, status: int, counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(Failure(status, "not here"), Failure(status, "nor there"))
    body = asked(counting, TALK, tokens=EXACT)
    assert (body["tokens"]["method"], codes(body)) == ("estimate", ["exact_count_unavailable"])
    assert "not here" in said(body)
    assert "nor there" in said(body)
    estimated = asked(counting, TALK, tokens={"method": "estimate"})["tokens"]
    assert body["tokens"] == estimated


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"null", b"[]", b"{}", b'{"input_tokens": -5}', b'{"input_tokens": "7"}', b'{"input_tokens": true}'],
)
def test_f12_what_is_no_count_is_not_taken_for_one(answer: bytes, counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Words(answer))
    body = exactly(counting)
    assert (body["tokens"]["method"], codes(body)) == ("fallback_model", ["exact_count_fallback"])


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"talk": [user([{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}])]},
        {"talk": [user([{"type": "document", "source": {"type": "file", "file_id": "file_1"}}])]},
    ],
)
def test_f12_what_a_backend_does_not_take_is_estimated(
    more: dict[str, Any], counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(*[Failure(400, "not supported")] * 2)
    body = exactly(counting, **more)
    assert (body["tokens"]["method"], codes(body)) == ("estimate", ["exact_count_unavailable"])
    assert body["tokens"]["used"] > 300


def test_f12_a_missing_endpoint_is_not_asked_again_at_once(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(404))
    exactly(counting)
    body = exactly(counting, [*TALK, *TALK])
    assert (body["tokens"]["method"], codes(body)) == ("fallback_model", ["exact_count_fallback"])
    assert paths(upstream) == [COUNTS, CREATES, CREATES]


def test_f12_a_failure_is_not_kept(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(529), Failure(529))
    assert exactly(counting)["tokens"]["method"] == "estimate"
    assert exactly(counting)["tokens"]["method"] == "exact"


def test_f12_a_key_that_is_refused_is_not_tried_twice(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(401))
    assert codes(exactly(counting)) == ["exact_count_unavailable"]
    assert paths(upstream) == [COUNTS]


def test_f12_the_estimate_starts_from_usage_where_there_is_some(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(529), Failure(529))
    body = exactly(counting, using(150_000))
    assert (body["tokens"]["used"], body["tokens"]["anchored_on"]) == (150_000, 1)


def test_f12_an_exact_count_needs_no_usage(counting: httpx.Client) -> None:
    body = exactly(counting, [*using(150_000), *TALK])
    assert body["tokens"]["anchored_on"] is None
    assert body["tokens"]["used"] < 1_000


@both
def test_f12_no_tag_and_nothing_of_ours_is_sent(asked: Any, counting: httpx.Client, upstream: StandIn) -> None:
    talk = [user("Go on.", id="u"), assistant("Done.", 90, id="msg_1", stop_reason="end_turn"), *TALK]
    body = asked(counting, talk, model="claude-opus-4-6[1M]", tokens=EXACT)
    assert body["tokens"]["method"] == "exact"
    assert upstream.seen[0].body["model"] == "claude-opus-4-6"
    assert {name for message in upstream.seen[0].body["messages"] for name in message} == {"role", "content"}


# F13: the small model's tokenizer may be another


def test_f13_what_a_small_model_counted_is_told_in_tokens_of_the_models_own(
    counting: httpx.Client, upstream: StandIn
) -> None:
    sizes = {}
    for model in ("claude-opus-5-5", "claude-opus-4-5"):
        upstream.answer_next(Failure(500))
        sizes[model] = exactly(counting, model=model)["tokens"]["used"]
    assert sizes["claude-opus-5-5"] == pytest.approx(1.3 * sizes["claude-opus-4-5"], abs=2)


# F23: thinking, where the API or a small model is asked


def test_f23_the_api_decides_which_thinking_counts(counting: httpx.Client, upstream: StandIn) -> None:
    assert exactly(counting, THINKING, model="claude-haiku-4-5")["tokens"]["method"] == "exact"
    assert upstream.seen[0].body["messages"][1]["content"][0] == THOUGHT


def test_f23_a_small_model_is_asked_with_thinking_on(counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(500))
    assert exactly(counting, THINKING)["tokens"]["method"] == "fallback_model"
    asked = upstream.seen[-1].body
    assert (asked["thinking"]["budget_tokens"], asked["max_tokens"]) == (1_024, 2_048)
    upstream.answer_next(Failure(500))
    exactly(counting)
    assert (upstream.seen[-1].body.get("thinking"), upstream.seen[-1].body["max_tokens"]) == (None, 1)


@pytest.mark.parametrize(
    ("more", "model"),
    [
        ({}, "claude-haiku-5-5"),
        ({"provider": "vertex", "region": "global"}, "claude-sonnet-5-5"),
        ({"provider": "vertex", "region": "us-east5"}, "claude-haiku-5-5"),
        ({"provider": "bedrock"}, "claude-sonnet-5-5"),
    ],
)
def test_f23_the_small_model_is_one_that_the_provider_has(
    more: dict[str, Any], model: str, counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(Failure(500))
    exactly(counting, THINKING, **more)
    assert upstream.seen[-1].body["model"] == model


def test_exact_parts_name_what_they_are_off_by(counting: httpx.Client) -> None:
    found = parts(exactly(counting, system=SYSTEM, tools=[READ]))
    assert list(found) == ["system[0]", "tool:Read", "tool_overhead", "messages[0]", "count_difference"]


@pytest.mark.parametrize("answer", [b'{"input_tokens": 0}', b'{"input_tokens": 10}'])
def test_f10_a_number_that_the_text_cannot_have_is_not_believed(
    answer: bytes, counting: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(Words(answer))
    body = count(counting, [user("Why is the sum wrong? " * 200)], tokens=EXACT)
    assert (body["tokens"]["method"], codes(body)) == ("estimate", ["exact_count_unavailable"])
