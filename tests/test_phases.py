"""How long the parts of a request take."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message, Receive, Scope, Send

from app.log import Log
from app.phases import MOST_ROWS, PHASES, Phases, Timeline, phase, run_with, run_without, timeline_of
from app.request_metrics import RequestMetrics
from app.telemetry import Telemetry, Telling


class Template:
    """A route, as far as telling goes."""

    def __init__(self, path: str) -> None:
        self.path = path


def counts(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """How often each phase ran, by route and phase."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.labels["route"], sample.labels["phase"]): sample.value
        for family in families
        for sample in family.samples
        if sample.name == "strata_phase_seconds_count"
    }


def names(timeline: Timeline) -> list[str]:
    return [name for name, _, _ in timeline.rows]


async def within(work: Any) -> Timeline:
    timeline = Timeline(0.0)
    running = run_with(timeline)
    try:
        await work()
    finally:
        run_without(running)
    return timeline


def test_parts_count_to_the_request_wherever_they_run() -> None:
    def reads() -> None:
        with phase("git"):
            """In a thread."""

    async def helps() -> None:
        with phase("count"):
            await asyncio.sleep(0)

    async def work() -> None:
        with phase("gather"):
            await asyncio.gather(asyncio.to_thread(reads), asyncio.create_task(helps()))

    timeline = asyncio.run(within(work))
    assert sorted(names(timeline)) == ["count", "gather", "git"]
    spans = {name: (began, ended) for name, began, ended in timeline.rows}
    outer = spans["gather"]
    assert all(outer[0] <= began <= ended <= outer[1] for began, ended in spans.values())


def test_requests_at_once_keep_their_parts_apart() -> None:
    async def one() -> None:
        with phase("open"):
            await asyncio.sleep(0)

    async def other() -> None:
        with phase("write"):
            await asyncio.sleep(0)

    async def both() -> list[Timeline]:
        return await asyncio.gather(within(one), within(other))

    assert [names(timeline) for timeline in asyncio.run(both())] == [["open"], ["write"]]


def test_a_part_that_fails_is_counted_too() -> None:
    async def work() -> None:
        with suppress(LookupError), phase("open"):
            raise LookupError

    assert names(asyncio.run(within(work))) == ["open"]


def test_without_a_request_nothing_is_counted_and_nothing_fails() -> None:
    with ThreadPoolExecutor(1) as threads, phase("gather"):
        assert threads.submit(lambda: phase("git").__enter__()).result(10) is None


def test_a_request_keeps_so_many_parts_and_no_more() -> None:
    timeline = Timeline(0.0)
    for _ in range(MOST_ROWS + 10):
        timeline.add("git", 0.0, 0.5)
    assert len(timeline.rows) == MOST_ROWS
    assert timeline.totals() == {"git": MOST_ROWS / 2}


def test_a_scope_has_one_timeline() -> None:
    scope: Scope = {"type": "http"}
    assert timeline_of(scope) is timeline_of(scope)
    assert timeline_of(scope) is not timeline_of({"type": "http"})


def test_they_are_told_by_route_once_the_request_has_ended() -> None:
    registry = CollectorRegistry()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with phase("open"):
            scope["route"] = Template("/v1/context")
        for _ in range(2):
            with phase("git"):
                """Twice."""
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def nothing(*_: Any) -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "path": "/v1/context", "method": "POST", "headers": []}
    timeline_of(scope).add("read", 1.0, 2.0)
    telling = Telling(Log("error", len, float), RequestMetrics(registry), Phases(registry))
    asyncio.run(Telemetry(app, telling)(scope, nothing, nothing))
    assert counts(registry) == {
        ("/v1/context", "open"): 1,
        ("/v1/context", "git"): 2,
        ("/v1/context", "read"): 1,
    }


def test_a_part_of_a_request_without_a_route_is_told_as_such() -> None:
    registry = CollectorRegistry()
    phases = Phases(registry)
    phases.told(None, [(name, 0.0, 1.0) for name in PHASES])
    assert counts(registry) == {("none", name): 1 for name in PHASES}
