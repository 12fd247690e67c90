"""A real server on a free loopback port, in a thread of the test process so that coverage sees it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from app.cli.protocol import WarmProtocol


class NotServingError(RuntimeError):
    """The server ended before it took its first connection."""


class Announced(uvicorn.Server):
    """A server that says when it takes connections, and when it never will."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.settled = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.settled.set()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets=sockets)
        finally:
            self.settled.set()


@contextmanager
def serve(app: Any, buffer: int | None = None, **options: Any) -> Iterator[str]:
    """Serve an ASGI app; yields its base URL, without a slash at the end. ``options`` are uvicorn's.

    About ``buffer`` bytes of what is sent wait for a reader in the kernel; None: as many as it likes.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if buffer is not None:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        port = listening.getsockname()[1]
        server = Announced(uvicorn.Config(app, http=WarmProtocol, log_config=None, ws="none", lifespan="on", **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        server.settled.wait()
        if not server.started:
            raise NotServingError("the application did not start; its own error is above")
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()
