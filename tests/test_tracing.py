"""Spans, as a collector that speaks OTLP over HTTP is sent them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from app.main import create_app
from app.settings import Settings
from app.tracing import MOST_WAITING, Spans, Told
from tests.asking import inline
from tests.serving import serve
from tests.starting import ROOT, failed, served, strata, surroundings

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CANARY = "canary-7f3a"
ATTRIBUTES = {"http.request.method", "http.response.status_code", "http.route", "strata.request_id"}
UNTRACED = """
import sys
from app.main import create_app
create_app()
print(sorted(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter"))))
"""


class Collector:
    """A stand-in for a collector: what it was sent, and how it answers."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.bodies: list[bytes] = []
        self.status, self.answer = 200, b""
        self.headers: dict[str, str] = {}
        self.go_on = threading.Event()
        self.go_on.set()

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        self.requests.append(ExportTraceServiceRequest.FromString(body))
        self.go_on.wait(60)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def roots(self) -> list[Span]:
        return [span for span in self.spans if span.kind == Span.SPAN_KIND_SERVER]


@contextmanager
def collecting(collector: Collector) -> Iterator[str]:
    """Its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(collector.status)
            for name, value in {"content-length": str(len(collector.answer)), **collector.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(collector.answer)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        finally:
            collector.go_on.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
def address(collector: Collector) -> Iterator[str]:
    with collecting(collector) as address:
        yield address


def wait_until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def told(**more: Any) -> Told:
    usual = {"id": "r", "method": "POST", "route": "/v1/context", "status": 200, "began": 1.0, "ended": 2.0}
    return Told(**{**usual, "parent": None, "rows": (), **more})


def traced(address: str, *rows: Told, lines: list[tuple[Any, ...]] | None = None, seconds: float = 5.0) -> Spans:
    """What sent ``rows`` and has ended."""
    heard = [] if lines is None else lines
    spans = Spans(address, "1", lambda *line: heard.append(line), seconds=seconds)
    for row in rows:
        spans.told(row)
    spans.close(60)
    return spans


def test_a_request_is_a_span_and_its_parts_are_its_children(collector: Collector, address: str) -> None:
    rows = (("open", 1.0, 1.25), ("upstream", 1.25, 2.0))
    spans = traced(address, told(rows=rows))
    (root,), parts = collector.roots, [span for span in collector.spans if span.kind != Span.SPAN_KIND_SERVER]
    assert root.name == "POST /v1/context"
    assert {each.key: each.value.string_value or each.value.int_value for each in root.attributes} == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v1/context",
        "strata.request_id": "r",
    }
    assert [(part.name, part.kind) for part in parts] == [
        ("open", Span.SPAN_KIND_INTERNAL),
        ("upstream", Span.SPAN_KIND_CLIENT),
    ]
    assert {(part.trace_id, part.parent_span_id) for part in parts} == {(root.trace_id, root.span_id)}
    assert root.end_time_unix_nano - root.start_time_unix_nano == pytest.approx(1e9, abs=1e3)
    assert [part.start_time_unix_nano - root.start_time_unix_nano for part in parts] == [
        pytest.approx(0, abs=1e3),
        pytest.approx(25e7, abs=1e3),
    ]
    assert (spans.figures().sent, spans.figures().lost) == (3, 0)


def test_a_request_begins_when_it_began(collector: Collector, address: str) -> None:
    before, now = time.time_ns(), time.perf_counter()
    traced(address, told(began=now, ended=now))
    (root,) = collector.roots
    assert before - 10**9 <= root.start_time_unix_nano <= time.time_ns()


def test_a_trace_that_the_caller_is_in_goes_on(collector: Collector, address: str) -> None:
    traced(address, told(parent=f"00-{TRACE}-{PARENT}-01".encode()))
    (root,) = collector.roots
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)


def test_a_trace_that_the_caller_does_not_keep_is_not_sent(collector: Collector, address: str) -> None:
    spans = traced(address, told(parent=f"00-{TRACE}-{PARENT}-00".encode(), rows=(("open", 1.0, 2.0),)))
    assert collector.spans == []
    assert spans.figures().lost == 0


@pytest.mark.parametrize(
    "given", [b"", b"00", b"\xff\xfe", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"x" * 10_000, CANARY.encode()]
)
def test_what_is_no_trace_begins_one(given: bytes, collector: Collector, address: str) -> None:
    traced(address, told(parent=given))
    (root,) = collector.roots
    assert root.parent_span_id == b""
    assert any(root.trace_id)
    assert CANARY.encode() not in collector.bodies[0]


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, Status.STATUS_CODE_UNSET), (404, Status.STATUS_CODE_UNSET), (503, Status.STATUS_CODE_ERROR)],
)
def test_a_fault_of_the_service_is_one_of_the_span(status: int, code: Any, collector: Collector, address: str) -> None:
    traced(address, told(status=status, route=None))
    (root,) = collector.roots
    assert (root.name, root.status.code) == ("POST", code)


def test_two_requests_are_two_traces(collector: Collector, address: str) -> None:
    traced(address, *(told(id=str(number)) for number in range(500)))
    assert len({root.trace_id for root in collector.roots}) == 500


def test_a_collector_that_is_away_costs_a_counter_and_one_line() -> None:
    lines: list[tuple[Any, ...]] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    spans = traced(f"http://127.0.0.1:{port}/v1/traces", *[told()] * 300, lines=lines, seconds=0.2)
    assert (spans.figures().sent, spans.figures().lost) == (0, 300)
    assert lines == [("warning", "traces_lost", {})]


@pytest.mark.parametrize("status", [400, 404, 500])
def test_what_a_collector_does_not_take_is_lost(status: int, collector: Collector, address: str) -> None:
    collector.status, collector.answer = status, b"\xff\x00garbage" * 1000
    spans = traced(address, told())
    assert (spans.figures().sent, spans.figures().lost) == (0, 1)


def test_a_collector_sends_nobody_elsewhere(collector: Collector, address: str) -> None:
    collector.status, collector.headers = 307, {"location": address}
    spans = traced(address, told())
    assert (len(collector.bodies), spans.figures().lost) == (1, 1)


def test_a_collector_that_answers_nonsense_has_taken_them(collector: Collector, address: str) -> None:
    collector.answer = b"\xff\x00garbage" * 1000
    assert traced(address, told()).figures().sent == 1


def test_it_is_told_once_that_a_collector_is_back(collector: Collector, address: str) -> None:
    lines: list[tuple[Any, ...]] = []
    collector.status = 500
    spans = Spans(address, "1", lambda *line: lines.append(line))
    spans.told(told())
    wait_until(lambda: spans.figures().lost)
    collector.status = 200
    spans.told(told())
    wait_until(lambda: spans.figures().sent)
    spans.close()
    assert lines == [("warning", "traces_lost", {}), ("info", "traces_back", {})]


def test_a_collector_that_never_answers_holds_nobody_up_and_no_more_than_so_much(
    collector: Collector, address: str
) -> None:
    collector.go_on.clear()
    spans = Spans(address, "1", lambda *_: None, seconds=60)
    spans.told(told())
    wait_until(lambda: collector.bodies)
    for _ in range(MOST_WAITING + 5):
        spans.told(told())
    assert spans.figures().lost == 5
    spans.close(0.1)  # it would last a minute
    assert spans.figures().lost == 5 + MOST_WAITING
    collector.go_on.set()
    wait_until(lambda: not any(thread.name == "spans" for thread in threading.enumerate()))
    figures = spans.figures()
    assert (len(collector.bodies), figures.sent, figures.lost) == (1, 1, 5 + MOST_WAITING), "it was given up"


def test_what_is_told_after_the_end_is_lost(address: str) -> None:
    spans = traced(address)
    spans.told(told())
    assert spans.figures().lost == 1


def test_nothing_of_a_caller_is_in_a_span_of_the_service(collector: Collector, address: str, tmp_path: Path) -> None:
    (tmp_path / CANARY).mkdir()
    (tmp_path / CANARY / "CLAUDE.md").write_text(CANARY)
    settings = Settings(roots=(tmp_path,), traces_url=address)
    body = inline({f"/home/{CANARY}/CLAUDE.md": CANARY}, workspace={"cwd": f"/home/{CANARY}"}, session_id=CANARY)
    body["messages"] = [{"role": "user", "content": CANARY}]
    local = {"model": CANARY, "workspace": {"source": "local", "cwd": str(tmp_path / CANARY)}}
    with serve(create_app(settings)) as served_at, httpx.Client(base_url=served_at, trust_env=False) as client:
        client.headers.update({"x-api-key": CANARY, "x-upstream-api-key": CANARY, "user-agent": CANARY})
        for _ in range(2):  # the second is given again
            assert client.post(f"/v1/context?q={CANARY}", json=body).status_code == 200
        assert client.post("/v1/context", json=local).status_code == 200
        assert client.get(f"/v1/sessions/{CANARY}").status_code == 200
        assert client.get(f"/{CANARY}").status_code == 404
        assert client.request("PROPFIND", f"/{CANARY}").status_code == 404
        wait_until(lambda: len(collector.roots) == 6)
    assert [body for body in collector.bodies if CANARY.encode() in body or str(tmp_path).encode() in body] == []
    assert {root.name for root in collector.roots} == {
        "POST /v1/context",
        "GET /v1/sessions/{session_id}",
        "GET",
        "other",
    }
    assert {each.key for span in collector.spans for each in span.attributes} == ATTRIBUTES


def test_a_request_of_the_service_goes_on_with_the_trace_of_its_caller(collector: Collector, address: str) -> None:
    with serve(create_app(Settings(roots=(), traces_url=address))) as served_at:
        given = {"traceparent": f"00-{TRACE}-{PARENT}-01", "x-request-id": "mine"}
        for _ in range(2):  # the second is given again
            httpx.post(f"{served_at}/v1/context", json=inline(), headers=given, trust_env=False)
        wait_until(lambda: len(collector.roots) == 2)
    assert {(root.trace_id.hex(), root.parent_span_id.hex()) for root in collector.roots} == {(TRACE, PARENT)}
    ids = {each.value.string_value for root in collector.roots for each in root.attributes if "id" in each.key}
    assert ids == {"mine"}
    parts = {span.name for span in collector.spans if span.kind != Span.SPAN_KIND_SERVER}
    assert {"open", "gather", "assemble", "write"} <= parts


def test_a_service_that_ends_sends_what_it_has(collector: Collector, address: str) -> None:
    with serve(create_app(Settings(roots=(), traces_url=address))) as served_at:
        httpx.get(f"{served_at}/healthz", trust_env=False)
    assert [root.name for root in collector.roots] == ["GET /healthz"]


def test_every_worker_sends_its_own(collector: Collector, address: str, tmp_path: Path) -> None:
    with served(tmp_path, "--workers", "2", STRATA_TRACES_URL=address) as (served_at, process):
        for _ in range(30):
            httpx.get(f"{served_at}/healthz", timeout=60, trust_env=False)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    ids = [each.value.string_value for root in collector.roots for each in root.attributes if "id" in each.key]
    assert len(set(ids)) == len(ids) >= 30
    assert len({root.trace_id for root in collector.roots}) == len(ids)
    assert len({each[:20] for each in ids}) == 2  # each process has names of its own


def test_without_the_setting_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNTRACED]
    done = subprocess.run(
        command, env=surroundings(tmp_path), cwd=ROOT, capture_output=True, check=True, timeout=60, text=True
    )
    assert done.stdout == "[]\n"


def test_without_the_extra_the_service_says_what_to_install(tmp_path: Path) -> None:
    missing = tmp_path / "opentelemetry" / "sdk"  # the framework brings the other parts along
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ModuleNotFoundError(name='opentelemetry.sdk')")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    done = strata(tmp_path, "serve", "--port", "0", STRATA_TRACES_URL="http://127.0.0.1:1/v1/traces", PYTHONPATH=path)
    failed(done, 1, "strata: STRATA_TRACES_URL needs a package more: pip install '.[otel]'")
