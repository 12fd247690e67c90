"""Streams of events at their ends: readers who do not read, servers that end, processes that share sessions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from app.building import build_contexts
from app.cli.server import Server
from app.events import KEPT_BYTES, Event, Log
from app.main import build_app
from app.notifying import Notifier
from app.watching import Watchers
from app.workspaces.disk import Disk
from app.workspaces.drives import Drives
from tests.listening import (
    PATIENCE,
    Breaking,
    address,
    figure,
    listening,
    parsed,
    project,
    quick,
    refuse,
    telling,
    turn,
    wait_until,
)
from tests.serving import serve

LONG = "x" * 200


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def shop(root: Path) -> Path:
    return project(root)


@contextmanager
def ending(app: Any, buffer: int | None = None) -> Iterator[tuple[httpx.Client, uvicorn.Server]]:
    """The application as ``strata serve`` runs it; ``buffer`` bytes wait for a reader in the kernel, or a few more."""
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        if buffer is not None:
            listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        server = Server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening_socket]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        url = f"http://127.0.0.1:{listening_socket.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as client:
                yield client, server
        finally:
            server.should_exit = True
            thread.join()


def rewrite(rules: Path, text: str) -> None:
    for number in range(40):
        (rules / f"{LONG}{number}.md").write_text(text)


def test_a_reader_who_is_too_slow_is_told_so_when_it_reads_again(root: Path, shop: Path) -> None:
    settings = quick(root, polled_seconds=0.01)
    rules = shop / ".claude/rules"
    rewrite(rules, "Before.")
    app = build_app(settings, build_contexts(settings), Watchers(refuse))
    with ending(app, buffer=4096) as (client, _), socket.socket() as slow:
        session = turn(client, shop)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((client.base_url.host, client.base_url.port))
        slow.sendall(f"GET {address(session)} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        dropped = 'strata_event_listeners_dropped_total{reason="slow_reader"}'
        for number in range(10_000):
            rewrite(rules, f"{number}.")
            if figure(client, dropped):
                break
        slow.settimeout(60)
        with slow.makefile("rb") as file:
            lines = [line.decode().rstrip("\r\n") for line in iter(file.readline, b"0\r\n")]
        assert figure(client, "strata_event_listeners") == 0
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert (names[0], names[-1]) == ("watching", "dropped")
    assert 'data: {"session":"' + session + '","reason":"slow_reader"}' in lines


def test_a_server_that_is_to_end_says_so_and_does_not_wait_for_its_readers(root: Path, shop: Path) -> None:
    settings = quick(root)
    with ending(build_app(settings, build_contexts(settings))) as (client, server):
        one, other = turn(client, shop), turn(client, shop)
        with listening(client, one) as first, listening(client, other) as second:
            first.next(), second.next()
            server.should_exit = True
            for reader in (first, second):
                assert [(told.name, told.data) for told in reader.rest()] == [("closing", {"reason": "shutting_down"})]


def test_a_line_is_logged_when_the_stream_has_ended(root: Path, shop: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with telling(root) as client:
        with listening(client, turn(client, shop)) as reader:
            reader.next()
            assert "/events" not in capfd.readouterr().err
        wait_until(lambda: figure(client, "strata_event_listeners") == 0)
        lines: list[str] = []
        wait_until(lambda: _gathered(lines, capfd))
        [line] = [line for line in lines if "{session_id}/events" in line]
        assert '"status":200' in line


def _gathered(lines: list[str], capfd: pytest.CaptureFixture[str]) -> bool:
    lines.extend(capfd.readouterr().err.splitlines())
    return any("{session_id}/events" in line for line in lines)


def test_a_watch_that_ends_by_itself_is_told_and_looking_goes_on(root: Path, shop: Path) -> None:
    broken = threading.Event()

    def breaking(_: tuple[str, ...]) -> Notifier:
        return Breaking(broken)

    with telling(root, Watchers(breaking)) as client, listening(client, turn(client, shop)) as reader:
        assert reader.next().data["mode"] == "notify"
        broken.set()
        told = reader.next()
        assert (told.name, told.data["mode"], told.data["reason"]) == ("watching", "poll", "too_many_watches")
        (shop / "CLAUDE.md").write_text("New.")
        assert reader.next().paths == [("CLAUDE.md", "modified")]


def test_drives_of_other_machines_are_looked_at(root: Path, shop: Path) -> None:
    settings = quick(root)
    contexts = build_contexts(settings)
    footprints = replace(contexts.footprints, disk=Disk(drives=Drives(str(root / "no table of mounts"))))
    app = build_app(settings, replace(contexts, footprints=footprints))
    with (
        serve(app) as url,
        httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as client,
        listening(client, turn(client, shop)) as reader,
    ):
        told = reader.next()
        assert (told.data["mode"], told.data["reason"]) == ("poll", "network_drive")
        (shop / "CLAUDE.md").write_text("New.")
        assert reader.next().paths == [("CLAUDE.md", "modified")]


def test_a_turn_that_another_process_had_is_taken_into_account(root: Path, shop: Path) -> None:
    settings = quick(root, watched_seconds=0.05)
    here, there = build_contexts(settings), build_contexts(settings)
    elsewhere = build_app(settings, replace(there, sessions=here.sessions))
    with (
        serve(build_app(settings, here)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False) as client,
        serve(elsewhere) as other_url,
        httpx.Client(base_url=other_url, timeout=PATIENCE, trust_env=False) as other,
    ):
        session = turn(client, shop)
        with listening(client, session) as reader:
            reader.next()
            (shop / "CLAUDE.md").write_text("See @docs/more.md")
            (shop / "docs/more.md").write_text("More.")
            reader.next()
            turn(other, shop, session, freshness="validate")
            with listening(client, session) as late:
                assert late.next().id is not None
            (shop / "docs/more.md").write_text("Even more.")
            assert reader.next().paths == [("more.md", "modified")]
            other.delete(address(session).removesuffix("/events"))
            assert [told.name for told in reader.rest()] == ["session_ended"]


def test_what_is_sent_is_an_event_stream_line_by_line() -> None:
    lines = ["event: a", 'data: {"x":1}', "id: e-1", "", ": ping", ""]
    first, second = parsed(iter(lines))
    assert (first.name, first.data, first.id, first.comment) == ("a", {"x": 1}, "e-1", None)
    assert (second.name, second.comment) == (None, "ping")


def test_large_events_push_older_ones_out() -> None:
    log = Log()
    for number in range(20):
        log.add(Event("memory_changed", {"number": number, "text": "x" * (KEPT_BYTES // 4)}))
    epoch, _, last = log.last.rpartition("-")
    assert log.since(f"{epoch}-{int(last) - 3}") is not None
    assert log.since(f"{epoch}-{int(last) - 4}") is None
    log.add(Event("memory_changed", {"text": "x" * 2 * KEPT_BYTES}))
    kept = log.since(f"{epoch}-{last}")
    assert kept is not None
    assert len(kept) == 1
    assert log.since(f"{epoch}-{int(last) - 1}") is None
