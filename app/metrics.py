"""Figures for Prometheus. Labels are words of this service, so that there is an end to their number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from app.core.assembly import Assembly
from app.core.budget import BreakerState
from app.core.compaction import Trigger
from app.figures import (
    DIFFERENCES,
    LAGS,
    OUTCOMES,
    PARTS,
    REFUSALS,
    SHEDS,
    TOKENS,
    UNKNOWN_FAMILY,
    KeyFigures,
    Layer,
    Lookups,
    Shed,
    SpanFigures,
    WorkFigures,
    complete,
    counter,
    gauge,
    git_families,
    key_families,
    lookup_families,
    outcome_of,
    part_of,
    refusal_behind,
    refusal_of,
    shed_behind,
    span_families,
    work_families,
)
from app.request_metrics import Histogram as Drawn

MEDIA_TYPE = CONTENT_TYPE_LATEST
LOOK_SECONDS = 1.0
"""How often it is looked how late the event loop comes."""

CREATED = "_created"
"""Ends the names of samples that tell when a counter began, which the text format has no place for."""


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """Of the session store, since this process began. ``sessions`` and ``bytes`` are what this process holds now.

    ``failures`` are calls that failed, by kind; ``written_back`` sessions that the store had lost or missed;
    ``diverged`` those that another process wrote while this one went on alone; ``lost_races`` writes that came second;
    ``unreadable`` values that nobody could read; ``evicted`` sessions that made room for later ones of their tenant.
    """

    sessions: int = 0
    bytes: int = 0
    reachable: bool = True
    failures: Mapping[str, int] = field(default_factory=dict)
    written_back: int = 0
    diverged: int = 0
    lost_races: int = 0
    unreadable: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class WarmFigures:
    """Of answers to requests that may come again: how many are held now, how many were given again or assembled."""

    held: int = 0
    bytes: int = 0
    repeated: int = 0
    assembled: int = 0


Shared = Callable[[], Awaitable[Iterable[Metric]]]
"""Figures of all processes of a service."""


class Metrics:
    """Built once, by `main`, with a registry of its own. The figures are this process's until they are shared."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._shared: Shared | None = None
        self._layers: dict[Layer, Callable[[], tuple[int, int]]] = {}
        self._compactions = self._counter("compactions", "Compactions by how they ended.", "trigger", "outcome")
        self._moves = self._counter("breaker_transitions", "Breakers of sessions by the state they went into.", "state")
        self._listeners = Gauge("strata_event_listeners", "Streams of events that are open.", registry=registry)
        self._events = self._counter("events", "Events told of sessions, by kind.", "event")
        self._dropped = self._counter("event_listeners_dropped", "Readers of events that were dropped.", "reason")
        self._sheds = self._counter("sheds", "Requests that there was no room for.", "reason")
        self._refusals = self._counter("refusals", "Requests that were refused.", "reason")
        self._tokens = self._counter("tokens", "Tokens of contexts that were assembled, by part.", "part")
        self._outcomes = self._counter("prompt_cache", "Turns by what the prompt cache makes of them.", "outcome")
        self._sections = self._counter("sections", "Cached sections of the prompt by where they came from.", "origin")
        self._contexts = Histogram(
            "strata_context_tokens", "Tokens in use.", ("family",), buckets=TOKENS, registry=registry
        )
        self._lag = Histogram(
            "strata_event_loop_lag_seconds", "How late the event loop comes.", buckets=LAGS, registry=registry
        )
        Gauge("strata_threads", "Threads of the process.", registry=registry).set_function(threading.active_count)
        Gauge("strata_workers", "Processes that these figures are of.", registry=registry).set(1)
        ProcessCollector(registry=registry)
        registry.register(_Told(self._lookups))
        self._begin_at_zero()

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"strata_{name}", told, labels, registry=self._registry)

    def _begin_at_zero(self) -> None:
        """A rate can be told from the first time on."""
        words = ((self._sheds, SHEDS), (self._refusals, REFUSALS), (self._tokens, PARTS), (self._outcomes, OUTCOMES))
        for counted, each in words:
            for word in each:
                counted.labels(word)
        for origin in ("remembered", "computed"):
            self._sections.labels(origin)

    def listeners(self, open_now: int) -> None:
        self._listeners.set(open_now)

    def event(self, name: str) -> None:
        self._events.labels(name).inc()

    def dropped(self, reason: str) -> None:
        self._dropped.labels(reason).inc()

    def shed(self, reason: Shed) -> None:
        """A request that could have been answered had there been room."""
        self._sheds.labels(reason).inc()

    def refused(self, kind: str) -> None:
        """A request that was not let in, by the type of its problem."""
        self._refusals.labels(refusal_of(kind)).inc()

    def answered(self, kind: str) -> None:
        """A request that was let in, or did not come whole, and was answered with a problem of this type.

        Counted where that refuses or sheds it.
        """
        reason, shed = refusal_behind(kind), shed_behind(kind)
        if reason is not None:
            self._refusals.labels(reason).inc()
        if shed is not None:
            self.shed(shed)

    def compaction(self, trigger: Trigger, outcome: str) -> None:
        """``outcome``: ``ok``, ``aborted``, ``failed``, or the reason of a failure."""
        self._compactions.labels(trigger, outcome).inc()

    def breaker(self, before: BreakerState, after: BreakerState) -> None:
        if before != after:
            self._moves.labels(after).inc()

    def assembled(self, assembly: Assembly, remembered: int, computed: int) -> None:
        """A turn that was answered; of its cached sections so many were ``remembered`` and ``computed``."""
        count = assembly.tally.count
        self._contexts.labels(assembly.facts.model.family or UNKNOWN_FAMILY).observe(count.used)
        for part in count.parts:
            if part.name not in DIFFERENCES:
                self._tokens.labels(part_of(part.name)).inc(max(0, part.tokens))
        self._outcomes.labels(outcome_of(assembly.previous)).inc()
        self._sections.labels("remembered").inc(remembered)
        self._sections.labels("computed").inc(computed)

    def store(self, figures: Callable[[], StoreFigures]) -> None:
        """Tells those of the session store too, as they are whenever somebody asks."""
        self._registry.register(_Told(lambda: _store_families(figures())))

    def warm(self, figures: Callable[[], WarmFigures]) -> None:
        """Tells those of answers that are held."""
        self._registry.register(_Told(lambda: _warm_families(figures())))
        self._layers["warm"] = lambda: (figures().repeated, figures().assembled)

    def lookups(self, layer: Layer, told: Callable[[], tuple[int, int]]) -> None:
        """Tells how often something was found in ``layer``, and how often not."""
        self._layers[layer] = told

    def keys(self, told: Callable[[], KeyFigures]) -> None:
        self._registry.register(_Told(lambda: key_families(told())))

    def under_way(self, told: Callable[[], WorkFigures]) -> None:
        self._registry.register(_Told(lambda: work_families(told())))

    def git(self, confined: Callable[[], bool | None]) -> None:
        """Tells whether the system keeps git from files outside; nothing while ``confined`` gives None."""
        self._registry.register(_Told(lambda: git_families(confined())))

    def spans(self, told: Callable[[], SpanFigures]) -> None:
        self._registry.register(_Told(lambda: span_families(told())))

    async def watch_loop(self) -> None:
        """Looks how late the event loop comes, for as long as the task runs."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self._lag.observe(max(0.0, loop.time() - due))

    def share(self, shared: Shared) -> None:
        """From now on what is told is what ``shared`` says."""
        self._shared = shared

    def families(self) -> Iterator[Metric]:
        """This process's figures. On its event loop: some of what is asked belongs to that."""
        for family in self._registry.collect():
            if not isinstance(family, Drawn):
                family.samples = [sample for sample in family.samples if not sample.name.endswith(CREATED)]
            yield family

    async def told(self) -> bytes:
        """The figures of the service in Prometheus' text format."""
        families = await self._shared() if self._shared else (*self.families(), complete(whole=True))
        return await asyncio.to_thread(_text, families)

    def written(self) -> bytes:
        """This process's figures in Prometheus' text format."""
        return _text([*self.families(), complete(whole=True)])

    def _lookups(self) -> Iterator[Metric]:
        return lookup_families({layer: Lookups(*told()) for layer, told in self._layers.items()})


def _text(families: Iterable[Metric]) -> bytes:
    return generate_latest(_Told(lambda: iter(families)))


class _Told(Collector):
    """Figures that somebody else keeps."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _warm_families(now: WarmFigures) -> Iterator[Metric]:
    yield gauge("warm_answers", "Answers that are held to be given again.", now.held)
    yield gauge("warm_bytes", "Bytes of the answers that are held.", now.bytes)
    answers = CounterMetricFamily("strata_answers", "Contexts by where their bytes came from.", labels=("origin",))
    answers.add_metric(["repeated"], now.repeated)
    answers.add_metric(["assembled"], now.assembled)
    yield answers


def _store_families(now: StoreFigures) -> Iterator[Metric]:
    yield gauge("sessions", "Sessions that this process holds in memory.", now.sessions)
    yield gauge("session_bytes", "Bytes of the sessions that this process holds.", now.bytes)
    yield gauge("store_reachable", "1 while the session store can be reached.", int(now.reachable))
    failed = CounterMetricFamily("strata_store_failures", "Calls of the store that failed.", labels=("kind",))
    for kind, times in sorted(now.failures.items()):
        failed.add_metric([kind], times)
    yield failed
    yield counter("sessions_written_back", "Sessions that the store had lost or missed.", now.written_back)
    yield counter("sessions_diverged", "Sessions that went on elsewhere while alone here.", now.diverged)
    yield counter("store_lost_races", "Writes of sessions that came second.", now.lost_races)
    yield counter("store_unreadable", "Values in the store that could not be read.", now.unreadable)
    yield counter("store_evicted", "Sessions in the store that made room for later ones of their tenant.", now.evicted)
