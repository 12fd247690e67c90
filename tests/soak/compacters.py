"""Those who have tokens counted, and conversations compacted."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from itertools import count
from typing import Any

from app.counting import MISSING_SECONDS
from tests.asking import inline
from tests.compacting import talk
from tests.soak.calling import SHED, Caller, Got
from tests.soak.clients import AWAY, GONE

REFUSED = SHED | {"breaker-open", "compacting-already"} | AWAY


@dataclass(slots=True)
class May:
    """How many failures in a row a breaker may have; ``since`` when that is known for certain."""

    since: float
    counts: set[int]


class Counter:
    """Has raw requests counted by the API, and looks at the service's own figures."""

    def __init__(self, caller: Caller, draw: random.Random) -> None:
        self.caller, self.draw = caller, draw

    async def live(self) -> None:
        for number in count():
            messages = [{"role": "user", "content": f"Question {number}: {'words ' * self.draw.randrange(200)}"}]
            body = {"model": "claude-sonnet-4-5", "messages": messages, "tokens": {"method": "exact"}}
            got = await self.caller.call("tokens exact", "POST", "/v1/tokens", json=body)
            if got is not None and got.problem is None:
                self.caller.canaries("tokens exact", got)
                self._counted(got)
            await self.caller.call("metrics", "GET", "/metrics")
            await asyncio.sleep(self.draw.uniform(0.3, 1.0))

    def _counted(self, got: Got) -> None:
        method = got.body["tokens"]["method"]
        self.caller.ledger.outcomes["tokens exact"][f"({method})"] += 1
        before = MISSING_SECONDS + 1 if method == "fallback_model" else 1
        quiet = not self.caller.ledger.touched({"upstream", "worker"}, got.asked - before, got.answered)
        if method != "exact" and quiet:
            self.caller.wrong("tokens exact", got, f"{method} although the API was well")


class Compacter:
    """Plans, runs and reports compactions of a session, and knows how often its breaker must have failed."""

    def __init__(self, caller: Caller, draw: random.Random, name: str) -> None:
        self.caller, self.draw, self.name = caller, draw, name

    async def live(self) -> None:
        for number in count():
            await self._session(f"{self.name}-{number}", number)

    async def _session(self, session: str, number: int) -> None:
        folder = f"/srv/{self.caller.owner}/compact"
        files = {f"{folder}/CLAUDE.md": f"canary-{self.caller.owner}-inline-{number}\n"}
        body = inline(files, workspace={"cwd": folder, "home": "/home/x"}, session_id=session, messages=talk(3))
        began = await self.caller.call("gateway turn", "POST", "/v1/context", json=body)
        if began is None or began.problem:
            return
        may = May(time.monotonic(), {began.body["compaction"]["breaker"]["consecutive_failures"]})
        for _ in range(8):
            step = self.draw.choice([self._plan, self._run, self._run, self._report, self._report])
            await step(session, body, may)
            await asyncio.sleep(self.draw.uniform(0.2, 1.0))

    async def _plan(self, session: str, body: Any, may: May) -> None:
        sent = body | {"mode": "plan"}
        got = await self.caller.call("compaction plan", "POST", "/v1/compactions", json=sent, legal=REFUSED)
        if got is not None and got.problem is None:
            self.caller.canaries("compaction plan", got)
            self._told("compaction plan", got, may, may.counts)

    async def _run(self, session: str, body: Any, may: May) -> None:
        sent = body | {"mode": "run", "trigger": self.draw.choice(["automatic", "manual"])}
        got = await self.caller.call("compaction run", "POST", "/v1/compactions", json=sent, legal=REFUSED)
        automatic = sent["trigger"] == "automatic"
        failed = {one + 1 for one in may.counts} if automatic else may.counts
        if got is None:
            may.counts |= failed | {0}
        elif got.problem is None:
            outcome = got.body["outcome"]
            self.caller.ledger.outcomes["compaction run"][f"({outcome})"] += 1
            self._told("compaction run", got, may, {0} if outcome == "ok" else failed)

    async def _report(self, session: str, body: Any, may: May) -> None:
        path = f"/v1/sessions/{session}/compactions"
        got = await self.caller.call(
            "compaction report", "POST", path, json={"outcome": "failed"}, legal=SHED | GONE | AWAY
        )
        failed = {one + 1 for one in may.counts}
        if got is None:
            may.counts |= failed
        elif got.problem is None:
            self._told("compaction report", got, may, failed)

    def _told(self, kind: str, got: Got, may: May, counts: set[int]) -> None:
        found = got.body["breaker"]["consecutive_failures"]
        certain = not self.caller.ledger.touched({"redis"}, may.since, got.answered)
        if certain and found not in counts:
            self.caller.wrong(kind, got, f"the breaker has {found} failures, where {sorted(counts)} may be")
        may.counts = {found}
        if not certain:
            may.since = got.asked
