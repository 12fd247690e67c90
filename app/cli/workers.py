"""Several processes that serve on one socket: started, replaced when one is lost, and ended together."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

import typer

from app import callers
from app.building import keys_file_of
from app.cli.crew import Crew
from app.cli.lines import speech, tell_of_end
from app.cli.working import NOT_SERVING, SIGNALS, work
from app.settings import Settings
from app.workspaces.git_folder import sweep

START = "fork" if sys.platform == "linux" else "spawn"
"""Forked workers share the memory of what was imported. Elsewhere a fork is not safe, or there is none."""

LOOK_SECONDS = 0.1
KEYS_LOOK_SECONDS = callers.LOOK_SECONDS / 4
"""So that whatever a worker takes over of the file of keys was seen here before."""

KILLED_AFTER_SECONDS = 5
"""Behind the time that a worker has for what is under way."""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two attempts to replace a worker, when the one before did not come to serve."""

BURYING_SECONDS = 1.0
"""Between two attempts to keep the figures of workers that have ended."""


class WorkerFailedError(RuntimeError):
    """The first worker ended before it served. What it said of it stands on standard error."""


@dataclass(slots=True)
class Worker:
    name: str
    process: BaseProcess
    ready: Connection
    serves: bool = False
    leaves: bool = False


class Workers:
    """The first starts alone, so that what keeps them all from starting is told once.

    SIGTERM and SIGINT end them once their answers are sent, a second SIGINT at once; SIGHUP puts a new one in the place
    of each, one after another. Who comes while the file of keys cannot be read has the keys that were read last.

    Raises CannotStartError where it cannot be read at first.
    """

    def __init__(self, settings: Settings, listening: socket.socket, start: str = START) -> None:
        self._settings = settings
        self._listening = listening
        self._processes = multiprocessing.get_context(start)
        self._keys = keys_file_of(settings)
        self._keys_not_before = 0.0
        self._crew = Crew.begin()
        self._names = count()
        self._unburied: list[str] = []
        self._bury_after = 0.0
        self._said = speech()
        self._workers: list[Worker] = []
        self._outdated: list[Worker] = []
        self._renews = False
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
                if self._crew is not None:
                    self._crew.end()
        tell_of_end(self._said)
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
            sweep(lost.process.pid or 0)
            if not lost.leaves:
                told = f"strata: worker {lost.process.pid} {_how_it_ended(lost)}: another one starts"
                self._said.say("warning", "worker_lost", told, {"worker": lost.process.pid})
        self._bury()
        self._look_at_keys()
        if self._renews:
            self._renews, self._outdated = False, list(self._workers)
            told = "strata: each worker is replaced by a new one, one after another"
            self._said.say("info", "renewing", told, {"workers": len(self._outdated)})
        if self._outdated and self._are_all_serving():
            self._let_go(self._outdated.pop())

    def _bury(self) -> None:
        """Keeps the figures of those who have ended; a disk that is full may be free again later."""
        if self._crew is None or not self._unburied or time.monotonic() < self._bury_after:
            return
        self._bury_after = time.monotonic() + BURYING_SECONDS
        with suppress(OSError):
            while self._unburied:
                self._crew.bury(self._unburied[0])
                del self._unburied[0]

    def _look_at_keys(self) -> None:
        """Their change, and what is wrong with them, is told by those who serve."""
        if self._keys is not None and time.monotonic() >= self._keys_not_before:
            self._keys_not_before = time.monotonic() + KEYS_LOOK_SECONDS
            self._keys.look()

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
        name = str(next(self._names))
        kept = None if self._keys is None else self._keys.keys
        arguments = (self._settings, kept, self._listening, tells, self._crew, name)
        process = self._processes.Process(target=work, args=arguments, daemon=True)  # type: ignore[attr-defined]
        with _no_signals():
            process.start()
            self._workers.append(Worker(name, process, ready))
        tells.close()

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
            self._unburied.append(worker.name)
            worker.ready.close()
        return lost

    def _end(self) -> None:
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + self._settings.drain_seconds + KILLED_AFTER_SECONDS
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
            self._renews = True
            return
        self._forced = self._ending and number == signal.SIGINT
        self._ending = True


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
