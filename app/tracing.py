"""Spans of requests for a collector that speaks OTLP over HTTP: told on the event loop, made and sent beside it."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from threading import Event, Thread
from typing import Any

from app.figures import SpanFigures
from app.log import Level
from app.phases import Row

Tell = Callable[[Level, str, Mapping[str, Any]], object]

MOST_WAITING = 4_096
"""Requests that wait to be sent; beyond them, spans are lost and counted."""

TOGETHER = 256
"""Requests whose spans are sent in one call."""

EVERY_SECONDS = 1.0
SENDING_SECONDS = 5.0
"""How long a collector may take for a call, attempts after failures included."""

CLOSING_SECONDS = 3.0
SERVER_FAULT = 500
NANOSECONDS = 1_000_000_000

_LOST: tuple[Level, str] = ("warning", "traces_lost")
_BACK: tuple[Level, str] = ("info", "traces_back")


@dataclass(frozen=True, slots=True)
class Told:
    """A request that has ended. ``parent`` is the caller's traceparent; times are of the clock of its ``rows``."""

    id: str
    method: str
    route: str | None
    status: int
    began: float
    ended: float
    parent: bytes | None
    rows: tuple[Row, ...]

    @property
    def spans(self) -> int:
        return 1 + len(self.rows)


@dataclass(frozen=True, slots=True)
class _Library:
    """The parts of OpenTelemetry that are used."""

    trace: Any
    context: Any
    sdk: Any
    export: Any
    resources: Any
    http: Any
    propagation: Any
    requests: Any


def _loaded() -> _Library:
    """Raises ModuleNotFoundError where the extra is not installed."""
    return _Library(
        trace=import_module("opentelemetry.trace"),
        context=import_module("opentelemetry.context"),
        sdk=import_module("opentelemetry.sdk.trace"),
        export=import_module("opentelemetry.sdk.trace.export"),
        resources=import_module("opentelemetry.sdk.resources"),
        http=import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter"),
        propagation=import_module("opentelemetry.trace.propagation.tracecontext"),
        requests=import_module("requests"),
    )


class Spans:
    """Built once, by `main`; its thread begins with the first request, in whatever process answers that.

    A collector that is away, slow, or answers nonsense costs a counter and a line of the log when that begins and
    ends. ``url`` is where it takes spans, such as ``http://collector:4318/v1/traces``.

    Raises ModuleNotFoundError where OpenTelemetry is not installed.
    """

    def __init__(self, url: str, version: str, tell: Tell, seconds: float = SENDING_SECONDS) -> None:
        self._library = _loaded()
        self._url, self._version, self._seconds = url, version, seconds
        self._tell = tell
        self._waiting: deque[Told] = deque()
        self._closing = Event()
        self._thread: Thread | None = None
        self._sent = self._lost = 0
        self._fails = False

    def figures(self) -> SpanFigures:
        return SpanFigures(self._sent, self._lost)

    def told(self, one: Told) -> None:
        """On one event loop."""
        if len(self._waiting) >= MOST_WAITING or self._closing.is_set():
            self._lost += one.spans
            return
        self._waiting.append(one)
        if self._thread is None:
            self._thread = Thread(target=self._run, name="spans", daemon=True)
            self._thread.start()

    def close(self, seconds: float = CLOSING_SECONDS) -> None:
        """Sends what waits, for at most ``seconds``; what is told from now on is lost."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(seconds)
        while left := self._taken():
            self._lost += sum(one.spans for one in left)

    def _run(self) -> None:
        sender = _Sender(self._library, self._url, self._version, self._seconds)
        while not self._closing.wait(EVERY_SECONDS):
            self._send(sender)
        self._send(sender)
        sender.close()

    def _send(self, sender: _Sender) -> None:
        while batch := self._taken():
            self._sent_or_lost(sum(one.spans for one in batch), taken=sender.send(batch))

    def _taken(self) -> list[Told]:
        """The next ones that wait, for the thread, or for the one who ends it and waits for it no longer."""
        taken: list[Told] = []
        with suppress(IndexError):
            while len(taken) < TOGETHER:
                taken.append(self._waiting.popleft())
        return taken

    def _sent_or_lost(self, spans: int, *, taken: bool) -> None:
        if taken:
            self._sent += spans
        else:
            self._lost += spans
        if self._fails == taken:
            self._fails = not taken
            level, event = _BACK if taken else _LOST
            self._tell(level, event, {})


class _Sender:
    """Belongs to one thread. A parent that the caller names is taken as the library takes it, its sampling included."""

    def __init__(self, library: _Library, url: str, version: str, seconds: float) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # failures are counted here
        self._library = library
        self._exporter = library.http.OTLPSpanExporter(endpoint=url, timeout=seconds, session=_session(library))
        self._ended: list[Any] = []
        about = {"service.name": "strata", "service.version": version}
        provider = library.sdk.TracerProvider(resource=library.resources.Resource.create(about), shutdown_on_exit=False)
        provider.add_span_processor(_keeping(library, self._ended))
        self._tracer = provider.get_tracer("strata", version)
        self._propagator = library.propagation.TraceContextTextMapPropagator()

    def send(self, batch: list[Told]) -> bool:
        """Whether the collector took them."""
        since = time.time() - time.perf_counter()
        for one in batch:
            self._make(one, since)
        spans = tuple(self._ended)
        self._ended.clear()
        done = self._library.export.SpanExportResult.SUCCESS
        return not spans or self._exporter.export(spans) == done

    def close(self) -> None:
        self._exporter.shutdown()

    def _make(self, one: Told, since: float) -> None:
        trace = self._library.trace
        span = self._tracer.start_span(
            f"{one.method} {one.route}" if one.route else one.method,
            context=self._parent(one),
            kind=trace.SpanKind.SERVER,
            attributes=dict(_attributes(one)),
            start_time=_nanoseconds(since + one.began),
        )
        if one.status >= SERVER_FAULT:
            span.set_status(trace.StatusCode.ERROR)
        within = trace.set_span_in_context(span)
        for phase, began, ended in one.rows:
            kind = trace.SpanKind.CLIENT if phase == "upstream" else trace.SpanKind.INTERNAL
            part = self._tracer.start_span(phase, context=within, kind=kind, start_time=_nanoseconds(since + began))
            part.end(_nanoseconds(since + ended))
        span.end(_nanoseconds(since + one.ended))

    def _parent(self, one: Told) -> Any:
        """An empty context where there is none: never what this thread happens to stand in."""
        named = {} if one.parent is None else {"traceparent": one.parent.decode("latin-1")}
        return self._propagator.extract(named, context=self._library.context.Context())


def _attributes(one: Told) -> Iterator[tuple[str, str | int]]:
    yield "http.request.method", one.method
    yield "http.response.status_code", one.status
    yield "strata.request_id", one.id
    if one.route is not None:
        yield "http.route", one.route


def _session(library: _Library) -> Any:
    """Neither proxies nor passwords of the environment, and nobody sends us elsewhere."""
    session = library.requests.Session()
    session.trust_env = False
    session.max_redirects = 0
    return session


def _keeping(library: _Library, ended: list[Any]) -> Any:
    """A processor that puts what has ended into ``ended``."""

    class Keeping(library.sdk.SpanProcessor):  # type: ignore[misc, name-defined]
        def on_end(self, span: Any) -> None:
            ended.append(span)

    return Keeping()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * NANOSECONDS)
