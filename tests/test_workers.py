"""``strata serve --workers N``, with real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.asking import inline, local
from tests.starting import ROOT, failed, served, strata, surroundings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

CREW = """
import socket, sys
from app.cli.workers import Workers
from app.settings import Settings
listening = socket.create_server(("127.0.0.1", 0))
address = f"http://127.0.0.1:{listening.getsockname()[1]}"
sys.exit(Workers(Settings(), listening, sys.argv[1]).serve(lambda: print(address, file=sys.stderr, flush=True)))
"""
WITHOUT_A_PORT = """
import socket, sys
from app.cli.workers import Workers
from app.settings import Settings
listening = socket.socket()
listening.close()
sys.exit(Workers(Settings(workers=3), listening).serve(lambda: print("serving")))
"""


def workers_of(parent: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state[0] not in "ZX"


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def figures(address: str, key: str = "") -> dict[tuple[str, ...], float]:
    """What whichever worker is asked tells, by name and the values of labels."""
    written = httpx.get(f"{address}/metrics", headers={"x-api-key": key}, timeout=60, trust_env=False).text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(written)
        for sample in family.samples
    }


def ask_for_models(address: str, times: int = 20) -> None:
    """On a connection each."""
    for _ in range(times):
        assert httpx.get(f"{address}/v1/models", timeout=60, trust_env=False).status_code == 200


def statuses(address: str, times: int = 20) -> set[int]:
    """Of requests on a connection each."""
    return {httpx.get(f"{address}/healthz", timeout=60, trust_env=False).status_code for _ in range(times)}


def test_workers_share_the_port_the_flags_and_the_file(home: Path, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "strata.toml").write_text('api_keys = ["k"]\nworkers = 1')
    flags = ("--workers", "2", "--root", str(tmp_path / "code"), "--config", str(tmp_path / "strata.toml"))
    with served(home, *flags, STRATA_ROOTS=str(home)) as (address, process):
        key = {"x-api-key": "k"}
        assert httpx.get(f"{address}/v1/models", trust_env=False).status_code == 401
        for folder, status in ((tmp_path / "code", 200), (home, 404)):
            body = local(folder)
            answer = httpx.post(f"{address}/v1/context", json=body, headers=key, timeout=60, trust_env=False)
            assert answer.status_code == status
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "2 workers keep sessions of their own" in told.decode()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/healthz", trust_env=False)


def test_a_root_may_have_any_name(home: Path, tmp_path: Path) -> None:
    root = tmp_path / f"a{os.pathsep}b"
    root.mkdir()
    with served(home, "--workers", "2", "--root", str(root)) as (address, _):
        answer = httpx.post(f"{address}/v1/context", json=local(root), timeout=60, trust_env=False)
    assert answer.status_code == 200


def test_a_worker_that_is_killed_is_replaced_while_the_others_answer(home: Path) -> None:
    with served(home, "--workers", "2") as (address, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        for lost in workers_of(process.pid):
            os.kill(lost, signal.SIGKILL)
            wait_until(lambda lost=lost: lost not in workers_of(process.pid))
            assert statuses(address) == {200}
            wait_until(lambda: len(workers_of(process.pid)) == 2)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert told.count(b"was killed by signal 9: another one starts") == 2


def test_a_hangup_replaces_every_worker_while_the_service_answers(home: Path) -> None:
    with served(home, "--workers", "2") as (address, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        old = workers_of(process.pid)
        process.send_signal(signal.SIGHUP)
        seen: set[int] = set()
        while old & workers_of(process.pid):
            seen |= statuses(address, 1)
        assert seen | statuses(address) == {200}
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"another one starts" not in told
    assert told.count(b'"renewing"') == 1


def test_a_request_that_is_under_way_is_answered_before_the_end(home: Path) -> None:
    body = json.dumps(inline()).encode()
    with served(home, "--workers", "2") as (address, process):
        workers = workers_of(process.pid)
        host = urlsplit(address).netloc
        with socket.create_connection(host.split(":"), timeout=60) as connection:
            head = f"POST /v1/context HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            connection.sendall(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body[:9])
            statuses(address)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: len(workers_of(process.pid)) < 2)
            connection.sendall(body[9:])
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        process.communicate(timeout=60)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert process.returncode == 0
    assert [worker for worker in workers if is_running(worker)] == []


def test_an_interrupt_at_the_terminal_ends_all_without_a_traceback(home: Path) -> None:
    with served(home, "--workers", "2") as (_, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        workers = workers_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"Traceback" not in told
    assert [worker for worker in workers if is_running(worker)] == []


def test_no_worker_outlives_the_one_that_started_it(home: Path) -> None:
    with served(home, "--workers", "3") as (_, process):
        wait_until(lambda: len(workers_of(process.pid)) == 3)
        workers = workers_of(process.pid)
        process.kill()
        wait_until(lambda: not any(map(is_running, workers)))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_get_the_settings_however_they_are_started_and_show_them_to_nobody(start: str, home: Path) -> None:
    environment = surroundings(home, STRATA_API_KEYS="sesame", STRATA_WORKERS="2")
    command = [sys.executable, "-c", CREW, start]
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stderr is not None
        address = process.stderr.readline().decode().strip()
        wait_until(lambda: len(workers_of(process.pid)) >= 2)
        shown = [Path(f"/proc/{worker}/cmdline").read_bytes() for worker in workers_of(process.pid)]
        answers = [
            httpx.get(f"{address}/v1/models", headers={"x-api-key": key}, timeout=60, trust_env=False).status_code
            for key in ("sesame", "other")
        ]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert answers == [200, 401]
    assert process.returncode == 0
    assert [line for line in shown if b"sesame" in line] == []


def test_workers_that_cannot_start_are_told_once_and_end_with_1(home: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_A_PORT]
    done = subprocess.run(
        command, env=surroundings(home), cwd=ROOT, capture_output=True, check=False, timeout=60, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count('"event":"fault"') == 1
    assert "strata: cannot start to serve: the first worker ended with 1" in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_package_that_is_missing_is_told_once_before_anything_is_announced(
    workers: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "redis.py").write_text("raise ModuleNotFoundError(name='redis')")
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    flags = ("--port", "0", "--workers", workers)
    done = strata(home, "serve", *flags, STRATA_REDIS_URL="redis://127.0.0.1:1", PYTHONPATH=path)
    failed(done, 1, "strata: STRATA_REDIS_URL needs a package more: pip install '.[redis]'")
    assert done.stderr.count(b".[redis]") == 1
    assert b"Ctrl-C" not in done.stderr


def test_with_redis_nothing_is_said_of_sessions(home: Path) -> None:
    with served(home, "--workers", "2", STRATA_REDIS_URL="redis://127.0.0.1:1") as (_, process):
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert b"keep sessions of their own" not in told


ASKED = ("strata_requests_total", "GET", "/v1/models", "2xx")


def test_whichever_worker_is_asked_tells_the_figures_of_all(home: Path) -> None:
    with served(home, "--workers", "3") as (address, process):
        wait_until(lambda: len(workers_of(process.pid)) == 3)
        ask_for_models(address, 30)
        wait_until(lambda: figures(address).get(ASKED) == 30)
        seen = [figures(address) for _ in range(10)]
    assert {told[ASKED] for told in seen} == {30}
    assert {told["strata_workers",] for told in seen} == {3}
    assert {told["strata_metrics_complete",] for told in seen} == {1}
    latencies = ("strata_request_seconds_count", *ASKED[1:])
    assert {told[latencies] for told in seen} == {30}


def test_what_workers_counted_that_were_killed_is_not_forgotten(home: Path) -> None:
    with served(home, "--workers", "2") as (address, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        ask_for_models(address)
        wait_until(lambda: figures(address).get(ASKED) == 20)
        told = [20.0]
        for lost in workers_of(process.pid):
            os.kill(lost, signal.SIGKILL)
            wait_until(lambda lost=lost: lost not in workers_of(process.pid))
            told += [figures(address)[ASKED] for _ in range(5)]
            wait_until(lambda: len(workers_of(process.pid)) == 2)
        wait_until(lambda: figures(address)["strata_workers",] == 2)
        told.append(figures(address)[ASKED])
    assert set(told) == {20}


def test_what_workers_counted_that_were_renewed_is_told_to_the_last_request(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with served(home, "--workers", "2", TMPDIR=str(kept)) as (address, process):
        for _ in range(3):
            wait_until(lambda: len(workers_of(process.pid)) == 2)
            old = workers_of(process.pid)
            ask_for_models(address, 10)
            process.send_signal(signal.SIGHUP)
            wait_until(lambda old=old: not old & workers_of(process.pid))
        wait_until(lambda: figures(address)["strata_workers",] == 2)
        assert figures(address)[ASKED] == 30
        (folder,) = kept.glob("strata-*")
        wait_until(lambda: len([file for file in folder.iterdir() if not file.suffix]) == 3)  # of two, and the gone
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert list(kept.iterdir()) == []


def test_a_worker_that_cannot_reach_the_others_figures_tells_its_own_and_says_so(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with served(home, "--workers", "2", TMPDIR=str(kept)) as (address, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        kept.rename(tmp_path / "away")
        told = figures(address)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert (told["strata_metrics_complete",], told["strata_workers",]) == (0, 1)
    assert process.returncode == 0


def test_workers_whose_starter_was_killed_leave_no_figures_behind(home: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with served(home, "--workers", "2", TMPDIR=str(kept)) as (_, process):
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        process.kill()
        wait_until(lambda: not list(kept.iterdir()))
