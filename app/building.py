"""The parts of the service, each built from the settings."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from app import __version__
from app.attempts import SessionAttempts
from app.callers import Keys
from app.compacting import Compactions
from app.context import Contexts
from app.core.allowance import Limits
from app.core.costs import Prices, priced
from app.core.markdown import MarkdownReader
from app.core.models import ModelTable
from app.counting import Counting
from app.data.tables import load_models
from app.data.texts import load_prose
from app.disk_checks import DiskChecks
from app.figures import KeyFigures, WorkFigures
from app.gate import GateLimits, Room
from app.gather import Known
from app.hub import Hub, Rhythm, Seats
from app.keys_file import Key, KeysFile, KeysFileError
from app.log import Log, standard_error_log
from app.looking import Looks
from app.metrics import Metrics
from app.reckoning import Reckoning
from app.scanning import Scans
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Store
from app.summarizing import Summaries
from app.tracing import Spans
from app.traffic import BodyBudget, Patience, Traffic
from app.upstream import Upstream
from app.watching import Watchers
from app.wire.descriptor import MANAGED_DIRS
from app.workspaces.caches import Documents
from app.workspaces.containment import Proven
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints
from app.workspaces.landlock import confinement_of
from app.workspaces.opening import Ground
from app.workspaces.program import GitProgram

GIT = "git"

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
        raise CannotStartError("STRATA_REDIS_URL needs a package more: pip install '.[redis]'") from error


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


def keys_of(settings: Settings, log: Log, kept: tuple[Key, ...] | None) -> Keys:
    """Who may call. ``kept`` are the rows of the file as whoever started this process has read them; None: nobody has.

    Raises:
        CannotStartError: the file of keys cannot be read, and nobody has kept its keys.
    """
    with _readable_keys(settings):
        return Keys(
            settings.api_keys,
            settings.keys_file,
            lambda roots: fence_around(settings, roots),
            log.line,
            kept,
        )


def keys_file_of(settings: Settings) -> KeysFile | None:
    """The keys of the file, for who starts others that serve. Raises as `keys_of`."""
    with _readable_keys(settings):
        return None if settings.keys_file is None else KeysFile(settings.keys_file)


@contextmanager
def _readable_keys(settings: Settings) -> Iterator[None]:
    try:
        yield
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
        raise CannotStartError("STRATA_TRACES_URL needs a package more: pip install '.[otel]'") from error


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
        max_values=settings.max_values,
    )


def traffic_of(settings: Settings, metrics: Metrics) -> Traffic:
    """What callers have under way together, and how long each is waited for."""
    patience = Patience(
        head_seconds=settings.head_seconds,
        body_seconds=settings.body_seconds,
        send_seconds=settings.send_seconds,
        max_connections=settings.max_connections,
        max_head_bytes=settings.max_head_bytes,
    )
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
    metrics.git(lambda: contexts.ground.program.confined)
    metrics.keys(lambda: KeyFigures(held=len(keys.ring.callers), reload_failures=keys.failures))
    metrics.under_way(
        lambda: WorkFigures(
            running=room.working.taken,
            queued=room.working.waiting,
            upstream=sum(places.taken for places in room.upstream.values()),
            body_bytes=traffic.bodies.held,
            connections=traffic.connections,
        )
    )


def git_program(settings: Settings) -> GitProgram:
    """git, kept by the system itself from files outside where that is offered (Linux from 5.13 on)."""
    seconds = settings.git_timeout_seconds
    return GitProgram(timeout_seconds=seconds, proven=Proven(), confinement=confinement_of(GIT))


def build_contexts(settings: Settings) -> Contexts:
    """What answers requests, for the server and for the command line."""
    fence = fence_around(settings, map(str, settings.roots))
    disk = Disk(settings.max_file_cache_bytes)
    models, upstream = load_models(), upstream_of(settings)
    return Contexts(
        ground=Ground(
            fence=fence,
            program=git_program(settings),
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
