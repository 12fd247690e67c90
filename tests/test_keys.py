"""What a key may read and how much it may ask, over HTTP, and what no tenant learns of another."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from app.building import CannotStartError
from app.main import create_app
from app.settings import Settings
from tests.asking import answered, ask, inline, local, refused
from tests.serving import serve
from tests.waiting import soon

OWN_HEADERS = {"date", "x-request-id", "content-length"}
"""Of one answer alone."""


def row(name: str, **more: Any) -> str:
    values = {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), **more}
    return "\n".join(["[[keys]]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""])


@contextmanager
def keyed(file: Path, *rows: str, **settings: Any) -> Iterator[str]:
    file.write_text("\n".join(rows))
    given = {"roots": (file.parent / "none",), "keys_file": file, **settings}
    with serve(create_app(Settings(**given))) as address:
        yield address


@contextmanager
def calling(address: str, key: str | None) -> Iterator[httpx.Client]:
    headers = {} if key is None else {"x-api-key": key}
    with httpx.Client(base_url=address, headers=headers, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def folder(path: Path, text: str) -> Path:
    path.mkdir(parents=True)
    (path / "CLAUDE.md").write_text(text)
    return path


# Roots


def test_a_key_reads_below_its_own_roots_only(file: Path, tmp_path: Path) -> None:
    one, two = folder(tmp_path / "one", "ONE"), folder(tmp_path / "two", "TWO")
    with (
        keyed(file, row("a", roots=[str(one)]), row("b", roots=[str(two)]), row("c")) as address,
        calling(address, "a") as a,
        calling(address, "b") as b,
        calling(address, "c") as c,
    ):
        assert "ONE" in ask(a, local(one))["user_context"]["text"]
        assert "TWO" in ask(b, local(two))["user_context"]["text"]
        for client, other in ((a, two), (b, one), (c, one), (c, two)):
            refused(client.post("/v1/context", json=local(other)), 404, "workspace-not-found", "/workspace/cwd")


@pytest.mark.parametrize("route", ["/v1/context", "/v1/attachments", "/v1/scan", "/v1/compactions"])
def test_what_lies_outside_a_keys_roots_looks_as_if_it_were_not_there(route: str, file: Path, tmp_path: Path) -> None:
    one, two = folder(tmp_path / "one", "ONE"), folder(tmp_path / "two", "TWO")
    with keyed(file, row("a", roots=[str(one)]), row("b", roots=[str(two)])) as address, calling(address, "a") as a:
        found = []
        for cwd in (two, tmp_path / "not"):
            body = local(cwd)
            if route in {"/v1/attachments", "/v1/scan"}:
                body = {"workspace": body["workspace"]} | ({"touched": []} if "attach" in route else {})
            elif route == "/v1/compactions":
                body |= {"mode": "plan", "messages": [{"role": "user", "content": "x"}]}
            answer = a.post(route, json=body)
            problem = refused(answer, 404, "workspace-not-found", "/workspace/cwd")
            shown = json.dumps({**problem, "request_id": None}).replace(str(cwd), "CWD")
            headers = {
                key: value
                for key, value in answer.headers.items()
                if key not in {"date", "x-request-id", "content-length"}
            }
            found.append((shown, headers))
        assert found[0] == found[1]


def test_an_include_out_of_a_keys_roots_is_not_read_though_the_service_may(file: Path, tmp_path: Path) -> None:
    one = folder(tmp_path / "one", f"@{tmp_path}/two/CLAUDE.md")
    folder(tmp_path / "two", "SECRET")
    body = local(one, memory={"allow_external_includes": True})
    with keyed(file, row("a", roots=[str(one)]), row("b"), roots=(tmp_path,)) as address:
        with calling(address, "b") as b:
            assert "SECRET" in ask(b, body)["user_context"]["text"]
        with calling(address, "a") as a:
            answer = ask(a, body)
    assert "SECRET" not in json.dumps(answer)
    assert [row["reason"] for row in answer["memory"]["report"] if "two" in row["path"]] == ["outside_fence"]


def test_a_repository_counts_only_inside_a_keys_roots(file: Path, tmp_path: Path) -> None:
    one, repository = folder(tmp_path / "one", "ONE"), folder(tmp_path / "two", "TWO")
    body = {"model": "sonnet", "workspace": {"source": "git", "repository": str(repository), "ref": "main"}}
    with keyed(file, row("a", roots=[str(one)]), roots=(tmp_path,)) as address, calling(address, "a") as a:
        refused(a.post("/v1/context", json=body), 404, "workspace-not-found", "/workspace")


def test_a_key_that_loses_a_root_loses_what_its_sessions_remember_of_it(file: Path, tmp_path: Path) -> None:
    one, two = folder(tmp_path / "one", "ONE"), folder(tmp_path / "two", "TWO")
    with keyed(file, row("a", roots=[str(one), str(two)])) as address, calling(address, "a") as a:
        body = local(one, session_id="s")
        assert "ONE" in ask(a, body)["user_context"]["text"]
        file.write_text(row("a", roots=[str(two)]))
        soon(lambda: a.post("/v1/context", json=body).status_code == 404)
        refused(a.get("/v1/sessions/s/context"), 404, "session-not-found")


# Tenants


def test_a_session_of_one_tenant_is_not_there_for_another(file: Path) -> None:
    files = {"/home/dev/p/CLAUDE.md": "SECRET"}
    with keyed(file, row("a"), row("b")) as address, calling(address, "a") as a, calling(address, "b") as b:
        answered(a.post("/v1/context", json=inline(files, session_id="s")))
        tries = (
            b.get("/v1/sessions/s"),
            b.get("/v1/sessions/s/context"),
            b.delete("/v1/sessions/s"),
            b.post("/v1/sessions/s/clear", json={"reason": "clear"}),
            b.post("/v1/sessions/s/compactions", json={"outcome": "failed"}),
            b.get("/v1/sessions/s/events"),
        )
        for answer in tries:
            refused(answer, 404, "session-not-found")
        assert ask(b, inline({}, session_id="s"))["session"] == {
            "id": "s",
            "new": True,
            "section_hits": 0,
            "section_misses": len([s for s in ask(b, inline({}))["sections"] if s["kind"] == "cached"]),
        }
        assert a.get("/v1/sessions/s").json()["memory"]["count"] == 1
        assert "SECRET" not in b.get("/v1/sessions/s/context").text


@pytest.mark.parametrize("name", ["a\x1fs", "\x1fs", "a%1Fs", "a/s", "../a/s"])
def test_no_name_of_a_session_leads_into_another_tenants(name: str, file: Path) -> None:
    with keyed(file, row("a"), row("b")) as address, calling(address, "a") as a, calling(address, "b") as b:
        ask(a, inline({"/home/dev/p/CLAUDE.md": "SECRET"}, session_id="s"))
        assert ask(b, inline({}, session_id=name))["session"]["new"]
        assert ask(b, inline({}, session_id=name))["session"]["id"] == name
        assert a.get("/v1/sessions/s").json()["memory"]["count"] == 1


def test_keys_of_one_tenant_share_its_sessions(file: Path) -> None:
    with keyed(file, row("a", tenant="t"), row("b", tenant="t")) as address:
        with calling(address, "a") as a:
            ask(a, inline({}, session_id="s"))
        with calling(address, "b") as b:
            assert b.get("/v1/sessions/s").json()["id"] == "s"


def test_keys_of_the_settings_do_not_share_sessions(tmp_path: Path) -> None:
    with serve(create_app(Settings(roots=(tmp_path,), api_keys=("a", "b")))) as address:
        with calling(address, "a") as a:
            ask(a, inline({}, session_id="s"))
        with calling(address, "b") as b:
            refused(b.get("/v1/sessions/s"), 404, "session-not-found")


def test_the_same_request_of_two_tenants_is_assembled_for_each(file: Path) -> None:
    """An answer that is held for one is not given to the other, whose bytes are the same."""
    body = inline({"/home/dev/p/CLAUDE.md": "SAME"})
    with keyed(file, row("a"), row("b")) as address, calling(address, "a") as a, calling(address, "b") as b:
        answers = [client.post("/v1/context", json=body) for client in (a, a, b, b)]
        figures = a.get("/metrics").text
    assert len({answer.content for answer in answers}) == 1
    assert 'strata_answers_total{origin="assembled"} 2.0' in figures
    assert 'strata_answers_total{origin="repeated"} 2.0' in figures


@pytest.mark.parametrize("name", ["a\nb", "a/events", "events", "a%0Ab"])
def test_no_name_of_a_session_makes_its_events_anything_else(name: str, file: Path) -> None:
    path = f"/v1/sessions/{quote(name, safe='')}"
    with keyed(file, row("a", event_streams=0)) as address, calling(address, "a") as a:
        ask(a, inline(session_id=name))
        refused(a.get(f"{path}/events"), 429, "too-many-at-once")
        assert a.get(path).json()["id"] == name


def test_a_key_that_may_not_read_the_services_home_is_not_told_of_it(file: Path, tmp_path: Path) -> None:
    home = folder(tmp_path / "home" / "served", "HOME")
    one, two = folder(tmp_path / "one", "ONE"), folder(home / "p", "TWO")
    rows = row("a", roots=[str(one)]), row("b", roots=[str(home)])
    with keyed(file, *rows, home=home) as address, calling(address, "a") as a, calling(address, "b") as b:
        assert str(home) not in a.post("/v1/context", json=local(one)).text
        assert str(home / ".claude") in b.post("/v1/context", json=local(two)).text
        asked = local(one)
        asked["workspace"]["home"] = str(one)
        assert str(one / ".claude") in a.post("/v1/context", json=asked).text


# How much


def test_a_key_that_asks_too_often_is_told_when_to_come_back(file: Path) -> None:
    with keyed(file, row("a", requests_per_minute=1, burst=3), row("b")) as address:
        with calling(address, "a") as a:
            statuses = [a.post("/v1/context", json=inline()).status_code for _ in range(5)]
            problem = a.post("/v1/context", json=inline())
            refused(problem, 429, "rate-limited")
            assert 1 <= int(problem.headers["retry-after"]) <= 60
            assert a.get("/healthz").status_code == 200
        with calling(address, "b") as b:
            assert b.post("/v1/context", json=inline()).status_code == 200
    assert statuses == [200, 200, 200, 429, 429]


@pytest.mark.parametrize("path", ["/v1/sessions/s/context", "/v1/models"])
def test_answers_that_are_given_again_count_as_often(path: str, file: Path) -> None:
    with keyed(file, row("a", requests_per_minute=1, burst=6)) as address, calling(address, "a") as a:
        for _ in range(3):
            ask(a, inline(session_id="s"))
        assert [a.get(path).status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_key_has_so_many_requests_at_once_and_others_go_on(file: Path) -> None:
    with (
        keyed(file, row("a", requests_at_once=1), row("b")) as address,
        calling(address, "a") as slow,
        calling(address, "a") as a,
        calling(address, "b") as b,
    ):
        begun, go = threading.Event(), threading.Event()

        def body() -> Iterator[bytes]:
            yield b" "
            begun.set()
            go.wait()
            yield json.dumps(inline()).encode()

        headers = {"content-type": "application/json"}
        held: list[httpx.Response] = []
        holding = threading.Thread(
            target=lambda: held.append(slow.post("/v1/context", content=body(), headers=headers))
        )
        holding.start()
        begun.wait()
        soon(lambda: a.get("/v1/models").status_code == 429)
        problem = a.get("/v1/models")
        refused(problem, 429, "too-many-at-once")
        assert problem.headers["retry-after"] == "1"
        assert b.get("/v1/models").status_code == 200
        assert a.get("/healthz").status_code == 200
        go.set()
        holding.join()
        assert held[0].status_code == 200
        assert a.get("/v1/models").status_code == 200


def test_a_key_has_so_many_event_streams(file: Path) -> None:
    with keyed(file, row("a", event_streams=1, requests_at_once=1)) as address, calling(address, "a") as a:
        ask(a, inline(session_id="s"))
        with a.stream("GET", "/v1/sessions/s/events") as stream:
            assert stream.status_code == 200
            problem = a.get("/v1/sessions/s/events")
            refused(problem, 429, "too-many-at-once")
            assert a.get("/v1/models").status_code == 200
        soon(lambda: opens(a))


def opens(client: httpx.Client) -> bool:
    with client.stream("GET", "/v1/sessions/s/events") as stream:
        return stream.status_code == 200


def test_a_key_has_a_limit_of_its_own_for_bodies(file: Path) -> None:
    large = inline({"/home/dev/p/CLAUDE.md": "x" * 3000})
    with keyed(file, row("a", max_body_bytes=2000), row("b")) as address:
        with calling(address, "a") as a:
            problem = refused(a.post("/v1/context", json=large), 413, "too-large")
            assert "2,000 bytes (this key's max_body_bytes)" in problem["detail"]
            content, headers = iter([json.dumps(large).encode()]), {"content-type": "application/json"}
            streamed = a.post("/v1/context", content=content, headers=headers)
            refused(streamed, 413, "too-large")
        with calling(address, "b") as b:
            assert b.post("/v1/context", json=large).status_code == 200


def test_it_holds_for_an_answer_that_another_key_of_the_tenant_was_given(file: Path) -> None:
    content = json.dumps(inline({"/home/dev/p/CLAUDE.md": "x" * 3000})).encode()
    headers = {"content-type": "application/json"}
    with keyed(file, row("a", max_body_bytes=2000, tenant="t"), row("b", tenant="t")) as address:
        with calling(address, "b") as b:
            assert b.post("/v1/context", content=content, headers=headers).status_code == 200
        with calling(address, "a") as a:
            refused(a.post("/v1/context", content=iter([content]), headers=headers), 413, "too-large")


def test_bodies_that_are_waited_for_are_requests_under_way(file: Path) -> None:
    """However short they are: none is held anywhere before it counts."""
    with keyed(file, row("a", requests_at_once=1)) as address:
        where = urlsplit(address)
        head = "POST /v1/context HTTP/1.1\r\nhost: localhost\r\nx-api-key: a\r\ncontent-type: application/json\r\n"
        with socket.create_connection((where.hostname, where.port)) as line, calling(address, "a") as a:
            line.sendall(f"{head}content-length: 100\r\n\r\n{{".encode())
            soon(lambda: a.get("/v1/models").status_code == 429)


def test_the_services_limit_holds_for_a_key_that_may_more(file: Path) -> None:
    large = inline({"/home/dev/p/CLAUDE.md": "x" * 3000})
    with keyed(file, row("a", max_body_bytes=10_000), max_body_bytes=2000) as address, calling(address, "a") as a:
        problem = refused(a.post("/v1/context", json=large), 413, "too-large")
        assert "STRATA_MAX_BODY_BYTES" in problem["detail"]


# Reading the file again


def test_keys_come_and_go_without_a_restart(file: Path) -> None:
    with keyed(file, row("a")) as address, calling(address, "a") as a, calling(address, "b") as b:
        body = inline(session_id="s")
        for _ in range(3):
            ask(a, body)  # by now it is given again
        refused(b.get("/v1/models"), 401, "key-missing")
        file.write_text(row("b"))
        soon(lambda: b.get("/v1/models").status_code == 200)
        refused(a.post("/v1/context", json=body), 401, "key-missing")
        refused(a.get("/v1/sessions/s/context"), 401, "key-missing")


def test_a_stream_of_events_ends_with_its_key(file: Path) -> None:
    with keyed(file, row("a"), heartbeat_seconds=0.05) as address, calling(address, "a") as a:
        ask(a, inline(session_id="s"))
        with a.stream("GET", "/v1/sessions/s/events") as stream:
            file.write_text(row("b"))
            told = "".join(stream.iter_text())
    assert told.count('event: closing\ndata: {"reason":"key_revoked"}') == 1


def test_it_does_not_start_with_a_file_of_keys_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(CannotStartError, match=r"STRATA_KEYS_FILE names .*keys\.toml, which cannot be used: No such"):
        create_app(Settings(roots=(), keys_file=file))


def test_with_a_file_of_keys_it_may_listen_anywhere(file: Path) -> None:
    assert Settings(host="0.0.0.0", keys_file=file).asks_for_keys


def test_settings_hold_no_key() -> None:
    settings = Settings(roots=(), api_keys="first,second")
    assert "first" not in settings.model_dump_json()
    assert settings.asks_for_keys
