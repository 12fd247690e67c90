"""The application, put together from its parts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app import __version__
from app.api import answer_problems, answer_unexpected, contract, routes
from app.building import (
    build_contexts,
    compactions,
    gate_limits,
    hub_of,
    keys_of,
    limits_of,
    scans,
    spans_of,
    traffic_of,
    watched,
)
from app.callers import ANYONE, Caller, Meters, caller_of
from app.compaction_routes import compaction_routes
from app.context import Contexts
from app.documentation import Documentation, document
from app.event_routes import event_routes
from app.gate import Gate, Room
from app.guard import Admission, Guard
from app.keys_file import Key
from app.log import standard_error_log
from app.metrics import Metrics
from app.origins import Origins
from app.phases import Phases
from app.request_metrics import RequestMetrics
from app.session_routes import session_routes
from app.session_states import SessionStates
from app.settings import Settings
from app.telemetry import Telemetry, Telling
from app.warm import Warm
from app.warm_layer import WarmLayer
from app.watching import Watchers
from app.wire.requests import Server

SPARE_THREADS = 32
"""Beside one for each request that is worked on: whoever has a place is not kept waiting for a thread."""

DESCRIPTION = (
    "A workspace goes in; system blocks with cache scopes, the CLAUDE.md message, and token and compaction state come "
    "out, ready for messages.create."
)


def server_facts(settings: Settings, caller: Caller = ANYONE) -> Server:
    """What this server adds to requests of ``caller``."""
    return Server(settings.platform, _home(settings, caller), today(), caller.space, caller.fence, limits_of(settings))


def _home(settings: Settings, caller: Caller) -> str | None:
    """The service's home, for whoever may read it: others have none there, and are not told of this one."""
    home = str(settings.home) if settings.home else None
    return home if home is None or caller.fence is None or caller.fence.holds(os.path.realpath(home)) else None


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


def create_app(settings: Settings | None = None, kept: tuple[Key, ...] | None = None) -> FastAPI:
    """The ASGI application. Without settings: those of the environment. ``kept`` is as for `keys_of`."""
    settings = settings or Settings()
    return build_app(settings, build_contexts(settings), kept=kept)


def build_app(
    settings: Settings,
    contexts: Contexts,
    watchers: Watchers | None = None,
    *,
    kept: tuple[Key, ...] | None = None,
) -> FastAPI:
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
        threads = ThreadPoolExecutor(settings.max_requests + SPARE_THREADS, "strata")
        asyncio.get_running_loop().set_default_executor(threads)
        beside = [
            asyncio.create_task(task)
            for task in (hub.close_when(app.state.stopping), metrics.watch_loop(), keys.watch())
        ]
        yield
        for task in beside:
            task.cancel()
        hub.close()
        await contexts.close()
        if spans is not None:
            await asyncio.to_thread(spans.close)
        log.flush()

    log = standard_error_log(settings.log_level)
    metrics, spans, keys = Metrics(registry), spans_of(settings, log), keys_of(settings, log, kept)
    phases, slow = Phases(registry), settings.slow_seconds
    telling = Telling(log, RequestMetrics(registry), phases, spans, slow, turned_away=metrics.answered)
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
    answer_problems(app, metrics.answered)
    app.openapi = lambda: contract(app)  # type: ignore[method-assign]
    document(app, Documentation(app.openapi))
    return app
