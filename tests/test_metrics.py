"""Figures for Prometheus."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from app.api import answer_problems
from app.building import build_contexts
from app.core.cache_report import Comparison
from app.core.previous import Previous
from app.errors import Problem, TookTooLong, TooLarge
from app.figures import (
    OUTCOMES,
    PARTS,
    REFUSALS,
    SHEDS,
    KeyFigures,
    SpanFigures,
    WorkFigures,
    outcome_of,
    part_of,
)
from app.main import build_app, create_app
from app.metrics import LOOK_SECONDS, Metrics, WarmFigures
from app.refusing import note_problem
from app.settings import Settings
from app.workspaces.landlock import Confinement
from app.workspaces.program import GitProgram
from tests.asking import CWD, ask, inline, refused
from tests.compacting import asking, compacting
from tests.serving import serve
from tests.wires import connected, head


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


def samples(written: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(written)
        for sample in family.samples
    }


def test_what_can_be_counted_is_told_before_it_happens() -> None:
    told = samples(Metrics(CollectorRegistry()).written().decode())
    assert {told["strata_sheds_total", reason] for reason in SHEDS} == {0}
    assert {told["strata_refusals_total", reason] for reason in REFUSALS} == {0}
    assert {told["strata_prompt_cache_total", outcome] for outcome in OUTCOMES} == {0}
    assert not any(name[0].endswith("_created") for name in told)


def test_sheds_and_refusals_are_counted_by_reason() -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.shed("queue_full")
    for kind in ("key-missing", "rate-limited", "something-new"):
        metrics.refused(kind)
    assert figures(metrics.written().decode()) == {
        ("strata_sheds_total", "queue_full"): 1,
        ("strata_refusals_total", "key"): 1,
        ("strata_refusals_total", "rate"): 1,
        ("strata_refusals_total", "other"): 1,
    }


def test_only_a_problem_that_refuses_or_sheds_a_request_counts_once_it_was_let_in() -> None:
    metrics = Metrics(CollectorRegistry())
    for problem in Problem.__subclasses__():
        metrics.answered(problem.type)
    assert figures(metrics.written().decode()) == {
        **{("strata_refusals_total", reason): 1 for reason in ("limits", "slow", "media_type", "breaker")},
        ("strata_sheds_total", "deadline"): 1,
    }


def refusals(client: httpx.Client, of: str = "refusals") -> dict[str, float]:
    told = figures(client.get("/metrics").text)
    return {name[1]: value for name, value in told.items() if name[0] == f"strata_{of}_total"}


JSON = {"content-type": "application/json"}
LOOKS = {"workspace": inline({f"{CWD}/{number}": "" for number in range(101)})["workspace"]}
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("/v1/context", {"json": inline({f"{CWD}/{number}.md": "" for number in range(201)})}, 413, "limits"),
    ("/v1/context", {"json": inline(workspace={"cwd": "/a" * 9})}, 413, "limits"),
    ("/v1/attachments", {"json": {"workspace": inline(workspace={"home": "/a" * 9})["workspace"], "touched": []}},
     413, "limits"),
    ("/v1/scan", {"json": LOOKS}, 413, "limits"),
    ("/v1/context", {"json": inline(messages=[{"role": "user", "content": "."}] * 400)}, 413, "limits"),
    ("/v1/context", {"content": b" " * 20_001, "headers": JSON}, 413, "size"),
    ("/v1/context", {"content": iter([b" " * 20_001]), "headers": JSON}, 413, "size"),
    ("/v1/context", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415, "media_type"),
    ("/v1/models", {"headers": {"origin": "https://page.example"}}, 403, "origin"),
    ("/v1/models", {"headers": {"host": "page.example"}}, 421, "host"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "asked", "status", "reason"), REFUSED)
def test_a_request_that_is_refused_counts_once_wherever_that_was(
    path: str, asked: dict[str, Any], status: int, reason: str
) -> None:
    settings = Settings(roots=(), max_files=200, max_depth=8, max_looks=100, max_body_bytes=20_000, max_values=1_000)
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        assert client.post(path, **asked).status_code == status
        assert refusals(client) == {reason: 1}


def test_an_automatic_compaction_that_the_breaker_stops_counts_as_refused() -> None:
    with compacting(None) as client:
        ask(client, inline(session_id="s"))
        for _ in range(3):
            client.post("/v1/sessions/s/compactions", json={"trigger": "automatic", "outcome": "failed"})
        body = asking(session_id="s", trigger="automatic")
        refused(client.post("/v1/compactions", json=body), 409, "breaker-open")
        assert refusals(client) == {"breaker": 1}


def test_what_is_only_wrong_or_not_there_is_no_refusal(service: httpx.Client) -> None:
    before = refusals(service)
    for asked, kind, status in (
        (service.post("/v1/context", content=b"{", headers=JSON), "not-json", 400),
        (service.get("/v1/nothing"), "not-found", 404),
        (
            service.post("/v1/context", json=inline(workspace={"source": "local", "files": None})),
            "invalid-request",
            422,
        ),
        (service.put("/v1/context", json={}), "method-not-allowed", 405),
        (service.get("/v1/sessions/nobody"), "session-not-found", 404),
    ):
        assert (asked.status_code, asked.json()["type"]) == (status, f"urn:strata:problem:{kind}")
    assert refusals(service) == before


def test_what_is_refused_once_it_was_answered_already_does_not_count() -> None:
    told: list[str] = []
    app = FastAPI()
    answer_problems(app, told.append)

    @app.get("/late")
    async def late(request: Request) -> None:
        note_problem(request.scope, TookTooLong("It took too long."))
        raise TooLarge("It is too large.")

    @app.get("/large")
    async def large() -> None:
        raise TooLarge("It is too large.")

    with serve(app) as address:
        for path in ("/late", "/large"):
            assert httpx.get(f"{address}{path}", trust_env=False).status_code == 413
    assert told == ["too-large"]


BEGUN = {
    "head": head(length=9)[:-2],
    "body": head(path="/v1/scan", length=9) + b"{",
    "body of a context": head(length=9) + b"{",
}


@pytest.mark.parametrize("sent", BEGUN.values(), ids=BEGUN)
def test_what_stops_coming_counts_once_and_its_line_says_why(sent: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(roots=(), head_seconds=0.3, body_seconds=0.3)
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        with connected(address) as wire:
            wire.sendall(sent)
            assert wire.answer()[0] == 408
            assert wire.is_closed()
        assert refusals(client) == {"slow": 1}
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["problem"] for line in lines if line["status"] == 408] == ["too-slow"]


def test_what_is_no_http_is_only_wrong() -> None:
    with (
        serve(create_app(Settings(roots=()))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
        connected(address) as wire,
    ):
        wire.sendall(b"what?\r\n\r\n")
        assert wire.answer()[0] == 400
        assert refusals(client) == {}


def test_a_workspace_that_takes_too_long_to_read_is_shed_by_its_deadline() -> None:
    settings = Settings(roots=(), request_seconds=1e-9)
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        refused(client.post("/v1/context", json=inline()), 503, "took-too-long")
        assert (refusals(client), refusals(client, "sheds")) == ({}, {"deadline": 1})


@pytest.mark.parametrize(("confined", "told"), [(True, {1.0}), (False, {0.0}), (None, set())])
def test_whether_git_is_confined_is_told_where_there_is_git(confined: bool | None, told: set[float]) -> None:
    metrics = Metrics(CollectorRegistry())
    metrics.git(lambda: confined)
    now = samples(metrics.written().decode())
    assert {value for name, value in now.items() if name[0] == "strata_git_confined"} == told


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (GitProgram(sys.executable, confinement=Confinement(sys.executable, version=1)), {1.0}),
        (GitProgram(sys.executable), {0.0}),
        (GitProgram("/nonexistent/git"), set()),
    ],
    ids=["confined", "not confined", "missing"],
)
def test_a_service_tells_of_the_git_that_it_runs(program: GitProgram, told: set[float]) -> None:
    settings = Settings(roots=())
    contexts = build_contexts(settings)
    ground = replace(contexts.ground, program=program)
    with serve(build_app(settings, replace(contexts, ground=ground))) as address:
        now = samples(httpx.get(f"{address}/metrics", trust_env=False).text)
    assert {value for name, value in now.items() if name[0] == "strata_git_confined"} == told


def test_figures_of_others_are_asked_for_when_they_are_told() -> None:
    metrics, now = Metrics(CollectorRegistry()), {"hits": 1}
    metrics.lookups("files", lambda: (now["hits"], 2))
    metrics.keys(lambda: KeyFigures(3, reload_failures=4))
    metrics.under_way(lambda: WorkFigures(running=5, queued=6, upstream=7, body_bytes=8, connections=9))
    metrics.spans(lambda: SpanFigures(10, 11))
    metrics.warm(lambda: WarmFigures(repeated=13, assembled=14))
    now["hits"] = 100
    told = samples(metrics.written().decode())
    assert told["strata_cache_lookups_total", "files", "hit"] == 100
    assert told["strata_cache_lookups_total", "files", "miss"] == 2
    assert told["strata_cache_lookups_total", "warm", "hit"] == 13
    assert [told[f"strata_{name}",] for name in ("keys", "keys_reload_failures_total")] == [3, 4]
    under_way = ("requests_running", "requests_queued", "upstream_running", "body_bytes", "connections")
    assert [told[f"strata_{name}",] for name in under_way] == [5, 6, 7, 8, 9]
    assert [told[f"strata_{name}",] for name in ("spans_sent_total", "spans_lost_total")] == [10, 11]


def test_a_turn_is_told_by_its_tokens_its_parts_and_its_cache() -> None:
    with serve(create_app(Settings(roots=()))) as address, httpx.Client(base_url=address, trust_env=False) as client:
        tools = [{"name": "Read", "input_schema": {"type": "object"}}]
        files = {f"{CWD}/CLAUDE.md": "Use tabs."}
        first = ask(client, inline(files, session_id="s", tools=tools))
        again = ask(client, inline(files, session_id="s", tools=tools, messages=[{"role": "user", "content": "Hi."}]))
        told = samples(client.get("/metrics").text)
    used = [body["tokens"]["used"] for body in (first, again)]
    assert told["strata_context_tokens_count", "sonnet"] == 2
    assert told["strata_context_tokens_sum", "sonnet"] == sum(used)
    assert sum(value for name, value in told.items() if name[0] == "strata_tokens_total") == sum(used)
    assert all(told["strata_tokens_total", part] > 0 for part in ("system", "tools", "memory", "messages"))
    assert told["strata_prompt_cache_total", "first"] == 1
    assert sum(value for name, value in told.items() if name[0] == "strata_prompt_cache_total") == 2
    sections = first["session"]["section_misses"] + again["session"]["section_misses"]
    assert told["strata_sections_total", "computed"] == sections
    assert told["strata_sections_total", "remembered"] == again["session"]["section_hits"] > 0


@pytest.mark.parametrize(
    ("previous", "outcome"),
    [
        (Previous(), "first"),
        (Previous(Comparison(True, 1, 1, 0, 0, 0, None, None)), "hit"),
        (Previous(Comparison(None, 0, 0, 0, 0, 0, None, None)), "nothing_cached"),
        (Previous(Comparison(False, 0, 0, 9, 0, 0, None, "tools_changed")), "tools_changed"),
        (Previous(Comparison(True, 1, 1, 0, 0, 0, None, None), agreed=False), "server_side_or_unknown"),
    ],
)
def test_what_the_prompt_cache_made_of_a_turn_is_one_word(previous: Previous, outcome: str) -> None:
    assert outcome_of(previous) == outcome
    assert outcome in OUTCOMES


@given(st.text())
def test_a_part_is_one_of_a_few_whatever_it_is_named_for(name: str) -> None:
    assert {part_of(name), part_of(f"tool:{name}"), part_of(f"memory:{name}")} <= set(PARTS)
    assert (part_of(f"tool:{name}"), part_of(f"memory:C:\\{name}"), part_of("messages[3]")) == (
        "tools", "memory", "messages",
    )  # fmt: skip


def test_a_loop_that_is_held_up_shows() -> None:
    metrics = Metrics(CollectorRegistry())

    async def held_up() -> None:
        watching = asyncio.create_task(metrics.watch_loop())
        await asyncio.sleep(0)
        time.sleep(LOOK_SECONDS + 0.5)  # noqa: ASYNC251 - that is the point
        await asyncio.sleep(0.01)
        watching.cancel()

    asyncio.run(held_up())
    told = samples(metrics.written().decode())
    assert told["strata_event_loop_lag_seconds_count",] == 1
    assert told["strata_event_loop_lag_seconds_sum",] >= 0.5


def test_a_process_tells_what_it_takes_of_the_machine(service: httpx.Client) -> None:
    told = samples(service.get("/metrics").text)
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_cpu_seconds_total", "strata_threads"):
        assert told[name,] > 0
    assert told["strata_workers",] == 1
