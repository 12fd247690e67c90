"""How long ``strata serve`` takes to its first answer, beside two floors: ``python -m tests.bench.start``.

Every start is a fresh process on a free port, timed from before it is made to the first 200 of ``/healthz``. The floors
are Python that does nothing, and a FastAPI application of one route on uvicorn. ``--workers N`` adds the service with N
workers, timed until all of them are there and one has answered. The compiled modules are kept in a temporary folder,
which a start that is not counted fills. Nothing else should run on the machine. Linux only: CPU time and memory are
read from ``/proc``.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
STARTS = 9
MEBIBYTE = 1024**2
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
LONGEST_START = 60
WAIT_SECONDS = 0.002
ADDRESS = re.compile(rb"http://127\.0\.0\.1:(\d+)")

SERVE = (sys.executable, "-c", "from app.cli import main; main()", "serve", "--port", "0")
NOTHING = (sys.executable, "-c", "pass")
BARE = (
    sys.executable,
    "-c",
    """
import socket, sys
import uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/healthz")
async def health() -> dict[str, str]:
    return {"status": "ok"}
listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
""",
)


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds to the first answer and of the CPU until then; memory in MiB, shared pages counted in parts."""

    seconds: float
    cpu: float
    memory: float


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    start: Callable[[dict[str, str]], Start]
    starts: list[Start] = field(default_factory=list)

    def row(self) -> str:
        seconds = [start.seconds for start in self.starts]
        cpu = statistics.median(start.cpu for start in self.starts)
        memory = statistics.median(start.memory for start in self.starts)
        times = f"{statistics.median(seconds):8.2f} {min(seconds):8.2f} {max(seconds):8.2f}"
        return f"{self.name:<28} {times} {cpu:8.2f} {memory:9.1f}"


class NotStartedError(RuntimeError):
    """The process ended, or did not answer, before its time was over."""


def surroundings(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("STRATA_", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": folder}


def start_of_nothing(environment: dict[str, str]) -> Start:
    before = os.times()
    began = time.perf_counter()
    subprocess.run(NOTHING, env=environment, check=True)
    seconds = time.perf_counter() - began
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return Start(seconds, used, float("nan"))


def start_of_server(command: Sequence[str], environment: dict[str, str], workers: int = 1) -> Start:
    began = time.perf_counter()
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, bufsize=0) as process:
        try:
            port = announced(process)
            while not answers(port) or len(processes(process.pid)) < (workers + 1 if workers > 1 else 1):
                time.sleep(WAIT_SECONDS)
            seconds = time.perf_counter() - began
            own = processes(process.pid)
            return Start(seconds, sum(map(cpu_seconds, own)), sum(map(memory_of, own)))
        finally:
            process.terminate()
            process.communicate()


def announced(process: subprocess.Popen[bytes]) -> int:
    assert process.stderr is not None
    for line in process.stderr:
        found = ADDRESS.search(line)
        if found:
            return int(found[1])
    raise NotStartedError(f"it ended with {process.wait()}")


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_START)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    finally:
        connection.close()


def processes(parent: int) -> list[int]:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
    return [parent, *map(int, children)]


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(process: int) -> float:
    """The proportional share, where the kernel tells it."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MEBIBYTE
    raise NotStartedError("the kernel does not tell how much memory a process has")


def cases(workers: int) -> Iterator[Case]:
    yield Case("python -c pass", start_of_nothing)
    yield Case("FastAPI, one route", lambda environment: start_of_server(BARE, environment))
    yield Case("strata serve", lambda environment: start_of_server(SERVE, environment))
    if workers > 1:
        command = (*SERVE, "--workers", str(workers))
        name = f"strata serve --workers {workers}"
        yield Case(name, lambda environment: start_of_server(command, environment, workers))


def main() -> None:
    parser = argparse.ArgumentParser(description="How long the service takes to its first answer.")
    parser.add_argument("--starts", type=int, default=STARTS, help="starts of each, taken in turns")
    parser.add_argument("--workers", type=int, default=1, help="also with so many workers")
    arguments = parser.parse_args()
    measured = list(cases(arguments.workers))
    with tempfile.TemporaryDirectory() as folder:
        environment = surroundings(folder)
        for case in measured:
            case.start(environment)
        for _ in range(arguments.starts):
            for case in measured:
                case.starts.append(case.start(environment))
    title = f"{arguments.starts} starts of each; seconds to the first answer, CPU seconds until then, MiB of memory"
    names = f"{'':<28} {'median':>8} {'min':>8} {'max':>8} {'CPU':>8} {'memory':>9}"
    sys.stdout.write("\n".join([title, names, *(case.row() for case in measured)]) + "\n")


if __name__ == "__main__":
    main()
