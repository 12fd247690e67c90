"""The only place that builds things."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware

from app import __version__
from app.api import answer_problems, answer_unexpected, contract, routes
from app.attempts import SessionAttempts
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
from app.gather import Known
from app.guard import Guard
from app.metrics import Metrics
from app.reckoning import Reckoning
from app.scanning import Scans
from app.session_routes import session_routes
from app.session_states import SessionStates
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.summarizing import Summaries
from app.telemetry import Telemetry, logger
from app.upstream import Upstream
from app.wire.descriptor import MANAGED_DIRS
from app.wire.requests import Server
from app.workspaces.fence import Fence
from app.workspaces.opening import Ground
from app.workspaces.program import GitProgram

DESCRIPTION = (
    "A workspace goes in; system blocks with cache scopes, the CLAUDE.md message, and token and compaction state come "
    "out, ready for messages.create."
)


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


def build_contexts(settings: Settings) -> Contexts:
    """What answers requests, for the server and for the command line."""
    managed = MANAGED_DIRS[settings.platform]
    models, upstream = load_models(), upstream_of(settings)
    store = ProcessStore(
        settings.max_sessions, settings.max_session_bytes, settings.session_idle_seconds, time.monotonic
    )
    return Contexts(
        ground=Ground(
            fence=Fence.of([*map(str, settings.roots), managed]),
            program=GitProgram(timeout_seconds=settings.git_timeout_seconds),
            max_file_bytes=settings.max_file_bytes,
        ),
        known=Known(
            models=models,
            prose=load_prose(),
            markdown=MarkdownReader(),
            limits=Limits(settings.max_rules, settings.max_includes, settings.max_memory_bytes),
            request_seconds=settings.request_seconds,
            clock=time.monotonic,
            now=time.time,
            prices=prices_of(settings, models),
            cool_down=settings.breaker_cool_down_seconds,
            window_override=settings.max_context_tokens,
        ),
        reckoning=Reckoning(Counting(upstream, models, settings.count_seconds, time.monotonic), models),
        upstream=upstream,
        sessions=Sessions(store, __version__, store.notices),
    )


def scans(contexts: Contexts) -> Scans:
    """What answers scans, on the same ground."""
    return Scans(contexts.ground, contexts.known.prose)


def compactions(contexts: Contexts, metrics: Metrics) -> Compactions:
    """What answers compactions, of the same sessions."""
    upstream = contexts.upstream
    sessioned = SessionAttempts(contexts.sessions, contexts.known, metrics, upstream.create_seconds)
    return Compactions(contexts, sessioned, Summaries(upstream), metrics)


def server_facts(settings: Settings) -> Server:
    today = dt.datetime.now().astimezone().date().isoformat()
    return Server(settings.platform, str(settings.home) if settings.home else None, today)


def create_app(settings: Settings | None = None) -> FastAPI:
    """The ASGI application. Without settings: those of the environment."""
    settings = settings or Settings()
    return build_app(settings, build_contexts(settings))


def build_app(settings: Settings, contexts: Contexts) -> FastAPI:
    """The ASGI application over what answers requests."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await contexts.close()

    app = FastAPI(
        title="Strata",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        redoc_url=None,
        lifespan=lifespan,
        middleware=[
            Middleware(Telemetry, log=logger(settings.log_level)),
            Middleware(ExceptionMiddleware, handlers={Exception: answer_unexpected}),
            Middleware(
                Guard,
                hosts=(*settings.allowed_hosts, settings.host),
                keys=settings.api_keys,
                max_body_bytes=settings.max_body_bytes,
            ),
        ],
    )
    models = contexts.known.models
    prices = contexts.known.prices
    metrics = Metrics(CollectorRegistry())
    built = routes(contexts, scans(contexts), models, prices, __version__, server=lambda: server_facts(settings))
    compacting = compaction_routes(compactions(contexts, metrics), metrics, server=lambda: server_facts(settings))
    app.include_router(built)
    app.include_router(compacting)
    app.include_router(session_routes(SessionStates(contexts.sessions, contexts.known)))
    answer_problems(app)
    written: dict[str, Any] = contract(app)
    app.openapi = lambda: written  # type: ignore[method-assign]
    return app
