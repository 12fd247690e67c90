"""Over HTTP: a session that is heavier than all of them may be is told so, and begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.asking import CWD, ask, inline
from tests.serving import serve

MOST = 100_000
LIGHT = {f"{CWD}/CLAUDE.md": "A rule."}
HEAVY = {f"{CWD}/CLAUDE.md": "A rule of many words. " * 10_000}


@pytest.fixture
def service() -> Iterator[httpx.Client]:
    settings = Settings(roots=(), max_session_bytes=MOST)
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        yield client


def unkept(answer: dict[str, Any]) -> list[str]:
    return [one["message"] for one in answer["warnings"] if one["code"] == "session_not_kept"]


def test_a_session_that_is_too_heavy_begins_anew_each_time_and_says_so(service: httpx.Client) -> None:
    for _ in range(2):
        answer = ask(service, inline(HEAVY, session_id="s"))
        assert answer["session"]["new"]
        (message,) = unkept(answer)
        assert "STRATA_MAX_SESSION_BYTES" in message


def test_the_session_that_it_was_before_is_gone_too(service: httpx.Client) -> None:
    ask(service, inline(LIGHT, session_id="s"))
    grown = ask(service, inline(HEAVY, session_id="s", freshness="validate"))
    assert (grown["session"]["new"], len(unkept(grown))) == (False, 1)
    assert service.get("/v1/sessions/s").status_code == 404


def test_a_light_session_is_kept_without_a_word(service: httpx.Client) -> None:
    first, second = (ask(service, inline(LIGHT, session_id="s")) for _ in range(2))
    assert (unkept(first), unkept(second), second["session"]["new"]) == ([], [], False)


def test_without_a_session_there_is_nothing_to_tell(service: httpx.Client) -> None:
    assert unkept(ask(service, inline(HEAVY))) == []


def test_attachments_tell_it_too(service: httpx.Client) -> None:
    touched = [{"path": "/".join(["src", "x" * 200, str(at), "a.py"])} for at in range(400)]
    files = {f"{CWD}/src/{'x' * 200}/{at}/CLAUDE.md": "Nested." for at in range(400)}
    body = inline(files, session_id="s", touched=touched)
    del body["date"], body["model"]
    answer = service.post("/v1/attachments", json=body)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["attachments"]) == 400
    assert len(unkept(answer.json())) == 1
