"""A service in processes of its own, looked at from outside: its log, its health, and what it takes."""

from __future__ import annotations

import http.client
import os
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
STRATA = (sys.executable, "-m", "tests.soak.jumping")
ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")
MEBIBYTE = 1024**2
STORE_LOST = b"session_store_lost"
LOOK_SECONDS = 0.1
SAMPLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Of a process: MiB that are its own and its part of what is shared, open files, threads, and its children."""

    at: float
    memory: float
    files: int
    threads: int
    children: int
    zombies: int


class Service:
    """``strata serve`` with settings, by the clock in a file; ``log`` is all that it wrote to standard error.

    ``lost_store``: when it told that it could not reach its store.
    """

    def __init__(self, clock: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self.log = bytearray()
        self.lost_store: list[float] = []
        self.process = subprocess.Popen(
            [*STRATA, str(clock), "serve", "--port", "0", *arguments],
            env={**environment, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stderr is not None
        self.port = self._announced(self.process.stderr)
        self._reading = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self._reading.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _announced(self, told: IO[bytes]) -> int:
        for line in told:
            self.log += line
            if found := ADDRESS.search(line):
                return int(found[1])
        raise AssertionError(f"it ended with {self.process.wait()}: {self.log.decode()}")

    def _read(self, told: IO[bytes]) -> None:
        while data := told.read(65_536):
            self.log += data
            if STORE_LOST in data:
                self.lost_store.append(time.monotonic())

    def workers(self) -> list[int]:
        """Oldest first."""
        return sorted(children_of(self.process.pid), key=started)

    def end(self, seconds: float) -> int | None:
        """The exit code after SIGTERM; None: it did not end in time, and was killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return None
        finally:
            self._reading.join(5)


def children_of(parent: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{parent}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found


def state_of(process: int) -> list[str]:
    """From the state on; nothing for a process that is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def started(process: int) -> int:
    state = state_of(process)
    return int(state[19]) if state else 0


def sample(process: int) -> Sample | None:
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
        memory = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024
        files = len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208 - a path object for each would be much
        threads = len(os.listdir(f"/proc/{process}/task"))  # noqa: PTH208
    except (OSError, StopIteration):
        return None
    children = children_of(process)
    zombies = sum(1 for child in children if state_of(child)[:1] == ["Z"])
    return Sample(time.monotonic(), memory, files, threads, len(children), zombies)


class Watch:
    """Looks at health on a connection of its own each time, and takes samples, until it is stopped."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.samples: dict[int, list[Sample]] = {}
        self.worst_gap = 0.0
        self.worst_gap_at = 0.0
        self.failed: list[str] = []
        self._green = time.monotonic()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._watch_health), threading.Thread(target=self._watch_processes)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _watch_health(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            answer = asked(self.service.address, "/healthz")
            now = time.monotonic()
            if now - self._green > self.worst_gap:
                self.worst_gap, self.worst_gap_at = now - self._green, now
            if answer == "200":
                self._green = now
            else:
                self.failed.append(answer)

    def _watch_processes(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            for worker in self.service.workers():
                if found := sample(worker):
                    self.samples.setdefault(worker, []).append(found)

    def all(self) -> list[Sample]:
        return [one for samples in self.samples.values() for one in samples]

    def oldest(self) -> list[Sample]:
        """Of the worker that lived longest."""
        return max(self.samples.values(), key=len, default=[])


@dataclass(frozen=True, slots=True)
class Plateau:
    """Medians of memory in MiB in the third and the last quarter of the time in which nobody took it away."""

    third: float
    last: float
    most: float = field(default=1.10)
    beside: float = field(default=8.0)

    @property
    def holds(self) -> bool:
        return self.last <= self.third * self.most + self.beside


def plateau(samples: list[Sample], started_at: float, ended_at: float) -> Plateau | None:
    """None: it did not live through both quarters."""
    quarter = (ended_at - started_at) / 4
    third = [one.memory for one in samples if started_at + 2 * quarter <= one.at < started_at + 3 * quarter]
    last = [one.memory for one in samples if started_at + 3 * quarter <= one.at <= ended_at]
    return Plateau(statistics.median(third), statistics.median(last)) if third and last else None


def asked(address: str, path: str, seconds: float = 5.0) -> str:
    """The status of an answer on a connection of its own, or what kept it from coming."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=seconds)
    try:
        connection.request("GET", path)
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()
