"""What the process says on standard error: lines of JSON, without anybody's content."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import __version__
from app.cli.lines import PLAIN, Faults, Records, Speech
from app.log import CUT, Log
from app.workspaces.landlock import confinement_of
from tests.asking import answered
from tests.starting import ROOT, STRATA, served, surroundings

CANARY = "canary-7f3a"

UNTAKEN = """
import asyncio, gc, logging, sys, threading, warnings
from app.cli.lines import record_everything
from app.log import standard_error_log

record_everything(standard_error_log(sys.argv[1]))
canary = "canary-7f3a"

class Unraisable:
    def __del__(self):
        raise LookupError(canary)

def fails():
    raise LookupError(canary)

async def forgets():
    asyncio.get_running_loop().create_task(later())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(fails)
    await asyncio.sleep(0)
    gc.collect()

async def later():
    fails()

warnings.warn(canary)
logging.getLogger("some.library").error("it is %s", canary, exc_info=LookupError(canary))
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
logging.getLogger("uvicorn.error").info("Started server process [%d]", 1)
logging.getLogger("some.library").debug(canary)
Unraisable()
thread = threading.Thread(target=fails)
thread.start()
thread.join()
asyncio.run(forgets())
fails()
"""


def heard() -> tuple[Log, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    return Log("info", lambda line: lines.append(json.loads(line)), lambda: 0.0), lines


def untaken(level: str, home: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", UNTAKEN, level]
    done = subprocess.run(command, env=surroundings(home), cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, b"")
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_whatever_goes_wrong_anywhere_is_a_line_of_json_without_its_words(tmp_path: Path) -> None:
    lines = untaken("info", tmp_path)
    assert CANARY not in json.dumps(lines)
    libraries = [line for line in lines if line["event"] == "library"]
    faults = [line for line in lines if line["event"] == "fault"]
    assert [line["logger"] for line in libraries] == [
        "py.warnings", "some.library", "uvicorn.error", "asyncio", "asyncio",
    ]  # fmt: skip
    assert [line.get("message") for line in libraries] == [None, None, "Invalid HTTP request received.", None, None]
    assert [line["error"] for line in faults] == ["LookupError"] * 3
    assert [line["error"] for line in libraries if "error" in line] == ["LookupError"] * 3
    assert faults[-1]["through"][-1].startswith("__main__:")


def test_who_debugs_is_told_the_words_too(tmp_path: Path) -> None:
    lines = untaken("debug", tmp_path)
    told = [line for line in lines if line.get("logger") == "some.library"]
    assert [(line["message"], line["words"]) for line in told] == [(f"it is {CANARY}", CANARY)]


def test_a_message_of_the_server_is_told_when_it_holds_nothing_of_a_caller() -> None:
    assert all("%" not in message or "%s running" in message for message in PLAIN)


@pytest.mark.parametrize(("people", "told"), [(True, "a\n  b\n"), (False, "")])
def test_people_read_text_and_programs_lines(people: bool, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    log, lines = heard()
    Speech(log, people=people).say("info", "serving", "a\n  b", {"address": "http://x:1"})
    assert capsys.readouterr().err == told
    wanted = {"message": "a", "address": "http://x:1", "event": "serving"}
    assert [{name: line[name] for name in wanted} for line in lines] == ([] if people else [wanted])


def test_an_error_that_ends_a_process_is_told_and_is_its_exit_code() -> None:
    log, lines = heard()
    with pytest.raises(SystemExit) as ended, Faults(log, 7):
        raise LookupError(CANARY)
    assert ended.value.code == 7
    assert [(line["event"], line["error"]) for line in lines] == [("fault", "LookupError")]
    assert CANARY not in json.dumps(lines)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_end_that_was_meant_is_no_fault(error: BaseException) -> None:
    log, lines = heard()
    with pytest.raises(type(error)), Faults(log, 7):
        raise error
    assert lines == []


def test_a_level_is_one_of_ours_whatever_a_library_calls_it() -> None:
    log, lines = heard()
    handler = Records(log)
    for number in (25, 30, 35, 40, 50, 70):
        handler.handle(_record(number))
    assert [line["level"] for line in lines] == ["info", "warning", "warning", "error", "critical", "critical"]


def _record(number: int) -> logging.LogRecord:
    return logging.LogRecord("a.library", number, __file__, 1, "said %s", (CANARY,), None)


@contextmanager
def at_a_terminal(home: Path, *arguments: str, **more: str) -> Iterator[tuple[str, str]]:
    """A service whose standard error somebody reads: its first two lines."""
    ours, its = pty.openpty()
    command = [*STRATA, "serve", "--port", "0", *arguments]
    with subprocess.Popen(command, env=surroundings(home, **more), cwd=home, stderr=its) as process:
        os.close(its)
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            try:
                yield read_line(terminal), read_line(terminal)
            finally:
                process.kill()


def read_line(terminal: RawIOBase) -> str:
    line = b""
    while not line.endswith(b"\n"):
        line += terminal.read(1) or b""
    return line.decode().removesuffix("\r\n")


def test_at_a_terminal_the_service_says_in_words_where_it_is_and_what_to_try(tmp_path: Path) -> None:
    with at_a_terminal(tmp_path) as (first, second):
        found = re.fullmatch(
            rf"Strata {re.escape(__version__)} on (http://127\.0\.0\.1:\d+) \(Ctrl-C ends it\)\. Try:", first
        )
        assert found is not None
        tried = re.fullmatch(rf"  curl -s {found[1]}/v1/context -H 'content-type: application/json' -d '(.*)'", second)
        assert tried is not None
        headers = {"content-type": "application/json"}
        address = f"{found[1]}/v1/context"
        answer = answered(httpx.post(address, content=tried[1], headers=headers, timeout=60, trust_env=False))
    assert [file["content"] for file in answer["memory"]["files"]] == ["Use tabs."]


def test_where_a_key_is_needed_what_to_try_says_so(tmp_path: Path) -> None:
    with at_a_terminal(tmp_path, STRATA_API_KEYS="sesame") as (_, second):
        assert " -H 'x-api-key: KEY' " in second
        assert "sesame" not in second


offered = pytest.mark.skipif(confinement_of("git") is None, reason="this system does not confine programs")


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("git", "told"),
    [
        pytest.param(f'exec {shutil.which("git")} "$@"', ("git_confined", "info"), marks=offered),
        ("exit 1", ("git_not_confined", "warning")),
    ],
    ids=["confined", "not confined"],
)
def test_a_start_says_once_whether_git_is_confined(
    git: str, told: tuple[str, str], workers: str, tmp_path: Path
) -> None:
    program = tmp_path / CANARY / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{git}\n")
    program.chmod(0o755)
    lines = said_by_a_start(tmp_path, program.parent, workers)
    found = [line for line in lines if line["event"].startswith("git_")]
    assert [(line["event"], line["level"]) for line in found] == [told]
    assert CANARY not in json.dumps(lines)
    assert not found[0]["message"].endswith(CUT)


def test_where_there_is_no_git_a_start_says_nothing_of_it(tmp_path: Path) -> None:
    assert {line["event"] for line in said_by_a_start(tmp_path, tmp_path, "1")} == {"request", "stopped"}


def said_by_a_start(home: Path, path: Path, workers: str) -> list[Any]:
    """What follows the first line."""
    with served(home, "--workers", workers, PATH=str(path)) as (_, process):
        process.terminate()
        _, rest = process.communicate(timeout=60)
    return [json.loads(line) for line in rest.splitlines()]


def test_elsewhere_every_line_of_its_life_is_json(tmp_path: Path) -> None:
    command = [*STRATA, "serve", "--port", "0", "--workers", "2"]
    environment = surroundings(tmp_path, STRATA_ROOTS=str(tmp_path / CANARY))
    with subprocess.Popen(command, bufsize=0, env=environment, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", first["address"])
        process.terminate()
        _, rest = process.communicate(timeout=60)
    assert (first["event"], first["version"], first["level"]) == ("serving", __version__, "info")
    lines = [json.loads(line) for line in rest.splitlines()]
    assert [line["event"] for line in lines[:2]] == ["root_missing", "sessions_apart"]
    assert [line["event"] for line in lines[2:]] in (["git_confined", "stopped"], ["git_not_confined", "stopped"])
    assert lines[0]["number"] == 1
    assert CANARY.encode() not in rest
