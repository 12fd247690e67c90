"""How many requests there were, and how long they took, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of the histograms, in seconds."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""The label of any other method: a caller can make up many."""

NO_ROUTE = "none"
"""The label of what no route has answered."""

LABELS = ("route", "method", "status")


Row = tuple[tuple[str, ...], tuple[int, ...], float]
"""Values of labels; how much lay between two bounds each, and beyond the last; seconds in all."""


class Histogram(Metric):
    """A histogram whose samples, which are many, are made when they are asked for."""

    def __init__(self, name: str, told: str, labels: Iterable[str], rows: Iterable[Row]) -> None:
        super().__init__(name, told, "histogram")
        self.labels = tuple(labels)
        self.rows = tuple(rows)

    @property
    def samples(self) -> list[Sample]:
        family = HistogramMetricFamily(self.name, self.documentation, labels=self.labels)
        for labels, counts, seconds in self.rows:
            family.add_metric(labels, _buckets(counts), seconds)
        return family.samples

    @samples.setter
    def samples(self, _: list[Sample]) -> None:
        """Every family begins without any."""


@dataclass(slots=True)
class _Counted:
    """``counts``: between the bounds, and one beyond the last."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0


class Durations:
    """Seconds by rows of labels."""

    def __init__(self, name: str, told: str, labels: tuple[str, ...]) -> None:
        self._name, self._told, self._labels = name, told, labels
        self._rows: dict[tuple[str, ...], _Counted] = {}

    def add(self, labels: tuple[str, ...], seconds: float) -> None:
        row = self._rows.get(labels)
        if row is None:
            row = self._rows[labels] = _Counted()
        row.counts[bisect_left(BOUNDS, seconds)] += 1
        row.seconds += seconds

    def family(self) -> Histogram:
        """As it is now."""
        rows = ((labels, tuple(row.counts), row.seconds) for labels, row in sorted(self._rows.items()))
        return Histogram(self._name, self._told, self._labels, rows)

    def times(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """How often something was added, by labels."""
        yield from ((labels, sum(row.counts)) for labels, row in sorted(self._rows.items()))


class RequestMetrics(Collector):
    """Rows by route template, method and class of status; none of them is a caller's word."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._durations = Durations("strata_request_seconds", "Seconds until an answer began.", LABELS)
        registry.register(self)

    def request(self, route: str | None, method: str, status: int, seconds: float) -> None:
        """``route``: the template of the one that answered. ``seconds``: until the answer began."""
        known = method if method in METHODS else OTHER
        self._durations.add((route or NO_ROUTE, known, _CLASSES.get(status // 100, OTHER)), seconds)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("strata_requests", "Requests that were answered.", labels=LABELS)
        for labels, times in self._durations.times():
            requests.add_metric(labels, times)
        yield requests
        yield self._durations.family()


_CLASSES = {number: f"{number}xx" for number in range(1, 6)}


def _buckets(counts: tuple[int, ...]) -> list[tuple[str, float]]:
    bounds = (*(str(float(bound)) for bound in BOUNDS), "+Inf")
    return list(zip(bounds, accumulate(counts), strict=True))
