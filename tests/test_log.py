"""Lines of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from app.log import LEVELS, Level, Log
from tests.starting import ROOT


class Clock:
    def __init__(self, *times: float) -> None:
        self._times = iter(times)

    def __call__(self) -> float:
        return next(self._times)


def written(level: Level, *times: float) -> tuple[Log, list[bytes]]:
    lines: list[bytes] = []
    return Log(level, lines.append, Clock(*times)), lines


def test_a_line_is_one_write_of_one_object() -> None:
    log, lines = written("info", 1_796_060_131.5)
    log.line("info", "request", {"id": "a\nb", "status": 200})
    assert lines == [
        b'{"id":"a\\nb","status":200,"event":"request","level":"info","timestamp":"2026-11-30T17:35:31.500Z"}\n'
    ]


def test_every_line_has_its_own_time() -> None:
    log, lines = written("info", 0.0, 0.25, 0.9999, 1.0, 59.999, 86_400.001, 0.5)
    for _ in range(7):
        log.line("info", "tick", {})
    assert [json.loads(line)["timestamp"] for line in lines] == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.250Z",
        "1970-01-01T00:00:00.999Z",
        "1970-01-01T00:00:01.000Z",
        "1970-01-01T00:00:59.999Z",
        "1970-01-02T00:00:00.001Z",
        "1970-01-01T00:00:00.500Z",
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_less_grave_is_left_out(level: Level) -> None:
    log, lines = written(level, *range(9))
    for each in LEVELS:
        log.line(each, "event", {})
    kept = [json.loads(line)["level"] for line in lines]
    assert kept == [each for each in LEVELS if log.takes(each)] == list(LEVELS[LEVELS.index(level) :])


def test_a_line_that_cannot_be_written_is_no_failure() -> None:
    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    Log("info", full, Clock(0.0)).line("info", "event", {})


@pytest.mark.parametrize(("closing", "told"), [("", 1), ("2>&-", 0)])
def test_standard_error_may_be_closed(closing: str, told: int) -> None:
    code = "from app.log import standard_error_log as log; log('info').line('info', 'event', {}); print('on')"
    command = f'exec "$0" -c "$1" {closing}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, code], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"on\n"
    assert len(done.stderr.splitlines()) == told


def test_a_plain_line_is_the_same_line() -> None:
    log, lines = written("info", 0.25, 0.25)
    log.line("info", "request", {"id": "a", "status": 200})
    log.plain("info", "request", '"id":"a","status":200')
    assert lines[0] == lines[1]
