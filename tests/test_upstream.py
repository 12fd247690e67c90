"""The official SDK against the stand-in: what comes back, and how each failure is told."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import traceback
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import zstandard

from app.core.refusals import Reason
from app.upstream import BASE_URL, Upstream
from app.upstream_bodies import LARGE_BYTES, MOST_DECODED_BYTES, UpstreamFailed
from tests.serving import serve
from tests.standin.server import Cut, Ending, Failure, Scripted, Stall, StandIn, Words

T = TypeVar("T")

KEY = "sk-ant-api03-very-secret"
ASKED = {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": "How many are these?"}]}
AT_ONCE = {"retry-after-ms": "1"}
Use = Callable[[Upstream], Awaitable[T]]


def using(url: str | None, use: Use[T], *, key: str | None = KEY, **options: Any) -> T:
    """What ``use`` brings, from an upstream that is closed afterwards."""

    async def used() -> T:
        upstream = Upstream(url, key, **({"timeout_seconds": 30.0, "retries": 0} | options))
        try:
            return await use(upstream)
        finally:
            await upstream.close()

    return asyncio.run(used())


def count(upstream: Upstream) -> Awaitable[int]:
    return upstream.count_tokens(ASKED)


def create(upstream: Upstream) -> Awaitable[dict[str, Any]]:
    return upstream.create(ASKED, max_tokens=64)


def failing(url: str | None, use: Use[Any], **options: Any) -> UpstreamFailed:
    with pytest.raises(UpstreamFailed) as caught:
        using(url, use, **options)
    return caught.value


def credential(headers: Any) -> str:
    return str(headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer "))


def test_a_count_is_the_endpoint_s_number(upstream: StandIn, upstream_url: str) -> None:
    tokens = using(upstream_url, count)
    [seen] = upstream.seen
    assert (seen.path, seen.body) == ("/v1/messages/count_tokens", ASKED)
    assert tokens == len(json.dumps({"type": "text", "text": "How many are these?"}, separators=(",", ":"))) // 4
    assert "anthropic-beta" not in seen.headers


def test_beta_values_go_into_their_header(upstream: StandIn, upstream_url: str) -> None:
    using(upstream_url, lambda api: api.count_tokens(ASKED, ("one-2026", "two-2026")))
    assert upstream.seen[0].headers["anthropic-beta"] == "one-2026,two-2026"


def test_a_created_message_is_streamed_and_comes_back_whole(upstream: StandIn, upstream_url: str) -> None:
    message = using(upstream_url, create)
    assert message["content"] == [{"type": "text", "text": "Understood."}]
    assert message["stop_reason"] == "end_turn"
    assert message["usage"]["output_tokens"] == 2
    assert message["usage"]["input_tokens"] > 0
    assert upstream.seen[0].body == ASKED | {"max_tokens": 64, "stream": True}


def test_an_answer_that_is_not_streamed_will_do(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Words(b'{"content": [], "stop_reason": "end_turn"}'))
    assert using(upstream_url, create) == {"content": [], "stop_reason": "end_turn"}


def test_a_refusal_by_the_model_is_an_answer(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Ending("refusal"))
    assert using(upstream_url, create)["stop_reason"] == "refusal"


STATUSES: list[tuple[Failure, Reason]] = [
    (Failure(400, "messages: nonsense"), "invalid"),
    (Failure(400, "prompt is too long: 210000 tokens > 200000 maximum"), "too_long"),
    (Failure(401, "invalid x-api-key"), "unauthorized"),
    (Failure(403, "no"), "unauthorized"),
    (Failure(404, "model: claude-none"), "not_found"),
    (Failure(413, "request exceeds the maximum size"), "too_long"),
    (Failure(429, "slow down"), "rate_limited"),
    (Failure(500, "oh"), "server_error"),
    (Failure(529, "Overloaded"), "overloaded"),
]


@pytest.mark.parametrize("use", [count, create])
@pytest.mark.parametrize(("failure", "reason"), STATUSES)
def test_a_refused_call_has_a_reason_and_the_upstream_s_words(
    failure: Failure, reason: Reason, use: Use[Any], upstream: StandIn, upstream_url: str
) -> None:
    upstream.answer_next(failure)
    failed = failing(upstream_url, use)
    assert (failed.reason, failed.status, failed.retry_after) == (reason, failure.status, None)
    assert failed.message == str(failed)
    assert failed.message.endswith(f"It says: {failure.message}.")


@pytest.mark.parametrize("status", [429, 529])
def test_what_may_pass_is_tried_again(status: int, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(status, headers={"retry-after": "0.01"}), Failure(status, headers=AT_ONCE))
    assert using(upstream_url, count, retries=2) > 0
    assert len(upstream.seen) == 3


def test_retries_end(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(*[Failure(429, headers={"retry-after": "0.01"})] * 3)
    failed = failing(upstream_url, count, retries=2)
    assert (failed.reason, failed.retry_after, len(upstream.seen)) == ("rate_limited", 0.01, 3)


def test_a_wait_longer_than_the_caller_s_is_told_and_not_waited_for(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(429, headers={"retry-after": "3600"}))
    failed = failing(upstream_url, count, retries=2)
    assert (failed.reason, failed.retry_after, len(upstream.seen)) == ("rate_limited", 3600.0, 1)


@pytest.mark.parametrize("wait", ["Wed, 21 Oct 2026 07:28:00 GMT", "inf", "nan", "-1"])
def test_a_wait_that_is_no_number_of_seconds_is_none(wait: str, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Failure(429, headers={"retry-after": wait}))
    assert failing(upstream_url, count).retry_after is None


@pytest.mark.parametrize("use", [count, create])
def test_silence_ends_with_the_time_allowed(use: Use[Any], upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Stall())
    assert failing(upstream_url, use, timeout_seconds=0.2).reason == "timeout"


def test_silence_within_a_stream_ends_it(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Cut(4, "silent"))
    assert failing(upstream_url, create, timeout_seconds=0.3).reason == "timeout"


def test_a_call_s_own_limit_ends_it(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Stall())
    assert failing(upstream_url, lambda api: api.create(ASKED, max_tokens=1, seconds=0.2)).reason == "timeout"


def test_time_that_is_over_ends_a_call_before_it_is_made(upstream: StandIn, upstream_url: str) -> None:
    assert failing(upstream_url, lambda api: api.count_tokens(ASKED, seconds=-1)).reason == "timeout"
    assert upstream.seen == []


def test_an_address_where_nobody_listens_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failed = failing(f"http://127.0.0.1:{port}", count)
    assert (failed.reason, failed.status) == ("unreachable", None)


UNREADABLE = [
    Words(b"<html>"),
    Words(b"<html>", content_type="text/html"),
    Words(b"[]"),
    Words(b"{}"),
    Words(b'{"input_tokens": "9"}'),
    Words(b'{"input_tokens": true}'),
    Words(b'{"input_tokens": -1}'),
]


@pytest.mark.parametrize("words", UNREADABLE)
def test_a_count_that_is_no_number_is_unreadable(words: Words, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(words)
    assert failing(upstream_url, count).reason == "unreadable"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (Words(b"nonsense"), "unreadable"),
        (Words(b"event: message_start\ndata: nonsense\n\n", content_type="text/event-stream"), "unreadable"),
        (Words(b"", content_type="text/event-stream"), "broken_stream"),
        (Cut(0), "broken_stream"),
        (Cut(4), "broken_stream"),
        (Cut(4, "ended"), "broken_stream"),
        (Cut(1, "ended"), "broken_stream"),
    ],
)
def test_a_message_that_does_not_arrive_whole_is_none(
    script: Scripted, reason: Reason, upstream: StandIn, upstream_url: str
) -> None:
    upstream.answer_next(script)
    assert failing(upstream_url, create).reason == reason


def padded(size: int, head: bytes = b'{"input_tokens": 7, "content": []') -> bytes:
    """JSON of ``size`` bytes."""
    return head + b" " * (size - len(head) - 1) + b"}"


def streamed(*events: Any, end: str = "\n") -> Words:
    body = "".join(f"event: {one['type']}{end}data: {json.dumps(one)}{end}{end}" for one in events)
    return Words(body.encode(), content_type="text/event-stream")


def pieces(*texts: str) -> list[dict[str, Any]]:
    delta = {"type": "content_block_delta", "index": 0}
    return [
        {"type": "message_start", "message": {"usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({**delta, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]


@pytest.mark.parametrize("size", [LARGE_BYTES, LARGE_BYTES + 1, MOST_DECODED_BYTES])
def test_an_answer_up_to_the_limit_is_read(size: int, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Words(padded(size)), Words(padded(size)))
    assert using(upstream_url, count) == 7
    assert using(upstream_url, create)["content"] == []


@pytest.mark.parametrize("use", [count, create])
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/html"])
def test_an_answer_beyond_the_limit_is_unreadable_and_says_so(
    content_type: str, use: Use[Any], upstream: StandIn, upstream_url: str
) -> None:
    upstream.answer_next(Words(padded(MOST_DECODED_BYTES + 1), content_type=content_type))
    failed = failing(upstream_url, use, retries=2)
    assert failed.reason == "unreadable"
    assert failed.message.endswith("The answer is longer than 16 MiB and was not read to its end.")
    assert len(upstream.seen) == 1


def test_a_stream_of_many_events_beyond_the_limit_is_unreadable(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(streamed(*pieces(*["x" * 1_000_000] * 17)))
    failed = failing(upstream_url, create)
    assert failed.reason == "unreadable"
    assert "16 MiB" in failed.message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_large_stream_comes_back_whole_whatever_ends_its_lines(
    end: str, upstream: StandIn, upstream_url: str
) -> None:
    upstream.answer_next(streamed(*pieces("é" * LARGE_BYTES, "\u2028", "z"), end=end))
    assert using(upstream_url, create)["content"][0]["text"] == "é" * LARGE_BYTES + "\u2028z"


def test_an_event_in_several_lines_and_the_mark_of_a_gateway_are_read(upstream: StandIn, upstream_url: str) -> None:
    words = streamed(*pieces("a"))
    body = b": hello\n\n" + words.body.replace(b'"index": 0,', b'"index":\ndata:0,') + b"data: [DONE]\n\ndata: {"
    upstream.answer_next(Words(body, content_type=words.content_type))
    assert using(upstream_url, create)["content"] == [{"type": "text", "text": "a"}]


BOMB_BYTES = 16 * MOST_DECODED_BYTES


@pytest.fixture(scope="module")
def bomb() -> bytes:
    return gzip.compress(b" " * BOMB_BYTES, compresslevel=1)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ({}, "unreadable"),
        ({"content_type": "text/event-stream"}, "unreadable"),
        ({"status": 502}, "server_error"),
    ],
)
def test_a_small_answer_that_swells_is_not_held(
    kind: dict[str, Any], reason: Reason, bomb: bytes, upstream: StandIn, upstream_url: str
) -> None:
    packed = Words(bomb, **kind, headers={"content-encoding": "gzip"})
    using(upstream_url, count)
    for use in (count, create):
        upstream.answer_next(packed)
        tracemalloc.start()
        failed = failing(upstream_url, use)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert failed.reason == reason
        assert peak < 2 * MOST_DECODED_BYTES


def test_a_long_refusal_is_told_by_its_status(upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(*[Words(b"x" * (MOST_DECODED_BYTES + 1), status=529)] * 2)
    assert [failing(upstream_url, use).reason for use in (count, create)] == ["overloaded"] * 2


def test_after_an_answer_that_was_too_long_the_next_one_is_read(upstream: StandIn, upstream_url: str) -> None:
    async def two(api: Upstream) -> int:
        with pytest.raises(UpstreamFailed):
            await api.count_tokens(ASKED)
        return await api.count_tokens(ASKED)

    upstream.answer_next(Words(padded(MOST_DECODED_BYTES + 1)))
    assert using(upstream_url, two) > 0


def test_an_error_within_a_stream_is_told_by_its_type(upstream: StandIn, upstream_url: str) -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = f"event: error\ndata: {json.dumps(event)}\n\n".encode()
    upstream.answer_next(Words(body, content_type="text/event-stream"))
    failed = failing(upstream_url, create)
    assert (failed.reason, failed.status) == ("overloaded", 200)


@pytest.mark.parametrize(
    "body", [b"", b"bad gateway", b"[]", b'{"error": "no"}', b'{"error": {"type": 1, "message": []}}']
)
def test_an_error_in_any_other_shape_is_told_by_its_status(body: bytes, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(Words(body, status=502))
    failed = failing(upstream_url, count)
    assert (failed.reason, failed.status) == ("server_error", 502)


def test_a_redirect_is_not_followed(upstream: StandIn, upstream_url: str) -> None:
    elsewhere = StandIn()
    with serve(elsewhere.app) as address:
        upstream.answer_next(Words(b"", status=307, headers={"location": f"{address}/v1/messages/count_tokens"}))
        assert failing(upstream_url, count).reason == "not_found"
    assert elsewhere.seen == []


def test_half_a_surrogate_pair_is_refused_before_it_is_sent(upstream: StandIn, upstream_url: str) -> None:
    said = {"model": "m", "messages": [{"role": "user", "content": "\ud800"}]}
    assert failing(upstream_url, lambda api: api.count_tokens(said)).reason == "invalid"
    assert upstream.seen == []


@pytest.mark.parametrize("own", [None, ""])
def test_without_any_key_nothing_is_sent(own: str | None, upstream: StandIn, upstream_url: str) -> None:
    failed = failing(upstream_url, lambda api: api.count_tokens(ASKED, key=own), key=own)
    assert failed.reason == "no_key"
    assert "ANTHROPIC_API_KEY" in failed.message
    assert upstream.seen == []


@pytest.mark.parametrize("own", ["schlüssel", "two words", "line\r\nx-more: 1", "\x00"])
def test_what_cannot_be_a_key_is_refused_before_it_is_sent(own: str, upstream: StandIn, upstream_url: str) -> None:
    failed = failing(upstream_url, lambda api: api.count_tokens(ASKED, key=own))
    assert failed.reason == "unauthorized"
    assert own not in failed.message
    assert upstream.seen == []


@pytest.mark.parametrize("service_key", [KEY, None])
def test_a_caller_s_own_key_goes_before_the_service_s_and_stays_his(
    service_key: str | None, upstream: StandIn, upstream_url: str
) -> None:
    async def three(api: Upstream) -> None:
        await api.count_tokens(ASKED, key="his")
        await api.count_tokens(ASKED, key="hers")
        await api.create(ASKED, key="his", max_tokens=1)

    using(upstream_url, three, key=service_key)
    assert [credential(seen.headers) for seen in upstream.seen] == ["his", "hers", "his"]


def test_the_service_s_key_is_used_when_the_caller_has_none(upstream: StandIn, upstream_url: str) -> None:
    using(upstream_url, count)
    assert credential(upstream.seen[0].headers) == KEY


def test_all_keys_share_the_connections() -> None:
    ports: set[int] = set()
    stand_in = StandIn()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            ports.add(scope["client"][1])
        await stand_in.app(scope, receive, send)

    async def one_after_the_other(api: Upstream) -> None:
        for key in ("a", "b", "c"):
            await api.count_tokens(ASKED, key=key)

    with serve(noting) as address:
        using(address, one_after_the_other)
    assert (len(stand_in.seen), len(ports)) == (3, 1)


def test_a_key_s_digest_tells_keys_apart_and_differs_between_upstreams() -> None:
    one, other = Upstream(None, "a"), Upstream(None, "a")
    assert one.key_digest() == one.key_digest("a")
    assert one.key_digest("b") not in {one.key_digest("a"), "b", None}
    assert one.key_digest() != other.key_digest()
    assert Upstream(None, None).key_digest() is None


def test_the_environment_of_the_sdk_is_ignored(
    upstream: StandIn, upstream_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    wrong = "http://127.0.0.1:9"
    for name, value in {
        "ANTHROPIC_API_KEY": "ambient-key",
        "ANTHROPIC_AUTH_TOKEN": "ambient-token",
        "ANTHROPIC_BASE_URL": wrong,
        "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer ambient\nX-Api-Key: ambient\nX-Ambient: ambient",
        "ANTHROPIC_PROFILE": "ambient",
        "ANTHROPIC_CONFIG_DIR": str(tmp_path),
        "HTTP_PROXY": wrong,
        "http_proxy": wrong,
        "ALL_PROXY": wrong,
        "NO_PROXY": "",
        "no_proxy": "",
        "SSL_CERT_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    using(upstream_url, count)
    using(upstream_url, lambda api: api.create(ASKED, key="his", max_tokens=1), key=None)
    assert [credential(seen.headers) for seen in upstream.seen] == [KEY, "his"]
    assert "ambient" not in str([sorted(seen.headers.items()) for seen in upstream.seen])
    assert Upstream(None, KEY).base_url == BASE_URL
    assert failing(upstream_url, count, key=None).reason == "no_key"


ECHOES = [Failure(401, f"{KEY} is no key"), Failure(500), Stall(), Words(b"no"), Words(KEY.encode(), status=400)]


@pytest.mark.parametrize(
    ("use", "script"), [(use, one) for use in (count, create) for one in ECHOES] + [(create, Cut(3))]
)
def test_a_key_reaches_no_log_and_no_exception(
    use: Use[Any],
    script: Scripted,
    upstream: StandIn,
    upstream_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    upstream.answer_next(script, script)
    with caplog.at_level(logging.DEBUG):
        failed = failing(upstream_url, use, timeout_seconds=0.3, retries=1)
    told = [failed.message, repr(failed), repr(vars(failed)), "".join(traceback.format_exception(failed)), caplog.text]
    assert caplog.records
    assert KEY not in "\n".join(told)
    assert failed.__cause__ is None
    assert failed.__context__ is None


def test_a_caller_who_gives_up_while_the_sdk_loads_leaves_the_others_theirs(upstream_url: str) -> None:
    async def two(api: Upstream) -> int:
        first = asyncio.create_task(api.count_tokens(ASKED))
        second = asyncio.create_task(api.count_tokens(ASKED))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert using(upstream_url, two) > 0


def test_an_upstream_that_was_never_used_closes() -> None:
    assert using(None, lambda _: asyncio.sleep(0, "closed")) == "closed"


def test_an_encoding_that_was_not_asked_for_is_not_undone(running_upstream: tuple[StandIn, str]) -> None:
    stand_in, url = running_upstream
    stand_in.forget()
    bomb = zstandard.ZstdCompressor(3).compress(b'{"input_tokens": 5}' + b" " * 64 * 1024 * 1024)
    stand_in.answer_next(Words(bomb, headers={"content-encoding": "zstd"}))

    async def counted() -> str:
        upstream = Upstream(url, "k", retries=0)
        try:
            await upstream.count_tokens({"model": "m", "messages": [{"role": "user", "content": "a"}]})
        except UpstreamFailed as failed:
            return failed.reason
        finally:
            await upstream.close()
        return "none"

    assert asyncio.run(counted()) == "unreadable"
    assert stand_in.seen[0].headers["accept-encoding"] == "gzip"
