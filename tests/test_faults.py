"""One fault at a time, over HTTP: what is answered while it lasts, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message, Receive, Scope, Send

from app.building import build_contexts
from app.core.budget import FAILURES_TO_OPEN
from app.log import Log
from app.main import build_app, create_app
from app.request_metrics import RequestMetrics
from app.settings import Settings
from app.telemetry import Telemetry, Telling
from app.workspaces.disk import Disk
from app.workspaces.footprints import Footprints
from tests.asking import CWD, ask, bare, inline, local, refused
from tests.compacting import KEY, Watch, asking, compacting, report, run, talk, timed
from tests.listening import wait_until
from tests.serving import serve
from tests.standin.mishaps import Cut, Drip, Hold, Scripted, Stall, mishaps
from tests.standin.server import StandIn
from tests.starting import ROOT, STRATA, served, surroundings
from tests.stores.redis_server import RedisServer, redis_server
from tests.wires import Wire, connected, head, posted

YEAR = 365 * 24 * 3600.0
WRITES = (b"EVALSHA", b"EVAL", b"evalsha", b"eval")
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc, and limited")


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


class Middleman:
    """Between the service and Redis. Once `held` is armed, the first write stays here, half of it passed on."""

    def __init__(self, to: Path, at: Path) -> None:
        self._to, self.at = to, at
        self.armed, self.holds, self.goes_on = threading.Event(), threading.Event(), threading.Event()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(at))
        self._listening.listen()
        threading.Thread(target=self._take, daemon=True).start()

    def close(self) -> None:
        self.goes_on.set()
        self._listening.close()

    def _take(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(near,), daemon=True).start()

    def _pass_on(self, near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as far:
            try:
                far.connect(str(self._to))
                threading.Thread(target=_copied, args=(far, near), daemon=True).start()
                while data := near.recv(1 << 20):
                    if self.armed.is_set() and any(word in data for word in WRITES):
                        far.sendall(data[: len(data) // 2])
                        self.holds.set()
                        self.goes_on.wait(60)
                        return
                    far.sendall(data)
            except OSError:
                return


def _copied(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 20):
            target.sendall(data)
    except OSError:
        return


@pytest.fixture
def middleman(redis: RedisServer) -> Iterator[Middleman]:
    made = Middleman(redis.socket, redis.folder / "between")
    yield made
    made.close()


def workers_of(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def kill_all(parent: subprocess.Popen[bytes]) -> None:
    """And waits for those that take their places."""
    before = set(workers_of(parent.pid))
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: len(workers_of(parent.pid)) == len(before) and not before & set(workers_of(parent.pid)))


@contextmanager
def calling(address: str) -> Iterator[httpx.Client]:
    """Each call on a connection of its own."""
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=address, timeout=60, trust_env=False, limits=limits) as client:
        yield client


def in_background(call: Callable[[], Any]) -> threading.Thread:
    """A call whose connection may end."""

    def called() -> None:
        try:
            call()
        except httpx.HTTPError:
            return

    thread = threading.Thread(target=called, daemon=True)
    thread.start()
    return thread


@linux
def test_of_a_turn_whose_worker_is_killed_while_it_writes_nothing_is_kept(home: Path, middleman: Middleman) -> None:
    session = uuid4().hex
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs."}, session_id=session)
    more = body | {"messages": [{"role": "user", "content": "Go on."}]}
    redis_url = f"unix://{middleman.at}"
    with served(home, "--workers", "2", STRATA_REDIS_URL=redis_url, STRATA_REDIS_SECONDS="60") as (address, process):
        with calling(address) as client:
            ask(client, body)
            before = client.get(f"/v1/sessions/{session}").json()
            middleman.armed.set()
            lost = in_background(lambda: client.post("/v1/context", json=more))
            assert middleman.holds.wait(60)
            kill_all(process)
            middleman.armed.clear()
            middleman.goes_on.set()
            lost.join(60)
            assert client.get(f"/v1/sessions/{session}").json() == before
            after = ask(client, more)
        assert after["session"]["new"] is False
        assert after["warnings"] == []


@linux
def test_what_a_breaker_has_counted_outlives_the_workers(home: Path, redis: RedisServer, upstream_url: str) -> None:
    session = uuid4().hex
    given = {"STRATA_REDIS_URL": redis.url, "STRATA_UPSTREAM_URL": upstream_url, "ANTHROPIC_API_KEY": KEY}
    with served(home, "--workers", "2", **given) as (address, process), calling(address) as client:
        ask(client, inline({f"{CWD}/CLAUDE.md": "Use tabs."}, session_id=session))
        for failures in range(1, FAILURES_TO_OPEN + 1):
            assert report(client, session, "failed").json()["breaker"]["consecutive_failures"] == failures
            kill_all(process)
        body = asking(session_id=session, trigger="automatic")
        refused(client.post("/v1/compactions", json=body), 409, "breaker-open")
        held = client.get(f"/v1/sessions/{session}").json()
    assert held["breaker"]["state"] == "open"


@linux
def test_a_compaction_whose_worker_is_killed_holds_its_session_for_no_longer_than_it_could_have_taken(
    home: Path, redis: RedisServer, upstream: StandIn, upstream_url: str
) -> None:
    session, released = uuid4().hex, threading.Event()
    body = asking(session_id=session, trigger="automatic")
    context = {name: value for name, value in body.items() if name not in {"mode", "trigger"}}
    given = {
        "STRATA_REDIS_URL": redis.url,
        "STRATA_UPSTREAM_URL": upstream_url,
        "ANTHROPIC_API_KEY": KEY,
        "STRATA_COMPACT_SECONDS": "5",
    }
    upstream.answer_next(Hold(released))
    with served(home, "--workers", "2", **given) as (address, process), calling(address) as client:
        before = ask(client, context)
        lost = in_background(lambda: client.post("/v1/compactions", json=body))
        assert upstream.asked.wait(60)
        kill_all(process)
        released.set()
        lost.join(60)
        again = client.post("/v1/compactions", json=body)
        refused(again, 409, "compacting-already")
        assert 0 < int(again.headers["retry-after"]) <= 5 + 60
        after = ask(client, context)
    assert bare(after["request"]["messages"]) == bare(before["request"]["messages"])
    assert after["compaction"]["breaker"]["consecutive_failures"] == 0


def test_a_turn_in_whose_middle_redis_is_killed_is_answered_and_kept(redis: RedisServer, middleman: Middleman) -> None:
    session = uuid4().hex
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs."}, session_id=session)
    more = body | {"messages": [{"role": "user", "content": "Go on."}]}
    settings = Settings(redis_url=f"unix://{middleman.at}", redis_seconds=5)
    with serve(create_app(settings)) as address, calling(address) as client:
        ask(client, body)
        redis.keep()
        middleman.armed.set()
        found: list[dict[str, Any]] = []
        turn = in_background(lambda: found.append(ask(client, more)))
        assert middleman.holds.wait(60)
        redis.kill()
        middleman.armed.clear()
        middleman.goes_on.set()
        turn.join(60)
        [answer] = found
        assert [row["code"] for row in answer["warnings"]] == ["session_store_unavailable"]
        assert answer["session"]["new"] is False
        redis.start()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        held = client.get(f"/v1/sessions/{session}").json()
        again = ask(client, more)
    assert held["last_request"]["messages"] == 1
    assert again["warnings"] == []
    assert again["request"] == answer["request"]


def forbid_files(process: int, most: int) -> None:
    """As on a full disk: no file can become longer than ``most`` bytes."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (most, hard))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code/shop"
    folder.mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Prices are in cents.")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "-q", "-m", "start"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
    return folder


def commit_of(folder: Path) -> dict[str, Any]:
    workspace = {"source": "git", "repository": str(folder), "ref": "main"}
    return {"model": "claude-sonnet-4-5", "date": "2026-11-30", "workspace": workspace}


@linux
def test_on_a_full_disk_files_are_answered_without_git_and_commits_are_told_to_come_again(
    home: Path, repository: Path, tmp_path: Path
) -> None:
    room = tmp_path / "room"
    room.mkdir()
    given = {"TMPDIR": str(room), "STRATA_ROOTS": str(tmp_path)}
    with served(home, **given) as (address, process), calling(address) as client:
        before = [ask(client, local(repository)), ask(client, commit_of(repository))]
        forbid_files(process.pid, 0)
        full = ask(client, local(repository))
        refused(client.post("/v1/context", json=commit_of(repository)), 503, "git-unavailable")
        assert [file["content"] for file in full["memory"]["files"]] == ["Prices are in cents."]
        assert "system_context" not in {one["name"] for one in full["sections"] if one["present"]}
        assert list(room.iterdir()) == []
        forbid_files(process.pid, resource.RLIM_INFINITY)
        after = [ask(client, local(repository)), ask(client, commit_of(repository))]
    assert [one["request"] for one in after] == [one["request"] for one in before]


@linux
def test_a_log_on_a_full_device_keeps_nobody_from_an_answer(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*STRATA, "serve", "--port", str(port)]
    with (
        Path("/dev/full").open("wb") as full,
        subprocess.Popen(command, env=surroundings(home), cwd=ROOT, stderr=full) as process,
    ):
        try:
            with calling(f"http://127.0.0.1:{port}") as client:
                wait_until(lambda: process.poll() is not None or _answers(client))
                assert [client.post("/v1/context", json=inline()).status_code for _ in range(3)] == [200] * 3
        finally:
            process.kill()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def jumping(watch: Watch, upstream: StandIn, upstream_url: str) -> Iterator[httpx.Client]:
    """A service whose wall clock is ``watch``; its own waiting is by another one."""
    with compacting(upstream_url, changed=timed(watch), breaker_cool_down_seconds=60) as client:
        yield client


@pytest.mark.parametrize("jump", [YEAR, -YEAR], ids=["ahead", "back"])
def test_a_session_stays_as_it_is_when_the_clock_jumps(jump: float, watch: Watch, jumping: httpx.Client) -> None:
    session = uuid4().hex
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs. " * 500}, session_id=session, messages=talk(2))
    before = ask(jumping, body)
    watch.seconds += jump
    more = body | {"messages": [*body["messages"], {"role": "assistant", "content": "ok"}, *talk(1)]}
    after = ask(jumping, more)
    assert after["session"]["new"] is False
    assert after["request"]["system"] == before["request"]["system"]
    ahead = jump > 0
    previous = after["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == ((False, "ttl_expired") if ahead else (True, None))
    watch.seconds -= jump
    last = ask(jumping, more)
    assert bare(last["request"]["messages"]) == bare(after["request"]["messages"])


@pytest.mark.parametrize("jump", [YEAR, -YEAR], ids=["ahead", "back"])
def test_edits_are_seen_however_far_the_clock_is_from_that_of_the_files(jump: float, tmp_path: Path) -> None:
    memory = tmp_path / "CLAUDE.md"
    settings = Settings(roots=(tmp_path,))
    contexts, off = build_contexts(settings), [0.0]
    disk = Disk(settings.max_file_cache_bytes, wall=lambda: time.time_ns() + int(off[0] * 1e9))
    contexts = replace(
        contexts,
        ground=replace(contexts.ground, disk=disk),
        footprints=Footprints(settings.max_file_bytes, disk),
    )
    body = local(tmp_path, session_id="s", freshness="validate")
    with serve(build_app(settings, contexts)) as address, calling(address) as client:
        for number, moved in enumerate((0.0, jump, jump, 0.0, jump, 0.0)):
            off[0] = moved
            beside = tmp_path / "beside"
            beside.write_text(f"Version {number}.")
            beside.replace(memory)
            for _ in range(2):
                assert ask(client, body)["memory"]["files"][0]["content"] == f"Version {number}."


def opened(client: httpx.Client) -> str:
    """A session whose breaker has just opened."""
    session = uuid4().hex
    ask(client, inline({f"{CWD}/CLAUDE.md": "Use tabs."}, session_id=session))
    states = [report(client, session, "failed").json()["breaker"]["state"] for _ in range(FAILURES_TO_OPEN)]
    assert states[-1] == "open"
    return session


def test_a_breaker_that_cools_down_is_tried_after_a_jump_ahead(watch: Watch, jumping: httpx.Client) -> None:
    session = opened(jumping)
    watch.seconds += YEAR
    assert jumping.get(f"/v1/sessions/{session}").json()["breaker"]["state"] == "half_open"
    assert run(jumping, asking(session_id=session, trigger="automatic"))["outcome"] == "ok"


def test_a_lease_by_a_clock_that_was_a_year_ahead_keeps_nobody_from_compacting(
    redis: RedisServer, upstream: StandIn, upstream_url: str
) -> None:
    session, released, later = uuid4().hex, threading.Event(), Watch(1_000_000.0 + YEAR)
    body = asking(session_id=session)
    with (
        compacting(upstream_url, changed=timed(later), redis_url=redis.url) as ahead,
        compacting(upstream_url, changed=timed(Watch()), redis_url=redis.url) as right,
    ):
        ask(ahead, {name: value for name, value in body.items() if name != "mode"})
        upstream.answer_next(Hold(released))
        slow = in_background(lambda: ahead.post("/v1/compactions", json=body))
        assert upstream.asked.wait(60)
        other = right.post("/v1/compactions", json=body)
        released.set()
        slow.join(60)
    assert other.json()["outcome"] == "ok"


@pytest.fixture(scope="module")
def impatient(running_upstream: tuple[StandIn, str]) -> Iterator[httpx.Client]:
    with compacting(running_upstream[1], upstream_seconds=1, count_seconds=2, compact_seconds=2) as client:
        yield client


FATAL = {name: mishap for name, mishap in mishaps().items() if not isinstance(mishap, Cut | Drip)}


@pytest.mark.parametrize("mishap", FATAL.values(), ids=FATAL)
def test_whatever_the_api_does_a_count_is_answered_and_the_next_one_is_exact_again(
    mishap: Scripted, impatient: httpx.Client, upstream: StandIn
) -> None:
    messages = [{"role": "user", "content": uuid4().hex}]
    body = {"model": f"claude-{uuid4().hex}", "messages": messages, "tokens": {"method": "exact"}}
    upstream.standing = mishap
    during = impatient.post("/v1/tokens", json=body).json()
    upstream.forget()
    after = impatient.post("/v1/tokens", json=body | {"model": f"claude-{uuid4().hex}"}).json()
    assert during["tokens"]["method"] == "estimate"
    assert "exact_count_unavailable" in [row["code"] for row in during["warnings"]]
    assert after["tokens"]["method"] == "exact"


@pytest.mark.parametrize("mishap", FATAL.values(), ids=FATAL)
def test_whatever_the_api_does_a_failed_summary_leaves_the_session_as_it_was(
    mishap: Scripted, impatient: httpx.Client, upstream: StandIn
) -> None:
    session = uuid4().hex
    body = asking(session_id=session, trigger="automatic")
    context = {name: value for name, value in body.items() if name not in {"mode", "trigger"}}
    before = ask(impatient, context)
    upstream.standing = mishap
    found = run(impatient, body)
    upstream.forget()
    assert (found["outcome"], found["breaker"]["consecutive_failures"]) == ("failed", 1)
    assert ask(impatient, context)["request"] == before["request"]
    assert run(impatient, body)["breaker"]["consecutive_failures"] == 0


PLAIN = {"workspace": inline({f"{CWD}/CLAUDE.md": "x" * 50_000, f"{CWD}/src/CLAUDE.md": "Nested."})["workspace"]}
SAID = {"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "Hi."}]}
CALLS: dict[str, tuple[str, str, Any]] = {
    "context": ("POST", "/v1/context", inline(session_id="gone") | PLAIN),
    "attachments": (
        "POST",
        "/v1/attachments",
        PLAIN | {"touched": [{"path": f"{CWD}/src/a.py"}], "session_id": "gone"},
    ),
    "scan": ("POST", "/v1/scan", PLAIN),
    "lint": ("POST", "/v1/cache/lint", {"requests": [{"body": SAID | {"max_tokens": 1}}]}),
    "tokens": ("POST", "/v1/tokens", SAID | {"tokens": {"method": "exact"}}),
    "plan": ("POST", "/v1/compactions", asking("plan", session_id="gone")),
    "run": ("POST", "/v1/compactions", asking("run", session_id="gone")),
    "report": ("POST", "/v1/sessions/gone/compactions", {"outcome": "failed"}),
    "clear": ("POST", "/v1/sessions/gone/clear", {"reason": "clear"}),
    "session": ("GET", "/v1/sessions/gone", None),
    "poll": ("GET", "/v1/sessions/gone/context", None),
    "events": ("GET", "/v1/sessions/gone/events", None),
    "models": ("GET", "/v1/models", None),
    "metrics": ("GET", "/metrics", None),
    "ready": ("GET", "/readyz", None),
}
STAGES = ("before the head", "in the head", "behind the head", "in the body", "behind the body", "in the answer")


def written(method: str, path: str, body: Any) -> tuple[bytes, bytes]:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(content)}\r\n\r\n".encode(), content


def vanish(address: str, head: bytes, content: bytes, stage: str) -> None:
    parts = urlsplit(address)
    sent = {
        "before the head": b"",
        "in the head": head[: len(head) // 2],
        "behind the head": head,
        "in the body": head + content[: len(content) // 2],
    }.get(stage, head + content)
    with socket.create_connection((parts.hostname, parts.port or 0), timeout=60) as wire:
        wire.sendall(sent)
        if stage == "in the answer":
            assert wire.recv(1)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


@pytest.mark.parametrize("stage", STAGES)
def test_who_vanishes_at_any_stage_of_any_call_leaves_no_fault_and_nothing_open(
    stage: str, impatient: httpx.Client, upstream: StandIn
) -> None:
    ask(impatient, inline(session_id="gone") | PLAIN)
    for method, path, body in CALLS.values():
        vanish(str(impatient.base_url).rstrip("/"), *written(method, path, body), stage)
    assert ask(impatient, inline(session_id="gone") | PLAIN)["session"]["id"] == "gone"
    figures = impatient.get("/metrics").text.splitlines()
    assert [line for line in figures if line.startswith("strata_requests_total") and 'status="500"' in line] == []


@linux
def test_a_compaction_that_is_under_way_is_answered_before_the_end(
    home: Path, upstream: StandIn, upstream_url: str
) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))
    given = {"STRATA_UPSTREAM_URL": upstream_url, "ANTHROPIC_API_KEY": KEY}
    found: list[dict[str, Any]] = []
    with served(home, "--workers", "2", **given) as (address, process), calling(address) as client:
        wait_until(lambda: len(workers_of(process.pid)) == 2)
        running = in_background(lambda: found.append(run(client, asking())))
        assert upstream.asked.wait(60)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: len(workers_of(process.pid)) < 2)
        released.set()
        running.join(60)
        assert process.wait(60) == 0
    assert [one["outcome"] for one in found] == ["ok"]


STOPPING = """
import socket
from app.cli.lines import record_everything
from app.cli.server import Server
from app.log import standard_error_log
from app.main import create_app
with socket.create_server(("127.0.0.1", 0)) as listening:
    server = Server(create_app(), drain_seconds=1)
    record_everything(standard_error_log("info"))
    print(listening.getsockname()[1], flush=True)
    server.run(sockets=[listening])
"""


@contextmanager
def impatiently_stopping(home: Path, **given: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server that waits for what is under way for a second, and its address."""
    command = [sys.executable, "-c", STOPPING]
    with subprocess.Popen(
        command, env=surroundings(home, **given), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process
        finally:
            process.kill()


def log_of(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """What was told until the process has ended."""
    return [json.loads(line) for line in process.communicate(timeout=60)[1].splitlines()]


def told_to_come_again(wire: Wire) -> str:
    """The name of a request that the end of the process has cut."""
    status, headers, body = wire.answer()
    problem = json.loads(body)
    assert (status, problem["type"]) == (503, "urn:strata:problem:took-too-long")
    assert (headers["connection"], headers["retry-after"]) == ("close", "1")
    assert problem["detail"].startswith("The service stops")
    assert problem["request_id"] == headers["x-request-id"]
    assert wire.is_closed()
    return headers["x-request-id"]


def test_what_lasts_longer_than_the_end_is_told_to_come_again_and_is_no_fault(
    home: Path, upstream: StandIn, upstream_url: str
) -> None:
    upstream.standing = Stall()
    given = {"STRATA_UPSTREAM_URL": upstream_url, "ANTHROPIC_API_KEY": KEY}
    context, scan = json.dumps(inline()).encode(), json.dumps(PLAIN).encode()
    with (
        impatiently_stopping(home, **given) as (address, process),
        connected(address) as waiting,
        connected(address) as known,
        connected(address) as new,
        connected(address) as behind,
    ):
        waiting.sendall(posted(json.dumps(asking()).encode(), path="/v1/compactions"))
        assert upstream.asked.wait(60)
        known.sendall(head(length=len(context)) + context[:-1])
        new.sendall(head(path="/v1/scan", length=len(scan)) + scan[:-1])
        behind.sendall(head("GET", "/v1/models", None) + head(path="/v1/scan", length=9) + b"{")
        assert behind.answer()[0] == 200
        process.send_signal(signal.SIGTERM)
        cut = {told_to_come_again(wire) for wire in (waiting, known, new, behind)}
        log = log_of(process)
    assert {line["event"] for line in log}.isdisjoint({"library", "fault"})
    ended = [line for line in log if line["event"] == "request" and line["status"] != 200]
    assert {line["id"] for line in ended} == cut
    assert [(line["status"], line["problem"], line["cut"]) for line in ended] == [
        (503, "took-too-long", "stopping")
    ] * 4


def test_a_compaction_that_is_cut_at_the_end_gives_its_session_back(
    home: Path, redis: RedisServer, upstream: StandIn, upstream_url: str
) -> None:
    body = asking(session_id=uuid4().hex, trigger="automatic")
    given = {"STRATA_REDIS_URL": redis.url, "STRATA_UPSTREAM_URL": upstream_url, "ANTHROPIC_API_KEY": KEY}
    with impatiently_stopping(home, **given) as (address, process), connected(address) as wire:
        with calling(address) as client:
            ask(client, {name: value for name, value in body.items() if name not in {"mode", "trigger"}})
        upstream.answer_next(Stall())
        wire.sendall(posted(json.dumps(body).encode(), path="/v1/compactions"))
        assert upstream.asked.wait(60)
        process.send_signal(signal.SIGTERM)
        told_to_come_again(wire)
        process.wait(60)
    with compacting(upstream_url, redis_url=redis.url) as other:
        found = run(other, body)
    assert (found["outcome"], found["breaker"]["consecutive_failures"]) == ("ok", 0)


def test_an_answer_that_is_cut_at_the_end_after_it_began_keeps_its_status() -> None:
    lines: list[bytes] = []
    telling = Telling(Log("info", lines.append, time.time), RequestMetrics(CollectorRegistry()))
    begun = asyncio.Event()

    async def answers(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        begun.set()
        await asyncio.Event().wait()

    async def never() -> Message:
        raise NotImplementedError

    async def send(_: Message) -> None:
        return

    async def cut() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        task = asyncio.create_task(Telemetry(answers, telling)(scope, never, send))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut())
    [line] = [json.loads(line) for line in b"".join(lines).splitlines()]
    assert (line["status"], line["cut"], "problem" in line) == (200, "stopping", False)
