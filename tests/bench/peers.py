"""Others that do a part of this work, on the same machine: deepagents' memory, and LiteLLM's proxy.

They live in an environment of their own, which is made with pip in a cache folder when it is missing; the project never
depends on them. The proxy stands in front of the stand-in for the Messages API.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.bench.in_process import InProcess, in_process
from tests.bench.over_http import answer_to, prime
from tests.bench.processes import (
    ROOT,
    SERVER_CORE,
    Driver,
    NotStartedError,
    Served,
    answered,
    environment_of,
    free_port,
    pinned,
    running,
    strata,
)
from tests.bench.rounds import Figures, Pace, Subject, measured
from tests.bench.trees import MODEL, posted
from tests.bench.usual import planted, sent
from tests.standin.server import StandIn

PACKAGES = ("deepagents", "litellm[proxy]")
CACHE = Path.home() / ".cache" / "strata-bench" / "peers"
KEY = "sk-of-this-benchmark-and-nothing-else"
DIRECT, THROUGH, OURS = "straight to the stand-in", "through LiteLLM's proxy", "warm POST /v1/context"

CONFIG = """\
model_list:
  - model_name: {model}
    litellm_params: {{model: anthropic/{model}, api_base: "http://127.0.0.1:{port}", api_key: none}}
litellm_settings: {{num_retries: 0, telemetry: false}}
"""
OFFLINE = {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}


@dataclass(frozen=True, slots=True)
class Deepagents:
    """Microseconds; ``characters`` of the prompt that it made."""

    version: str
    cold: float
    repeat: float
    characters: int


@dataclass(frozen=True, slots=True)
class Memories:
    """In process. ``ours`` is without a repository around the tree, for deepagents asks git nothing."""

    ours: InProcess
    in_git: InProcess
    theirs: Deepagents


@dataclass(frozen=True, slots=True)
class Proxied:
    """``added`` is what the proxy's way takes longer than the straight one, ``ours`` a warm answer; in milliseconds."""

    version: str
    rows: tuple[Figures, ...]

    @property
    def added(self) -> float:
        direct, through, _ = self.rows
        return through.p50 - direct.p50

    @property
    def ours(self) -> float:
        return self.rows[2].p50


def environment(folder: Path) -> Path | None:
    """The Python of the peers' environment, which is made when it is not there; that takes some minutes.

    None when pip could not install them; its words are on standard error.
    """
    python = folder / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        venv.create(folder, with_pip=True, symlinks=True)
        command = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
            return None
        done.touch()
    return python


def memories(root: Path, python: Path) -> Memories:
    """deepagents is told which files to read; the service finds them."""
    ours = in_process(root, planted(root / "plain", "", in_git=False))
    in_git = in_process(root, planted(root / "in-git", "", in_git=True))
    return Memories(ours, in_git, of_deepagents(python, root, ours.files))


def of_deepagents(python: Path, folder: Path, files: Sequence[str]) -> Deepagents:
    with pinned(SERVER_CORE):
        done = subprocess.run(
            [python, Path(__file__).with_name("peer_memory.py"), *files],
            env=environment_of(folder) | {"PYTHONPATH": "", "LANGSMITH_TRACING": "false"},
            capture_output=True,
            check=False,
        )
    if done.returncode:
        raise NotStartedError(done.stderr.decode(errors="replace")[-2000:])
    return Deepagents(**json.loads(done.stdout))


def proxied(root: Path, driver: Driver, python: Path, pace: Pace) -> Proxied:
    """A call with what the service answers, one client at a time, three ways in turn."""
    context = sent(planted(root / "proxied", "proxied", in_git=True), "proxied")
    with (
        tempfile.TemporaryDirectory() as folder,
        standing(Path(folder)) as straight,
        proxy(Path(folder), python, straight.port) as through,
        strata(root) as served,
    ):
        prime(driver, served, (context,), times=4)
        call = call_of(json.loads(answer_to(served, context).body)["request"])
        subjects = (
            Subject(DIRECT, straight, (call,)),
            Subject(THROUGH, through, (call,)),
            Subject(OURS, served, (context,)),
        )
        return Proxied(version_of(python), tuple(measured(driver, subjects, 1, pace)))


def call_of(request: dict[str, object]) -> bytes:
    headers = ("anthropic-version: 2023-06-01", f"x-api-key: {KEY}")
    return posted({**request, "max_tokens": 1000}, *headers, path="/v1/messages")


def version_of(python: Path) -> str:
    code = "from importlib.metadata import version; print(version('litellm'))"
    return subprocess.run([python, "-c", code], capture_output=True, check=True, text=True).stdout.strip()


@contextmanager
def proxy(folder: Path, python: Path, upstream: int) -> Iterator[Served]:
    """LiteLLM's proxy with one model, which the stand-in answers; it calls nobody else."""
    port, config = free_port(), folder / "litellm.yaml"
    config.write_text(CONFIG.format(model=MODEL, port=upstream))
    command = [str(python.with_name("litellm")), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    inherited = environment_of(folder, OFFLINE) | {"PYTHONPATH": ""}
    with running(command, folder, place=SERVER_CORE, environment=inherited) as (process, words):
        answered(process, words, port)
        yield Served(port, process.pid)


@contextmanager
def standing(folder: Path) -> Iterator[Served]:
    """The stand-in for the Messages API as a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.peers", str(port)]
    with running(command, folder, place=SERVER_CORE, environment=environment_of(folder)) as (process, words):
        answered(process, words, port)
        yield Served(port, process.pid)


class Forgetful:
    """The stand-in, which would keep every request that it sees."""

    def __init__(self, standin: StandIn) -> None:
        self.standin = standin
        self.app: ASGIApp = standin.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)
        self.standin.forget()


def main() -> None:
    os.chdir(ROOT)
    app = Forgetful(StandIn(takes_system_role=frozenset({MODEL})))
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
