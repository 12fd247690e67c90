"""Workers that come while the file of keys cannot be read, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.starting import ROOT, failed, strata, surroundings
from tests.test_callers import row
from tests.test_workers import CREW, figures, workers_of
from tests.waiting import soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

BROKEN = "[[keys"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


@contextmanager
def crew(start: str, home: Path, file: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Two workers with the keys of ``file``, and their address."""
    environment = surroundings(home, STRATA_KEYS_FILE=str(file), STRATA_WORKERS="2")
    command = [sys.executable, "-c", CREW, start]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, bufsize=0) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().decode().strip()
            soon(lambda: len(workers(process)) == 2)
            yield address, process
        finally:
            process.kill()


def workers(process: subprocess.Popen[bytes]) -> set[int]:
    """Without the process that cleans up behind those that were spawned."""
    return {one for one in workers_of(process.pid) if b"resource_tracker" not in shown(one)}


def shown(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def status(address: str, key: str) -> int:
    """Of a request on a connection of its own."""
    headers = {"x-api-key": key}
    return httpx.get(f"{address}/v1/models", headers=headers, timeout=60, trust_env=False).status_code


def statuses(address: str, key: str) -> set[int]:
    """Of so many requests that each worker has had one."""
    return {status(address, key) for _ in range(16)}


def replaced(process: subprocess.Popen[bytes], lost: set[int]) -> bool:
    now = workers(process)
    return len(now) == 2 and not now & lost


def kill_all(process: subprocess.Popen[bytes]) -> None:
    lost = workers(process)
    for one in lost:
        os.kill(one, signal.SIGKILL)
    soon(lambda: replaced(process, lost))


def failures(address: str) -> float:
    """How often the file could not be read again, by the figures of all workers."""
    return figures(address, "kept")["strata_keys_reload_failures_total",]


def told(process: subprocess.Popen[bytes]) -> bytes:
    """All that was said until the end."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)[1]


@pytest.mark.parametrize("fault", [BROKEN, None], ids=["broken", "gone"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_who_are_lost_are_replaced_and_nobody_is_let_in_who_was_shut_out(
    start: str, fault: str | None, home: Path, file: Path
) -> None:
    file.write_text(row("kept") + row("revoked"))
    with crew(start, home, file) as (address, process):
        file.write_text(row("kept"))
        soon(lambda: status(address, "revoked") == 401)
        if fault is None:
            file.unlink()
        else:
            file.write_text(fault)
        for _ in range(2):
            kill_all(process)
            assert statuses(address, "kept") == {200}
            assert statuses(address, "revoked") == {401}
        soon(lambda: failures(address) >= 2)
        said = told(process)
    assert process.returncode == 0
    assert said.count(b'"event":"keys_not_read"') >= 2
    assert b"Traceback" not in said


def test_who_came_with_the_keys_of_before_goes_on_looking_at_the_file(home: Path, file: Path) -> None:
    file.write_text(row("old"))
    with crew("fork", home, file) as (address, process):
        file.write_text(BROKEN)
        kill_all(process)
        assert (status(address, "old"), status(address, "new")) == (200, 401)
        file.write_text(row("new"))
        soon(lambda: statuses(address, "new") == {200})
        assert statuses(address, "old") == {401}
        said = told(process)
    assert said.count(b'"event":"keys_read"') == 2


def test_a_hangup_while_the_keys_cannot_be_read_replaces_all_with_the_keys_of_before(home: Path, file: Path) -> None:
    file.write_text(row("old"))
    with crew("fork", home, file) as (address, process):
        old = workers(process)
        file.unlink()
        process.send_signal(signal.SIGHUP)
        soon(lambda: status(address, "old") == 200 and replaced(process, old))
        assert statuses(address, "old") == {200}
        said = told(process)
    assert process.returncode == 0
    assert b"cannot be used" not in said


def test_no_worker_starts_first_with_keys_that_cannot_be_read(home: Path, file: Path) -> None:
    file.write_text(BROKEN)
    done = strata(home, "serve", "--port", "0", "--workers", "2", STRATA_KEYS_FILE=str(file))
    failed(done, 1, "which cannot be used: it is not TOML")
    assert done.stderr.count(b"cannot be used") == 1
