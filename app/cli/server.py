"""One process that serves: the application as uvicorn runs it, which knows early that it is to end."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from fastapi import FastAPI

from app.cli.protocol import WarmProtocol

DRAIN_SECONDS = 10
"""How long answers that are under way may take when the server is to end."""


class Server(uvicorn.Server):
    """Sets ``app.state.stopping`` before it waits for answers: those without an end of their own end then."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(_configuration(app))
        self._stopping: asyncio.Event = app.state.stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets=sockets)


def _configuration(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=WarmProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        ws="none",
    )
