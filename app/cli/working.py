"""One of several processes that serve: its whole life, and what it leaves of its figures for the others."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import socket
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from types import FrameType

import typer
from fastapi import FastAPI
from prometheus_client.metrics_core import Metric

from app.building import CannotStartError
from app.cli.crew import Crew
from app.cli.lines import Faults, record_everything
from app.cli.server import Server
from app.figures import complete
from app.keys_file import Key
from app.log import standard_error_log
from app.main import create_app
from app.metrics import Metrics
from app.settings import Settings

NOT_SERVING = 1
"""The exit code of what could not start to serve."""

SIGNALS = frozenset({"SIGINT", "SIGTERM", "SIGHUP"})
LEAVING_SECONDS = 1.0
"""How often a worker leaves its figures for the others."""


class Figures:
    """What a worker leaves of its figures for the others, and tells of theirs. ``crew`` None: there is no disk."""

    def __init__(self, metrics: Metrics, crew: Crew | None, name: str) -> None:
        self._metrics, self._crew, self._name = metrics, crew, name
        self._lock = threading.Lock()
        self._turns = self._left = 0
        metrics.share(self.all)

    async def all(self) -> Iterable[Metric]:
        """Those of all workers; only its own, and that this is so, where the disk cannot be used."""
        turn, own = self._own()
        try:
            return await asyncio.to_thread(self._merged, turn, own)
        except OSError:
            return (*own, complete(whole=False))

    async def leave(self) -> None:
        """A disk that cannot be written to is told of in the figures themselves."""
        with suppress(OSError):
            await asyncio.to_thread(self._leave, *self._own())

    async def keep_leaving(self) -> None:
        while True:
            await self.leave()
            await asyncio.sleep(LEAVING_SECONDS)

    def end(self) -> None:
        """Ends the crew: from now on nothing is left, or its folder would be made again."""
        with self._lock:
            crew, self._crew = self._crew, None
        if crew is not None:
            crew.end()

    def _own(self) -> tuple[int, tuple[Metric, ...]]:
        self._turns += 1
        return self._turns, tuple(self._metrics.families())

    def _merged(self, turn: int, own: tuple[Metric, ...]) -> tuple[Metric, ...]:
        crew = self._leave(turn, own)
        return (*own, complete(whole=False)) if crew is None else (*crew.all(), complete(whole=True))

    def _leave(self, turn: int, own: tuple[Metric, ...]) -> Crew | None:
        """Later figures are not written over by earlier ones."""
        with self._lock:
            if self._crew is not None and turn > self._left:
                self._crew.leave(self._name, own)
                self._left = turn
        return self._crew


class WorkingServer(Server):
    """Leaves an interrupt at the terminal, which all processes get, to the one that started it."""

    def __init__(self, app: FastAPI, drain_seconds: float, ready: Connection, figures: Figures) -> None:
        super().__init__(app, drain_seconds)
        self._ready = ready
        self._figures = figures
        self._leaving: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._leaving = asyncio.create_task(self._figures.keep_leaving())
            self._ready.send_bytes(b"serves")
            self._ready.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets=sockets)
        if self._leaving is not None:
            self._leaving.cancel()
            await self._figures.leave()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)


def work(
    settings: Settings,
    kept: tuple[Key, ...] | None,
    listening: socket.socket,
    ready: Connection,
    crew: Crew | None,
    name: str,
) -> None:
    """A worker's whole life. ``kept`` is as for `create_app`; ``name`` is its own among all that the service had."""
    _take_signals()
    log = standard_error_log(settings.log_level)
    with Faults(log, NOT_SERVING):
        try:
            app = create_app(settings, kept)
        except CannotStartError as error:
            typer.echo(f"strata: {error}", err=True)
            sys.exit(NOT_SERVING)
        figures = Figures(app.state.metrics, crew, name)
        server = WorkingServer(app, settings.drain_seconds, ready, figures)
        record_everything(log)
        threading.Thread(target=_end_with_the_parent, args=(server, figures), daemon=True).start()
        server.run(sockets=[listening])


def _end_with_the_parent(server: Server, figures: Figures) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        server.should_exit = True
        figures.end()


def _take_signals() -> None:
    """As they are by default, except that those for the one who started this worker do nothing."""
    for name in SIGNALS & signal.Signals.__members__.keys():
        signal.signal(signal.Signals[name], signal.SIG_DFL if name == "SIGTERM" else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
