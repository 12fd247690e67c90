"""The service without HTTP, in a process of its own: ``python -m tests.bench.in_process ROOT CWD``.

A line of JSON on standard output: microseconds of a cold and of a warm answer, and the CPU of each phase of a cold one.
With ``--profile``, where a cold answer's time goes.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import io
import json
import os
import pstats
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from starlette.types import ASGIApp, Message, Scope

from app.building import build_contexts
from app.carrying import context_values
from app.context import Contexts
from app.core.assembly import assemble
from app.main import build_app, server_facts
from app.settings import Settings
from app.warm_layer import Request, WarmLayer
from app.wire.answers import to_bytes
from app.wire.requests import Ask, parse_context_request, to_ask
from tests.bench.processes import ROOT, SERVER_CORE, NotStartedError, environment_of, pinned
from tests.bench.trees import EVERYTHING, body

T = TypeVar("T")

HEADERS = ((b"host", b"127.0.0.1"), (b"content-type", b"application/json"))

COLD, WARM = 100, 3_000
"""How often each is timed."""

WARM_UP = 5
ATTEMPTS = 3
LINES = 10
"""Rows of a profile."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """Medians: microseconds for ``cold_core`` and ``warm_core``, milliseconds of CPU by phase of a cold answer.

    ``files`` are those that loaded, in order.
    """

    cold_core: float
    warm_core: float | None
    phases: dict[str, float]
    files: list[str]


class Inline(ThreadPoolExecutor):
    """Does at once, in the caller's thread, what it is given: so that a profile sees it."""

    def submit(self, work: Callable[..., T], /, *given: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        done.set_result(work(*given, **named))
        return done


def asked(settings: Settings, cwd: Path, session: str) -> Ask:
    return to_ask(parse_context_request(request(cwd, session)), server_facts(settings), ())


def request(cwd: Path, session: str) -> bytes:
    return json.dumps(body(cwd, session, memory=EVERYTHING)).encode()


async def cold_core(contexts: Contexts, ask: Ask) -> None:
    """Discovery, reading and assembling of a session that begins, without parsing the request or writing the answer."""
    facts, fresh = await contexts.gathered_anew(ask)
    assemble(facts, fresh)


def warm_core(front: WarmLayer, sent: bytes) -> bytes | None:
    """From the bytes of a request to the bytes of its answer; None where it has to be assembled."""
    asked = front.asked(Request(b"POST", b"/v1/context", HEADERS, "127.0.0.1", sent))
    reply = front.at_once(asked, 0.0) if asked else None
    return reply.body if reply else None


async def posted(app: ASGIApp, sent: bytes) -> None:
    """The same through the whole application, which holds the answer then."""

    async def receive() -> Message:
        return {"type": "http.request", "body": sent}

    async def send(_: Message) -> None:
        """Nobody reads it."""

    await app(scope_of("/v1/context"), receive, send)


def scope_of(path: str) -> Scope:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": list(HEADERS),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def timed(work: Callable[[], Awaitable[object]], times: int) -> float:
    """Microseconds, the median."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        found.append(time.perf_counter() - began)
    return 1e6 * statistics.median(found)


async def warmed(settings: Settings, contexts: Contexts, cwd: Path) -> float | None:
    """Microseconds. None where it had to be assembled in between, each time that it was tried."""
    app, sent = build_app(settings, contexts), request(cwd, "warm")
    for _ in range(ATTEMPTS):
        for _ in range(WARM_UP):
            await posted(app, sent)
        found = alone(app.front, sent)
        if found is not None:
            return found
    return None


def alone(front: WarmLayer, sent: bytes) -> float | None:
    """Microseconds, the median. None when one was not held."""
    found = []
    for _ in range(WARM):
        began = time.perf_counter()
        if warm_core(front, sent) is None:
            return None
        found.append(time.perf_counter() - began)
    return 1e6 * statistics.median(found)


async def measured(root: Path, cwd: Path) -> InProcess:
    settings = Settings(roots=(root,), log_level="critical")
    contexts = build_contexts(settings)
    answer = await contexts.answer(asked(settings, cwd, "first"))
    files = [file.path for file in answer.assembly.facts.memory.files]
    await timed(lambda: cold_core(contexts, asked(settings, cwd, "again")), WARM_UP)
    gc.collect()
    one = asked(settings, cwd, "cold")
    cold = await timed(lambda: cold_core(contexts, one), COLD)
    phases = await phased(settings, contexts, cwd)
    warm = await warmed(settings, contexts, cwd)
    await contexts.close()
    return InProcess(cold, warm, phases, files)


async def phased(settings: Settings, contexts: Contexts, cwd: Path) -> dict[str, float]:
    """Milliseconds of CPU in each phase, of many rounds: programs' time is counted in hundredths of a second."""
    names = ("parse", "gather", "assemble", "write")
    totals = dict.fromkeys(names, 0.0)
    for number in range(COLD):
        marks = [mark async for mark in phase_marks(settings, contexts, cwd, number)]
        for name, (first, last) in zip(names, pairwise(marks), strict=True):
            totals[name] += last - first
    return {name: 1000 * total / COLD for name, total in totals.items()}


async def phase_marks(settings: Settings, contexts: Contexts, cwd: Path, number: int) -> AsyncIterator[float]:
    """Seconds of CPU that were spent, before the first phase and after each."""
    yield spent()
    ask = asked(settings, cwd, f"phases{number}")
    yield spent()
    facts, fresh = await contexts.gathered_anew(ask)
    yield spent()
    assembly = assemble(facts, fresh)
    yield spent()
    to_bytes(context_values(contexts.begun_anew(ask, assembly)))
    yield spent()


def spent() -> float:
    """Seconds of CPU of this process with its threads, and of the programs that it waited for."""
    return time.process_time() + sum(os.times()[2:4])


async def profiled(root: Path, cwd: Path) -> str:
    asyncio.get_running_loop().set_default_executor(Inline())
    settings = Settings(roots=(root,), log_level="critical")
    contexts = build_contexts(settings)
    profile = cProfile.Profile()
    for number in range(COLD):
        if number == WARM_UP:
            profile.enable()
        ask = asked(settings, cwd, f"profiled{number}")
        to_bytes(context_values(await contexts.answer(ask)))
    profile.disable()
    await contexts.close()
    out = io.StringIO()
    pstats.Stats(profile, stream=out).sort_stats("tottime").print_stats(LINES)
    return out.getvalue().replace(f"{ROOT}/", "")


def in_process(root: Path, cwd: Path) -> InProcess:
    return InProcess(**json.loads(_run(root, cwd)))


def profile_of(root: Path, cwd: Path) -> str:
    return _run(root, cwd, "--profile").decode()


def _run(root: Path, cwd: Path, *flags: str) -> bytes:
    command = [sys.executable, "-m", "tests.bench.in_process", str(root), str(cwd), *flags]
    with pinned(SERVER_CORE):
        done = subprocess.run(command, cwd=ROOT, env=environment_of(root), capture_output=True, check=False)
    if done.returncode:
        raise NotStartedError(done.stderr.decode(errors="replace")[-2000:])
    return done.stdout


def main() -> None:
    root, cwd, *flags = sys.argv[1:]
    if flags:
        sys.stdout.write(asyncio.run(profiled(Path(root), Path(cwd))))
        return
    found = asyncio.run(measured(Path(root), Path(cwd)))
    values = {name: getattr(found, name) for name in InProcess.__slots__}
    sys.stdout.write(json.dumps(values) + "\n")


if __name__ == "__main__":
    main()
