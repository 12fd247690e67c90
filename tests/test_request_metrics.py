"""Requests and their durations, as Prometheus reads them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.guard import Guard
from app.log import Log
from app.request_metrics import BOUNDS, LABELS, RequestMetrics
from app.telemetry import Telemetry, Telling
from tests.admitting import admission

WAIT_SECONDS = 0.02


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """By name, route, method, class of status, and the bound of a bucket."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    found = [sample for family in families for sample in family.samples]
    return {
        (sample.name, *(sample.labels[name] for name in (*LABELS, "le") if name in sample.labels)): sample.value
        for sample in found
    }


def test_requests_are_told_apart_by_route_method_and_class_of_status() -> None:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    for status in (200, 204, 404):
        metrics.request("/v1/context", "POST", status, 0.003)
    metrics.request(None, "GET", 404, 40)
    found = samples(registry)
    assert found["strata_requests_total", "/v1/context", "POST", "2xx"] == 2
    assert found["strata_requests_total", "/v1/context", "POST", "4xx"] == 1
    assert found["strata_requests_total", "none", "GET", "4xx"] == 1
    assert found["strata_request_seconds_sum", "/v1/context", "POST", "2xx"] == 0.006
    assert found["strata_request_seconds_bucket", "/v1/context", "POST", "2xx", "0.0025"] == 0
    assert found["strata_request_seconds_bucket", "/v1/context", "POST", "2xx", "0.005"] == 2
    assert found["strata_request_seconds_bucket", "none", "GET", "4xx", "30.0"] == 0
    assert found["strata_request_seconds_bucket", "none", "GET", "4xx", "+Inf"] == 1


@given(st.lists(st.floats(0, 100) | st.sampled_from(BOUNDS)))
def test_a_bucket_holds_what_took_at_most_so_long(durations: list[float]) -> None:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    for seconds in durations:
        metrics.request("/", "GET", 200, seconds)
    found = samples(registry)
    for bound in BOUNDS:
        held = found.get(("strata_request_seconds_bucket", "/", "GET", "2xx", str(float(bound))), 0)
        assert held == sum(seconds <= bound for seconds in durations)
    assert found.get(("strata_request_seconds_count", "/", "GET", "2xx"), 0) == len(durations)


def test_no_caller_can_make_up_labels() -> None:
    registry = CollectorRegistry()
    metrics = RequestMetrics(registry)
    for number in range(50):
        metrics.request(None, f"METHOD{number}", 404, 0.1)
    counted = [labels for labels in samples(registry) if labels[0] == "strata_requests_total"]
    assert counted == [("strata_requests_total", "none", "other", "4xx")]


async def answers_late(_: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await receive()


def told(app: ASGIApp, **scope: Any) -> dict[tuple[str, ...], float]:
    """The figures after one request."""
    registry = CollectorRegistry()

    async def receive() -> Message:
        await asyncio.sleep(WAIT_SECONDS)
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        """Nobody listens."""

    plain = {"type": "http", "path": "/v1/models", "method": "GET", "headers": [], "client": None}
    telemetry = Telemetry(app, Telling(Log("error", len, float), RequestMetrics(registry)))
    asyncio.run(telemetry({**plain, **scope}, receive, send))
    return samples(registry)


def test_what_the_guard_refuses_is_counted_without_a_route() -> None:
    found = told(Guard(answers_late, admission(keys=("k",)), len))
    assert found["strata_requests_total", "none", "GET", "4xx"] == 1


def test_a_stream_is_timed_until_its_answer_begins() -> None:
    began = time.perf_counter()
    found = told(answers_late, route=Route("/v1/sessions/{session_id}/events", answers_late))
    whole = time.perf_counter() - began
    labels = ("/v1/sessions/{session_id}/events", "GET", "2xx")
    assert found["strata_request_seconds_count", *labels] == 1
    assert found["strata_request_seconds_sum", *labels] < whole - WAIT_SECONDS
