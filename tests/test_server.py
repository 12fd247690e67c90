"""A server that is to end."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from app.cli.server import Server, make_room_for
from app.main import create_app
from app.settings import Settings
from tests.asking import inline
from tests.listening import wait_until
from tests.wires import connected, posted

if sys.platform != "win32":
    import resource


def test_an_answer_without_an_end_learns_that_the_server_is_to_end() -> None:
    app = FastAPI()
    app.state.stopping = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"begun"
        await app.state.stopping.wait()
        yield b"over"

    @app.get("/endless")
    async def answer_endlessly() -> StreamingResponse:
        return StreamingResponse(endless())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = Server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        with httpx.stream("GET", f"{address}/endless", timeout=60, trust_env=False) as answer:
            parts = answer.iter_raw()
            assert next(parts) == b"begun"
            server.should_exit = True
            assert b"".join(parts) == b"over"
        thread.join(timeout=60)
    assert not thread.is_alive()


def test_a_request_that_has_half_come_is_answered_before_the_end() -> None:
    app = create_app(Settings(roots=()))
    body = json.dumps(inline({})).encode()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        with connected(f"http://127.0.0.1:{listening.getsockname()[1]}") as wire:
            wire.sendall(posted(body)[:-5])
            wait_until(lambda: app.state.traffic.bodies.held == len(body) - 5)
            server.should_exit = True
            wait_until(app.state.stopping.is_set)
            wire.sendall(body[-5:])
            status, headers, _ = wire.answer()
            assert (status, headers["connection"]) == (200, "close")
            assert wire.is_closed()
        thread.join(timeout=60)
    assert not thread.is_alive()


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such limit")
def test_whoever_has_a_place_has_a_thread() -> None:
    app = create_app(Settings(roots=(), max_requests=40))
    all_are_there = threading.Barrier(40)

    async def run() -> None:
        async with app.router.lifespan_context(app):
            await asyncio.gather(*(asyncio.to_thread(all_are_there.wait, 60) for _ in range(40)))

    asyncio.run(run())


def test_a_server_may_open_as_many_files_as_it_may_have_connections() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < 1000 and before[1] != resource.RLIM_INFINITY:
        pytest.skip("this process may not open so many")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (900, before[1]))
        make_room_for(1000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1000
        make_room_for(950)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1000
        make_room_for(2**62)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) in {(before[1], before[1]), (2**62, before[1])}
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
