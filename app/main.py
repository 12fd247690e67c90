"""The only place that builds things."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.api import answer_problems, answer_unexpected, contract, routes
from app.attempts import SessionAttempts
from app.callers import ANYONE, Caller, Keys, KeysFileError, Meters, caller_of
from app.compacting import Compactions
from app.compaction_routes import compaction_routes
from app.context import Contexts
from app.core.allowance import Limits
from app.core.costs import Prices, priced
from app.core.markdown import MarkdownReader
from app.core.models import ModelTable
from app.counting import Counting
from app.data.tables import load_models
from app.data.texts import load_prose
from app.disk_checks import DiskChecks
from app.documentation import Documentation, document
from app.event_routes import event_routes
from app.figures import KeyFigures, WorkFigures
from app.gate import Gate, GateLimits, Room
from app.gather import Known
from app.guard import Admission, Guard
from app.hub import Hub, Rhythm, Seats
from app.log import Log, standard_error_log
from app.looking import Looks
from app.metrics import Metrics
from app.origins import Origins
from app.phases import Phases
from app.reckoning import Reckoning
from app.request_metrics import RequestMetrics
from app.scanning import Scans
from app.session_routes import session_routes
from app.session_states import SessionStates
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Store
from app.summarizing import Summaries
from app.telemetry import Telemetry, Telling
from app.tracing import Spans
from app.traffic import BodyBudget, Patience, Traffic
from app.upstream import Upstream
from app.warm import Warm
from app.warm_layer import WarmLayer
from app.watching import Watchers
from app.wire.descriptor import MANAGED_DIRS
from app.wire.requests import Server
from app.workspaces.caches import Documents
from app.workspaces.containment import Proven
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints
from app.workspaces.opening import Ground
from app.workspaces.program import GitProgram

DESCRIPTION = (
    "A workspace goes in; system blocks with cache scopes, the CLAUDE.md message, and token and compaction state come "
    "out, ready for messages.create."
)


MARGIN_SECONDS = 5.0
"""What an answer may take beside what has a limit of its own."""


class CannotStartError(RuntimeError):
    """What the settings ask for is not here, such as an extra that was not installed."""


def prices_of(settings: Settings, models: ModelTable) -> Prices:
    """The prices that the settings name; the service ships none."""
    return priced(settings.prices, settings.currency, models)


def upstream_of(settings: Settings) -> Upstream:
    """The Messages API that is asked for counts and summaries."""
    return Upstream(
        settings.upstream_url,
        settings.anthropic_api_key,
        timeout_seconds=settings.upstream_seconds,
        retries=settings.upstream_retries,
        create_seconds=settings.compact_seconds,
    )


def store_of(settings: Settings) -> Store:
    """Where sessions are remembered: in this process, or also in Redis.

    Raises:
        CannotStartError: the extra for Redis is not installed.
    """
    most, most_bytes, idle = settings.max_sessions, settings.max_session_bytes, settings.session_idle_seconds
    if settings.redis_url is None:
        return ProcessStore(most, most_bytes, idle, time.monotonic)
    store: Store = _redis_store()(
        settings.redis_url,
        settings.redis_seconds,
        most=most,
        most_bytes=most_bytes,
        idle_seconds=idle,
        clock=time.monotonic,
        tell=standard_error_log(settings.log_level).line,
    )
    return store


def _redis_store() -> Any:
    try:
        return import_module("app.stores.redis").RedisStore
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise CannotStartError("STRATA_REDIS_URL needs a package more: pip install 'strata[redis]'") from error


def fence_around(settings: Settings, roots: Iterable[str]) -> Fence:
    """What a caller who may read ``roots`` is shown: these, and the managed folder."""
    return Fence.of([*roots, MANAGED_DIRS[settings.platform]])


def limits_of(settings: Settings) -> Limits:
    """How much of a workspace one request may take."""
    return Limits(
        rules=settings.max_rules,
        includes=settings.max_includes,
        memory_bytes=settings.max_memory_bytes,
        patterns=settings.max_patterns,
        looks=settings.max_looks,
        files=settings.max_files,
        depth=settings.max_depth,
    )


def keys_of(settings: Settings, log: Log) -> Keys:
    """Who may call.

    Raises:
        CannotStartError: the file of keys cannot be read.
    """
    try:
        return Keys(
            settings.api_keys,
            settings.keys_file,
            lambda roots: fence_around(settings, roots),
            clock=time.monotonic,
            tell=log.line,
        )
    except KeysFileError as error:
        raise CannotStartError(f"STRATA_KEYS_FILE names {settings.keys_file}, which cannot be used: {error}") from error


def spans_of(settings: Settings, log: Log) -> Spans | None:
    """Where traces go; None: nowhere.

    Raises:
        CannotStartError: the extra for traces is not installed.
    """
    if settings.traces_url is None:
        return None
    try:
        return Spans(settings.traces_url, __version__, log.line)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"opentelemetry", "requests"}:
            raise
        raise CannotStartError("STRATA_TRACES_URL needs a package more: pip install 'strata[otel]'") from error


def gate_limits(settings: Settings) -> GateLimits:
    """How many requests are worked on at once, and for how long."""
    return GateLimits(
        max_requests=settings.max_requests,
        max_queue=settings.max_queue,
        queue_seconds=settings.queue_seconds,
        max_upstream_requests=settings.max_upstream_requests,
        answer_seconds=2 * settings.request_seconds + MARGIN_SECONDS,
        compaction_seconds=settings.compact_seconds + 4 * settings.request_seconds + MARGIN_SECONDS,
        count_seconds=settings.count_seconds + 2 * settings.request_seconds + MARGIN_SECONDS,
    )


def traffic_of(settings: Settings, metrics: Metrics) -> Traffic:
    """What callers have under way together, and how long each is waited for."""
    patience = Patience(settings.head_seconds, settings.body_seconds, settings.send_seconds, settings.max_connections)
    return Traffic(patience, BodyBudget(settings.max_bodies_bytes), metrics.shed)


def watched(metrics: Metrics, contexts: Contexts, room: Room, traffic: Traffic, keys: Keys) -> None:
    """Has the figures tell what others count."""
    metrics.store(contexts.sessions.figures)
    documents, disk = contexts.known.documents, contexts.ground.disk
    if isinstance(documents, Documents):
        metrics.lookups("documents", lambda: documents.lookups)
        metrics.lookups("patterns", lambda: documents.pattern_lookups)
    metrics.lookups("files", lambda: disk.file_lookups)
    metrics.lookups("listings", lambda: disk.listing_lookups)
    metrics.lookups("counts", lambda: contexts.reckoning.counting.lookups)
    metrics.keys(lambda: KeyFigures(held=len(keys.ring.callers), reload_failures=keys.failures))
    metrics.under_way(
        lambda: WorkFigures(
            running=room.working.taken,
            queued=room.working.waiting,
            upstream=room.upstream.taken,
            body_bytes=traffic.bodies.held,
            connections=traffic.connections,
        )
    )


def build_contexts(settings: Settings) -> Contexts:
    """What answers requests, for the server and for the command line."""
    fence = fence_around(settings, map(str, settings.roots))
    disk = Disk(settings.max_file_cache_bytes)
    models, upstream = load_models(), upstream_of(settings)
    return Contexts(
        ground=Ground(
            fence=fence,
            program=GitProgram(timeout_seconds=settings.git_timeout_seconds, proven=Proven()),
            max_file_bytes=settings.max_file_bytes,
            disk=disk,
        ),
        known=Known(
            models=models,
            prose=load_prose(),
            markdown=MarkdownReader(),
            limits=limits_of(settings),
            request_seconds=settings.request_seconds,
            clock=time.monotonic,
            now=time.time,
            prices=prices_of(settings, models),
            cool_down=settings.breaker_cool_down_seconds,
            window_override=settings.max_context_tokens,
            documents=Documents(settings.max_document_cache_bytes),
        ),
        reckoning=Reckoning(Counting(upstream, models, settings.count_seconds, time.monotonic), models),
        upstream=upstream,
        sessions=Sessions(store_of(settings), __version__),
        footprints=Footprints(settings.max_file_bytes, disk),
    )


def scans(contexts: Contexts) -> Scans:
    """What answers scans, on the same ground."""
    return Scans(contexts.ground, contexts.known)


def compactions(contexts: Contexts, metrics: Metrics) -> Compactions:
    """What answers compactions, of the same sessions."""
    upstream = contexts.upstream
    sessioned = SessionAttempts(contexts.sessions, contexts.known, metrics, upstream.create_seconds)
    return Compactions(contexts, sessioned, Summaries(upstream), metrics)


def hub_of(settings: Settings, contexts: Contexts, metrics: Metrics, watchers: Watchers) -> Hub:
    """What tells of changes of the same sessions."""
    return Hub(
        DiskChecks(contexts.sessions, Looks(contexts.footprints)),
        watchers,
        metrics,
        now=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        rhythm=Rhythm(settings.watched_seconds, settings.polled_seconds),
        room=Seats(settings.max_listeners, settings.max_session_listeners),
    )


def server_facts(settings: Settings, caller: Caller = ANYONE) -> Server:
    """What this server adds to requests of ``caller``."""
    home = str(settings.home) if settings.home else None
    return Server(settings.platform, home, today(), caller.space, caller.fence, limits_of(settings))


def today() -> str:
    """The day in the server's zone, as ``YYYY-MM-DD``."""
    return time.strftime("%Y-%m-%d")


class Days:
    """Says what day it is in the server's zone, as ``YYYY-MM-DD``; asks the calendar once a second."""

    def __init__(self) -> None:
        self._second, self._day = -1, ""

    def __call__(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second, self._day = second, today()
        return self._day


class Service(FastAPI):
    """The application behind a layer that sees requests before anything else does."""

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self.front if scope["type"] == "http" else self.behind)(scope, receive, send)

    async def behind(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What FastAPI does with a request."""
        await super().__call__(scope, receive, send)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The ASGI application. Without settings: those of the environment."""
    settings = settings or Settings()
    return build_app(settings, build_contexts(settings))


def build_app(settings: Settings, contexts: Contexts, watchers: Watchers | None = None) -> FastAPI:
    """The ASGI application over what answers requests. ``app.state.stopping`` is set once the server is to end."""
    registry = CollectorRegistry()
    warm = Warm(
        contexts.sessions,
        contexts.footprints,
        settings.max_warm_bytes,
        settings.warm_seconds,
        clock=time.monotonic,
        now=time.time,
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        beside = (asyncio.create_task(hub.close_when(app.state.stopping)), asyncio.create_task(metrics.watch_loop()))
        yield
        for task in beside:
            task.cancel()
        hub.close()
        await contexts.close()
        if spans is not None:
            await asyncio.to_thread(spans.close)
        log.flush()

    log = standard_error_log(settings.log_level)
    metrics, spans, keys = Metrics(registry), spans_of(settings, log), keys_of(settings, log)
    telling = Telling(log, RequestMetrics(registry), Phases(registry), spans, settings.slow_seconds)
    room, traffic = Room(gate_limits(settings)), traffic_of(settings, metrics)
    admission = Admission(
        hosts=(*settings.allowed_hosts, settings.host),
        keys=keys,
        meters=Meters(time.monotonic),
        origins=Origins(settings.allowed_origins),
        max_body_bytes=settings.max_body_bytes,
    )
    app = Service(
        title="Strata",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        lifespan=lifespan,
        middleware=[
            Middleware(Telemetry, telling=telling, origins=admission.origins),
            Middleware(ExceptionMiddleware, handlers={Exception: answer_unexpected}),
            Middleware(Guard, admission=admission, refused=metrics.refused),
            Middleware(Gate, room=room, sheds=metrics.shed),
        ],
    )
    app.front = WarmLayer(app.behind, warm=warm, admission=admission, telling=telling, today=Days())
    app.state.stopping, app.state.metrics, app.state.traffic = asyncio.Event(), metrics, traffic
    models = contexts.known.models
    prices = contexts.known.prices
    watched(metrics, contexts, room, traffic, keys)
    metrics.warm(warm.figures)
    if spans is not None:
        metrics.spans(spans.figures)
    hub = hub_of(settings, contexts, metrics, watchers or Watchers())

    def server(request: Request) -> Server:
        return server_facts(settings, caller_of(request.scope))

    built = routes(
        contexts, warm, scans(contexts), metrics, models=models, prices=prices, version=__version__, server=server
    )
    compacting = compaction_routes(compactions(contexts, metrics), metrics, server=server)
    app.include_router(built)
    app.include_router(compacting)
    states = SessionStates(contexts.sessions, contexts.known)
    app.include_router(session_routes(states, contexts, warm, server=server, ended=hub.look))
    app.include_router(event_routes(hub, settings.heartbeat_seconds, contexts.ground.fence, admission.knows))
    answer_problems(app)
    app.openapi = lambda: contract(app)  # type: ignore[method-assign]
    document(app, Documentation(app.openapi))
    return app
