"""Figures for Prometheus. Labels are words of this service, so that there is an end to their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.core.budget import BreakerState
from app.core.compaction import Trigger

MEDIA_TYPE = CONTENT_TYPE_LATEST


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """Of the session store, since this process began. ``sessions`` and ``bytes`` are what this process holds now.

    ``failures`` are calls that failed, by kind; ``written_back`` sessions that the store had lost or missed;
    ``diverged`` those that another process wrote while this one went on alone; ``lost_races`` writes that came second;
    ``unreadable`` values that nobody could read.
    """

    sessions: int = 0
    bytes: int = 0
    reachable: bool = True
    failures: Mapping[str, int] = field(default_factory=dict)
    written_back: int = 0
    diverged: int = 0
    lost_races: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class WarmFigures:
    """Of answers to requests that may come again: how many are held now, how many were given again or assembled."""

    held: int = 0
    bytes: int = 0
    repeated: int = 0
    assembled: int = 0


class Metrics:
    """Built once, by `main`, with a registry of its own. The figures are this process's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._compactions = Counter(
            "strata_compactions", "Compactions by how they ended.", ("trigger", "outcome"), registry=registry
        )
        self._moves = Counter(
            "strata_breaker_transitions",
            "Breakers of sessions by the state they went into.",
            ("state",),
            registry=registry,
        )
        self._listeners = Gauge("strata_event_listeners", "Streams of events that are open.", registry=registry)
        self._events = Counter("strata_events", "Events told of sessions, by kind.", ("event",), registry=registry)
        self._dropped = Counter(
            "strata_event_listeners_dropped", "Readers of events that were dropped.", ("reason",), registry=registry
        )

    def listeners(self, open_now: int) -> None:
        self._listeners.set(open_now)

    def event(self, name: str) -> None:
        self._events.labels(name).inc()

    def dropped(self, reason: str) -> None:
        self._dropped.labels(reason).inc()

    def compaction(self, trigger: Trigger, outcome: str) -> None:
        """``outcome``: ``ok``, ``aborted``, ``failed``, or the reason of a failure."""
        self._compactions.labels(trigger, outcome).inc()

    def breaker(self, before: BreakerState, after: BreakerState) -> None:
        if before != after:
            self._moves.labels(after).inc()

    def store(self, figures: Callable[[], StoreFigures]) -> None:
        """Tells those of the session store too, as they are whenever somebody asks."""
        self._registry.register(_Told(lambda: _store_families(figures())))

    def warm(self, figures: Callable[[], WarmFigures]) -> None:
        """Tells those of answers that are held."""
        self._registry.register(_Told(lambda: _warm_families(figures())))

    def written(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)


class _Told(Collector):
    """Figures that somebody else keeps."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _warm_families(now: WarmFigures) -> Iterator[Metric]:
    yield _gauge("warm_answers", "Answers that are held to be given again.", now.held)
    yield _gauge("warm_bytes", "Bytes of the answers that are held.", now.bytes)
    answers = CounterMetricFamily("strata_answers", "Contexts by where their bytes came from.", labels=("origin",))
    answers.add_metric(["repeated"], now.repeated)
    answers.add_metric(["assembled"], now.assembled)
    yield answers


def _store_families(now: StoreFigures) -> Iterator[Metric]:
    yield _gauge("sessions", "Sessions that this process holds in memory.", now.sessions)
    yield _gauge("session_bytes", "Bytes of the sessions that this process holds.", now.bytes)
    yield _gauge("store_reachable", "1 while the session store can be reached.", int(now.reachable))
    failed = CounterMetricFamily("strata_store_failures", "Calls of the store that failed.", labels=("kind",))
    for kind, times in sorted(now.failures.items()):
        failed.add_metric([kind], times)
    yield failed
    yield _counter("sessions_written_back", "Sessions that the store had lost or missed.", now.written_back)
    yield _counter("sessions_diverged", "Sessions that went on elsewhere while alone here.", now.diverged)
    yield _counter("store_lost_races", "Writes of sessions that came second.", now.lost_races)
    yield _counter("store_unreadable", "Values in the store that could not be read.", now.unreadable)


def _gauge(name: str, told: str, value: int) -> Metric:
    return GaugeMetricFamily(f"strata_{name}", told, value)


def _counter(name: str, told: str, value: int) -> Metric:
    return CounterMetricFamily(f"strata_{name}", told, value)
