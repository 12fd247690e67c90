"""HTTP on the wire, of a service that answers what was asked before without a task of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.cli.protocol import LONGEST_BODY, LONGEST_REMEMBERED
from app.main import create_app
from app.settings import Settings
from tests.asking import CWD, inline
from tests.serving import serve
from tests.wires import connected, head, posted

FILES = {f"{CWD}/CLAUDE.md": "Use tabs. " * 300}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve(create_app(Settings(roots=()))) as url:
        yield url


def given_again(address: str) -> int:
    lines = httpx.get(f"{address}/metrics", trust_env=False).text.splitlines()
    return int(float(next(line.split()[-1] for line in lines if line.startswith('strata_answers_total{origin="rep'))))


def request(**more: Any) -> bytes:
    return json.dumps(inline(FILES, **more)).encode()


def test_an_answer_that_is_given_again_is_the_same_but_for_its_name_and_date(address: str) -> None:
    body = request(session_id=uuid4().hex)
    with connected(address) as wire:
        found = []
        for _ in range(5):
            wire.sendall(posted(body))
            found.append(wire.answer())
    assert given_again(address) >= 2
    third, last = found[2], found[4]
    assert (third[0], third[2]) == (last[0], last[2]) == (200, last[2])
    assert third[1]["x-request-id"] != last[1]["x-request-id"]
    assert set(third[1]) == set(last[1])
    for own in ("x-request-id", "date"):
        third[1].pop(own)
        last[1].pop(own)
    assert third[1] == last[1]


def test_the_callers_name_for_a_request_is_kept(address: str) -> None:
    body = request()
    with connected(address) as wire:
        for name in ("one", "two", "not plain!"):
            wire.sendall(posted(body, x_request_id=name))
            told = wire.answer()[1]["x-request-id"]
            assert (told == name) == (" " not in name)


def test_requests_that_come_at_once_are_answered_in_their_order(address: str) -> None:
    warm, sessions = request(), [request(session_id=uuid4().hex) for _ in range(2)]
    with connected(address) as wire:
        wire.sendall(
            posted(warm) + posted(sessions[0]) + posted(warm) + posted(warm) + posted(sessions[1]) + posted(warm)
        )
        found = [json.loads(wire.answer()[2])["session"]["id"] for _ in range(6)]
    ids = [json.loads(one)["session_id"] for one in sessions]
    assert found == [None, ids[0], None, None, ids[1], None]


@pytest.mark.parametrize("cuts", [1, 7, 100])
def test_a_body_may_come_in_pieces(address: str, cuts: int) -> None:
    sent = posted(request())
    with connected(address) as wire:
        for _ in range(3):
            for at in range(0, len(sent), len(sent) // cuts + 1):
                wire.sendall(sent[at : at + len(sent) // cuts + 1])
            assert wire.answer()[0] == 200


def test_a_chunked_body_is_the_same_body(address: str) -> None:
    body = request()
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:10], body[10:])) + b"0\r\n\r\n"
    with connected(address) as wire:
        wire.sendall(posted(body))
        wanted = wire.answer()
        before = given_again(address)
        wire.sendall(head(length=None, transfer_encoding="chunked") + chunked)
        assert wire.answer()[2] == wanted[2]
    assert given_again(address) == before + 1


@pytest.mark.parametrize("length", [LONGEST_REMEMBERED, LONGEST_BODY - 1, LONGEST_BODY, LONGEST_BODY + 1, 3_000_000])
def test_a_large_body_is_answered_too(address: str, length: int) -> None:
    body = request()
    body += b" " * (length - len(body))
    with connected(address) as wire:
        for _ in range(3):
            wire.sendall(posted(body))
            assert wire.answer()[0] == 200


def test_who_asks_to_close_is_answered_and_closed(address: str) -> None:
    body = request()
    with connected(address) as wire:
        wire.sendall(posted(body) + posted(body, connection="close"))
        assert wire.answer()[0] == wire.answer()[0] == 200
        assert wire.is_closed()


def test_who_waits_to_be_told_to_go_on_is_told(address: str) -> None:
    body = request()
    with connected(address) as wire:
        wire.sendall(head(length=len(body), expect="100-continue"))
        assert wire.received().startswith(b"HTTP/1.1 100")
        wire.sendall(body)
        assert wire.answer()[0] == 200


def test_who_goes_away_in_the_middle_of_a_body_harms_nobody(address: str) -> None:
    body = request()
    for _ in range(3):
        with connected(address) as wire:
            wire.sendall(posted(body)[:-5])
    with connected(address) as wire:
        wire.sendall(posted(body))
        assert wire.answer()[0] == 200


def test_what_is_refused_on_a_connection_is_refused_after_an_answer_too(address: str) -> None:
    body = request()
    with connected(address) as wire:
        for _ in range(2):
            wire.sendall(posted(body))
            assert wire.answer()[0] == 200
        wire.sendall(posted(body, host="evil.example"))
        assert wire.answer()[0] == 421
        wire.sendall(posted(body, content_type="text/plain"))
        assert wire.answer()[0] == 415
        wire.sendall(posted(body))
        assert wire.answer()[0] == 200


@pytest.mark.parametrize(("method", "path", "status"), [("HEAD", "/v1/context", 405), ("GET", "/v1/context", 405)])
def test_other_methods_are_the_applications(address: str, method: str, path: str, status: int) -> None:
    with connected(address) as wire:
        wire.sendall(head(method, path, None))
        data = wire.received()
    assert data.startswith(b"HTTP/1.1 %d" % status)


def test_a_reader_who_is_slow_has_all_of_it(address: str) -> None:
    body = json.dumps(inline({f"{CWD}/CLAUDE.md": "Use tabs. " * 20_000})).encode()
    with connected(address) as wire, connected(address, SO_RCVBUF=4096) as slow:
        wire.sendall(posted(body))
        wanted = wire.answer()[2]
        slow.sendall(posted(body) * 8)
        wire.sendall(posted(body))
        assert wire.answer()[2] == wanted
        assert [slow.answer()[2] == wanted for _ in range(8)] == [True] * 8


def test_a_poll_that_names_what_it_has_gets_no_body(address: str) -> None:
    session = uuid4().hex
    with connected(address) as wire:
        wire.sendall(posted(request(session_id=session)))
        tag = wire.answer()[1]["etag"]
        for _ in range(4):
            wire.sendall(head("GET", f"/v1/sessions/{session}/context", None, if_none_match=tag))
            status, headers, body = wire.answer()
            assert (status, body, headers["etag"]) == (304, b"", tag)
            assert "content-length" not in headers
            assert headers["x-request-id"]


def test_a_question_mark_is_no_part_of_a_name(address: str) -> None:
    name = f"a?{uuid4().hex}"
    with connected(address) as wire:
        wire.sendall(posted(request(session_id=name)))
        assert wire.answer()[0] == 200
        for _ in range(3):
            wire.sendall(head("GET", f"/v1/sessions/{name.replace('?', '%3F')}/context", None))
            assert wire.answer()[0] == 200
        for beyond in (name, name.replace("?", "#")):
            wire.sendall(head("GET", f"/v1/sessions/{beyond}/context", None))
            assert wire.answer()[0] == 404


@pytest.mark.parametrize(("more", "status"), [({"host": "evil.example"}, 421), ({"content_length": "999999999"}, 413)])
def test_who_is_refused_is_refused_before_the_body_is_there(address: str, more: dict[str, str], status: int) -> None:
    with connected(address) as wire:
        wire.sendall(head(length=100 if "host" in more else None, **more))
        assert wire.answer()[0] == status


def test_what_follows_a_known_answer_at_once_is_not_taken_for_idle() -> None:
    settings = Settings(roots=(), heartbeat_seconds=0.2)
    session = uuid4().hex
    with serve(create_app(settings), timeout_keep_alive=1) as url, connected(url) as wire:
        body = request(session_id=session)
        for _ in range(4):
            wire.sendall(posted(body))
            wire.answer()
        wire.sendall(posted(body) + head("GET", f"/v1/sessions/{session}/events", None))
        wire.answer()
        heard = wire.data
        while heard.count(b": ping") < 10 and heard.count(b":") < 60:
            heard += wire.received()
        assert b"event: watching" in heard
