"""The board: that Grafana can take it, and that a real Prometheus answers every question it asks of a real service."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from app.main import create_app
from app.settings import Settings
from tests.asking import inline
from tests.serving import serve
from tests.starting import ROOT

GRAFANA = ROOT / "deploy" / "grafana"
BOARD: dict[str, Any] = json.loads((GRAFANA / "strata.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = BOARD["panels"]
SHOWN = [panel for panel in PANELS if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in SHOWN for target in panel["targets"]]
VARIABLES = {variable["name"] for variable in BOARD["templating"]["list"]}
COLUMNS = 24
SAMPLES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}

LOOKED_FOR = {
    "Requests by route", "Latency by route", "Median by phase", "p99 by phase", "Warm share", "Hits by layer",
    "Prompt cache", "Tokens by part", "Sessions", "Breaker", "Store", "Sheds", "Refusals", "Memory", "Listeners",
    "Workers", "Git confined",
}  # fmt: skip

SELDOM = ("compactions", "store_failures", "listeners_dropped", "breaker_transitions", "strata_events_total")
"""Of what need not happen within a minute there is no rate."""


def asked(query: str) -> str:
    """As Grafana fills it in."""
    return query.replace("$instance", ".*").replace("$__rate_interval", "30s")


def metrics_in(query: str) -> set[str]:
    return set(re.findall(r"\b(?:strata|process)_[a-z_]+", query))


def test_a_panel_has_an_id_and_a_title_of_its_own() -> None:
    ids = [panel["id"] for panel in PANELS]
    titles = [panel["title"] for panel in PANELS]
    assert len(set(ids)) == len(ids) == len(PANELS) == len(set(titles))
    assert all(isinstance(one, int) and one > 0 for one in ids)


def test_no_panel_lies_on_another_or_beside_the_board() -> None:
    places = [panel["gridPos"] for panel in PANELS]
    assert all(0 <= one["x"] < one["x"] + one["w"] <= COLUMNS and one["y"] >= 0 < one["h"] for one in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def test_every_question_goes_to_the_data_source_that_is_chosen() -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in SHOWN:
        assert panel["datasource"] == source
        assert [target["datasource"] for target in panel["targets"]] == [source] * len(panel["targets"])
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0
        assert all(target["expr"] for target in panel["targets"])


def test_every_variable_is_one_of_the_board() -> None:
    used = {name for query in QUERIES for name in re.findall(r"\$\{?([a-z]\w*)", query)}
    assert {"datasource", "instance"} == VARIABLES == used | {"datasource"}
    assert all('instance=~"$instance"' in query for query in QUERIES)


def test_the_board_is_one_that_grafana_takes_from_a_file() -> None:
    assert BOARD["id"] is None
    assert (BOARD["uid"], BOARD["title"]) == ("strata", "Strata")
    assert BOARD["schemaVersion"] >= 39
    assert {panel["type"] for panel in PANELS} == {"row", "stat", "timeseries"}
    provider = yaml.safe_load((GRAFANA / "provisioning/dashboards/strata.yaml").read_text(encoding="utf-8"))
    (source,) = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text(encoding="utf-8"))[
        "datasources"
    ]
    assert [one["type"] for one in provider["providers"]] == ["file"]
    assert source["type"] == "prometheus"


def test_what_people_look_for_is_there() -> None:
    assert {panel["title"] for panel in SHOWN} >= LOOKED_FOR


def test_the_settings_of_prometheus_are_what_prometheus_takes() -> None:
    command = ["promtool", "check", "config", "--syntax-only", str(GRAFANA / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def told(written: str) -> set[str]:
    """The names of all samples there are or can be."""
    return {
        f"{family.name}{ending}"
        for family in text_string_to_metric_families(written)
        for ending in SAMPLES[family.type]
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[httpx.Client]:
    """A Prometheus that reads ``target``'s figures every half second; its HTTP API."""
    jobs = [{"job_name": "strata", "scrape_interval": "500ms", "scrape_timeout": "500ms",
             "static_configs": [{"targets": [target]}]}]  # fmt: skip
    settings = folder / "prometheus.yml"
    settings.write_text(yaml.safe_dump({"scrape_configs": jobs}))
    port = free_port()
    command = [
        "prometheus", f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
                yield client
        finally:
            process.kill()


def answered(prometheus: httpx.Client, query: str) -> list[Any]:
    response = prometheus.get("/api/v1/query", params={"query": asked(query)})
    body = response.json()
    assert body["status"] == "success", (query, body)
    result: list[Any] = body["data"]["result"]
    return result


def has_scraped(prometheus: httpx.Client) -> bool:
    try:
        ready = prometheus.get("/-/ready").status_code == httpx.codes.OK
    except httpx.TransportError:  # it has not begun yet
        return False
    return ready and bool(answered(prometheus, "rate(strata_requests_total[30s]) > 0"))


def test_a_real_prometheus_answers_every_question_of_the_board(tmp_path: Path) -> None:
    settings = Settings(roots=())
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as service:
        for number in range(3):
            service.post("/v1/context", json=inline(session_id="s", touched=[{"path": f"a{number}"}]))
        written = service.get("/metrics").text
        assert set().union(*map(metrics_in, QUERIES)) <= told(written)
        with scraping(address.removeprefix("http://"), tmp_path) as prometheus:
            deadline = time.monotonic() + 60
            while not has_scraped(prometheus):
                assert time.monotonic() < deadline
                service.post("/v1/context", json=inline(session_id=str(time.monotonic())))
                time.sleep(0.1)
            silent = [query for query in QUERIES if not answered(prometheus, query)]
    assert [query for query in silent if not any(word in query for word in SELDOM)] == []
