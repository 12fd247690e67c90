"""The end: SIGTERM while answers are under way."""

from __future__ import annotations

import asyncio
import threading

import httpx

from tests.compacting import asking
from tests.soak.ledger import Ledger, strain
from tests.soak.watching import Service, Watch, sample
from tests.standin.mishaps import Hold
from tests.standin.server import StandIn

RUNS = 4
ENDS_WITHIN = 30.0


async def drained(ledger: Ledger, service: Service, watch: Watch, upstream: StandIn, key: str) -> int | None:
    """Ends the service while summaries are being made; each is answered whole. The exit code, None: it was killed."""
    watch.stop()
    _quiet(ledger, service)
    released = threading.Event()
    upstream.forget()
    headers = {"x-api-key": key}
    async with httpx.AsyncClient(base_url=service.address, headers=headers, trust_env=False, timeout=60) as client:
        for _ in range(2 * RUNS):  # what is loaded on first use is there, in each worker
            await client.post("/v1/compactions", json=asking())
        upstream.forget()
        upstream.answer_next(*[Hold(released)] * RUNS)
        running = [asyncio.create_task(client.post("/v1/compactions", json=asking())) for _ in range(RUNS)]
        await _asked(ledger, upstream)
        ending = asyncio.create_task(asyncio.to_thread(service.end, ENDS_WITHIN * strain()))
        await asyncio.sleep(1)
        released.set()
        for answer in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(answer, BaseException) or answer.status_code != 200 or answer.json()["outcome"] != "ok":
                ledger.violate(f"an answer that was under way at SIGTERM: {answer!r}")
        return await ending


async def _asked(ledger: Ledger, upstream: StandIn) -> None:
    for _ in range(int(200 * strain())):
        if len(upstream.seen) >= RUNS:
            return
        await asyncio.sleep(0.05)
    ledger.violate(f"of {RUNS} summaries {len(upstream.seen)} were asked for")


def _quiet(ledger: Ledger, service: Service) -> None:
    """Nobody calls any more: no program runs, nothing is left open."""
    for worker in service.workers():
        found = sample(worker)
        if found is None:
            ledger.violate(f"worker {worker} is gone")
        elif found.children:
            ledger.violate(f"worker {worker} has {found.children} children, {found.zombies} of them zombies")
        if found:
            ledger.say(f"worker {worker} at rest: {found}")
