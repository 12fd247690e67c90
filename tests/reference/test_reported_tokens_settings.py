"""Reported faults of how numbers and switches are written, as far as this service has any: its settings, its fields."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.main import create_app
from app.settings import Settings
from tests.asking import CWD, inline, refused
from tests.reference.tallies import BOTH, context, count, using
from tests.serving import serve

Started = Callable[..., httpx.Client]
both = pytest.mark.parametrize("asked", BOTH)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    """Starts a service with these variables of the environment, and no others of its own."""
    for name in [name for name in os.environ if name.startswith("STRATA_")]:
        monkeypatch.delenv(name)
    with ExitStack() as running:

        def start(**variables: str) -> httpx.Client:
            for name, value in variables.items():
                monkeypatch.setenv(f"STRATA_{name}", value)
            address = running.enter_context(serve(create_app(Settings())))
            return running.enter_context(httpx.Client(base_url=address, timeout=60, trust_env=False))

        yield start


# F06: how numbers may be written


@both
@pytest.mark.parametrize("written", ["400000", "400_000", " 400000 ", "400000.0"])
def test_f06_a_window_for_all_models_may_be_written_so(asked: Any, written: str, started: Started) -> None:
    body = asked(started(MAX_CONTEXT_TOKENS=written), using(200_000), model="sonnet")
    state = body["compaction"]
    assert (state["window"], state["percent_of_window"], state["percent_of_model_window"]) == (400_000, 50, 20)


@pytest.mark.parametrize("written", ["2_000", "2000", " 2000", "2000.0"])
def test_f06_a_size_may_be_written_so(written: str, started: Started) -> None:
    files = {f"{CWD}/CLAUDE.md": "x" * 2_001, f"{CWD}/CLAUDE.local.md": "y" * 2_000}
    memory = context(started(MAX_FILE_BYTES=written), [], files=files)["memory"]
    assert [file["content"][0] for file in memory["files"]] == ["y"]


@pytest.mark.parametrize("written", ["2e1", "2E+1", "2_0", "20.0"])
def test_f06_a_time_may_be_written_so(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_COUNT_SECONDS", written)
    assert Settings().count_seconds == 20


@pytest.mark.parametrize("written", ["200k", "-1", "0", "abc", "1.5", "0x10", "1,000", "1__0", "NaN", "inf", "true"])
def test_f06_what_is_no_number_of_tokens_stops_the_start_and_is_named(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRATA_MAX_CONTEXT_TOKENS", written)
    with pytest.raises(ValidationError) as raised:
        Settings()
    assert [fault["loc"] for fault in raised.value.errors()] == [("max_context_tokens",)]


@pytest.mark.parametrize("written", ["400_000", "4e5", "400000.0"])
def test_f06_in_the_file_numbers_are_as_toml_has_them(written: str, tmp_path: Path, started: Started) -> None:
    (tmp_path / "strata.toml").write_text(f"max_context_tokens = {written}")
    client = started(CONFIG=str(tmp_path / "strata.toml"))
    assert count(client, [], model="sonnet")["compaction"]["window"] == 400_000


@both
def test_f06_a_requests_own_window_goes_before_the_services(asked: Any, started: Started) -> None:
    client = started(MAX_CONTEXT_TOKENS="400_000")
    windows = [
        asked(client, [], model="sonnet[1m]", tokens=options)["compaction"]["window"]
        for options in ({"max_context_tokens": 300_000}, {"max_context_tokens": 0}, {}, {"disable_1m": True})
    ]
    assert windows == [300_000, 400_000, 400_000, 200_000]


def raw(client: httpx.Client, name: str, written: str) -> httpx.Response:
    """A request with this JSON for one of the options."""
    body = json.dumps(inline(tokens={name: None})).replace("null}", f"{written}}}")
    return client.post("/v1/context", content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize("written", ['"64_000"', '"64000"', "64000.5", "true", "[]"])
def test_f06_in_a_request_a_number_of_tokens_is_a_whole_number(written: str, service: httpx.Client) -> None:
    refused(raw(service, "max_context_tokens", written), 422, "invalid-request", "/tokens/max_context_tokens")


# F07: how switches may be written


@pytest.mark.parametrize("name", ["disable_1m", "auto_compact"])
@pytest.mark.parametrize("written", ['"no"', '"off"', '"TRUE"', "0", "1", '""', "null"])
def test_f07_in_a_request_a_switch_is_true_or_false(name: str, written: str, service: httpx.Client) -> None:
    refused(raw(service, name, written), 422, "invalid-request", f"/tokens/{name}")


@pytest.mark.parametrize(("written", "window"), [("true", 200_000), ("false", 400_000)])
def test_f07_a_switch_that_is_off_is_off(written: str, window: int, started: Started) -> None:
    client = started(MAX_CONTEXT_TOKENS="400_000")
    assert raw(client, "disable_1m", written).json()["compaction"]["window"] == window


def test_f07_a_setting_that_there_is_not_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_DISABLE_AUTO_COMPACT", "1")
    with pytest.raises(ValidationError, match="there is no setting STRATA_DISABLE_AUTO_COMPACT"):
        Settings()


@pytest.mark.parametrize(
    ("name", "written", "number"),
    [
        ("MAX_CONTEXT_TOKENS", "2e4", 20_000),
        ("MAX_RULES", "2e4", 20_000),
        ("MAX_BODY_BYTES", "2E6", 2_000_000),
        ("MAX_FILE_BYTES", "1.5e6", 1_500_000),
        ("UPSTREAM_RETRIES", "1e0", 1),
    ],
)
def test_f06_a_number_may_be_written_with_an_exponent(
    name: str, written: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"STRATA_{name}", written)
    assert getattr(Settings(), name.lower()) == number
