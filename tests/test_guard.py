from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from starlette.types import Message, Receive, Scope, Send

from app.callers import ANYONE
from app.errors import TooManyAtOnce
from app.guard import Guard
from app.main import create_app
from app.settings import Settings
from tests.admitting import admission
from tests.asking import inline, refused
from tests.serving import serve


@contextmanager
def guarded(**settings: Any) -> Iterator[httpx.Client]:
    with (
        serve(create_app(Settings(roots=(), **settings))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def open_service() -> Iterator[httpx.Client]:
    with guarded(allowed_hosts=("Strata.example",)) as client:
        yield client


@pytest.fixture(scope="module")
def locked() -> Iterator[httpx.Client]:
    with guarded(api_keys=("first", "zweitér")) as client:
        yield client


async def takes_everything(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def called_from(client: tuple[str, int] | None, *, keys: tuple[str, ...] = (), **scope: Any) -> list[Message]:
    """What the guard sends to a caller at that address: only a scope can have another one than loopback."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(takes_everything, admission(keys=keys), len)
    plain = {"type": "http", "method": "GET", "path": "/v1/models", "client": client}
    plain |= {"headers": [(b"host", b"localhost")]}
    asyncio.run(guard({**plain, **scope}, receive, send))
    return sent


# Hosts


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8787", "LOCALHOST", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80"]
)
def test_loopback_names_are_answered(host: str, open_service: httpx.Client) -> None:
    assert open_service.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["strata.example", "STRATA.EXAMPLE:443"])
def test_a_host_that_was_allowed_is_answered(host: str, open_service: httpx.Client) -> None:
    assert open_service.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8787",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example#localhost",
        "user@localhost",
        "[::1].evil.example",
        "[fe80::1]",
        "192.168.0.7",
        "",
    ],
)
def test_a_name_that_was_bound_to_this_machine_by_a_stranger_is_refused(host: str, open_service: httpx.Client) -> None:
    problem = refused(open_service.get("/v1/models", headers={"host": host}), 421, "host-refused")
    assert "STRATA_ALLOWED_HOSTS" in problem["detail"]


def test_the_host_counts_also_with_a_key(locked: httpx.Client) -> None:
    answer = locked.get("/v1/models", headers={"host": "evil.example", "x-api-key": "first"})
    refused(answer, 421, "host-refused")


# Callers


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
def test_a_caller_on_this_machine_needs_no_key(address: str) -> None:
    assert called_from((address, 5000))[0]["status"] == 204


def test_a_caller_without_an_address_is_on_this_machine() -> None:
    assert called_from(None)[0]["status"] == 204


@pytest.mark.parametrize("address", ["192.168.0.7", "::ffff:10.0.0.1", "2001:db8::1", "0.0.0.0", "testclient", ""])
def test_a_caller_from_elsewhere_is_refused_while_there_are_no_keys(address: str) -> None:
    start, body = called_from((address, 5000))
    assert start["status"] == 403
    assert dict(start["headers"])[b"content-type"] == b"application/problem+json"
    problem = json.loads(body["body"])
    assert problem["type"] == "urn:strata:problem:caller-refused"
    assert "STRATA_API_KEYS" in problem["detail"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_from_elsewhere_is_refused_too_while_there_are_no_keys(path: str) -> None:
    assert called_from(("192.168.0.7", 5000), path=path)[0]["status"] == 403


def test_a_caller_from_elsewhere_with_a_key_is_answered() -> None:
    headers = [(b"host", b"localhost"), (b"x-api-key", b"k")]
    assert called_from(("192.168.0.7", 5000), keys=("k",), headers=headers)[0]["status"] == 204


def test_what_is_no_request_passes() -> None:
    assert called_from(None, type="lifespan")[0]["status"] == 204


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "strata.example", ""])
def test_it_does_not_start_for_other_machines_without_keys(host: str) -> None:
    with pytest.raises(ValidationError, match="reachable from other machines: set STRATA_API_KEYS"):
        Settings(host=host)


def test_it_starts_for_other_machines_with_keys() -> None:
    assert Settings(host="0.0.0.0", api_keys=("k",)).roots == ()


# Keys


GOOD = [
    {"x-api-key": "first"},
    {"authorization": "Bearer first"},
    {"authorization": "bearer  first"},
    {"x-api-key": "zweitér".encode()},
    {"x-api-key": "first", "authorization": "Bearer wrong"},
]
BAD: list[dict[str, str]] = [
    {},
    {"x-api-key": ""},
    {"x-api-key": "wrong"},
    {"x-api-key": "First"},
    {"x-api-key": "first,zweitér"},
    {"authorization": "first"},
    {"authorization": "Basic first"},
    {"authorization": "Bearer"},
    {"authorization": "Bearer firs"},
    {"x-api-key": "wrong", "authorization": "Bearer first"},
]


@pytest.mark.parametrize("headers", GOOD)
def test_a_key_opens(headers: Any, locked: httpx.Client) -> None:
    assert locked.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", BAD)
def test_anything_else_does_not(headers: dict[str, str], locked: httpx.Client) -> None:
    raw = [(name, value.encode()) for name, value in headers.items()]
    problem = refused(locked.get("/v1/models", headers=raw), 401, "key-missing")
    assert problem["detail"] == "Send a key of this service as x-api-key or as Authorization: Bearer."


def test_a_body_is_not_read_before_the_key(locked: httpx.Client) -> None:
    refused(locked.post("/v1/context", content=b"{"), 401, "key-missing")


def test_every_other_path_needs_a_key(locked: httpx.Client) -> None:
    for path in ("/docs", "/openapi.json", "/nothing", "/healthz/x", "/HEALTHZ"):
        refused(locked.get(path), 401, "key-missing")
    refused(locked.post("/v1/context", json=inline()), 401, "key-missing")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("host", ["localhost", "10.1.2.3:8787"])
def test_a_probe_needs_neither_key_nor_name(path: str, host: str, locked: httpx.Client) -> None:
    answer = locked.get(path, headers={"host": host})
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


# Sizes: tests/test_api.py sends bodies; here is what only a raw scope can hold


def test_a_length_that_is_no_number_counts_as_none() -> None:
    headers = [(b"host", b"localhost"), (b"content-length", b"many")]
    assert called_from(None, headers=headers)[0]["status"] == 204


def test_a_length_over_the_limit_is_refused_before_the_body_comes() -> None:
    headers = [(b"host", b"localhost"), (b"content-length", b"101")]
    assert called_from(None, headers=headers)[0]["status"] == 413


def test_a_refusal_comes_too_late_once_an_answer_has_begun() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 101, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def answers_first(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await receive()

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")], "client": None}
    asyncio.run(Guard(answers_first, admission(), len)(scope, receive, send))
    assert [message["status"] for message in sent] == [200]


def test_of_several_hosts_none_may_be_another() -> None:
    hosts = [(b"host", b"evil.example"), (b"host", b"localhost")]
    assert called_from(("127.0.0.1", 5), headers=hosts)[0]["status"] == 421
    assert called_from(("127.0.0.1", 5), headers=[(b"host", b"localhost")] * 2)[0]["status"] == 204


def test_a_host_must_be_named() -> None:
    assert called_from(("127.0.0.1", 5), headers=[])[0]["status"] == 421


def test_a_host_longer_than_any_name_is_refused() -> None:
    headers = [(b"host", b"localhost:" + b"0" * 400)]
    assert called_from(("127.0.0.1", 5), headers=headers)[0]["status"] == 421


def test_a_verdict_does_not_change_when_it_is_asked_for_again() -> None:
    guard = Guard(takes_everything, admission(hosts=("a.example",)), len)
    callers = [("127.0.0.1", b"a.example"), ("10.0.0.1", b"a.example"), ("127.0.0.1", b"b.example")]

    async def statuses() -> list[int]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        for client, host in callers * 2:
            scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host)], "client": (client, 1)}
            await guard(scope, takes_everything, send)
        return [message["status"] for message in sent if message["type"] == "http.response.start"]

    assert asyncio.run(statuses()) == [204, 403, 421] * 2


# Values


@pytest.mark.parametrize("most", [100, 1000])
@pytest.mark.parametrize(
    "path",
    [
        "/v1/context",
        "/v1/attachments",
        "/v1/scan",
        "/v1/tokens",
        "/v1/cache/lint",
        "/v1/compactions",
        "/v1/sessions/s/compactions",
        "/v1/sessions/s/clear",
    ],
)
def test_a_body_holds_as_many_values_as_is_set_wherever_it_is_sent(path: str, most: int) -> None:
    with guarded(max_values=most) as client:
        assert client.post(path, json=[0] * (most - 10)).status_code == 422
        bodies: list[list[Any]] = [[0] * (most + 10), [{}] * most]
        for body in bodies:
            problem = refused(client.post(path, json=body), 413, "too-large")
            assert f"{most:,} JSON values (STRATA_MAX_VALUES)" in problem["detail"]
        assert client.post(path, content=b"0," * most).status_code == 415
        assert client.post("/v1/context", json=inline({})).status_code == 200


# What a key may


@pytest.mark.parametrize(("streams", "name"), [(False, "requests_at_once"), (True, "event_streams")])
def test_how_much_a_key_may_at_once_is_told_by_its_name_in_the_file(streams: bool, name: str) -> None:
    one, caller = admission(), replace(ANYONE, at_once=1, streams=1)
    with (
        one.under_way(caller, streams=streams),
        pytest.raises(TooManyAtOnce, match=rf"\({name}\)"),
        one.under_way(caller, streams=streams),
    ):
        raise AssertionError


def test_how_often_a_key_may_ask_is_told_by_its_name_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    digest = hashlib.sha256(b"k").hexdigest()
    file.write_text(f'[[keys]]\nname = "a"\nsha256 = "{digest}"\nrequests_per_minute = 1\n')
    with guarded(keys_file=file) as client:
        answers = [client.get("/v1/models", headers={"x-api-key": "k"}) for _ in range(2)]
    assert answers[0].status_code == 200
    assert "(requests_per_minute)" in refused(answers[1], 429, "rate-limited")["detail"]
