"""The breaker over HTTP: runs and reports that open it, what closes it again, and the figures about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from app.wire.compactions import ReportAnswer
from tests.asking import ask, inline, refused
from tests.compacting import Watch, asking, compacting, report, run, talk, timed
from tests.standin.server import Failure, StandIn

COOL_DOWN = 600.0


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def client(watch: Watch, upstream_url: str) -> Iterator[httpx.Client]:
    with compacting(upstream_url, changed=timed(watch), breaker_cool_down_seconds=COOL_DOWN) as found:
        yield found


def automatic(client: httpx.Client, upstream: StandIn, session: str, outcome: str, trigger: str = "automatic") -> Any:
    if outcome == "F":
        upstream.answer_next(Failure(529))
    body = asking(session_id=session, trigger=trigger)
    return run(client, body)["breaker"]


def told(client: httpx.Client, session: str, outcome: str, **more: Any) -> dict[str, Any]:
    response = report(client, session, outcome, **more)
    assert response.status_code == 200, response.text
    ReportAnswer.model_validate_json(response.content)
    found: dict[str, Any] = response.json()
    return found


def begun(client: httpx.Client, **more: Any) -> str:
    session = uuid4().hex
    ask(client, inline(session_id=session, messages=talk(2), **more))
    return session


def state(name: str, failures: int) -> dict[str, Any]:
    return {"state": name, "consecutive_failures": failures}


SEQUENCE = [
    ("F", state("closed", 1)),
    ("F", state("closed", 2)),
    ("S", state("closed", 0)),
    ("F", state("closed", 1)),
    ("F", state("closed", 2)),
    ("F", state("open", 3)),
]


def test_three_failed_runs_in_a_row_open_it(client: httpx.Client, upstream: StandIn) -> None:
    session = uuid4().hex
    for outcome, breaker in SEQUENCE:
        assert automatic(client, upstream, session, outcome) == breaker
    calls = len(upstream.seen)
    for mode in ("run", "plan"):
        body = asking(mode, session_id=session, trigger="automatic")
        problem = refused(client.post("/v1/compactions", json=body), 409, "breaker-open")
        assert "1970-01-12T13:46:40+00:00" in problem["detail"]
        assert "manual" in problem["detail"]
        assert "600 seconds" in problem["detail"]
    assert len(upstream.seen) == calls
    context = ask(client, inline(session_id=session, messages=talk(), tools=asking()["tools"]))
    assert context["compaction"]["breaker"] == state("open", 3)


def test_three_failed_reports_in_a_row_open_it(client: httpx.Client) -> None:
    session = begun(client)
    for outcome, breaker in SEQUENCE:
        said = {"outcome": "failed"} if outcome == "F" else {"tokens_before": 90_000, "tokens_after": 9_000}
        found = told(client, session, said.pop("outcome", "ok"), **said)
        assert (found["breaker"], found["failure"]) == (breaker, None)


def test_what_was_aborted_or_asked_for_by_hand_does_not_count(client: httpx.Client, upstream: StandIn) -> None:
    session = begun(client)
    for _ in range(4):
        assert told(client, session, "aborted")["breaker"] == state("closed", 0)
        assert told(client, session, "failed", trigger="manual")["breaker"] == state("closed", 0)
        assert automatic(client, upstream, session, "F", "manual") == state("closed", 0)


def test_a_success_by_hand_closes_it(client: httpx.Client, upstream: StandIn) -> None:
    session = begun(client)
    for _ in range(3):
        told(client, session, "failed")
    assert automatic(client, upstream, session, "F", "manual") == state("open", 3)
    assert automatic(client, upstream, session, "S", "manual") == state("closed", 0)


def test_after_the_cool_down_one_more_attempt_is_allowed(client: httpx.Client, watch: Watch, upstream: StandIn) -> None:
    session = begun(client)
    for _ in range(3):
        told(client, session, "failed")
    watch.seconds += COOL_DOWN
    half = ask(client, inline(session_id=session, messages=talk(2)))["compaction"]["breaker"]
    assert half == state("half_open", 3)
    assert automatic(client, upstream, session, "F") == state("open", 4)
    refused(client.post("/v1/compactions", json=asking(session_id=session, trigger="automatic")), 409, "breaker-open")
    watch.seconds += COOL_DOWN
    assert automatic(client, upstream, session, "S") == state("closed", 0)
    written = client.get("/metrics").text
    for line in ('open"} 2.0', 'half_open"} 2.0', 'closed"} 1.0'):
        assert f'strata_breaker_transitions_total{{state="{line}' in written


def test_without_a_cool_down_it_stays_open(watch: Watch, upstream_url: str) -> None:
    with compacting(upstream_url, changed=timed(watch)) as client:
        session = begun(client)
        for _ in range(3):
            told(client, session, "failed")
        watch.seconds += 1e9
        body = asking(session_id=session, trigger="automatic")
        problem = refused(client.post("/v1/compactions", json=body), 409, "breaker-open")
        assert "seconds" not in problem["detail"]


def test_a_summary_that_brings_nothing_counts_as_failed(client: httpx.Client) -> None:
    session = begun(client, files={"/home/dev/p/CLAUDE.md": "Be careful. " * 900})
    above = told(client, session, "ok", tokens_before=185_000, tokens_after=182_000)
    assert (above["outcome"], above["failure"]["reason"]) == ("failed", "did_not_help")
    assert above["failure"]["parts"][0]["part"] == "memory:/home/dev/p/CLAUDE.md"
    assert "167,000" in above["failure"]["message"]
    little = told(client, session, "ok", tokens_before=100_000, tokens_after=95_000)
    assert (little["outcome"], little["breaker"]) == ("failed", state("closed", 2))
    assert told(client, session, "ok", tokens_before=100_000, tokens_after=50_000)["outcome"] == "ok"


def test_a_success_without_figures_closes_it_and_what_was_freed_is_not_known(client: httpx.Client) -> None:
    session = begun(client, files={"/home/dev/p/CLAUDE.md": "Be careful. " * 900})
    for _ in range(3):
        told(client, session, "failed")
    found = told(client, session, "ok")
    assert (found["outcome"], found["failure"], found["freed"]) == ("ok", None, None)
    assert found["breaker"] == state("closed", 0)
    assert told(client, session, "ok", tokens_before=100_000, tokens_after=40_000)["freed"] == 60_000
    assert told(client, session, "failed")["breaker"] == state("closed", 1)


def test_a_session_that_had_no_turn_is_judged_by_what_was_freed(client: httpx.Client) -> None:
    session, body = uuid4().hex, inline()
    client.post("/v1/attachments", json={"workspace": body["workspace"], "touched": [], "session_id": session})
    assert told(client, session, "ok", tokens_before=900_000, tokens_after=500_000)["outcome"] == "ok"
    assert told(client, session, "ok", tokens_before=900_000, tokens_after=899_000)["outcome"] == "failed"


def test_failures_outlive_a_first_turn_and_a_compaction_of_the_callers_own(client: httpx.Client) -> None:
    session, body = uuid4().hex, inline()
    client.post("/v1/attachments", json={"workspace": body["workspace"], "touched": [], "session_id": session})
    told(client, session, "failed")
    first = ask(client, inline(session_id=session, messages=talk(1)))
    assert first["compaction"]["breaker"] == state("closed", 1)
    boundary = {"role": "user", "content": "A summary.", "meta": {"compact_boundary": True}}
    second = ask(client, inline(session_id=session, messages=[boundary]))
    assert second["compaction"]["breaker"] == state("closed", 1)


def test_a_sessions_name_may_hold_any_character(client: httpx.Client) -> None:
    name = "a/b c?ü"
    ask(client, inline(session_id=name, messages=talk(1)))
    assert told(client, quote(name, safe=""), "failed")["breaker"] == state("closed", 1)


def test_a_report_about_no_session_is_a_problem(client: httpx.Client) -> None:
    refused(report(client, "nobody", "failed"), 404, "session-not-found")


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"outcome": "fine"}, "/outcome"),
        ({"outcome": "ok", "tokens_before": 3}, ""),
        ({"outcome": "ok", "tokens_after": 3}, ""),
        ({"outcome": "failed", "tokens_after": -1}, "/tokens_after"),
        ({"outcome": "failed", "reason": "x"}, "/reason"),
    ],
)
def test_what_is_no_report_is_refused(said: Any, pointer: str, client: httpx.Client) -> None:
    response = client.post("/v1/sessions/s/compactions", json=said)
    refused(response, 422, "invalid-request", pointer)


def test_every_end_of_a_compaction_is_counted(client: httpx.Client, upstream: StandIn) -> None:
    session = begun(client)
    automatic(client, upstream, session, "F")
    automatic(client, upstream, session, "S", "manual")
    told(client, session, "aborted")
    told(client, session, "ok", tokens_before=5, tokens_after=5)
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    for trigger, outcome in (
        ("automatic", "overloaded"),
        ("manual", "ok"),
        ("automatic", "aborted"),
        ("automatic", "did_not_help"),
    ):
        assert f'strata_compactions_total{{outcome="{outcome}",trigger="{trigger}"}} 1.0' in response.text
    assert session not in response.text
