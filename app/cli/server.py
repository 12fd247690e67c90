"""One process that serves: the application as uvicorn runs it, which knows early that it is to end."""

from __future__ import annotations

import asyncio
import socket
import sys
from math import ceil

import uvicorn
from fastapi import FastAPI

from app.cli.protocol import WarmProtocol
from app.traffic import Patience, Traffic

if sys.platform != "win32":
    import resource

SWITCH_SECONDS = 0.001
"""How long a thread computes before another one has its turn: the event loop waits for as many as compute."""

GIVING_BACK_SECONDS = 2
"""How long what is cut then may take to give back what it holds."""

FILES_BESIDE = 1024
"""Open files that a process may need beside its connections."""


class Server(uvicorn.Server):
    """Sets ``app.state.stopping`` before it waits for answers: those without an end of their own end then.

    What is under way for longer than ``drain_seconds`` after that is cut.
    """

    def __init__(self, app: FastAPI, drain_seconds: float = 10) -> None:
        super().__init__(_configuration(app, ceil(drain_seconds) + GIVING_BACK_SECONDS))
        self._drain_seconds = drain_seconds
        traffic: Traffic | None = getattr(app.state, "traffic", None)
        make_room_for(2 * (traffic.patience if traffic else Patience()).max_connections + FILES_BESIDE)
        self._stopping: asyncio.Event = app.state.stopping

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        super().run(sockets=sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        cutting = asyncio.get_running_loop().call_later(self._drain_seconds, self._cut)
        try:
            await super().shutdown(sockets=sockets)
        finally:
            cutting.cancel()

    def _cut(self) -> None:
        tasks = self.server_state.tasks
        for task in tasks:
            task.cancel()
        settling = asyncio.create_task(_settled())
        settling.add_done_callback(tasks.discard)
        tasks.add(settling)


async def _settled() -> None:
    """Returns once all has ended that was cut, and that this has cut in turn: a session may be given back by it."""
    while cut := [task for task in asyncio.all_tasks() if task.cancelling()]:
        await asyncio.wait(cut)


def _configuration(app: FastAPI, seconds: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=WarmProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=seconds,
        ws="none",
    )


def make_room_for(files: int) -> None:
    """Lets this process have so many files open, or as many as it is allowed to."""
    if sys.platform != "win32":
        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = files if most == resource.RLIM_INFINITY else min(files, most)
        if now != resource.RLIM_INFINITY and now < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
