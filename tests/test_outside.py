"""What is seen of the service from outside, when callers send one word wherever they can: never that word."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app import __version__
from app.building import build_contexts
from app.core.compaction import Trigger
from app.data.tables import load_models
from app.figures import LAYERS, OUTCOMES, PARTS, REFUSALS, SHEDS
from app.main import build_app
from app.phases import PHASES
from app.request_metrics import METHODS
from app.settings import Settings
from app.stores.sessions import Sessions
from tests.asking import DOCUMENTED
from tests.serving import serve
from tests.strangers import FailingStore, ask_everything, every_operation, refusing, workspace

WORD = "canary7f3a"
ROUTES = {path for _, path in DOCUMENTED} | {"none", "/docs", "/openapi.json"}

WORDS: dict[str, set[str]] = {
    "route": ROUTES,
    "method": {*METHODS, "other"},
    "status": {"1xx", "2xx", "3xx", "4xx", "5xx"},
    "phase": set(PHASES),
    "layer": set(LAYERS),
    "result": {"hit", "miss"},
    "part": set(PARTS),
    "family": {str(model.family) for model in load_models().rows} | {"unknown"},
    "origin": {"repeated", "assembled", "remembered", "computed"},
    "trigger": set(get_args(Trigger)),
    "state": {"closed", "open", "half_open"},
}
"""All that labels may say; those that are not here are asked for by the name of the figure, too."""

OWN_WORDS: dict[tuple[str, str], set[str]] = {
    ("strata_sheds", "reason"): set(SHEDS),
    ("strata_refusals", "reason"): set(REFUSALS),
    ("strata_prompt_cache", "outcome"): set(OUTCOMES),
    ("strata_compactions", "outcome"): {"ok", "aborted", "failed", "invalid", "no_key", "unauthorized", "too_long"},
}


@dataclass(frozen=True, slots=True)
class Seen:
    asked: set[tuple[str, int]]
    figures: str
    log: str
    folder: str


@contextmanager
def service(folder: Path, level: Any) -> Iterator[httpx.Client]:
    with refusing(WORD) as upstream:
        settings = Settings(
            roots=(folder,), home=Path(f"/home/{WORD}"), api_keys=(WORD,), anthropic_api_key=f"sk-{WORD}",
            upstream_url=upstream, upstream_retries=0, log_level=level, max_body_bytes=100_000,
        )  # fmt: skip
        contexts = replace(build_contexts(settings), sessions=Sessions(FailingStore(WORD), __version__))
        with serve(build_app(settings, contexts)) as address:
            given = {
                "x-api-key": WORD, "x-upstream-api-key": f"sk-{WORD}", "user-agent": WORD, "cookie": f"a={WORD}",
                "referer": f"http://{WORD}", "anthropic-beta": WORD, "traceparent": WORD, "x-forwarded-for": WORD,
            }  # fmt: skip
            with httpx.Client(base_url=address, headers=given, trust_env=False, timeout=60) as client:
                yield client


@pytest.fixture(scope="module", params=["info", "debug"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("root")
    workspace(folder, WORD)
    with pytest.MonkeyPatch.context() as patch:
        written = folder / "standard error"
        with written.open("w", encoding="utf-8") as log:
            patch.setattr("sys.stderr", log)
            with service(folder, request.param) as client:
                asked = ask_everything(client, WORD, folder)
                figures = client.get("/metrics").text
    return Seen(asked, figures, written.read_text(encoding="utf-8"), str(folder))


def test_every_operation_was_asked_and_the_odd_ways_went_as_they_should(seen: Seen) -> None:
    assert every_operation() <= {operation for operation, _ in seen.asked}
    assert {200, 400, 401, 403, 404, 405, 413, 415, 421, 422, 500} <= {status for _, status in seen.asked}


def test_nothing_that_a_caller_sent_is_in_the_log(seen: Seen) -> None:
    lines = [json.loads(line) for line in seen.log.splitlines()]
    assert {line["event"] for line in lines} == {"request"}
    assert [line for line in lines if WORD in json.dumps(line)] == []
    assert [line for line in lines if seen.folder in json.dumps(line)] == []
    assert [line["error"] for line in lines if line["status"] == 500] == ["LookupError"]
    assert {line["route"] for line in lines} <= ROUTES | {None}
    assert {line["method"] for line in lines} <= {*METHODS, "other"}


def test_no_label_is_a_word_of_a_caller(seen: Seen) -> None:
    assert WORD not in seen.figures
    families = list(text_string_to_metric_families(seen.figures))
    said = {
        (family.name, label, value)
        for family in families
        for sample in family.samples
        for label, value in sample.labels.items()
        if label != "le"
    }
    assert [one for one in said if one[2] not in OWN_WORDS.get(one[:2], WORDS.get(one[1], set()))] == []
    assert {label for _, label, _ in said} >= {"route", "phase", "layer", "part", "family", "reason", "outcome"}
