"""Figures for Prometheus. Labels are words of this service, so that there is an end to their number."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.core.budget import BreakerState
from app.core.compaction import Trigger

MEDIA_TYPE = CONTENT_TYPE_LATEST


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

    def compaction(self, trigger: Trigger, outcome: str) -> None:
        """``outcome``: ``ok``, ``aborted``, ``failed``, or the reason of a failure."""
        self._compactions.labels(trigger, outcome).inc()

    def breaker(self, before: BreakerState, after: BreakerState) -> None:
        if before != after:
            self._moves.labels(after).inc()

    def written(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)
