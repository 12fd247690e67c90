"""A server that is to end."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator

import httpx
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from app.cli.server import Server


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
