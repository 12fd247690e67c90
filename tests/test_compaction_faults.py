"""Faults that hostile callers and upstreams have shown in compactions and counts, each as it was."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from app.building import build_contexts, compactions
from app.errors import AutoCompactOff, CompactingAlready, InvalidRequest
from app.metrics import Metrics
from app.settings import Settings
from app.wire.compactions import CompactionAsk, CompactionRequest, compaction_ask
from app.wire.requests import Server
from tests.asking import CWD, ask, bare, inline, refused
from tests.compacting import KEY, LONG, READ, asking, compacting, run, talk, text, words
from tests.standin.server import Hold, StandIn, Words

SERVER = Server("linux", None, "2026-11-30")
STREAM = "text/event-stream"
OTHERS: dict[str, dict[str, Any]] = {
    "another workspace": {"files": {"/home/eve/CLAUDE.md": "Mine."}, "workspace": {"cwd": "/home/eve"}},
    "other files": {"files": {f"{CWD}/CLAUDE.md": "Other."}},
    "another model": {"model": "claude-haiku-4-5"},
    "other instructions": {"instructions": "OTHER"},
    "another trigger": {"trigger": "automatic"},
}


@pytest.fixture(scope="module")
def serving(running_upstream: tuple[StandIn, str]) -> Iterator[httpx.Client]:
    with compacting(running_upstream[1]) as found:
        yield found


@pytest.fixture
def client(serving: httpx.Client, upstream: StandIn) -> httpx.Client:
    return serving


def asked(body: Any, key: str | None = None) -> CompactionAsk:
    return compaction_ask(CompactionRequest.model_validate_json(json.dumps(body)), SERVER, (), key)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_nobody_joins_a_run_that_is_not_the_one_he_asks_for(
    other: dict[str, Any], upstream: StandIn, upstream_url: str
) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))
    body = asking(session_id="s", files={f"{CWD}/CLAUDE.md": "SECRET"})
    more = dict(other)
    if "files" in more:
        more["workspace"] = body["workspace"] | more.pop("workspace", {}) | {"files": more.pop("files")}

    async def both() -> None:
        contexts = build_contexts(Settings(upstream_url=upstream_url, anthropic_api_key=KEY, upstream_retries=0))
        running = compactions(contexts, Metrics(CollectorRegistry()))
        first = asyncio.create_task(running.run(asked(body)))
        await asyncio.to_thread(upstream.asked.wait)
        with pytest.raises(CompactingAlready):
            await running.run(asked(body | more))
        with pytest.raises(CompactingAlready):
            await running.run(asked(body, "another-key"))
        with pytest.raises(AutoCompactOff):
            await running.run(asked(body | {"trigger": "automatic", "tokens": {"auto_compact": False}}))
        with pytest.raises(InvalidRequest):
            await running.run(asked(body | {"messages": []}))
        released.set()
        assert (await first)[0].failed is None
        await contexts.close()

    asyncio.run(both())


def test_a_key_in_an_error_that_comes_as_an_answer_is_not_shown(client: httpx.Client, upstream: StandIn) -> None:
    told = {"type": "authentication_error", "message": f"invalid x-api-key {KEY} {'x' * 2000}"}
    upstream.answer_next(Words(json.dumps({"type": "error", "error": told}).encode()))
    found = run(client, asking())
    assert found["failure"]["reason"] == "unauthorized"
    assert KEY not in json.dumps(found)
    assert len(found["failure"]["message"]) < 500


@pytest.mark.parametrize("body", [b"data: \xff\xfe\n\n", b"event: x\ndata: \xc3\n\n"])
def test_bytes_that_are_no_text_are_a_failure_that_counts(body: bytes, client: httpx.Client, upstream: StandIn) -> None:
    session = uuid4().hex
    for failures in (1, 2, 3):
        upstream.answer_next(Words(body, content_type=STREAM))
        found = run(client, asking(session_id=session, trigger="automatic"))
        assert found["failure"]["reason"] == "unreadable"
        assert found["breaker"]["consecutive_failures"] == failures


def test_a_word_behind_the_last_event_does_not_spoil_a_summary(client: httpx.Client, upstream: StandIn) -> None:
    start = {"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": text("## Requests")},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    upstream.answer_next(Words(f"{stream}data: [DONE]\n\n".encode(), content_type=STREAM))
    assert run(client, asking())["summary"] == "## Requests"


@pytest.mark.parametrize("said", [None, 5, {"a": 1}])
def test_a_text_that_is_none_is_no_summary(said: Any, client: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(words({"type": "text", "text": said}))
    assert run(client, asking())["failure"]["reason"] == "empty"


def test_usage_far_above_our_counts_is_what_a_compaction_is_judged_by(client: httpx.Client) -> None:
    """70,000 characters of Chinese are 17,500 rough tokens, and 56,000 to the API."""
    session, files = uuid4().hex, {f"{CWD}/CLAUDE.md": "文" * 70_000}
    usage = {"input_tokens": 76_000, "output_tokens": 10}
    messages = [
        *talk(2)[:-1],
        {"role": "assistant", "content": "ok", "usage": usage},
        {"role": "user", "content": "Go."},
    ]
    options = {"tokens": {"max_context_tokens": 62_000}, "session_id": session, "trigger": "automatic"}
    for _ in range(3):
        found = run(client, asking(files=files, messages=messages, **options))
        assert found["outcome"] == "failed"
        assert any(part["part"].startswith("memory:") for part in found["failure"]["parts"])
    body = asking(files=files, messages=messages, **options)
    refused(client.post("/v1/compactions", json=body), 409, "breaker-open")


def test_the_figure_behind_a_summary_is_what_the_next_turn_goes_by(client: httpx.Client) -> None:
    session, usage = uuid4().hex, {"input_tokens": 150_000, "output_tokens": 10}
    messages = [
        *talk(6)[:-1],
        {"role": "assistant", "content": "ok", "usage": usage},
        {"role": "user", "content": "Go."},
    ]
    found = run(client, asking(session_id=session, messages=messages))
    assert found["messages"][0]["meta"]["tokens"] > 0
    after = ask(
        client,
        inline({f"{CWD}/CLAUDE.md": "Prices are in cents."}, session_id=session, tools=[READ])
        | {"messages": found["messages"]},
    )
    assert after["tokens"]["used"] == found["tokens_after"] == found["context"]["tokens"]["used"]


def test_a_figure_behind_a_summary_is_never_below_zero(client: httpx.Client) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
    last = {"role": "user", "content": [*[picture] * 8, {"type": "text", "text": "Look."}]}
    found = run(client, asking(messages=[*talk(20)[:-1], last], tokens={"method": "exact"}))
    assert found["outcome"] == "ok"
    assert found["messages"][0]["meta"]["tokens"] > 0
    assert client.post("/v1/context", json=inline(messages=found["messages"])).status_code == 200


def test_an_answer_that_was_lost_leaves_the_old_conversation_as_it_was(client: httpx.Client) -> None:
    session = uuid4().hex
    files = {f"{CWD}/CLAUDE.md": "Old.", f"{CWD}/src/CLAUDE.md": "Nested."}
    body = asking("run", session_id=session, files=files, touched=[{"path": f"{CWD}/src/a.py"}])
    context = {name: value for name, value in body.items() if name not in {"mode", "touched"}}
    before = ask(client, context | {"touched": body["touched"]})
    changed = body | {"workspace": body["workspace"] | {"files": files | {f"{CWD}/CLAUDE.md": "New."}}, "touched": []}
    assert run(client, changed)["outcome"] == "ok"
    more = [*body["messages"], {"role": "assistant", "content": "ok"}, {"role": "user", "content": "Go on."}]
    after = ask(client, context | {"messages": more})
    sent = bare(before["request"]["messages"])
    assert bare(after["request"]["messages"])[: len(sent)] == sent
    assert after["cache"]["previous"]["hit"] is True


def test_without_auto_compaction_an_override_judges_nothing(client: httpx.Client) -> None:
    options = {"auto_compact": False, "percent_override": 1}
    assert run(client, asking(tokens=options))["outcome"] == "ok"


def test_pictures_that_cost_little_are_believed(client: httpx.Client, upstream: StandIn) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aaaa"}}
    upstream.answer_next(Words(b'{"input_tokens": 440}'))
    body = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": [picture] * 20}]}
    found = client.post("/v1/tokens", json=body | {"tokens": {"method": "exact"}}).json()
    assert (found["tokens"]["used"], found["tokens"]["method"]) == (440, "exact")


@pytest.mark.parametrize("figure", [10**12 + 1, int("9" * 4300)])
def test_figures_beyond_any_window_are_refused(figure: int, service: httpx.Client) -> None:
    message = {"role": "assistant", "content": "x", "usage": {"input_tokens": figure}}
    answer = service.post("/v1/tokens", json={"model": "m", "messages": [message]})
    refused(answer, 422, "invalid-request", "/messages/0/usage/input_tokens")


@pytest.mark.parametrize(
    "changed",
    [
        {"upstream_url": "http://xn--☃..a"},
        {"upstream_url": "http://a\nb"},
        {"upstream_url": "ftp://a"},
        {"upstream_url": "http://a/?b=1"},
        {"breaker_cool_down_seconds": float("inf")},
        {"compact_seconds": float("inf")},
        {"count_seconds": 1e300},
    ],
    ids=str,
)
def test_settings_that_could_not_work_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(**changed)


def test_a_conversation_of_chinese_is_compacted_like_any_other(client: httpx.Client) -> None:
    messages = [{"role": "user", "content": "文" * 20_000}, {"role": "assistant", "content": LONG}, *talk(1)]
    assert run(client, asking(messages=messages))["outcome"] == "ok"


def test_a_run_that_sent_nothing_is_not_what_the_next_usage_is_held_against(client: httpx.Client) -> None:
    session, files = uuid4().hex, {f"{CWD}/CLAUDE.md": "x" * 150_000}
    body = asking(session_id=session, files=files, tokens={"max_context_tokens": 40_000}, trigger="automatic")
    context = {name: value for name, value in body.items() if name not in {"mode", "trigger"}}
    ask(client, context)
    assert run(client, body)["failure"]["reason"] == "fixed_parts_too_large"
    usage = {"input_tokens": 50_000, "cache_read_input_tokens": 0, "output_tokens": 5}
    more = [*body["messages"], {"role": "assistant", "content": "ok", "usage": usage}, {"role": "user", "content": "b"}]
    previous = ask(client, context | {"messages": more})["cache"]["previous"]
    assert (previous["hit"], previous["cause"], previous["agreed"]) == (True, None, None)
