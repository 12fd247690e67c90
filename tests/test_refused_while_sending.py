"""Callers who are refused while they still send: they can read why, and do not send for ever."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import NoReturn

import pytest

from app.main import create_app
from app.settings import Settings
from tests.listening import wait_until
from tests.serving import serve
from tests.wires import Wire, connected, head

LARGE = 24 * 1024 * 1024
"""More than the system keeps between both ends of a connection."""

LIMITS = {
    "too large, by its length": ({"max_body_bytes": 1000}, {}, 413),
    "too large, as it turns out": ({"max_body_bytes": 1000}, {"transfer_encoding": "chunked"}, 413),
    "no room": ({"max_bodies_bytes": 100_000}, {}, 503),
    "another host": ({}, {"host": "evil.example"}, 421),
}


def sent(size: int, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (size, b" " * size) if chunked else b" " * size


def send_for_ever(wire: Wire) -> NoReturn:
    while True:
        wire.sendall(b" " * 65_536)


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize("limit", LIMITS)
def test_who_sends_all_before_reading_can_read_why_it_was_refused(limit: str, connection: str) -> None:
    settings, headers, status = LIMITS[limit]
    chunked = "transfer_encoding" in headers
    app = create_app(Settings(roots=(), **settings))
    with serve(app) as address, connected(address) as wire:
        wire.sendall(head(length=None if chunked else LARGE, connection=connection, **headers))
        wire.sendall(sent(LARGE, chunked=chunked))
        assert wire.answer()[0] == status


def test_a_client_that_closes_after_each_request_has_the_problem() -> None:
    with serve(create_app(Settings(roots=(), max_body_bytes=1000))) as address:
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{address}/v1/context", b" " * LARGE, headers)  # noqa: S310 - our own
        with pytest.raises(urllib.error.HTTPError) as told:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    with told.value as problem:
        assert problem.code == 413


def test_who_goes_on_sending_is_not_listened_to_for_ever() -> None:
    app = create_app(Settings(roots=(), max_body_bytes=1000))
    with serve(app) as address, connected(address) as wire:
        wire.sendall(head(length=10**12, connection="close"))
        assert wire.answer()[0] == 413
        assert wire.rest() == b""
        with pytest.raises(ConnectionError):
            send_for_ever(wire)
        wait_until(lambda: app.state.traffic.connections == 0)
