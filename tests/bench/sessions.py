"""What sessions weigh by estimate and in the process's memory: ``python -m tests.bench.sessions``.

Sessions of each kind have one turn in a process of their own, through what answers requests, and their answers are
written as JSON. Memory is what the process holds more of once it answered them all, read from ``/proc`` (Linux only),
and what allocations came to in a second run. Takes some minutes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.building import build_contexts
from app.carrying import context_values
from app.context import Contexts
from app.core.weight import weight
from app.main import server_facts
from app.settings import Settings
from app.stores.process import ENTRY
from app.wire.answers import to_bytes
from app.wire.requests import parse_context_request, to_ask

ROOT = Path(__file__).parents[2]
SESSIONS, WARM = 300, 20
PAGE = 4096
RULE = "One rule of this project, in a few words.\n"


def said(blocks: int, size: int, text: str, session: int) -> list[dict[str, Any]]:
    """A conversation of so many blocks in turn, each of ``size`` characters, that ends with the user.

    No two sessions say the same: equal texts of two requests may be one in memory.
    """
    roles = ("user", "assistant")
    long = text * (size // len(text) + 1)
    return [{"role": roles[at % 2], "content": f"{session}.{at} {long}"[:size]} for at in range(blocks | 1)]


KINDS: Mapping[str, Callable[[int], list[dict[str, Any]]]] = MappingProxyType(
    {
        "small": lambda session: said(1, 100, "A sentence. ", session),
        "100 KB in 200 blocks": lambda session: said(200, 500, "A sentence of the conversation. ", session),
        "1,000 small blocks": lambda session: said(1000, 30, "A word. ", session),
        "100 KB, not ASCII": lambda session: said(200, 250, "Ещё одно предложение. ", session),
    }
)


def request(kind: str, session: int) -> bytes:
    files = {f"/home/dev/p/.claude/rules/{at}.md": RULE * 20 for at in range(5)}
    files |= {"/home/dev/p/CLAUDE.md": f"# Project {session}\n" + RULE * 50}
    workspace = {"source": "inline", "cwd": "/home/dev/p", "home": "/home/dev", "platform": "linux", "files": files}
    named = {"model": "claude-sonnet-4-5", "date": "2026-11-30", "session_id": f"session-{session}"}
    return json.dumps({**named, "workspace": workspace, "messages": KINDS[kind](session)}).encode()


async def have(contexts: Contexts, settings: Settings, kind: str, sessions: range) -> None:
    for session in sessions:
        ask = to_ask(parse_context_request(request(kind, session)), server_facts(settings), ())
        to_bytes(context_values(await contexts.answer(ask)))
    gc.collect()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def allocated() -> int:
    return tracemalloc.get_traced_memory()[0]


async def measured(kind: str, *, traced: bool) -> dict[str, float]:
    """Bytes for one session by estimate and by growth, and the seconds that estimating one takes."""
    settings = Settings(roots=())
    contexts = build_contexts(settings)
    await have(contexts, settings, kind, range(WARM))
    if traced:
        tracemalloc.start()
    held = allocated if traced else resident
    before = held()
    await have(contexts, settings, kind, range(WARM, WARM + SESSIONS))
    grown = (held() - before) / SESSIONS
    tracemalloc.stop()
    remembered = await contexts.sessions.peek(f"session-{WARM}")
    await contexts.close()
    if remembered is None:
        raise LookupError("the session is not held")
    times = []
    for _ in range(9):
        started = time.perf_counter()
        found = weight(remembered)
        times.append(time.perf_counter() - started)
    return {"estimate": ENTRY + found, "grown": grown, "seconds": sorted(times)[4]}


def in_a_process(kind: str, how: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.sessions", kind, how], cwd=ROOT, capture_output=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def row(kind: str) -> str:
    resident, traced = in_a_process(kind, "resident"), in_a_process(kind, "traced")
    estimate = resident["estimate"]
    cells = [f"{size / 1024:,.1f}" for size in (estimate, resident["grown"], traced["grown"])]
    by = f"{estimate / resident['grown']:.2f}"
    return f"| {kind} | {' | '.join(cells)} | {by} | {1000 * resident['seconds']:.2f} |"


def main() -> None:
    if sys.argv[1:]:
        kind, how = sys.argv[1:]
        sys.stdout.write(json.dumps(asyncio.run(measured(kind, traced=how == "traced"))))
        return
    sys.stdout.write(f"{SESSIONS} sessions of each kind; sizes in KiB for one session\n\n")
    sys.stdout.write("| kind | estimate | process grew | allocated | estimate / grew | ms to estimate |\n")
    sys.stdout.write("|---|--:|--:|--:|--:|--:|\n")
    for kind in KINDS:
        sys.stdout.write(f"{row(kind)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
