"""How long the parts of a request take: measured where they run, told when the request has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from contextvars import ContextVar, Token
from time import perf_counter
from typing import Any, Literal, TypeAlias, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.request_metrics import NO_ROUTE, Durations

Phase = Literal["read", "wait", "open", "recall", "gather", "git", "assemble", "remember", "count", "upstream", "write"]
PHASES: tuple[Phase, ...] = get_args(Phase)

MOST_ROWS = 256
"""Parts of one request that are kept."""

Row: TypeAlias = tuple[Phase, float, float]
"""A part with its beginning and its end, in seconds of the clock that only differences of count."""

_TIMELINE = "timeline"


class Timeline:
    """The parts of one request, in the order in which they ended. For several threads."""

    __slots__ = ("began", "rows")

    def __init__(self, began: float) -> None:
        self.began = began
        self.rows: list[Row] = []

    def add(self, phase: Phase, began: float, ended: float) -> None:
        """Beyond `MOST_ROWS` nothing is kept."""
        if len(self.rows) < MOST_ROWS:
            self.rows.append((phase, began, ended))

    def totals(self) -> dict[Phase, float]:
        """Seconds by phase; parts that ran side by side count one by one."""
        found: dict[Phase, float] = {}
        for phase, began, ended in self.rows:
            found[phase] = found.get(phase, 0.0) + ended - began
        return found


_RUNNING: ContextVar[Timeline | None] = ContextVar("running", default=None)


class _Measured:
    __slots__ = ("_began", "_phase", "_timeline")

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._timeline = _RUNNING.get()

    def __enter__(self) -> None:
        self._began = perf_counter()

    def __exit__(self, *_: object) -> None:
        if self._timeline is not None:
            self._timeline.add(self._phase, self._began, perf_counter())


def phase(name: Phase) -> _Measured:
    """What runs in its ``with`` counts to the request that is being answered; without one it costs nothing."""
    return _Measured(name)


def timeline_of(scope: MutableMapping[str, Any]) -> Timeline:
    """That of the request with this ASGI scope; it begins when it is asked for first."""
    state: dict[str, Any] = scope.setdefault("state", {})
    found: Timeline | None = state.get(_TIMELINE)
    if found is None:
        found = state[_TIMELINE] = Timeline(perf_counter())
    return found


def run_with(timeline: Timeline) -> Token[Timeline | None]:
    """From now on parts count to it, in this task and what it starts. Give the token to `run_without`."""
    return _RUNNING.set(timeline)


def run_without(token: Token[Timeline | None]) -> None:
    _RUNNING.reset(token)


class Phases(Collector):
    """A histogram by route template and phase."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._durations = Durations("strata_phase_seconds", "Seconds that parts of a request took.", ("route", "phase"))
        registry.register(self)

    def told(self, route: str | None, rows: Iterable[Row]) -> None:
        for name, began, ended in rows:
            self._durations.add((route or NO_ROUTE, name), ended - began)

    def collect(self) -> Iterator[Metric]:
        yield self._durations.family()
