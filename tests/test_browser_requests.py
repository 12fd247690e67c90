"""Requests exactly as browsers send them for pages that have no business here: nothing is read, and nothing changes."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.asking import DOCUMENTED, inline, local
from tests.serving import serve
from tests.starting import ROOT, surroundings

EVIL = "https://evil.example"
APP = "https://app.example"
SESSION = "s1"
SECRET = "The launch code is 7391."
TOLD = f"/v1/sessions/{SESSION}"
READS = ("/v1/models", TOLD, f"{TOLD}/context", "/metrics", "/openapi.json", "/docs", "/healthz", "/readyz", "/nothing")

NOTES_WHAT_IS_OPENED = """
import os, sys
notes = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def note(event, arguments):
    if event in {"open", "os.scandir", "os.listdir", "subprocess.Popen"}:
        os.write(notes, f"{event} {arguments[0]}\\n".encode(errors="replace"))
from app.cli import main
sys.addaudithook(note)
main()
"""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """All values, as one."""
        return ", ".join(value for key, value in self.headers if key == name) or None

    @property
    def problem(self) -> str:
        return str(json.loads(self.body)["type"]).rpartition(":")[2]


def sent(port: int, request: bytes) -> Answer:
    """The answer to bytes on a connection of their own."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(": ") for line in lines]
    return Answer(int(first.split()[1]), [(name.lower(), value) for name, _, value in pairs], body)


def raw(
    method: str, target: str, headers: Mapping[str, str | None] | list[tuple[str, str]], body: bytes = b""
) -> bytes:
    """A request whose answer ends the connection; headers that are None are left out."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    sized = [("Content-Length", str(len(body)))] if body else []
    lines = [f"{name}: {value}" for name, value in [*pairs, *sized, ("Connection", "close")] if value is not None]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body


@dataclass(frozen=True, slots=True)
class Running:
    port: int
    workspace: Path
    notes: Path

    def from_page(
        self,
        method: str,
        path: str,
        *,
        mode: str,
        dest: str = "empty",
        site: str | None = "cross-site",
        origin: str | None = None,
        body: bytes = b"",
        **more: str | None,
    ) -> Answer:
        """What a current browser sends for a page; ``more`` are headers with _ for -."""
        headers: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0",
            "Accept": "*/*",
            "Accept-Language": "en",
            "Accept-Encoding": "gzip, deflate, br, zstd",
            "Origin": origin,
            "Referer": f"{EVIL}/",
            "Sec-Fetch-Site": site,
            "Sec-Fetch-Mode": mode,
            "Sec-Fetch-Dest": dest,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        return sent(self.port, raw(method, path, headers, body))

    def opened(self) -> list[str]:
        """What was opened, but for the service's own code and texts."""
        own = tuple(f"open {folder}/" for folder in (ROOT / "app", sys.prefix, sys.base_prefix))
        return [line for line in self.notes.read_text(errors="replace").splitlines() if not line.startswith(own)]

    def asks(self) -> bytes:
        return json.dumps(local(self.workspace)).encode()

    def session(self) -> bytes:
        answer = sent(self.port, raw("GET", TOLD, {"Host": "localhost"}))
        assert answer.status == 200
        return answer.body

    def called(self, method: str, path: str, **more: Any) -> httpx.Response:
        """As a program does it."""
        return httpx.request(method, f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=60, **more)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service of its own, with a session whose text nobody else may read."""
    folder = tmp_path_factory.mktemp("developer").resolve()
    workspace, notes = folder / "project", folder / "notes"
    workspace.mkdir()
    (workspace / "CLAUDE.md").write_text(SECRET)
    command = [sys.executable, "-c", NOTES_WHAT_IS_OPENED, str(notes), "serve", "--port", "0", "--root", str(workspace)]
    told = folder / "told"
    with (
        told.open("wb") as telling,
        subprocess.Popen(command, env=surroundings(folder), cwd=folder, stderr=telling) as process,
    ):
        try:
            while (found := re.search(r"http://127\.0\.0\.1:(\d+)", told.read_text())) is None:
                assert process.poll() is None, told.read_text()
                time.sleep(0.05)
            service = Running(int(found[1]), workspace, notes)
            begun = service.called("POST", "/v1/context", json=local(workspace, session_id=SESSION))
            assert SECRET in begun.text
            yield service
        finally:
            process.kill()


@pytest.fixture
def kept(running: Running) -> Iterator[Running]:
    """The service; afterwards nothing was opened for the test's requests, and the session is as it was."""
    before, opened = running.session(), running.opened()
    yield running
    assert running.opened() == opened
    assert running.session() == before


def is_refused(answer: Answer, *, status: int = 403, problem: str = "origin-refused") -> None:
    assert answer.status == status, answer
    assert answer.problem == problem
    assert answer.header("x-content-type-options") == "nosniff"
    assert [name for name, _ in answer.headers if name.startswith("access-control-")] == []
    assert SECRET.encode() not in answer.body


def test_what_is_opened_is_noted(running: Running) -> None:
    opened = running.opened()
    assert SECRET in running.called("POST", "/v1/context", json=local(running.workspace, agent="main")).text
    assert f"open {running.workspace.name}" in running.opened()[len(opened) :]


# Requests that a browser sends without asking first

FORMS = {
    "application/x-www-form-urlencoded": b"model=sonnet&workspace=%7B%7D",
    "multipart/form-data; boundary=----b": b'------b\r\nContent-Disposition: form-data; name="a"\r\n\r\n------b--\r\n',
    "text/plain": None,
    "text/plain;charset=UTF-8": None,
}
"""None: the JSON that the service would take."""


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("path", ["/v1/context", "/v1/scan", f"{TOLD}/clear", f"{TOLD}/compactions"])
@pytest.mark.parametrize(("mode", "dest"), [("navigate", "document"), ("no-cors", "empty"), ("navigate", "iframe")])
def test_forms_no_cors_fetches_and_beacons_of_another_page_are_refused(
    kind: str, path: str, mode: str, dest: str, kept: Running
) -> None:
    body = FORMS[kind] or kept.asks()
    is_refused(kept.from_page("POST", path, mode=mode, dest=dest, origin=EVIL, body=body, Content_Type=kind))


def test_a_post_without_a_body_is_refused(kept: Running) -> None:
    is_refused(kept.from_page("POST", f"{TOLD}/clear", mode="no-cors", origin=EVIL))


def test_a_beacon_of_json_is_refused(kept: Running) -> None:
    body = kept.asks()
    answer = kept.from_page("POST", "/v1/context", mode="cors", origin=EVIL, body=body, Content_Type="application/json")
    is_refused(answer)


@pytest.mark.parametrize("site", ["cross-site", "same-site", None])
@pytest.mark.parametrize("origin", ["null", "http://localhost:3000", "http://127.0.0.1", "file://", EVIL])
def test_frames_without_an_origin_and_pages_of_other_ports_are_refused(
    origin: str, site: str | None, kept: Running
) -> None:
    body = kept.asks()
    answer = kept.from_page(
        "POST", "/v1/context", mode="cors", site=site, origin=origin, body=body, Content_Type="application/json"
    )
    is_refused(answer)


@pytest.mark.parametrize(
    ("dest", "mode"),
    [
        ("image", "no-cors"),
        ("script", "no-cors"),
        ("style", "no-cors"),
        ("video", "no-cors"),
        ("object", "navigate"),
        ("embed", "navigate"),
        ("iframe", "navigate"),
        ("frame", "navigate"),
        ("worker", "same-origin"),
        ("serviceworker", "same-origin"),
        ("manifest", "cors"),
        ("empty", "no-cors"),
    ],
)
def test_nothing_is_loaded_into_another_page(dest: str, mode: str, kept: Running) -> None:
    for path in READS:
        is_refused(kept.from_page("GET", path, mode=mode, dest=dest))
    is_refused(kept.from_page("GET", f"{TOLD}/context", mode=mode, dest=dest, site="same-site"))


def test_nothing_is_fetched_by_another_page(kept: Running) -> None:
    for path in READS:
        is_refused(kept.from_page("GET", path, mode="cors", origin=EVIL))


def test_events_are_not_told_to_another_page(kept: Running) -> None:
    answer = kept.from_page("GET", f"{TOLD}/events", mode="cors", origin=EVIL, Accept="text/event-stream")
    is_refused(answer)


def test_a_service_worker_of_another_page_finds_no_script(kept: Running) -> None:
    answer = kept.from_page("GET", "/docs", mode="same-origin", dest="serviceworker", Service_Worker="script")
    is_refused(answer)


def test_a_socket_is_not_opened(kept: Running) -> None:
    upgrade = {
        "Host": f"127.0.0.1:{kept.port}",
        "Upgrade": "websocket",
        "Origin": EVIL,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for path in (f"{TOLD}/events", "/v1/context"):
        lines = "".join(f"{name}: {value}\r\n" for name, value in upgrade.items())
        request = f"GET {path} HTTP/1.1\r\n{lines}Connection: Upgrade, close\r\n\r\n"
        is_refused(sent(kept.port, request.encode()))


# What a browser asks first


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/v1/context", TOLD, f"{TOLD}/clear", "/healthz"])
def test_another_page_is_not_permitted_anything(method: str, path: str, kept: Running) -> None:
    for nearness in (None, "true"):
        answer = kept.from_page(
            "OPTIONS",
            path,
            mode="cors",
            origin=EVIL,
            Access_Control_Request_Method=method,
            Access_Control_Request_Headers="content-type,x-api-key",
            Access_Control_Request_Private_Network=nearness,
            Access_Control_Request_Local_Network=nearness,
        )
        is_refused(answer)


def test_what_is_sent_all_the_same_changes_nothing(kept: Running) -> None:
    is_refused(kept.from_page("DELETE", TOLD, mode="cors", origin=EVIL))
    is_refused(kept.from_page("PUT", TOLD, mode="cors", origin=EVIL))
    is_refused(kept.from_page("DELETE", TOLD, mode="cors", site=None, origin=EVIL))


# Links


def test_a_link_leads_to_the_page_and_nowhere_else(kept: Running) -> None:
    page = kept.from_page("GET", "/docs", mode="navigate", dest="document")
    assert page.status == 200
    assert page.header("content-security-policy")
    for path in set(READS) - {"/docs"}:
        is_refused(kept.from_page("GET", path, mode="navigate", dest="document"))


def test_what_somebody_types_is_answered(running: Running) -> None:
    for path in ("/docs", "/v1/models", "/healthz"):
        assert running.from_page("GET", path, mode="navigate", dest="document", site="none").status == 200


def test_the_service_s_own_pages_may_ask(running: Running) -> None:
    for name in ("127.0.0.1", "localhost"):
        answer = running.from_page(
            "POST",
            "/v1/context",
            mode="cors",
            site="same-origin",
            origin=f"http://{name}:{running.port}",
            body=json.dumps(inline()).encode(),
            Host=f"{name}:{running.port}",
            Content_Type="application/json",
        )
        assert answer.status == 200


# Names that a stranger bound to this machine

LOOK_ALIKES = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example.localhost",
    "localhost.",
    "LOCALHOST.",
    "127.0.0.1.",
    "localhost.localdomain",
    "localtest.me",
    "0.0.0.0",
    "0",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:0:0:1]",
    "127.1",
    "127.0.0.2",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "017700000001",
    "0177.0.0.1",
    "user@localhost",
    "localhost@evil.example",
    "localhost, evil.example",
    "evil.example, localhost",
    "localhost/evil",
    "localhost evil.example",
    "localhost\tevil.example",
    "http://localhost",
    "xn--lcalhost-54a",
    "",
]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_page_under_a_name_that_leads_here_is_not_answered(name: str, kept: Running) -> None:
    host = f"{name}:{kept.port}" if name else name
    body = kept.asks()
    posted = {"Host": host, "Origin": f"http://{host}", "Content-Type": "application/json"}
    is_refused(sent(kept.port, raw("POST", "/v1/context", posted, body)), status=421, problem="host-refused")
    for path in (f"{TOLD}/context", "/docs", "/healthz"):
        answer = sent(kept.port, raw("GET", path, {"Host": host}))
        is_refused(answer, status=421, problem="host-refused")


def test_a_host_is_named_once(kept: Running) -> None:
    own = f"127.0.0.1:{kept.port}"
    for pairs in ([("Host", own), ("Host", "evil.example")], [("Host", "evil.example"), ("Host", own)], []):
        is_refused(sent(kept.port, raw("GET", TOLD, pairs)), status=421, problem="host-refused")
    is_refused(sent(kept.port, f"GET {TOLD} HTTP/1.0\r\n\r\n".encode()), status=421, problem="host-refused")


@pytest.mark.parametrize(
    "forwarded",
    [
        {"X-Forwarded-Host": "localhost"},
        {"Forwarded": "host=localhost;proto=http"},
        {"X-Original-Host": "localhost"},
        {"X-Host": "localhost"},
        {"X-Forwarded-For": "127.0.0.1"},
    ],
)
def test_what_is_said_to_be_forwarded_counts_for_nothing(forwarded: dict[str, str], kept: Running) -> None:
    for path in (TOLD, "/healthz"):
        answer = sent(kept.port, raw("GET", path, {"Host": f"evil.example:{kept.port}", **forwarded}))
        is_refused(answer, status=421, problem="host-refused")


def test_a_target_with_a_host_of_its_own_is_weighed_by_that(kept: Running) -> None:
    """No browser sends one to a server; a proxy that does means the target's host."""
    for target in (f"http://evil.example{TOLD}", f"http://evil.example:{kept.port}{TOLD}"):
        answer = sent(kept.port, raw("GET", target, {"Host": f"127.0.0.1:{kept.port}"}))
        is_refused(answer, status=421, problem="host-refused")


@pytest.mark.parametrize("name", ["localhost", "LocalHost", "127.0.0.1", "[::1]"])
def test_its_own_names_are_answered_however_they_are_written(name: str, running: Running) -> None:
    for host in (f"{name}:{running.port}", name):
        assert sent(running.port, raw("GET", "/v1/models", {"Host": host})).status == 200


# Content types: what a form can send is never a body


@pytest.mark.parametrize("kind", [*FORMS, "application/jsonx", "text/json", None])
@pytest.mark.parametrize("path", [path for method, path in sorted(DOCUMENTED) if method == "POST"])
def test_a_body_has_to_say_that_it_is_json(path: str, kind: str | None, kept: Running) -> None:
    target = path.replace("{session_id}", SESSION)
    headers = {"Host": "localhost", "Content-Type": kind}
    answer = sent(kept.port, raw("POST", target, headers, kept.asks()))
    is_refused(answer, status=415, problem="unsupported-media-type")


# Headers that keep browsers from making something else of an answer


def test_every_answer_is_taken_for_what_it_says_it_is(running: Running) -> None:
    answers = [running.called("GET", path) for path in READS]
    answers += [running.called("POST", "/v1/context", json=inline()) for _ in range(3)]
    known = {"if-none-match": running.called("GET", f"{TOLD}/context").headers["etag"]}
    answers += [running.called("GET", f"{TOLD}/context", headers=known) for _ in range(3)]
    answers += [running.called("POST", "/v1/context", content=b"{"), running.called("PUT", "/v1/context")]
    assert {200, 304, 404, 405, 415} <= {answer.status_code for answer in answers}
    assert [answer.headers.get("x-content-type-options") for answer in answers] == ["nosniff"] * len(answers)


# Pages that may call


@pytest.fixture(scope="module")
def shared() -> Iterator[httpx.Client]:
    """A service that answers one page."""
    settings = Settings(roots=(), api_keys=("k1",), allowed_origins=(APP,))
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        yield client


def page_headers(origin: str, **more: str) -> dict[str, str]:
    return {"origin": origin, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "x-api-key": "k1", **more}


def test_an_allowed_page_is_permitted_and_answered(shared: httpx.Client) -> None:
    asked = {"origin": APP, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    permitted = shared.options("/v1/context", headers=asked)
    assert (permitted.status_code, permitted.content) == (204, b"")
    assert permitted.headers["access-control-allow-origin"] == APP
    assert "content-type" in permitted.headers["access-control-allow-headers"]
    answer = shared.post("/v1/context", json=inline(), headers=page_headers(APP))
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == APP


def test_it_may_read_what_was_answered_before_and_what_was_refused(shared: httpx.Client) -> None:
    body = inline({"/home/dev/p/CLAUDE.md": "Again."})
    answers = [shared.post("/v1/context", json=body, headers=page_headers(APP)) for _ in range(4)]
    answers.append(shared.post("/v1/context", json=body, headers=page_headers(APP) | {"x-api-key": "wrong"}))
    answers.append(shared.post("/v1/context", json={}, headers=page_headers(APP)))
    answers.append(shared.get("/nothing", headers=page_headers(APP)))
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 401, 422, 404]
    for answer in answers:
        assert answer.headers.get_list("access-control-allow-origin") == [APP]
        assert "etag" in answer.headers["access-control-expose-headers"]
        assert "origin" in answer.headers["vary"]


def test_another_page_is_refused_what_an_allowed_one_was_answered(shared: httpx.Client) -> None:
    body = inline({"/home/dev/p/CLAUDE.md": "Shared."})
    for _ in range(3):
        assert shared.post("/v1/context", json=body, headers=page_headers(APP)).status_code == 200
        assert shared.post("/v1/context", json=body, headers={"x-api-key": "k1"}).status_code == 200
        stranger = shared.post("/v1/context", json=body, headers=page_headers(EVIL))
        assert stranger.status_code == 403
        assert "access-control-allow-origin" not in stranger.headers


def test_a_program_is_told_of_no_page(shared: httpx.Client) -> None:
    for _ in range(3):
        answer = shared.post("/v1/context", json=inline(), headers={"x-api-key": "k1"})
        assert answer.status_code == 200
        assert "access-control-allow-origin" not in answer.headers
        assert "origin" in answer.headers["vary"]
