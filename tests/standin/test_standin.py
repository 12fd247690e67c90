"""The stand-in itself: each rule refuses what breaks it, and lets pass what does not."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx
import pytest

from tests.standin.mishaps import Cut, Drip, Endless, Failure, Reset, Scripted, mishaps
from tests.standin.server import StandIn

SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
SCOPE = {"anthropic-beta": "prompt-caching-scope-2026-01-05"}
TEXT = "One sentence that is long enough to be worth remembering in a cache for a while, and then some more of it."


def text(words: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or "hi"}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool(name: str = "look", **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}} | more


def call(identity: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "look", "input": {}}


def result(identity: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": identity, "content": "seen"} | more


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field": ({"extra_body": {"sessions": 1}}, "sessions: Extra inputs"),
    "a field of our own answer": ({"extra_body": {"session_id": "s"}}, "session_id: Extra inputs"),
    "no tokens to answer with": ({"max_tokens": 0}, "max_tokens"),
    "no messages": ({"messages": []}, "at least one message"),
    "messages that are no array": ({"messages": {"0": user()}}, "valid array"),
    "an assistant first": ({"messages": [assistant(text())]}, "first message"),
    "a role that is none": ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
    "a system message without a beta": ({"messages": [user(), {"role": "system", "content": "x"}]}, "messages.1.role"),
    "a system message with more than text": (
        {
            "messages": [user(), {"role": "system", "content": [IMAGE]}],
            "extra_headers": {"anthropic-beta": "mid-conversation-system-2026-01-01"},
        },
        "text only",
    ),
    "an unknown field of a message": ({"messages": [user() | {"usage": {}}]}, "messages.0.usage: Extra inputs"),
    "the id of a message": ({"messages": [user() | {"id": "m"}]}, "messages.0.id: Extra inputs"),
    "a message without content": ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
    "an empty message": ({"messages": [{"role": "user", "content": ""}]}, "non-empty content"),
    "a message with no blocks": ({"messages": [{"role": "user", "content": []}]}, "non-empty content"),
    "an empty text": ({"messages": [user(text(""))]}, "non-whitespace"),
    "a blank text": ({"messages": [user(text(" \n"))]}, "non-whitespace"),
    "an empty system text": ({"system": [text("")]}, "system.0"),
    "an empty text in a tool's result": (
        {"messages": [user(), assistant(call()), user(result(content=[text("")]))]},
        "messages.2.content.0.content.0",
    ),
    "an image in the system prompt": ({"system": [IMAGE]}, "only text blocks"),
    "a kind of block that is none": ({"messages": [user({"type": "note"})]}, "messages.0.content.0.type"),
    "an unknown field of a block": ({"messages": [user(text(meta=True))]}, "text.meta: Extra inputs"),
    "a block that lacks a field": ({"messages": [user({"type": "text"})]}, "text.text: Field required"),
    "a thought by the user": ({"messages": [user(THOUGHT)]}, "only be in `assistant`"),
    "a tool's result by the assistant": ({"messages": [user(), assistant(result())]}, "only be in `user`"),
    "five markers": (
        {
            "tools": [tool(cache_control=SHORT)],
            "system": [text(cache_control=SHORT), text("b", cache_control=SHORT)],
            "messages": [user(text(cache_control=SHORT), text("b", cache_control=SHORT))],
        },
        "maximum of 4 blocks with cache_control may be provided. Found 5",
    ),
    "five markers with the top-level one": (
        {
            "cache_control": SHORT,
            "tools": [tool(cache_control=SHORT)],
            "system": [text(cache_control=SHORT), text("b", cache_control=SHORT)],
            "messages": [user(text(cache_control=SHORT))],
        },
        "Found 5",
    ),
    "five markers with one in a tool's result": (
        {
            "tools": [tool(cache_control=SHORT)],
            "system": [text(cache_control=SHORT), text("b", cache_control=SHORT)],
            "messages": [
                user(),
                assistant(call()),
                user(result(content=[text(cache_control=SHORT)], cache_control=SHORT)),
            ],
        },
        "Found 5",
    ),
    "a ttl that is none": ({"system": [text(cache_control=SHORT | {"ttl": "2h"})]}, "'5m' or '1h'"),
    "a marker that is not ephemeral": ({"system": [text(cache_control={"type": "persistent"})]}, "'ephemeral'"),
    "an unknown field of a marker": ({"system": [text(cache_control=SHORT | {"for": "me"})]}, "cache_control.for"),
    "a scope without its beta": ({"system": [text(cache_control=SHORT | {"scope": "global"})]}, "cache_control.scope"),
    "a scope that is none": (
        {"system": [text(cache_control=SHORT | {"scope": "team"})], "extra_headers": SCOPE},
        "'global' or 'org'",
    ),
    "a longer ttl after a shorter in the system prompt": (
        {"system": [text(cache_control=SHORT), text("b", cache_control=LONG)]},
        "must not come after",
    ),
    "a longer ttl in the system prompt after a tool's shorter": (
        {"tools": [tool(cache_control=SHORT)], "system": [text(cache_control=LONG)]},
        "must not come after",
    ),
    "a longer ttl in a message after the system prompt's shorter": (
        {"system": [text(cache_control=SHORT)], "messages": [user(text(cache_control=LONG))]},
        "must not come after",
    ),
    "a marker on an empty text": ({"system": [text("", cache_control=SHORT)]}, "empty text blocks"),
    "a marker on a thought": (
        {"messages": [user(), assistant(THOUGHT | {"cache_control": SHORT}, text()), user()]},
        "thinking.cache_control",
    ),
    "a marker on a redacted thought": (
        {
            "messages": [
                user(),
                assistant({"type": "redacted_thinking", "data": "x", "cache_control": SHORT}, text()),
                user(),
            ]
        },
        "redacted_thinking.cache_control",
    ),
    "a tool without an answer": ({"messages": [user(), assistant(call()), user(text())]}, "without `tool_result`"),
    "a tool without an answer at the end": ({"messages": [user(), assistant(call())]}, "without `tool_result`"),
    "one answer of two": (
        {"messages": [user(), assistant(call(), call("t2")), user(result())]},
        "without `tool_result` blocks immediately after: t2",
    ),
    "a text before a tool's answer": (
        {"messages": [user(), assistant(call()), user(text(), result())]},
        "without `tool_result` blocks immediately after",
    ),
    "a message before a tool's answer": (
        {"messages": [user(), assistant(call()), user(text()), user(result())]},
        "without `tool_result` blocks immediately after",
    ),
    "an answer without its tool": ({"messages": [user(result())]}, "unexpected `tool_use_id`"),
    "an answer one turn late": (
        {"messages": [user(), assistant(call()), user(result()), assistant(text()), user(result())]},
        "unexpected `tool_use_id`",
    ),
    "two answers for one tool": (
        {"messages": [user(), assistant(call()), user(result(), result())]},
        "single result",
    ),
    "two calls of one id": ({"messages": [user(), assistant(call(), call()), user(result())]}, "must be unique"),
    "two tools of one name": ({"tools": [tool(), tool()]}, "Tool names must be unique"),
    "a tool without a name": ({"tools": [tool("")]}, "tools.0.name"),
    "a tool without a schema": ({"tools": [{"name": "look"}]}, "input_schema"),
    "a schema that is no object": ({"tools": [tool(input_schema={"type": "string"})]}, "input_schema"),
    "an unknown field of a tool": ({"tools": [tool(server="docs")]}, "custom.server: Extra inputs"),
    "a thinking budget that is too small": (
        {"thinking": {"type": "enabled", "budget_tokens": 10}, "max_tokens": 2000},
        "1024",
    ),
    "a thinking budget above the answer": (
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2000},
        "greater than `thinking.budget_tokens`",
    ),
}

ACCEPTED: dict[str, dict[str, Any]] = {
    "one word": {},
    "four markers over all three parts": {
        "tools": [tool(cache_control=LONG)],
        "system": [text(cache_control=LONG), text("b", cache_control=SHORT)],
        "messages": [user(text(cache_control=SHORT))],
    },
    "a marker for the whole": {"cache_control": SHORT, "system": "be brief"},
    "a scope with its beta": {
        "system": [text(cache_control=SHORT | {"scope": "global"})],
        "extra_headers": SCOPE,
    },
    "a system message with its beta": {
        "messages": [user(), {"role": "system", "content": [text()]}],
        "extra_headers": {"anthropic-beta": "other-2026-01-01, mid-conversation-system-2026-01-01"},
    },
    "users in a row are one turn": {
        "messages": [user(), user(text()), assistant(call()), user(result()), user(text())]
    },
    "an answer and then text": {
        "messages": [user(), assistant(text(), call(), call("t2")), user(result(), result("t2"), text())]
    },
    "the rest of an answer in the next message": {
        "messages": [user(), assistant(call(), call("t2")), user(result()), user(result("t2"))]
    },
    "a tool's answer with no content": {
        "messages": [user(), assistant(call()), user({"type": "tool_result", "tool_use_id": "t1"})]
    },
    "thoughts that are sent back": {
        "messages": [user(), assistant(THOUGHT, {"type": "redacted_thinking", "data": "x"}, text()), user()],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 2048,
    },
    "a tool that the API runs": {
        "tools": [tool("mcp__docs__find"), {"type": "web_search_20250305", "name": "web_search"}]
    },
}


def ask(client: anthropic.Anthropic, changed: dict[str, Any]) -> anthropic.types.Message:
    body: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 64, "messages": [user()]}
    return client.messages.create(**(body | changed))


@pytest.mark.parametrize("why", REFUSED)
def test_a_breach_is_refused_in_the_api_s_shape(why: str, client: anthropic.Anthropic) -> None:
    changed, told = REFUSED[why]
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(client, changed)
    body = caught.value.body
    assert isinstance(body, dict)
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert told in body["error"]["message"]
    assert body["request_id"] == caught.value.request_id


@pytest.mark.parametrize("what", ACCEPTED)
def test_a_good_request_is_answered(what: str, client: anthropic.Anthropic, upstream: StandIn) -> None:
    answer = ask(client, ACCEPTED[what])
    assert answer.content == [anthropic.types.TextBlock(type="text", text="Understood.")]
    assert [seen.path for seen in upstream.seen] == ["/v1/messages"]


def test_max_tokens_is_needed(upstream_url: str) -> None:
    headers = {"x-api-key": "test", "anthropic-version": "2023-06-01"}
    answer = httpx.post(f"{upstream_url}/v1/messages", json={"model": "m", "messages": [user()]}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "max_tokens: Field required")


@pytest.mark.parametrize("content", [b"{", b"[]"])
def test_a_body_that_is_no_object_is_refused(content: bytes, upstream_url: str) -> None:
    answer = httpx.post(f"{upstream_url}/v1/messages", content=content)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_a_caller_without_a_key_is_refused(upstream_url: str) -> None:
    answer = httpx.post(f"{upstream_url}/v1/messages", json={})
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")


def test_a_request_names_its_version(upstream_url: str) -> None:
    answer = httpx.post(f"{upstream_url}/v1/messages", json={}, headers={"x-api-key": "test"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "anthropic-version: header is required")


def test_the_window_tag_is_no_part_of_a_model_s_id(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        ask(client, {"model": "claude-sonnet-5-5[1m]"})


def test_an_unknown_address_is_not_found(upstream_url: str) -> None:
    answer = httpx.get(f"{upstream_url}/v1/complete")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


def test_counting_takes_no_max_tokens_and_counts_all_parts(client: anthropic.Anthropic) -> None:
    count = client.messages.count_tokens
    alone = count(model="claude-sonnet-5-5", messages=[user()])
    whole = count(model="claude-sonnet-5-5", messages=[user()], system=TEXT, tools=[tool()])
    assert whole.input_tokens > alone.input_tokens > 0
    with pytest.raises(anthropic.BadRequestError, match="max_tokens"):
        count(model="claude-sonnet-5-5", messages=[user()], extra_body={"max_tokens": 1})


def test_a_stream_says_the_same_as_the_whole(client: anthropic.Anthropic, upstream: StandIn) -> None:
    body: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [user()]}
    with client.messages.stream(**body) as stream:
        streamed = stream.get_final_message()
    whole = client.messages.create(**body)
    assert [block.text for block in streamed.content if block.type == "text"] == ["Understood."]
    assert streamed.usage.input_tokens == whole.usage.input_tokens
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert [seen.body.get("stream") for seen in upstream.seen] == [True, None]


def test_a_marked_prefix_is_written_once_and_then_read(client: anthropic.Anthropic) -> None:
    marked = {"system": [text(cache_control=SHORT)]}
    first = ask(client, marked).usage
    second = ask(client, marked | {"messages": [user(text("something else"))]}).usage
    assert (first.cache_creation_input_tokens or 0) > 0 == first.cache_read_input_tokens
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert second.cache_creation_input_tokens == 0


def test_a_longer_conversation_reads_what_the_shorter_one_wrote(client: anthropic.Anthropic) -> None:
    first = ask(client, {"messages": [user(text(cache_control=SHORT))]}).usage
    longer = [user(text()), assistant(text()), user(text("go on", cache_control=LONG))]
    second = ask(client, {"messages": longer}).usage
    assert second.cache_read_input_tokens == first.cache_creation_input_tokens
    assert second.cache_creation is not None
    assert second.cache_creation.ephemeral_1h_input_tokens == second.cache_creation_input_tokens
    assert (second.cache_creation.ephemeral_5m_input_tokens, second.input_tokens) == (0, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"system": [text(TEXT + "!", cache_control=SHORT)]},
        {"tools": [tool()]},
        {"model": "claude-opus-5-5"},
    ],
)
def test_other_bytes_in_front_read_nothing(changed: dict[str, Any], client: anthropic.Anthropic) -> None:
    marked = {"system": [text(cache_control=SHORT)]}
    ask(client, marked)
    assert ask(client, marked | changed).usage.cache_read_input_tokens == 0


def test_a_prefix_below_the_minimum_is_not_cached(client: anthropic.Anthropic) -> None:
    short = {"system": [text("brief", cache_control=SHORT)]}
    ask(client, short)
    usage = ask(client, short).usage
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (0, 0)


def test_the_parts_of_usage_add_up_to_the_count(client: anthropic.Anthropic) -> None:
    marked: dict[str, Any] = {"system": [text(cache_control=SHORT)], "messages": [user(text("and then?"))]}
    counted = client.messages.count_tokens(model="claude-sonnet-5-5", **marked).input_tokens
    for _ in range(2):
        usage = ask(client, marked).usage
        cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
        assert usage.input_tokens + cached == counted


def test_it_fails_when_told_to(client: anthropic.Anthropic, upstream: StandIn) -> None:
    upstream.fail_next(429, 529)
    with pytest.raises(anthropic.RateLimitError):
        ask(client, {})
    with pytest.raises(anthropic.InternalServerError, match="overloaded_error"):
        ask(client, {})
    assert ask(client, {}).stop_reason == "end_turn"
    assert len(upstream.seen) == 3


def test_what_stands_is_how_every_request_is_answered_until_it_is_as_new(
    client: anthropic.Anthropic, upstream: StandIn
) -> None:
    upstream.standing = Failure(529)
    for _ in range(3):
        with pytest.raises(anthropic.InternalServerError):
            ask(client, {})
    upstream.forget()
    assert ask(client, {}).stop_reason == "end_turn"


def test_a_reset_ends_the_connection_without_a_word(upstream: StandIn, upstream_url: str) -> None:
    upstream.standing = Reset()
    with pytest.raises(httpx.ReadError):
        httpx.post(f"{upstream_url}/v1/messages", json={}, trust_env=False)


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_drips_is_whole_in_the_end(stream: bool, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Drip(0.001))
    headers = {"x-api-key": "k", "anthropic-version": "1"}
    body = {"model": "m", "max_tokens": 9, "messages": [user()], "stream": stream}
    with httpx.stream("POST", f"{upstream_url}/v1/messages", json=body, headers=headers, trust_env=False) as response:
        pieces = list(response.iter_raw())
    assert len(pieces) > 1
    assert upstream.reply[:4].encode() in b"".join(pieces)


def test_an_endless_body_ends_with_its_reader(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Endless(b"x" * 1000))
    with httpx.stream("POST", f"{upstream_url}/v1/messages", json={}, trust_env=False) as response:
        assert sum(len(piece) for piece, _ in zip(response.iter_raw(), range(500), strict=False)) >= 100_000


@pytest.mark.parametrize(
    "mishap",
    [one for one in mishaps().values() if not isinstance(one, Cut | Drip | Endless)],
    ids=lambda one: type(one).__name__,
)
def test_no_mishap_is_an_answer_to_the_sdk(mishap: Scripted, client: anthropic.Anthropic, upstream: StandIn) -> None:
    upstream.answer_next(mishap)
    with pytest.raises((anthropic.APIError, ValueError, httpx.HTTPError, AttributeError, TypeError)):
        assert ask(client.with_options(timeout=0.5), {}).stop_reason == "end_turn"
