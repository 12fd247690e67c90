"""What is told of the service: its words, which are all the labels there are, and its records as families."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.core.cache_report import Cause
from app.core.previous import Previous

Shed = Literal["queue_full", "queue_time", "queue_left", "upstream", "bodies", "connections", "deadline", "listeners"]
Refusal = Literal[
    "host", "origin", "key", "caller", "size", "rate", "at_once", "slow", "limits", "media_type", "breaker", "other"
]
Layer = Literal["warm", "files", "listings", "documents", "patterns", "counts"]
Outcome = Literal["first", "hit", "nothing_cached"] | Cause
Part = Literal["system", "mcp", "tools", "memory", "attachments", "messages", "other"]

SHEDS: tuple[Shed, ...] = get_args(Shed)
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)
LAYERS: tuple[Layer, ...] = get_args(Layer)
OUTCOMES: tuple[str, ...] = ("first", "hit", "nothing_cached", *get_args(Cause))
PARTS: tuple[Part, ...] = get_args(Part)

_AT_THE_DOOR: Mapping[str, Refusal] = {
    "host-refused": "host",
    "origin-refused": "origin",
    "key-missing": "key",
    "caller-refused": "caller",
    "too-large": "size",
    "rate-limited": "rate",
    "too-many-at-once": "at_once",
}

_BEHIND_IT: Mapping[str, Refusal] = {
    "too-large": "limits",
    "too-slow": "slow",
    "unsupported-media-type": "media_type",
    "breaker-open": "breaker",
}
"""What is only wrong, or not there, is no refusal; what there is no room for is shed."""

_SHED_BEHIND_IT: Mapping[str, Shed] = {"took-too-long": "deadline"}
"""The rest of what is shed is counted where that happens."""

UNKNOWN_FAMILY = "unknown"

DIFFERENCES = frozenset({"usage_difference", "count_difference"})

TOKENS = (1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 150_000, 200_000, 350_000, 500_000, 750_000, 1_000_000)
"""Upper bounds of the histogram of contexts."""

LAGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
"""Upper bounds of how late an event loop comes, in seconds."""

_PARTS: Mapping[str, Part] = {
    "system": "system",
    "mcp": "mcp",
    "tool": "tools",
    "tool_overhead": "tools",
    "memory": "memory",
    "user_context": "memory",
    "attachment": "attachments",
}


@dataclass(frozen=True, slots=True)
class Lookups:
    """How often something was found where it is kept, and how often not."""

    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """``held`` keys now; ``reload_failures``: how often their file could not be read again."""

    held: int
    reload_failures: int = 0


@dataclass(frozen=True, slots=True)
class WorkFigures:
    """Of now: requests that are worked on, that wait, calls upstream, bytes of bodies, and connections."""

    running: int = 0
    queued: int = 0
    upstream: int = 0
    body_bytes: int = 0
    connections: int = 0


@dataclass(frozen=True, slots=True)
class SpanFigures:
    """Spans that a collector has taken, and that were lost because it was away, too slow or did not want them."""

    sent: int = 0
    lost: int = 0


def outcome_of(previous: Previous) -> str:
    """What the prompt cache made of a request, in one of `OUTCOMES`."""
    if previous.comparison is None:
        return "first"
    if previous.cause is not None:
        return previous.cause
    return "nothing_cached" if previous.comparison.hit is None else "hit"


def refusal_of(kind: str) -> Refusal:
    """That of the type of a problem for which a request was not let in."""
    return _AT_THE_DOOR.get(kind, "other")


def refusal_behind(kind: str) -> Refusal | None:
    """That of the type of a problem with which a request was answered that had been let in; None: it is no refusal."""
    return _BEHIND_IT.get(kind)


def shed_behind(kind: str) -> Shed | None:
    """As `refusal_behind`, of what a request was let in for and had no time for; None: it is not shed there."""
    return _SHED_BEHIND_IT.get(kind)


def part_of(name: str) -> Part:
    """The kind of what a row of a count is named for; the name itself may be a caller's."""
    return "messages" if name.startswith("messages[") else _PARTS.get(name.partition(":")[0], "other")


def lookup_families(layers: Mapping[Layer, Lookups]) -> Iterator[Metric]:
    found = CounterMetricFamily(
        "strata_cache_lookups", "Looks into what is kept, by what they found.", labels=("layer", "result")
    )
    for layer, lookups in layers.items():
        found.add_metric([layer, "hit"], lookups.hits)
        found.add_metric([layer, "miss"], lookups.misses)
    yield found


def key_families(now: KeyFigures) -> Iterator[Metric]:
    yield gauge("keys", "API keys that are taken.", now.held)
    yield counter("keys_reload_failures", "Changed files of keys that could not be taken over.", now.reload_failures)


def work_families(now: WorkFigures) -> Iterator[Metric]:
    yield gauge("requests_running", "Requests that are worked on.", now.running)
    yield gauge("requests_queued", "Requests that wait for their turn.", now.queued)
    yield gauge("upstream_running", "Calls of the Messages API under way.", now.upstream)
    yield gauge("body_bytes", "Bytes of bodies of requests that are held.", now.body_bytes)
    yield gauge("connections", "Connections that are open.", now.connections)


def span_families(now: SpanFigures) -> Iterator[Metric]:
    yield counter("spans_sent", "Spans that the collector has taken.", now.sent)
    yield counter("spans_lost", "Spans that the collector did not get.", now.lost)


def git_families(confined: bool | None) -> Iterator[Metric]:
    """None: there is no git, and nothing to tell."""
    if confined is not None:
        told = "1: the system keeps git from files outside. 0: git is there, and only care keeps it from them."
        yield gauge("git_confined", told, int(confined))


def complete(*, whole: bool) -> Metric:
    """Whether figures are of all workers."""
    return gauge("metrics_complete", "1: of all workers of the service. 0: only of the one that was asked.", int(whole))


def gauge(name: str, told: str, value: int) -> Metric:
    return GaugeMetricFamily(f"strata_{name}", told, value)


def counter(name: str, told: str, value: int) -> Metric:
    return CounterMetricFamily(f"strata_{name}", told, value)
