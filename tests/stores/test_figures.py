"""Figures of the session store for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import Metrics, StoreFigures


def told(metrics: Metrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.written().decode())
    samples = [sample for family in families for sample in family.samples]
    named = {"/".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}
    return {name: value for name, value in named.items() if name.startswith(("strata_sess", "strata_store"))}


def test_all_figures_of_a_store_are_told() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.store(lambda: StoreFigures(3, 4_000, False, {"slow": 2, "gone": 1}, 5, 6, 7, 8, 9))
    assert told(metrics) == {
        "strata_sessions": 3,
        "strata_session_bytes": 4_000,
        "strata_store_reachable": 0,
        "strata_store_failures_total/gone": 1,
        "strata_store_failures_total/slow": 2,
        "strata_sessions_written_back_total": 5,
        "strata_sessions_diverged_total": 6,
        "strata_store_lost_races_total": 7,
        "strata_store_unreadable_total": 8,
        "strata_store_evicted_total": 9,
    }


def test_they_are_those_of_the_moment_in_which_they_are_asked_for() -> None:
    found = [StoreFigures(sessions=1), StoreFigures(sessions=2)]
    metrics = Metrics(CollectorRegistry())
    metrics.store(lambda: found[0])
    before = told(metrics)["strata_sessions"]
    del found[0]
    assert (before, told(metrics)["strata_sessions"]) == (1, 2)
