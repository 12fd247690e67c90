"""Processes of a benchmark: started, pinned to a core, watched through ``/proc``, and ended. Linux only."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.load import Job, Load, written

ROOT = Path(__file__).parents[2]
SERVE = ("-c", "from app.cli import main; main()", "serve", "--port", "0")
TICK = 1 / os.sysconf("SC_CLK_TCK")
START_SECONDS = 60.0
SERVER_CORE, CLIENT_CORE = 0, 1
"""Places among the cores that this process may use."""


class NotStartedError(RuntimeError):
    """A process of the benchmark ended early or said nothing; its own words are in the message."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server on the loopback interface."""

    port: int
    pid: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one process, in MiB. ``own`` counts a page that n processes share as 1/n."""

    resident: float
    own: float


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


@contextmanager
def pinned(place: int | None) -> Iterator[None]:
    """What is started within runs on one core. None, or a machine with one core: anywhere."""
    before = os.sched_getaffinity(0)
    if place is not None and len(before) > 1:
        os.sched_setaffinity(0, {cores()[place % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def running(
    command: Sequence[str], folder: Path, *, place: int | None, environment: Mapping[str, str], stdin: bytes = b""
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process, and the file that it writes its words to. Ended at the end, with its children."""
    opened, words = tempfile.mkstemp(dir=folder, suffix=".log")
    with pinned(place):
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=opened, stderr=subprocess.STDOUT
        )
    os.close(opened)
    try:
        if process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        yield process, Path(words)
    finally:
        process.terminate()
        process.wait()


def environment_of(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Little of this process's environment: no settings, no keys, no other home."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(folder / "home"), **(more or {})}


@contextmanager
def strata(
    root: Path, *flags: str, settings: Mapping[str, str] | None = None, place: int | None = SERVER_CORE
) -> Iterator[Served]:
    """``strata serve`` over ``root``, logging as it does by default, into a file."""
    command = [sys.executable, *SERVE, "--root", str(root), *flags]
    with (
        tempfile.TemporaryDirectory() as folder,
        running(command, Path(folder), place=place, environment=environment_of(root, settings)) as (process, words),
    ):
        found = said(process, words, rb"http://127\.0\.0\.1:(\d+)")
        served = Served(int(found[1]), process.pid)
        answered(process, words, served.port)
        yield served


def said(process: subprocess.Popen[bytes], words: Path, pattern: bytes) -> re.Match[bytes]:
    """Waits until the process has written what fits ``pattern``."""
    until = time.monotonic() + START_SECONDS
    while (found := re.search(pattern, words.read_bytes())) is None:
        if process.poll() is not None or time.monotonic() > until:
            raise NotStartedError(words.read_text(errors="replace")[-2000:])
        time.sleep(0.005)
    return found


def answered(process: subprocess.Popen[bytes], words: Path, port: int) -> None:
    """Waits until something answers there."""
    until = time.monotonic() + START_SECONDS
    while not takes(port):
        if process.poll() is not None or time.monotonic() > until:
            raise NotStartedError(words.read_text(errors="replace")[-2000:])
        time.sleep(0.02)


def takes(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS) as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return one.recv(64).startswith(b"HTTP/1.1")
    except OSError:
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def redis(folder: Path) -> Iterator[str | None]:
    """The address of a Redis that keeps nothing on disk. None where the program is not installed."""
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with running(command, folder, place=None, environment=environment_of(folder)) as (process, words):
        said(process, words, rb"[Rr]eady to accept connections")
        yield f"redis://127.0.0.1:{port}/0"


@dataclass(frozen=True, slots=True)
class Driver:
    """The load client's process."""

    process: subprocess.Popen[bytes]

    def run(self, job: Job) -> Load:
        """Raises NotStartedError when the client ended; its words stand on standard error."""
        if self.process.stdin is None or self.process.stdout is None:
            raise NotStartedError("the load client has no pipes")
        self.process.stdin.write(written(job))
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise NotStartedError("the load client ended: its words are above")
        return Load(**json.loads(line))


@contextmanager
def driver(place: int | None = CLIENT_CORE) -> Iterator[Driver]:
    command = [sys.executable, "-m", "tests.bench.load"]
    with pinned(place):
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with process:
        try:
            yield Driver(process)
        finally:
            process.terminate()


def family(pid: int) -> list[int]:
    """The process and all that came from it and run."""
    parents = {found[0]: found[1] for entry in Path("/proc").iterdir() if (found := _parent(entry))}
    members = [pid]
    for member in members:
        members += [child for child, parent in parents.items() if parent == member]
    return members


def cpu(pid: int) -> float:
    """Seconds of CPU that the process, those it runs and those it waited for have had."""
    return sum(map(_spent, family(pid)))


def memory(pid: int) -> Memory:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {name: int(size) / 1024 for name, size in re.findall(r"(\w+):\s+(\d+) kB", lines)}
    return Memory(sizes["Rss"], sizes["Pss"])


def _parent(entry: Path) -> tuple[int, int] | None:
    fields = _fields(entry)
    return (int(entry.name), int(fields[1])) if fields else None


def _spent(pid: int) -> float:
    """Of the process itself and of children that ended.

    The kernel tells a process's time in whole ticks and a thread's in nanoseconds, the latter only while it lives.
    """
    entry = Path("/proc") / str(pid)
    fields = _fields(entry)
    if not fields:
        return 0.0
    own, ended = (TICK * sum(map(int, fields[first : first + 2])) for first in (11, 13))
    return max(own, sum(map(_on_cpu, (entry / "task").glob("*/schedstat")))) + ended


def _on_cpu(thread: Path) -> float:
    """Seconds; none for a thread that is gone."""
    try:
        return int(thread.read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def _fields(entry: Path) -> list[str]:
    """What follows the name in ``/proc/PID/stat``; empty for what is no process, or is gone."""
    if not entry.name.isdigit():
        return []
    try:
        return (entry / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def told(found: object) -> str:
    """A record as a line of JSON, for the process that asked."""
    return json.dumps(asdict(found)) + "\n"  # type: ignore[call-overload]
