"""How a service ends that was started from the command line: when, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.asking import inline
from tests.starting import STRATA, failed, served, strata, surroundings
from tests.wires import connected, head

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")

BODY = json.dumps(inline()).encode()
HALF = head("GET", "/v1/models", None) + head(length=len(BODY)) + BODY[:9]
"""A request, and half of another one that is read with it."""


def log_of(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """What was told from now on until the process has ended."""
    return [json.loads(line) for line in process.communicate(timeout=60)[1].splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_last_line_says_once_that_it_has_stopped(workers: str, number: signal.Signals, home: Path) -> None:
    with served(home, "--workers", workers) as (_, process):
        os.killpg(process.pid, number)
        log = log_of(process)
    assert [line["event"] for line in log].count("stopped") == 1
    assert (log[-1]["event"], log[-1]["level"]) == ("stopped", "info")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_was_told_to_end_as_soon_as_it_said_where_it_is_says_that_it_has_stopped(workers: str, home: Path) -> None:
    command = [*STRATA, "serve", "--port", "0", "--workers", workers]
    with subprocess.Popen(command, bufsize=0, env=surroundings(home), cwd=home, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        log = log_of(process)
    assert (first["event"], log[-1]["event"]) == ("serving", "stopped")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_who_could_not_start_does_not_say_that_it_has_stopped(workers: str, home: Path) -> None:
    flags = ("--port", "0", "--workers", workers)
    done = strata(home, "serve", *flags, STRATA_KEYS_FILE=str(home / "none.toml"))
    failed(done, 1, "which cannot be used")
    assert b"stopped" not in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_that_it_has_stopped_is_said_at_every_level_of_the_log(workers: str, home: Path) -> None:
    with served(home, "--workers", workers, STRATA_LOG_LEVEL="critical") as (_, process):
        process.send_signal(signal.SIGTERM)
        assert log_of(process)[-1]["event"] == "stopped"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_has_not_come_whole_when_the_time_to_end_is_over_is_told_to_come_again(workers: str, home: Path) -> None:
    given = {"STRATA_DRAIN_SECONDS": "0.5", "STRATA_BODY_SECONDS": "600"}
    with served(home, "--workers", workers, **given) as (address, process), connected(address) as wire:
        wire.sendall(HALF)
        assert wire.answer()[0] == 200
        process.send_signal(signal.SIGTERM)
        status, _, body = wire.answer()
        log = log_of(process)
    assert (status, json.loads(body)["type"]) == (503, "urn:strata:problem:took-too-long")
    assert [line["cut"] for line in log if line.get("status") == 503] == ["stopping"]
