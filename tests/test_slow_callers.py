"""Callers who are slow, vanish, come in crowds, or write what can be read in two ways."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from app.cli.connection import MOST_HEADERS, MOST_WAITING
from app.figures import SHEDS
from app.main import create_app
from app.settings import Settings
from app.traffic import LONGEST_HEAD, BodyBudget, Patience, Traffic
from tests.asking import CWD, inline
from tests.listening import wait_until
from tests.serving import serve
from tests.wires import Wire, connected, head, posted

LONG = 3600.0
PATIENT = {"head_seconds": LONG, "body_seconds": LONG, "send_seconds": LONG}
PLENTY = 10**9
SHORT = 0.4
CHUNKED = head(length=None, transfer_encoding="chunked")
GET = head("GET", "/v1/models", None)
BODY = json.dumps(inline({})).encode()
LARGE = json.dumps(inline({f"{CWD}/CLAUDE.md": "Use tabs. " * 40_000})).encode()


class Serving:
    """What is served, how, and what it turned away."""

    def __init__(self, app: Any, url: str, traffic: Traffic, sheds: list[str]) -> None:
        self.app, self.url, self.traffic, self.sheds = app, url, traffic, sheds

    def connected(self, **options: int) -> Any:
        return connected(self.url, **options)

    def is_well(self) -> bool:
        return httpx.get(f"{self.url}/healthz", trust_env=False, timeout=60).status_code == 200

    def is_empty(self) -> bool:
        """Whether nothing is held of any caller."""
        traffic = self.traffic
        return (traffic.connections, traffic.bodies.held, traffic.unsent) == (0, 0, 0)


@contextmanager
def serving(app: Any = None, *, bodies: int = PLENTY, buffer: int | None = None, **patience: Any) -> Iterator[Serving]:
    """The service, or an application; it waits for nobody for long, or, of what is not named, as good as for ever."""
    sheds: list[str] = []
    app = app or create_app(Settings(roots=()))
    app.state.traffic = Traffic(Patience(**(PATIENT | patience)), BodyBudget(bodies), sheds.append)
    with serve(app, buffer, timeout_keep_alive=3600) as url:
        one = Serving(app, url, app.state.traffic, sheds)
        yield one
        wait_until(one.is_empty)
        assert set(sheds) <= set(SHEDS)


class State:
    traffic: Traffic


class Noting:
    """An application that notes what it is given, and answers once it is told to. Of `/early` it reads no body."""

    def __init__(self, *, opened: bool = True) -> None:
        self.state = State()
        self.asked: list[str] = []
        self.given: list[Message] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.door = threading.Event()
        if opened:
            self.door.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        self.asked.append(scope["path"])
        if scope["path"] != "/early":
            while await self._takes(receive):
                pass
        await asyncio.to_thread(self.door.wait)
        self.headers.append(list(scope["headers"]))
        if scope["path"] == "/leaves":
            self.given.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def _takes(self, receive: Receive) -> bool:
        self.given.append(await receive())
        return bool(self.given[-1].get("more_body"))

    async def _live(self, receive: Receive, send: Send) -> None:
        for phase in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{phase}"
            await send({"type": f"lifespan.{phase}.complete"})


def drip(wire: Wire, sent: bytes) -> None:
    """Sends again and again, with short pauses, until nobody listens any more."""
    wire.wire.settimeout(0.02)
    with suppress(ConnectionError):
        while True:
            wire.sendall(sent)
            with suppress(TimeoutError):
                data = wire.wire.recv(65_536)
                wire.data += data
                if not data:
                    break
    wire.wire.settimeout(60)


def refusal(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    """Status and type of a problem, which has its name and is the last on its connection."""
    status, headers, body = answer
    told = json.loads(body)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    assert told["status"] == status
    assert told["request_id"] == headers.get("x-request-id")
    assert told["detail"].endswith(".")
    return status, told["type"].removeprefix("urn:strata:problem:")


TOO_SLOW = 408, "too-slow"
OVERLOADED = 503, "overloaded"
NOT_HTTP = 400, "not-http"


# Heads


def test_who_says_nothing_is_not_waited_for() -> None:
    with serving(head_seconds=SHORT) as one, one.connected() as wire:
        assert wire.is_closed()
        assert one.is_well()


@pytest.mark.parametrize("sent", [b"G", b"\r\n\r\nPOST /v1/con", CHUNKED[:-2]])
def test_a_head_that_does_not_end_is_answered_with_a_problem(sent: bytes) -> None:
    with serving(head_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(sent)
        answer = wire.answer()
        assert refusal(answer) == TOO_SLOW
        assert b"STRATA_HEAD_SECONDS" in answer[2]
        assert wire.is_closed()


def test_a_head_that_comes_in_drops_has_no_more_time() -> None:
    with serving(head_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(b"GET / HTTP/1.1\r\n")
        drip(wire, b"x: y\r\n")
        assert refusal(wire.answer()) == TOO_SLOW


def test_the_next_head_on_a_connection_has_as_much_time_as_the_first() -> None:
    with serving(head_seconds=SHORT) as one, one.connected() as wire:
        for _ in range(3):
            wire.sendall(GET)
            assert wire.answer()[0] == 200
        wire.sendall(GET[:20])
        assert refusal(wire.answer()) == TOO_SLOW


def test_empty_lines_between_requests_keep_no_connection_open() -> None:
    with serving(head_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(GET)
        assert wire.answer()[0] == 200
        drip(wire, b"\r\n")
        assert wire.is_closed()


def test_a_connection_at_rest_is_kept_for_as_long_as_was_configured() -> None:
    app = create_app(Settings(roots=()))
    app.state.traffic = Traffic(Patience(**PATIENT), BodyBudget(PLENTY), len)
    with serve(app, timeout_keep_alive=1) as url, connected(url) as wire:
        for _ in range(3):
            wire.sendall(GET)
            assert wire.answer()[0] == 200
        assert wire.is_closed()


def test_who_is_answered_slowly_is_not_taken_for_slow() -> None:
    app = Noting(opened=False)
    with serving(app, head_seconds=0.05, body_seconds=0.05) as one, one.connected() as wire:
        wire.sendall(posted(BODY))
        wait_until(lambda: bool(app.asked))
        with one.connected() as other:
            assert other.is_closed()
        app.door.set()
        assert wire.answer()[0] == 200


# Bodies


@pytest.mark.parametrize(
    "sent",
    [
        head(length=1000) + BODY,
        head(length=10**6) + BODY,
        CHUNKED + b"5\r\nabc",
        head(length=1000, host="evil.example"),
    ],
    ids=["short", "long", "chunked", "refused"],
)
def test_a_body_that_does_not_end_is_not_waited_for(sent: bytes) -> None:
    with serving(body_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(sent)
        status, _, body = answer = wire.answer()
        if b"evil" in sent:
            assert (status, json.loads(body)["status"]) == (421, 421)
        else:
            assert refusal(answer) == TOO_SLOW
        assert wire.is_closed()
        assert one.is_well()


@pytest.mark.parametrize("length", [len(BODY) + 10**5, 10**6])
def test_a_body_that_comes_in_drops_has_no_more_time_and_leaves_nothing(length: int) -> None:
    session = uuid4().hex
    body = json.dumps(inline({}, session_id=session)).encode()
    with serving(body_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(head(length=length, x_request_id="mine") + body)
        drip(wire, b" ")
        answer = wire.answer()
        assert refusal(answer) == TOO_SLOW
        assert answer[1]["x-request-id"] == "mine"
        assert httpx.get(f"{one.url}/v1/sessions/{session}", trust_env=False).status_code == 404


def test_an_application_learns_that_the_rest_does_not_come() -> None:
    app = Noting()
    with serving(app, body_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(CHUNKED + b"3\r\nabc\r\n")
        assert refusal(wire.answer()) == TOO_SLOW
        assert wire.is_closed()
        wait_until(lambda: app.given[-1]["type"] == "http.disconnect")
    assert b"".join(message.get("body", b"") for message in app.given) == b"abc"


def test_a_body_that_nobody_waits_for_does_not_keep_its_connection() -> None:
    with serving(Noting(), body_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(head(path="/early", length=1000))
        assert wire.answer()[0] == 200
        drip(wire, b" ")
        assert wire.is_closed()


def test_what_came_before_a_slow_body_is_answered_first() -> None:
    app = Noting(opened=False)
    with serving(app, body_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(GET + head(length=1000) + b"half")
        wait_until(lambda: bool(app.asked))
        app.door.set()
        assert wire.answer()[0] == 200
        assert refusal(wire.answer()) == TOO_SLOW
        assert wire.is_closed()


def test_who_is_kept_waiting_for_the_body_is_not_slow() -> None:
    app = Noting(opened=False)
    with serving(app, body_seconds=SHORT) as one, one.connected() as wire:
        wire.sendall(head(path="/early", length=10**6) + b" " * 500_000)
        wait_until(lambda: bool(app.asked))
        with one.connected() as other:
            other.sendall(CHUNKED)
            assert refusal(other.answer()) == TOO_SLOW
        app.door.set()
        assert wire.answer()[0] == 200


# Readers


def test_readers_who_take_nothing_are_let_go_and_nothing_of_theirs_is_kept() -> None:
    with serving(send_seconds=SHORT, buffer=4096) as one, ExitStack() as stack:
        for _ in range(300):
            wire = stack.enter_context(one.connected(SO_RCVBUF=4096))
            wire.sendall(posted(LARGE))
        wait_until(one.is_empty)
        assert one.is_well()


def test_a_reader_who_is_slow_but_reads_has_all_of_it() -> None:
    with serving(send_seconds=1, buffer=4096) as one, one.connected() as quick, one.connected(SO_RCVBUF=4096) as slow:
        quick.sendall(posted(LARGE))
        wanted = quick.answer()[2]
        slow.sendall(posted(LARGE))
        with one.connected(SO_RCVBUF=4096) as stuck:
            stuck.sendall(posted(LARGE) * 2)
            wait_until(lambda: one.traffic.connections == 3)
            while one.traffic.connections == 3:
                slow.data += slow.wire.recv(1024)
                time.sleep(0.01)
        assert slow.answer()[2] == wanted


def test_a_stream_that_nobody_reads_ends() -> None:
    ended = threading.Event()
    app = Noting()

    async def streams(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        await receive()
        leaving = asyncio.create_task(receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not leaving.done():
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            await asyncio.sleep(0.001)
        ended.set()

    streams.state = State()
    with serving(streams, send_seconds=SHORT, buffer=4096) as one, one.connected(SO_RCVBUF=4096) as wire:
        wire.sendall(GET)
        assert ended.wait(60)


def test_too_much_that_nobody_takes_is_not_kept_for_long() -> None:
    with serving(bodies=1_000_000, buffer=4096, head_seconds=4) as one, ExitStack() as stack:
        for _ in range(10):
            wire = stack.enter_context(one.connected(SO_RCVBUF=4096))
            wire.sendall(posted(LARGE))
        wait_until(lambda: "connections" in one.sheds)
        wait_until(lambda: one.traffic.unsent <= 1_000_000)
        assert one.is_well()


# Callers who vanish


@pytest.mark.parametrize(
    "sent",
    [b"", GET[:10], GET, posted(BODY)[:-5], posted(BODY), posted(LARGE)[:-5], posted(LARGE), CHUNKED + b"9\r\nabc"],
)
def test_callers_who_vanish_leave_nothing_behind(sent: bytes) -> None:
    with serving() as one:
        for reset in (False, True) * 3:
            with one.connected() as wire:
                if reset:
                    wire.wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                wire.sendall(sent)
        wait_until(one.is_empty)
        assert one.is_well()


def test_an_application_learns_that_its_caller_went_though_more_was_asked() -> None:
    app = Noting()
    with serving(app) as one:
        with one.connected() as wire:
            wire.sendall(head("GET", "/leaves", None) + posted(BODY) * 3)
            wait_until(lambda: bool(app.headers))
        wait_until(lambda: app.given[-1]["type"] == "http.disconnect")
    assert app.asked == ["/leaves"]


# Crowds


@contextmanager
def crowd(one: Serving, number: int) -> Iterator[None]:
    """So many connections that were answered once, and are kept."""
    with ExitStack() as stack:
        for _ in range(number):
            wire = stack.enter_context(one.connected())
            wire.sendall(GET)
            assert wire.answer()[0] == 200
        yield


def test_a_connection_too_many_is_told_so_and_health_stays_green() -> None:
    with serving(max_connections=5) as one:
        with crowd(one, 5):
            for sent in (GET, posted(BODY), head(length=10**6), head("POST", "/healthz", 0)):
                with one.connected() as wire:
                    wire.sendall(sent)
                    _, headers, _ = answer = wire.answer()
                    assert refusal(answer) == OVERLOADED
                    assert (headers["retry-after"], headers["connection"]) == ("1", "close")
                    assert wire.is_closed()
            for path in ("/healthz", "/readyz"):
                with one.connected() as wire:
                    wire.sendall(head("GET", path, None))
                    assert (wire.answer()[0], wire.is_closed()) == (200, True)
                with one.connected() as wire:
                    wire.sendall(head("HEAD", path, None))
                    assert wire.rest().startswith(b"HTTP/1.1 405")
            assert one.sheds == ["connections"] * 4
        wait_until(lambda: one.traffic.connections == 0)
        with crowd(one, 5):
            assert one.is_well()


def test_beyond_twice_as_many_connections_are_closed_at_once() -> None:
    with serving(max_connections=5) as one, crowd(one, 5), ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(one.connected())
        wait_until(lambda: one.traffic.connections == 10)
        with one.connected() as wire:
            assert wire.rest() == b""
        assert one.sheds == ["connections"]


def test_crowds_come_and_go_and_nothing_is_left() -> None:
    with serving(max_connections=20, head_seconds=SHORT) as one, ExitStack() as stack:
        for _ in range(200):
            wire = stack.enter_context(one.connected())
            with suppress(ConnectionError):
                wire.sendall(GET[:10])
        wait_until(one.is_empty)
        assert one.is_well()


# Bodies together


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_together_have_so_much_room_and_who_was_first_keeps_it(chunked: bool) -> None:
    body = BODY + b" " * (200_000 - len(BODY))
    start = CHUNKED + b"%x\r\n" % len(body) + body if chunked else head(length=len(body) + 1) + body
    with serving(bodies=300_000) as one, one.connected() as first:
        first.sendall(start)
        wait_until(lambda: one.traffic.bodies.held == len(body))
        for _ in range(3):
            with one.connected() as wire:
                wire.sendall(start)
                answer = wire.answer()
                assert refusal(answer) == OVERLOADED
                assert answer[1]["retry-after"] == "1"
            assert one.is_well()
            assert one.traffic.bodies.held <= 300_000
        assert one.sheds == ["bodies"] * 3
        first.sendall(b"\r\n0\r\n\r\n" if chunked else b" ")
        assert first.answer()[0] == 200
        with one.connected() as wire:
            wire.sendall(posted(body))
            assert wire.answer()[0] == 200


# What can be read in two ways

POST_A = b"POST /a HTTP/1.1\r\nhost: localhost\r\n"
GET_B = b"GET /b HTTP/1.1\r\nhost: localhost\r\n\r\n"
READ_IN_TWO_WAYS = {
    "length and chunks": POST_A + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET_B,
    "chunks and length": POST_A + b"transfer-encoding: chunked\r\ncontent-length: 50\r\n\r\n0\r\n\r\n" + GET_B,
    "two lengths": POST_A + b"content-length: 0\r\ncontent-length: 37\r\n\r\n" + GET_B,
    "the same length twice": POST_A + b"content-length: 0\r\ncontent-length: 0\r\n\r\n" + GET_B,
    "a list of lengths": POST_A + b"content-length: 0, 37\r\n\r\n" + GET_B,
    "a signed length": POST_A + b"content-length: +0\r\n\r\n" + GET_B,
    "a hexadecimal length": POST_A + b"content-length: 0x0\r\n\r\n" + GET_B,
    "bare LF": POST_A.replace(b"\r\n", b"\n") + b"\n" + GET_B,
    "bare LF in a header": POST_A + b"x: 1\ncontent-length: 37\r\n\r\n" + GET_B,
    "bare CR in a header": POST_A + b"x: 1\rcontent-length: 37\r\n\r\n" + GET_B,
    "a folded header": POST_A + b"x: 1\r\n content-length: 37\r\n\r\n" + GET_B,
    "a folded encoding": POST_A + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + GET_B,
    "a space before a colon": POST_A + b"content-length : 37\r\n\r\n" + GET_B,
    "a space before a name": POST_A + b" content-length: 37\r\n\r\n" + GET_B,
    "NUL in a header": POST_A + b"x: a\0b\r\n\r\n" + GET_B,
    "no name": POST_A + b": x\r\n\r\n" + GET_B,
    "an unknown encoding": POST_A + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + GET_B,
    "identity": POST_A + b"transfer-encoding: identity\r\n\r\n" + GET_B,
    "chunked twice": POST_A + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + GET_B,
    "chunked not last": POST_A + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n" + GET_B,
    "bare LF after a size": POST_A + b"transfer-encoding: chunked\r\n\r\n0\n\r\n" + GET_B,
    "a space after a size": POST_A + b"transfer-encoding: chunked\r\n\r\n0 \r\n\r\n" + GET_B,
    "a size beyond all bounds": POST_A + b"transfer-encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n" + GET_B,
    "a signed size": POST_A + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n" + GET_B,
    "more than the size": POST_A + b"transfer-encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n" + GET_B,
    "a length behind the body": POST_A + b"transfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 9\r\n\r\n" + GET_B,
    "an encoding behind the body": (
        POST_A + b"transfer-encoding: chunked\r\n\r\n0\r\ntransfer-encoding: chunked\r\n\r\n" + GET_B
    ),
    "another version": POST_A.replace(b"1.1", b"1.2") + b"\r\n" + GET_B,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GET_B,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + GET_B,
    "no address": b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n" + GET_B,
}


@pytest.fixture(scope="module")
def noting() -> Iterator[tuple[Noting, Serving]]:
    app = Noting()
    with serving(app) as one:
        yield app, one


@pytest.mark.parametrize("apart", [False, True], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("sent", READ_IN_TWO_WAYS.values(), ids=READ_IN_TWO_WAYS)
def test_what_can_be_read_in_two_ways_is_never_two_requests(
    sent: bytes, apart: bool, noting: tuple[Noting, Serving]
) -> None:
    app, one = noting
    app.asked.clear()
    with one.connected() as wire:
        wire.wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError):
            for piece in [sent[at : at + 1] for at in range(len(sent))] if apart else [sent]:
                wire.sendall(piece)
        answer = wire.rest()
    assert len(re.findall(rb"HTTP/1.1 \d+ ", answer)) <= 1
    assert "/b" not in app.asked
    assert answer.startswith(b"HTTP/1.1 400 ") or (apart and not answer)


@pytest.mark.parametrize("before", [1, 3])
def test_what_was_asked_before_something_unreadable_is_answered(before: int) -> None:
    app = Noting(opened=False)
    with serving(app) as one, one.connected() as wire:
        wire.sendall(GET * before + b"what?\r\n\r\n" + GET_B)
        wait_until(lambda: bool(app.asked))
        app.door.set()
        assert [wire.answer()[0] for _ in range(before)] == [200] * before
        assert wire.is_closed()
    assert app.asked == ["/v1/models"] * before


@pytest.mark.parametrize("trailer", [b"host: evil.example", b"x-api-key: key", b"expect: 100-continue", b"x: 1"])
def test_what_comes_behind_a_body_is_no_header(trailer: bytes, noting: tuple[Noting, Serving]) -> None:
    app, one = noting
    app.headers.clear()
    with one.connected() as wire:
        for _ in range(2):
            wire.sendall(CHUNKED + b"0\r\n" + trailer + b"\r\n\r\n")
            assert wire.answer()[0] == 200
    assert [[name for name, _ in headers] for headers in app.headers] == [
        [b"host", b"content-type", b"transfer-encoding"]
    ] * 2


def test_what_turns_out_unreadable_is_refused_in_its_turn() -> None:
    app = Noting(opened=False)
    with serving(app) as one, one.connected() as wire:
        wire.sendall(GET + head(length=None, transfer_encoding="chunked", x_request_id="mine") + b"what?\r\n")
        wait_until(lambda: bool(app.asked))
        app.door.set()
        assert wire.answer()[0] == 200
        answer = wire.answer()
        assert refusal(answer) == NOT_HTTP
        assert answer[1]["x-request-id"] == "mine"
        assert wire.is_closed()
    assert app.asked == ["/v1/models"]


def test_who_wants_to_close_says_so_behind_a_body_too(noting: tuple[Noting, Serving]) -> None:
    _, one = noting
    with one.connected() as wire:
        wire.sendall(CHUNKED + b"0\r\nconnection: close\r\n\r\n" + GET)
        assert (wire.answer()[0], wire.is_closed()) == (200, True)


def test_a_key_behind_a_body_opens_nothing() -> None:
    with serving(create_app(Settings(roots=(), api_keys=("key",)))) as one, one.connected() as wire:
        for _ in range(2):
            wire.sendall(CHUNKED + b"%x\r\n%b\r\n0\r\nx-api-key: key\r\n\r\n" % (len(BODY), BODY))
            assert wire.answer()[0] == 401
        wire.sendall(posted(BODY, x_api_key="key"))
        assert wire.answer()[0] == 200


HUGE = {
    "an address": b"GET /" + b"a" * (2 * LONGEST_HEAD) + b" HTTP/1.1\r\n\r\n",
    "a header": b"GET / HTTP/1.1\r\nx: " + b"a" * LONGEST_HEAD + b"\r\n\r\n",
    "a header without an end": b"GET / HTTP/1.1\r\nx: " + b"a" * (2 * LONGEST_HEAD),
    "many headers": b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (MOST_HEADERS + 1) + b"\r\n",
    "headers without an end": b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (MOST_HEADERS + 2),
}
HUGE_BEHIND = {
    "what is said of a chunk": CHUNKED + b"5;" + b"a" * (2 * LONGEST_HEAD),
    "headers behind a body": CHUNKED + b"0\r\n" + b"a:\r\n" * (MOST_HEADERS + 2),
    "a header behind a body": CHUNKED + b"0\r\nx: " + b"a" * (2 * LONGEST_HEAD),
}


@pytest.mark.parametrize("sent", [*HUGE.values(), *HUGE_BEHIND.values()], ids=[*HUGE, *HUGE_BEHIND])
def test_what_is_too_large_around_a_body_is_refused(sent: bytes, noting: tuple[Noting, Serving]) -> None:
    app, one = noting
    app.asked.clear()
    with one.connected() as wire:
        with suppress(ConnectionError):
            wire.sendall(sent)
        assert refusal(wire.answer()) == NOT_HTTP
        assert wire.rest() == b""
    assert app.asked in ([], ["/v1/context"])
    assert (app.asked == []) == (sent in HUGE.values())


def test_a_head_as_large_as_it_may_be_is_read(noting: tuple[Noting, Serving]) -> None:
    _, one = noting
    large = head("GET", "/" + "a" * 30_000, None, x="b" * 30_000)
    with one.connected() as wire:
        wire.sendall(large)
        assert wire.answer()[0] == 200
        wire.sendall(posted(b" " * 1_000_000) + large * 20 + GET)
        assert [wire.answer()[0] for _ in range(22)] == [200] * 22


@pytest.mark.parametrize("most", [4096, 300_000])
@pytest.mark.parametrize("cut", [0, 4], ids=["whole", "without its end"])
def test_how_large_a_head_may_be_is_a_setting(most: int, cut: int) -> None:
    app = Noting()
    with serving(app, max_head_bytes=most) as one:
        with one.connected() as wire:
            wire.sendall(head("GET", "/", None, x="a" * (most - 200)) + GET)
            assert [wire.answer()[0] for _ in range(2)] == [200, 200]
            wire.sendall(posted(b" " * 100_000) + GET)
            assert [wire.answer()[0] for _ in range(2)] == [200, 200]
        app.asked.clear()
        with one.connected() as wire:
            large = head("GET", "/", None, x="a" * (2 * most))
            with suppress(ConnectionError):
                wire.sendall(large[: len(large) - cut])
            status, _, body = wire.answer()
            assert (status, wire.rest()) == (400, b"")
            assert f"{most:,} bytes (STRATA_MAX_HEAD_BYTES)" in json.loads(body)["detail"]
    assert app.asked == []


def test_many_requests_at_once_are_answered_up_to_a_number(caplog: pytest.LogCaptureFixture) -> None:
    app = Noting(opened=False)
    with caplog.at_level(logging.ERROR), serving(app) as one:
        with one.connected() as wire:
            wire.sendall(GET * 40 + posted(b"more") * 5000)
            wait_until(lambda: bool(app.asked))
            app.door.set()
            answers = wire.rest()
        assert answers.count(b"HTTP/1.1 200") == 1 + MOST_WAITING == len(app.asked)
        for _ in range(20):
            with one.connected() as wire:
                wire.wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                with suppress(ConnectionError):
                    wire.sendall((GET + posted(b" " * 100_000)) * 30)
        wait_until(one.is_empty)
    assert caplog.records == []


def test_who_wants_another_protocol_is_answered_in_this_one_and_no_more(noting: tuple[Noting, Serving]) -> None:
    app, one = noting
    app.asked.clear()
    with one.connected() as wire:
        wire.sendall(head("GET", "/", None, connection="upgrade", upgrade="websocket") + GET_B)
        assert (wire.answer()[0], wire.is_closed()) == (200, True)
    assert app.asked == ["/"]


def test_nobody_is_waited_for_without_end_where_nothing_is_configured() -> None:
    app = Noting()
    del app.state
    with serve(app) as url, connected(url) as wire:
        wire.sendall(posted(BODY))
        assert wire.answer()[0] == 200


@pytest.mark.parametrize("path", ["/v1/context", "/v1/scan"])
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_body_that_finds_no_room_is_told_so_however_it_comes(path: str, pieces: int) -> None:
    with serving(bodies=3_000) as one, one.connected() as holding, one.connected() as late:
        holding.sendall(head(path="/v1/scan", length=2_999) + b" " * 2_990)
        wait_until(lambda: one.traffic.bodies.held == 2_990)
        whole = head(path=path, length=len(BODY)) + BODY
        middle = len(whole) - 10 if pieces == 2 else len(whole)
        late.sendall(whole[:middle])
        if pieces == 2:
            late.sendall(whole[middle:])
        status, headers, body = late.answer()
        assert (status, headers["retry-after"]) == (503, "1")
        assert "STRATA_MAX_BODIES_BYTES" in json.loads(body)["detail"]
        assert one.sheds == ["bodies"]
