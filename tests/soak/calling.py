"""Calls of the service, each answer held to what any answer must be."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from app.errors import Problem
from tests.soak.ground import CANARY, OUTSIDE
from tests.soak.ledger import MARGIN_SECONDS, Ledger, margin

SHED = frozenset({"overloaded", "too-many-at-once", "rate-limited", "took-too-long"})
"""What any request may be answered when there is too much to do."""

WITH_RETRY_AFTER = frozenset({"overloaded", "too-many-at-once", "rate-limited", "session-store-away"})
PATIENCE = 1.0
"""Seconds at most for which a caller does as it is told, and waits before it goes on."""

UNSEEN = ("Traceback", OUTSIDE)


def statuses(problem: type[Problem] = Problem) -> Iterator[tuple[str, int]]:
    for kind in problem.__subclasses__():
        yield kind.type, kind.status
        yield from statuses(kind)


PROBLEMS = dict(statuses())


@dataclass(frozen=True, slots=True)
class Got:
    """An answer. ``problem`` is its type, None for a good one; ``asked`` and ``answered`` are when."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    problem: str | None
    asked: float
    answered: float

    @property
    def body(self) -> Any:
        return json.loads(self.content)


class Caller:
    """Calls with one key. ``within`` are the seconds that an answer may take, by the kind of request."""

    def __init__(self, ledger: Ledger, address: str, key: str, owner: str, within: Mapping[str, float]) -> None:
        self.ledger, self.owner, self._within = ledger, owner, within
        self.client = httpx.AsyncClient(
            base_url=address,
            headers={"x-api-key": key},
            trust_env=False,
            timeout=httpx.Timeout(max(within.values()) + 10 * MARGIN_SECONDS),
            limits=httpx.Limits(max_connections=200, keepalive_expiry=2.0),
        )

    async def call(self, kind: str, method: str, path: str, *, legal: frozenset[str] = SHED, **more: Any) -> Got | None:
        """None: the connection ended without an answer, while a worker may have been lost."""
        asked = time.monotonic()
        try:
            response = await self.client.request(method, path, **more)
        except httpx.TimeoutException:
            self._wrong(kind, "no answer at all", asked)
            return None
        except httpx.TransportError as error:
            self._lost(kind, asked, type(error).__name__)
            return None
        answered = time.monotonic()
        problem = self._problem(kind, response, legal, asked)
        self.ledger.note(kind, problem or str(response.status_code), answered - asked)
        self._in_time(kind, asked, answered)
        self._unseen(kind, response.content)
        await asyncio.sleep(min(PATIENCE, float(response.headers.get("retry-after", 0))))
        return Got(response.status_code, response.headers, response.content, problem, asked, answered)

    def _problem(self, kind: str, response: httpx.Response, legal: frozenset[str], asked: float) -> str | None:
        if response.status_code < 400:
            return None
        told = _told(response)
        if told is None:
            self._wrong(kind, f"{response.status_code} that is no problem: {response.text[:200]}", asked)
            return "no problem"
        name = str(told["type"]).removeprefix("urn:strata:problem:")
        if PROBLEMS.get(name) != response.status_code or response.headers.get("x-request-id") != told["request_id"]:
            self._wrong(kind, f"{response.status_code} {name} is not as documented", asked)
        if name not in legal:
            self._wrong(kind, f"{response.status_code} {name}: {told['detail'][:200]}", asked)
        if name in WITH_RETRY_AFTER and "retry-after" not in response.headers:
            self._wrong(kind, f"{name} without Retry-After", asked)
        return name

    def _lost(self, kind: str, asked: float, how: str) -> None:
        now = time.monotonic()
        self.ledger.note(kind, "reset", now - asked)
        self._in_time(kind, asked, now)
        if not self.ledger.touched({"worker"}, asked - 1, now):
            self._wrong(kind, f"the connection ended ({how}) while no worker was lost", asked)

    def _in_time(self, kind: str, asked: float, answered: float) -> None:
        allowed = self._within[kind] + margin()
        if answered - asked > allowed:
            self._wrong(kind, f"took {answered - asked:.1f} s where {allowed:.1f} s are allowed", asked)

    def _unseen(self, kind: str, content: bytes) -> None:
        for word in UNSEEN:
            if word.encode() in content:
                self.ledger.violate(f"{kind}: {word} in an answer")

    def _wrong(self, kind: str, said: str, asked: float) -> None:
        self.ledger.violate(f"{kind}, asked at {asked - self.ledger.started:.1f} s: {said}")

    def wrong(self, kind: str, got: Got, said: str) -> None:
        self._wrong(kind, said, got.asked)

    def canaries(self, kind: str, got: Got) -> dict[str, set[int]]:
        """Versions by text that reach the model; all in the answer are the caller's own, and parts add up."""
        body = got.body
        for one in CANARY.finditer(got.content.decode()):
            if one["owner"] != self.owner:
                self.wrong(kind, got, f"{one[0]} reached {self.owner}")
        tokens = body.get("tokens")
        if tokens and sum(part["tokens"] for part in tokens["parts"]) != tokens["used"]:
            self.wrong(kind, got, "the parts do not add up")
        found: dict[str, set[int]] = {}
        for one in CANARY.finditer(json.dumps(body.get("request", ""))):
            found.setdefault(one["text"], set()).add(int(one["version"]))
        return found


def _told(response: httpx.Response) -> dict[str, Any] | None:
    if response.headers.get("content-type") != "application/problem+json":
        return None
    try:
        told = response.json()
    except ValueError:
        return None
    wanted = {"type", "title", "status", "detail", "request_id"}
    return told if isinstance(told, dict) and wanted <= told.keys() else None
