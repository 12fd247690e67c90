from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.building import build_contexts
from app.log import Log
from app.main import build_app, create_app
from app.phases import Phases, Timeline
from app.request_metrics import RequestMetrics
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.telemetry import Telling, parent_given
from tests.asking import inline, local, refused
from tests.serving import serve

HOME = "/home/grace.hopper"
SECRETS = ("diary", "grace.hopper", "sk-secret", "my words", "a file", "private")


def logged(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_every_request_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(create_app(Settings(roots=()))) as address, httpx.Client(base_url=address, trust_env=False) as client:
        client.get("/healthz", headers={"x-request-id": "one"})
        client.post("/v1/context", json=inline(), headers={"x-request-id": "two"})
        client.get("/nothing", headers={"x-request-id": "three"})
        client.get("/v1/models", headers={"host": "evil.example", "x-request-id": "four"})
    lines = logged(capsys)
    assert [(line["id"], line["method"], line["route"], line["status"]) for line in lines] == [
        ("one", "GET", "/healthz", 200),
        ("two", "POST", "/v1/context", 200),
        ("three", "GET", None, 404),
        ("four", "GET", None, 421),
    ]
    assert [line.get("problem") for line in lines] == [None, None, "not-found", "host-refused"]
    for line in lines:
        why = {"problem"} if line["status"] != 200 else set()
        assert set(line) == {"id", "method", "route", "status", "milliseconds", "event", "level", "timestamp"} | why
        assert (line["event"], line["level"]) == ("request", "info")
        assert line["milliseconds"] >= 0


def test_a_line_says_whose_key_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        serve(create_app(Settings(roots=(), api_keys=("a-secret",)))) as address,
        httpx.Client(base_url=address, trust_env=False, headers={"x-api-key": "a-secret"}) as client,
    ):
        for _ in range(3):  # from the second on it is given again
            client.post("/v1/context", json=inline())
        client.post("/v1/context", content=b"x")
    lines = logged(capsys)
    assert len({line["key"] for line in lines}) == 1
    assert re.fullmatch(r"key-[0-9a-f]{16}", lines[0]["key"])
    assert "a-secret" not in json.dumps(lines)


@pytest.mark.parametrize("route", ["/v1/context", "/v1/models"])
def test_a_line_says_whose_key_it_was_that_may_not_ask_so_often_or_so_much(
    route: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, digest = tmp_path / "keys.toml", hashlib.sha256(b"k").hexdigest()
    file.write_text(f'[[keys]]\nname = "ci"\nsha256 = "{digest}"\nrequests_per_minute = 1\nmax_body_bytes = 10\n')
    with (
        serve(create_app(Settings(roots=(), keys_file=file))) as address,
        httpx.Client(base_url=address, trust_env=False, headers={"x-api-key": "k"}) as client,
    ):
        client.post(route, json={"model": "far too long"})
        for _ in range(2):
            client.post(route, json={})
    lines = logged(capsys)
    assert [line.get("problem") for line in lines[::2]] == ["too-large", "rate-limited"]
    assert {line["key"] for line in lines} == {"ci"}


def test_a_level_above_information_logs_no_requests(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(create_app(Settings(roots=(), log_level="warning"))) as address:
        httpx.get(f"{address}/healthz", trust_env=False)
    assert logged(capsys) == []


@pytest.mark.parametrize("given", ["a", "A-1_b.c", "x" * 128])
def test_a_plain_request_id_of_the_caller_is_kept(given: str, service: httpx.Client) -> None:
    assert service.get("/healthz", headers={"x-request-id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\tb", "ü", '"', "a;b"])
def test_another_one_is_replaced(given: str, service: httpx.Client) -> None:
    answer = service.get("/healthz", headers={"x-request-id": given.encode()})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])


def test_no_two_requests_have_one_id(service: httpx.Client) -> None:
    given = [service.get("/healthz").headers["x-request-id"] for _ in range(20)]
    assert len(set(given)) == 20


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/healthz", 200), ("GET", "/nothing", 404), ("PUT", "/v1/context", 405), ("POST", "/v1/context", 415)],
)
def test_every_answer_carries_exactly_one_request_id(
    method: str, path: str, status: int, service: httpx.Client
) -> None:
    answer = service.request(method, path)
    assert answer.status_code == status
    assert len(answer.headers.get_list("x-request-id")) == 1


def test_nothing_of_what_a_caller_sends_is_logged(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = Settings(roots=(tmp_path,), api_keys=("sk-secret",), home=Path(HOME))
    key = {"x-api-key": "sk-secret"}
    body = inline(
        {f"{HOME}/diary.md": "a file", f"{HOME}/CLAUDE.md": "private"},
        workspace={"cwd": HOME, "home": HOME},
        messages=[{"role": "user", "content": "my words"}],
    )
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        assert client.post("/v1/context?diary=private", json=body, headers=key).status_code == 200
        assert client.post("/v1/context", json=body | {"private": 1}, headers=key).status_code == 422
        assert client.post("/v1/context", json=body, headers={"x-api-key": "sk-secret2"}).status_code == 401
        assert client.post("/v1/context", json=local(tmp_path / "diary"), headers=key).status_code == 404
        assert client.get(f"{HOME}/diary.md", headers=key).status_code == 404
        assert client.get("/v1/models", headers=key | {"x-request-id": "private diary"}).status_code == 200
    written = capsys.readouterr().err
    assert len(written.splitlines()) == 6
    assert [secret for secret in (*SECRETS, str(tmp_path)) if secret in written] == []


class FailingStore(ProcessStore):
    async def load(self, key: str) -> Held:
        raise LookupError(f"sk-secret of {HOME}: my words {key}")


def test_of_an_unexpected_error_its_kind_and_its_lines_are_logged_and_not_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings(roots=())
    contexts = replace(build_contexts(settings), sessions=Sessions(FailingStore(1, 1, 1, time.monotonic), "v"))
    with serve(build_app(settings, contexts)) as address:
        body = inline(session_id="private")
        answer = httpx.post(f"{address}/v1/context", json=body, headers={"x-request-id": "r"}, trust_env=False)
    refused(answer, 500, "internal")
    written = capsys.readouterr().err
    (line,) = (json.loads(text) for text in written.splitlines())
    assert (line["id"], line["route"], line["status"], line["error"]) == ("r", "/v1/context", 500, "LookupError")
    assert any(re.fullmatch(r"app\.context:\d+", place) for place in line["through"])
    assert line["through"][-1].startswith("tests.test_telemetry:")
    assert [secret for secret in SECRETS if secret in written] == []
    assert [secret for secret in ("sk-secret", "LookupError", HOME, "context.py") if secret in answer.text] == []


def telling_of(lines: list[bytes], slow_seconds: float = 1.0) -> Telling:
    registry = CollectorRegistry()
    log = Log("info", lines.append, lambda: 0.0)
    return Telling(log, RequestMetrics(registry), Phases(registry), slow_seconds=slow_seconds)


@pytest.mark.parametrize(("seconds", "slow"), [(0.5, False), (1.0, True), (30.0, True)])
def test_a_slow_request_says_what_its_time_went_into(seconds: float, slow: bool) -> None:
    lines: list[bytes] = []
    timeline = Timeline(10.0)
    timeline.add("open", 10.0, 10.25)
    timeline.add("git", 10.25, 10.375)
    timeline.add("git", 10.375, 10.4)
    telling_of(lines).tell(
        "r", "POST", "/v1/context", status=200, began=10.0, answered=10.0 + seconds, timeline=timeline
    )
    assert json.loads(lines[0]).get("phases") == ({"open": 250.0, "git": 150.0} if slow else None)


def test_a_stream_is_not_slow_because_it_lasts() -> None:
    lines: list[bytes] = []
    timeline = Timeline(0.0)
    timeline.add("open", 0.0, 0.1)
    telling_of(lines, 0.5).tell("r", "GET", "/v1/sessions", status=200, began=0.0, answered=0.2, timeline=timeline)
    assert "phases" not in json.loads(lines[0])


def test_a_method_that_nobody_knows_is_told_as_that() -> None:
    lines: list[bytes] = []
    telling_of(lines).tell("r", "MADE-UP", None, status=404, began=0.0, answered=0.1)
    assert json.loads(lines[0])["method"] == "other"


def test_no_answer_is_taken_for_another_kind_of_file_than_it_says(service: httpx.Client) -> None:
    for path in ("/healthz", "/nothing", "/metrics", "/docs"):
        assert service.get(path).headers.get_list("x-content-type-options") == ["nosniff"]


@pytest.mark.parametrize(
    ("headers", "parent"),
    [
        ([], None),
        ([(b"traceparent", b"00-a-b-01")], b"00-a-b-01"),
        ([(b"traceparent", b"a"), (b"traceparent", b"b")], None),
        ([(b"tracestate", b"a=b")], None),
    ],
)
def test_one_parent_is_a_parent(headers: list[tuple[bytes, bytes]], parent: bytes | None) -> None:
    assert parent_given(headers) == parent
