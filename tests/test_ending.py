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
from tests.starting import served
from tests.wires import connected, head

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")

BODY = json.dumps(inline()).encode()
HALF = head("GET", "/v1/models", None) + head(length=len(BODY)) + BODY[:9]
"""A request, and half of another one that is read with it."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


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
