"""Lines of JSON."""

from __future__ import annotations

import asyncio
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.log import LEVELS, LONGEST_TEXT, MOST_VALUES, Level, Log, Pipe, readable
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
    log.line("info", "request", {"id": 'a"b', "status": 200})
    assert lines == [
        b'{"id":"a\\"b","status":200,"event":"request","level":"info","timestamp":"2026-11-30T17:35:31.500Z"}\n'
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


UNSEEN_ONES = [
    *map(chr, range(32)),
    "\x7f",
    "\x85",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "\ud800",
]


@pytest.mark.parametrize("unseen", UNSEEN_ONES)
def test_what_ends_a_line_or_turns_its_direction_is_replaced(unseen: str) -> None:
    log, lines = written("info", 0.0)
    log.line("info", "event", {"value": f"a{unseen}b", f"n{unseen}": [{"deep": unseen}]})
    (line,) = lines
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "value": "a\ufffdb", "n\ufffd": [{"deep": "\ufffd"}], "event": "event", "level": "info",
        "timestamp": "1970-01-01T00:00:00.000Z",
    }  # fmt: skip


def test_a_letter_of_any_alphabet_is_written_as_it_is() -> None:
    assert readable("Grüße, 世界 🙂") == "Grüße, 世界 🙂"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
        lambda kind: st.lists(kind) | st.dictionaries(st.text(), kind),
    )
)
def test_whatever_a_value_holds_a_line_is_one_line_of_json(value: Any) -> None:
    log, lines = written("info", 0.0)
    log.line("info", "event", {"value": value})
    (line,) = lines
    assert line.count(b"\n") == 1
    assert line.decode()[:-1].isprintable()
    assert json.loads(line)["event"] == "event"


def test_a_value_is_of_bounded_length() -> None:
    log, lines = written("info", 0.0)
    log.line(
        "info", "event", {"text": "x" * 100_000, "rows": ["y"] * 1000, "more": dict.fromkeys(map(str, range(1000)))}
    )
    told = json.loads(lines[0])
    assert told["text"] == "x" * LONGEST_TEXT + "…"
    assert (len(told["rows"]), len(told["more"])) == (MOST_VALUES, MOST_VALUES)


def test_what_json_does_not_know_is_written_in_its_own_words() -> None:
    log, lines = written("info", 0.0)
    log.line("info", "event", {"at": Path("/a"), "kinds": (LookupError("b"), 1.5)})
    assert (json.loads(lines[0])["at"], json.loads(lines[0])["kinds"]) == ("/a", ["b", 1.5])


def test_no_line_of_any_thread_is_lost() -> None:
    lines: list[bytes] = []
    log = Log("info", lines.append, time.time)

    async def tell() -> None:
        def speak() -> None:
            for _ in range(200):
                log.line("info", "event", {})

        await asyncio.gather(*(asyncio.to_thread(speak) for _ in range(4)), asyncio.to_thread(speak))
        for _ in range(200):
            log.line("info", "event", {})
            await asyncio.sleep(0)
        log.flush()

    asyncio.run(tell())
    assert b"".join(lines).count(b"\n") == 1200


def test_a_pipe_that_nobody_reads_holds_nobody_up_and_says_later_what_was_lost() -> None:
    reading, writing = os.pipe()
    pipe = Pipe.at(writing)
    line = b'{"event":"' + b"x" * 1000 + b'"}\n'
    while not pipe.lost:
        pipe(line * 10)
    lost = pipe.lost
    pipe(line)
    assert pipe.lost == lost + 1
    held = os.read(reading, 1_000_000)
    assert held.count(b"\n") * len(line) == len(held)
    pipe(line)
    told, last = os.read(reading, 1_000_000).splitlines()
    assert json.loads(told) == {"lines": lost + 1, "event": "lines_lost", "level": "warning"}
    assert (last + b"\n", pipe.lost) == (line, 0)
    for descriptor in (reading, writing, pipe._descriptor):
        os.close(descriptor)


def test_others_who_hold_the_same_pipe_wait_as_before() -> None:
    reading, writing = os.pipe()
    pipe = Pipe.at(writing)
    assert (os.get_blocking(writing), os.get_blocking(pipe._descriptor)) == (True, False)
    for descriptor in (reading, writing, pipe._descriptor):
        os.close(descriptor)


def test_a_line_longer_than_a_pipe_takes_at_once_is_cut() -> None:
    reading, writing = os.pipe()
    pipe = Pipe.at(writing)
    pipe(b"x" * 10_000 + b"\n")
    assert os.read(reading, 100_000) == b"x" * (select.PIPE_BUF - 1) + b"\n"
    for descriptor in (reading, writing, pipe._descriptor):
        os.close(descriptor)
