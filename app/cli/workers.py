"""Several processes that serve on one socket: started, replaced when one is lost, and ended together."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

import typer
from fastapi import FastAPI

from app.cli.server import DRAIN_SECONDS, Server
from app.main import CannotStartError, create_app
from app.settings import Settings

START = "fork" if sys.platform == "linux" else "spawn"
"""Forked workers share the memory of what was imported. Elsewhere a fork is not safe, or there is none."""

NOT_SERVING = 1
"""The exit code of what could not start to serve."""

SIGNALS = frozenset({"SIGINT", "SIGTERM", "SIGHUP"})
LOOK_SECONDS = 0.1
KILLED_AFTER_SECONDS = DRAIN_SECONDS + 5
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two attempts to replace a worker, when the one before did not come to serve."""


class WorkerFailedError(RuntimeError):
    """The first worker ended before it served. What it said of it stands on standard error."""


@dataclass(slots=True)
class Worker:
    process: BaseProcess
    ready: Connection
    serves: bool = False
    leaves: bool = False


class Workers:
    """The first starts alone, so that what keeps them all from starting is told once.

    SIGTERM and SIGINT end them once their answers are sent, a second SIGINT at once; SIGHUP puts a new one in the place
    of each, one after another.
    """

    def __init__(self, settings: Settings, listening: socket.socket, start: str = START) -> None:
        self._settings = settings
        self._listening = listening
        self._processes = multiprocessing.get_context(start)
        self._workers: list[Worker] = []
        self._outdated: list[Worker] = []
        self._ending = False
        self._forced = False
        self._pause = 0.0
        self._not_before = 0.0

    def serve(self, announce: Callable[[], None]) -> int:
        """Until a signal ends it. Returns the exit code: 0, or 1 when the first worker could not start."""
        gc.freeze()  # a collection in a worker would write to the pages that all share
        with self._signals():
            try:
                self._start_the_first()
                if not self._ending:
                    announce()
                while not self._ending:
                    self._fill()
                    self._look()
            except WorkerFailedError as error:
                typer.echo(f"strata: {error}", err=True)
                return NOT_SERVING
            finally:
                self._end()
        return 0

    def _start_the_first(self) -> None:
        self._start()
        while not self._ending and not self._workers[0].serves:
            lost = self._news()
            if lost and not self._ending:
                raise WorkerFailedError(f"cannot start to serve: the first worker {_how_it_ended(lost[0])}")

    def _fill(self) -> None:
        missing = self._settings.workers - len(self._workers)
        if missing and time.monotonic() >= self._not_before:
            for _ in range(missing):
                self._start()

    def _look(self) -> None:
        for lost in self._news():
            self._wait_longer_after(lost)
            if not lost.leaves:
                typer.echo(f"strata: worker {lost.process.pid} {_how_it_ended(lost)}: another one starts", err=True)
        if self._outdated and self._are_all_serving():
            self._let_go(self._outdated.pop())

    def _are_all_serving(self) -> bool:
        return len(self._workers) == self._settings.workers and all(worker.serves for worker in self._workers)

    def _wait_longer_after(self, lost: Worker) -> None:
        served = lost.serves or lost.leaves
        self._pause = 0 if served else min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self._not_before = time.monotonic() + self._pause

    def _let_go(self, worker: Worker) -> None:
        if worker in self._workers:
            worker.leaves, worker.serves = True, False
            worker.process.terminate()

    def _start(self) -> None:
        ready, tells = self._processes.Pipe(duplex=False)
        arguments = (self._settings, self._listening, tells)
        process = self._processes.Process(target=work, args=arguments, daemon=True)  # type: ignore[attr-defined]
        with _no_signals():
            process.start()
        tells.close()
        self._workers.append(Worker(process, ready))

    def _news(self) -> list[Worker]:
        """Takes note of who serves now. Returns who has ended, and is no worker any more."""
        waiting = [worker.ready for worker in self._workers if not (worker.serves or worker.leaves)]
        told = wait([*waiting, *(worker.process.sentinel for worker in self._workers)], LOOK_SECONDS)
        for worker in self._workers:
            if worker.ready in told:
                worker.serves = _says_that_it_serves(worker.ready)
        lost = [worker for worker in self._workers if not worker.process.is_alive()]
        for worker in lost:
            self._workers.remove(worker)
            worker.ready.close()
        return lost

    def _end(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + KILLED_AFTER_SECONDS
        while self._workers:
            self._news()
            if self._forced or time.monotonic() > deadline:
                for worker in self._workers:
                    worker.process.kill()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        heard = [signal.Signals[name] for name in SIGNALS if name in signal.Signals.__members__]
        before = {each: signal.signal(each, self._hear) for each in heard}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _hear(self, number: int, _: FrameType | None) -> None:
        if signal.Signals(number).name == "SIGHUP":
            self._outdated = list(self._workers)
            return
        self._forced = self._ending and number == signal.SIGINT
        self._ending = True


class WorkingServer(Server):
    """Leaves an interrupt at the terminal, which all processes get, to the one that started it."""

    def __init__(self, app: FastAPI, ready: Connection) -> None:
        super().__init__(app)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._ready.send_bytes(b"serves")
            self._ready.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)


def work(settings: Settings, listening: socket.socket, ready: Connection) -> None:
    """A worker's whole life."""
    _take_signals()
    try:
        server = WorkingServer(create_app(settings), ready)
    except CannotStartError as error:
        typer.echo(f"strata: {error}", err=True)
        sys.exit(NOT_SERVING)
    threading.Thread(target=_end_with_the_parent, args=(server,), daemon=True).start()
    server.run(sockets=[listening])


def _end_with_the_parent(server: Server) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        server.should_exit = True


def _take_signals() -> None:
    """As they are by default, except that those for the one who started this worker do nothing."""
    for name in SIGNALS & signal.Signals.__members__.keys():
        signal.signal(signal.Signals[name], signal.SIG_DFL if name == "SIGTERM" else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


@contextmanager
def _no_signals() -> Iterator[None]:
    """None is heard until the block ends: a process that starts in it would take it for its parent."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.Signals[name] for name in SIGNALS])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _says_that_it_serves(ready: Connection) -> bool:
    try:
        return bool(ready.recv_bytes())
    except EOFError:
        return False


def _how_it_ended(worker: Worker) -> str:
    code = worker.process.exitcode or 0
    return f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
