from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import build_app, build_contexts, create_app
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Held
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
    for line in lines:
        assert set(line) == {"id", "method", "route", "status", "milliseconds", "event", "level", "timestamp"}
        assert (line["event"], line["level"]) == ("request", "info")
        assert line["milliseconds"] >= 0


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
