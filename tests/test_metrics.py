"""Figures for Prometheus."""

from __future__ import annotations

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import Metrics
from tests.asking import refused
from tests.compacting import compacting


def figures(written: str) -> dict[tuple[str, ...], float]:
    """What was counted, by name and the values of labels."""
    samples = [sample for family in text_string_to_metric_families(written) for sample in family.samples]
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for sample in samples
        if sample.name.endswith("_total") and sample.name.startswith("strata_") and sample.value
    }


def test_what_happened_is_counted_by_its_words() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.compaction("automatic", "ok")
    metrics.compaction("automatic", "ok")
    metrics.compaction("manual", "empty")
    metrics.breaker("closed", "open")
    assert figures(metrics.written().decode()) == {
        ("strata_compactions_total", "ok", "automatic"): 2,
        ("strata_compactions_total", "empty", "manual"): 1,
        ("strata_breaker_transitions_total", "open"): 1,
    }


def test_a_breaker_that_stays_as_it_is_is_no_transition() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.breaker("open", "open")
    assert figures(metrics.written().decode()) == {}


def test_two_services_in_one_process_count_apart() -> None:
    one, other = (Metrics(CollectorRegistry()) for _ in range(2))
    one.compaction("manual", "ok")
    assert figures(other.written().decode()) == {}


def test_they_are_served_in_the_text_format(service: httpx.Client) -> None:
    response = service.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert "# TYPE strata_compactions_total counter" in response.text
    assert "# TYPE strata_breaker_transitions_total counter" in response.text


def test_they_need_a_key_where_there_are_keys() -> None:
    with compacting(None, api_keys=("k",)) as client:
        refused(client.get("/metrics"), 401, "key-missing")
        assert client.get("/metrics", headers={"x-api-key": "k"}).status_code == 200
