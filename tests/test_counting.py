"""Counts, level by level, by the official SDK against the stand-in."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from app.core.counting import Counted
from app.counting import Counting
from app.data.tables import load_models
from app.upstream import Upstream
from tests.serving import serve
from tests.standin.server import Ending, Failure, Hold, Stall, StandIn, Words

T = TypeVar("T")

KEY = "sk-ant-api03-very-secret"
COUNT, CREATE = "/v1/messages/count_tokens", "/v1/messages"
HAIKU, SONNET = "claude-haiku-5-5", "claude-sonnet-5-5"
TOOL = {"name": "look", "description": "Looks at a file.", "input_schema": {"type": "object"}}
SYSTEM = [{"type": "text", "text": "You look at files and tell what is in them."}]
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "How many are these?"}]} | more


def thought() -> dict[str, Any]:
    answer = {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "Four."}]}
    return asked(messages=[*asked()["messages"], answer, {"role": "user", "content": "Sure?"}])


class Clock:
    """Stands until it is moved on, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counting(
    url: str,
    use: Callable[[Counting], Awaitable[T]],
    *,
    key: str | None = KEY,
    seconds: float = 30.0,
    clock: Callable[[], float] = Clock(),  # noqa: B008 - one that stands can be shared
) -> T:
    """What ``use`` brings, from counts whose upstream is closed afterwards."""

    async def used() -> T:
        upstream = Upstream(url, key, timeout_seconds=30.0, retries=0)
        counts = Counting(upstream, load_models(), seconds, clock)
        try:
            return await use(counts)
        finally:
            await counts.close()
            await upstream.close()

    return asyncio.run(used())


def counted(url: str, request: dict[str, Any], *more: Any, **options: Any) -> Counted:
    return counting(url, lambda counts: counts.count(request, *more), **options)


def paths(upstream: StandIn) -> list[str]:
    return [seen.path for seen in upstream.seen]


def attempts(found: Counted) -> list[tuple[str, str]]:
    return [(attempt.level, attempt.reason) for attempt in found.attempts]


def test_the_endpoint_s_number_is_exact(upstream: StandIn, upstream_url: str) -> None:
    found = counted(upstream_url, asked())
    assert found.tokens is not None
    assert found == Counted(found.tokens, "exact", (), "claude-opus-5-5")
    assert paths(upstream) == [COUNT]


def test_what_the_endpoint_does_not_take_is_not_sent(upstream: StandIn, upstream_url: str) -> None:
    extra = {
        "max_tokens": 9,
        "stream": True,
        "temperature": 1,
        "metadata": {"user_id": "u"},
        "tool_choice": {"type": "any"},
    }
    assert counted(upstream_url, asked(**extra)).method == "exact"
    assert upstream.seen[0].body == asked()


def test_a_conversation_without_messages_is_counted_with_one_of_a_character(
    upstream: StandIn, upstream_url: str
) -> None:
    found = counted(upstream_url, asked(messages=[]))
    assert (found.method, found.filled) == ("exact", True)
    assert upstream.seen[0].body["messages"] == [{"role": "user", "content": "."}]


async def _twice(
    counts: Counting, first: dict[str, Any], second: dict[str, Any], *more: Any
) -> tuple[Counted, Counted]:
    return await counts.count(first, *more), await counts.count(second, *more)


def test_the_same_request_is_asked_once(upstream: StandIn, upstream_url: str) -> None:
    first, second = counting(upstream_url, lambda counts: _twice(counts, asked(), asked()))
    assert first == second
    assert len(upstream.seen) == 1


@pytest.mark.parametrize(
    "second",
    [
        (asked(messages=[{"role": "user", "content": "Other words"}]), ()),
        (asked(model=SONNET), ()),
        (asked(), ("a-beta-2026",)),
        (asked(), (), "another-key"),
    ],
)
def test_other_words_model_betas_or_key_are_asked_anew(
    second: tuple[Any, ...], upstream: StandIn, upstream_url: str
) -> None:
    async def both(counts: Counting) -> None:
        await counts.count(asked(), ())
        await counts.count(*second)

    counting(upstream_url, both)
    assert len(upstream.seen) == 2


def test_a_caller_who_names_the_service_s_own_key_shares_its_counts(upstream: StandIn, upstream_url: str) -> None:
    async def both(counts: Counting) -> None:
        await counts.count(asked())
        await counts.count(asked(), (), KEY)

    counting(upstream_url, both)
    assert len(upstream.seen) == 1


def test_a_number_is_kept_for_an_hour(upstream: StandIn, upstream_url: str) -> None:
    clock = Clock()

    async def later(counts: Counting) -> None:
        for now in (0.0, 3599.0, 3601.0):
            clock.now = now
            await counts.count(asked())

    counting(upstream_url, later, clock=clock)
    assert len(upstream.seen) == 2


def test_who_asks_the_same_at_the_same_time_shares_one_call(upstream: StandIn, upstream_url: str) -> None:
    async def together(counts: Counting) -> list[Counted]:
        return await asyncio.gather(*(counts.count(asked()) for _ in range(8)))

    found = counting(upstream_url, together)
    assert len({one.tokens for one in found}) == 1
    assert len(upstream.seen) == 1


def test_a_caller_who_gives_up_takes_nothing_from_the_others(upstream: StandIn, upstream_url: str) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))

    async def two(counts: Counting) -> tuple[bool, Counted]:
        first = asyncio.create_task(counts.count(asked()))
        second = asyncio.create_task(counts.count(asked()))
        await asyncio.to_thread(upstream.asked.wait)
        first.cancel()
        await asyncio.sleep(0)
        released.set()
        return (await asyncio.wait([first]))[0].pop().cancelled(), await second

    gone, found = counting(upstream_url, two)
    assert gone
    assert found.method == "exact"
    assert len(upstream.seen) == 1


def test_a_failure_is_not_kept(upstream: StandIn, upstream_url: str) -> None:
    upstream.fail_next(529, 529)
    first, second = counting(upstream_url, lambda counts: _twice(counts, asked(), asked()))
    assert (first.tokens, first.method) == (None, None)
    assert attempts(first) == [("count_tokens", "overloaded"), ("fallback_model", "overloaded")]
    assert (second.method, second.attempts) == ("exact", ())


REFUSED = [
    (Failure(400, "tools.0: server tools cannot be counted"), "invalid"),
    (Failure(400, "prompt is too long: 9 > 8"), "too_long"),
    (Failure(403), "unauthorized"),
    (Failure(404), "not_found"),
    (Failure(413), "too_long"),
    (Failure(429), "rate_limited"),
    (Failure(500), "server_error"),
    (Failure(529), "overloaded"),
    (Words(b"nonsense"), "unreadable"),
]


@pytest.mark.parametrize(("failure", "reason"), REFUSED)
def test_a_small_model_s_usage_tells_what_the_endpoint_does_not(
    failure: Any, reason: str, upstream: StandIn, upstream_url: str
) -> None:
    exact = counted(upstream_url, asked()).tokens
    upstream.answer_next(failure)
    found = counted(upstream_url, asked())
    assert (found.tokens, found.method, found.model) == (exact, "fallback_model", HAIKU)
    assert attempts(found) == [("count_tokens", reason)]
    assert paths(upstream) == [COUNT, COUNT, CREATE]
    assert upstream.seen[-1].body == asked(model=HAIKU) | {"max_tokens": 1, "stream": True}


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-6"])
def test_models_of_which_the_sdk_warns_are_counted_like_others(
    model: str, upstream: StandIn, upstream_url: str
) -> None:
    assert counted(upstream_url, asked(model=model)).method == "exact"


def test_cached_tokens_count_in_a_small_model_s_usage(upstream: StandIn, upstream_url: str) -> None:
    usage = (
        b'{"input_tokens": 5, "cache_creation_input_tokens": 70, "cache_read_input_tokens": 600, "output_tokens": 1}'
    )
    upstream.answer_next(Failure(400), Words(b'{"stop_reason": "max_tokens", "usage": ' + usage + b"}"))
    assert counted(upstream_url, asked()).tokens == 675


def test_a_small_model_s_refusal_has_been_read_and_counts(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(400), Ending("refusal"))
    assert counted(upstream_url, asked()).method == "fallback_model"


def test_an_answer_without_usage_is_no_count(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(400), Words(b"{}"))
    found = counted(upstream_url, asked())
    assert found.tokens is None
    assert attempts(found) == [("count_tokens", "invalid"), ("fallback_model", "unreadable")]


def test_thoughts_are_sent_with_thinking_on(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(400))
    assert counted(upstream_url, thought()).method == "fallback_model"
    body = upstream.seen[-1].body
    assert (body["max_tokens"], body["thinking"]) == (2048, {"type": "enabled", "budget_tokens": 1024})
    assert body["messages"] == thought()["messages"]


@pytest.mark.parametrize(
    ("place", "request_", "model"),
    [
        (("vertex", "global"), asked(), SONNET),
        (("vertex", "us-east5"), asked(), HAIKU),
        (("bedrock", "us-east-1"), thought(), SONNET),
        (("bedrock", "us-east-1"), asked(), HAIKU),
    ],
)
def test_the_provider_decides_which_small_model_is_asked(
    place: tuple[str, str], request_: Any, model: str, upstream: StandIn, upstream_url: str
) -> None:
    upstream.answer_next(Failure(404))
    found = counted(upstream_url, request_, (), None, *place)
    assert (found.model, upstream.seen[-1].body["model"]) == (model, model)


def test_what_a_small_model_is_sent_is_legal(upstream: StandIn, upstream_url: str) -> None:
    marker = {"type": "ephemeral", "ttl": "1h", "scope": "global"}
    use = {"type": "tool_use", "id": "t", "name": "look", "input": {"cache_control": "a word of the caller's"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "text", "text": "x", "cache_control": marker}],
    }
    request = asked(
        system=[SYSTEM[0] | {"cache_control": marker}],
        tools=[TOOL | {"cache_control": marker}],
        tool_choice={"type": "tool", "name": "look"},
        output_config={"effort": "high"},
        context_management={"edits": []},
        cache_control={"type": "ephemeral"},
        thinking={"type": "adaptive"},
        messages=[
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [use]},
            {"role": "system", "content": "It is late."},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": "Seen."},
        ],
    )
    upstream.answer_next(Failure(400))
    betas = ("prompt-caching-scope-2026-01-05", "mid-conversation-system-2026", "some-tool-2026")
    found = counted(upstream_url, request, betas)
    assert (found.method, found.filled) == ("fallback_model", True)
    assert upstream.seen[-1].headers["anthropic-beta"] == "some-tool-2026"
    reminder = {"type": "text", "text": "<system-reminder>\nIt is late.\n</system-reminder>"}
    assert upstream.seen[-1].body == {
        "model": HAIKU,
        "max_tokens": 1,
        "stream": True,
        "system": SYSTEM,
        "tools": [TOOL],
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result | {"content": [{"type": "text", "text": "x"}]}, reminder]},
            {"role": "assistant", "content": "Seen."},
            {"role": "user", "content": "."},
        ],
    }


def test_a_key_that_is_refused_is_not_sent_again(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(401))
    assert attempts(counted(upstream_url, asked())) == [("count_tokens", "unauthorized")]
    assert paths(upstream) == [COUNT]


def test_an_address_where_nobody_listens_is_tried_once() -> None:
    with serve(StandIn().app) as gone:
        pass
    assert attempts(counted(gone, asked())) == [("count_tokens", "unreachable")]


def test_without_a_key_nothing_is_asked(upstream: StandIn, upstream_url: str) -> None:
    found = counted(upstream_url, asked(), key=None)
    assert (found.tokens, found.method, attempts(found)) == (None, None, [("count_tokens", "no_key")])
    assert "ANTHROPIC_API_KEY" in found.attempts[0].message
    assert upstream.seen == []


def test_the_time_is_for_all_levels_together(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Stall())
    found = counted(upstream_url, asked(), seconds=0.3)
    assert attempts(found) == [("count_tokens", "timeout"), ("fallback_model", "timeout")]
    assert paths(upstream) == [COUNT]


def test_an_endpoint_that_is_not_there_is_left_alone_for_a_minute(upstream: StandIn, upstream_url: str) -> None:
    clock = Clock()

    async def turns(counts: Counting) -> list[Counted]:
        found = []
        for turn, now in enumerate((0.0, 59.0, 61.0)):
            clock.now = now
            found.append(await counts.count(asked(system=f"turn {turn}")))
        return found

    upstream.answer_next(Failure(404))
    first, second, third = counting(upstream_url, turns, clock=clock)
    assert attempts(first) == attempts(second) == [("count_tokens", "not_found")]
    assert (first.method, second.method, third.method) == ("fallback_model", "fallback_model", "exact")
    assert paths(upstream)[:4] == [COUNT, CREATE, CREATE, COUNT]


def test_a_model_that_is_not_there_leaves_the_others_their_endpoint(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(404, "model: claude-none"))
    _, other = counting(upstream_url, lambda counts: _twice(counts, asked(model="claude-none"), asked()))
    assert other.method == "exact"


@pytest.mark.parametrize(
    ("field", "value"), [("tools", [TOOL]), ("system", SYSTEM), ("system", "Be brief, and to the point.")]
)
def test_a_backend_that_leaves_a_part_out_is_not_trusted_with_it(
    field: str, value: Any, upstream: StandIn, upstream_url: str
) -> None:
    upstream.deaf = frozenset({field})
    request, plain = asked(**{field: value}), asked(messages=[{"role": "user", "content": "plain"}])

    async def turns(counts: Counting) -> list[Counted]:
        return [
            await counts.count(one)
            for one in (request, request | {"tool_choice": None, "thinking": {"type": "adaptive"}}, plain)
        ]

    first, second, third = counting(upstream_url, turns)
    assert attempts(first) == attempts(second) == [("count_tokens", "untrusted")]
    assert first.attempts[0].message.endswith(f"Left out: {field}.")
    assert (first.method, third.method) == ("fallback_model", "exact")
    assert paths(upstream) == [COUNT, COUNT, CREATE, CREATE, COUNT]
    assert first.tokens is not None
    assert first.tokens > (third.tokens or 0)


def test_a_backend_that_counts_all_parts_is_asked_of_them_once(upstream: StandIn, upstream_url: str) -> None:
    whole = asked(tools=[TOOL], system=SYSTEM, tool_choice={"type": "auto"})
    more = whole | {"messages": [{"role": "user", "content": "Other words"}]}
    first, second = counting(upstream_url, lambda counts: _twice(counts, whole, more))
    assert (first.method, second.method) == ("exact", "exact")
    bodies = [{"tools", "tool_choice", "system"} & seen.body.keys() for seen in upstream.seen]
    assert bodies == [
        {"tools", "tool_choice", "system"},
        {"system"},
        {"tools", "tool_choice"},
        {"tools", "tool_choice", "system"},
    ]


def test_a_backend_that_answers_no_second_question_is_trusted_and_asked_again(
    upstream: StandIn, upstream_url: str
) -> None:
    more = asked(system=SYSTEM, messages=[{"role": "user", "content": "Other words"}])

    async def turns(counts: Counting) -> list[Counted]:
        first = await _after(upstream, counts)
        return [first, await counts.count(more)]

    first, second = counting(upstream_url, turns)
    assert (first.method, second.method) == ("exact", "exact")
    assert ["system" in seen.body for seen in upstream.seen] == [True, False, True, False]


async def _after(upstream: StandIn, counts: Counting) -> Counted:
    """A count whose number comes, and whose second question fails."""
    upstream.answer_next(Words(b'{"input_tokens": 40}'), Failure(500))
    return await counts.count(asked(system=SYSTEM))


def test_keys_reach_no_attempt_no_log_and_no_memory_of_counts(
    upstream: StandIn, upstream_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    own = "sk-ant-his-own-secret"
    upstream.answer_next(Failure(400, f"{own} may not"), Failure(400, f"{own} may not"))

    async def turns(counts: Counting) -> list[str]:
        refused = await counts.count(asked(), (), own)
        await counts.count(asked(system=SYSTEM), (), own)
        return [repr(refused), repr(vars(counts)), repr(vars(counts._upstream))]

    with caplog.at_level(logging.DEBUG):
        told = counting(upstream_url, turns, key=None)
    assert "[key] may not" in told[0]
    assert own not in "\n".join([*told, caplog.text])
    assert caplog.records


def test_what_is_being_counted_ends_with_the_service(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Stall())

    async def closed(counts: Counting) -> bool:
        waiting = asyncio.create_task(counts.count(asked()))
        await asyncio.to_thread(upstream.asked.wait)
        await counts.close()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert counting(upstream_url, closed)
