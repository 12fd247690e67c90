from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, HTTPException

from app.api import answer_problems
from app.building import build_contexts
from app.core.remembered import Remembered
from app.main import build_app, create_app
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Held
from tests.asking import CWD, answered, ask, inline, local, refused
from tests.reference.programs import first_commit, git
from tests.serving import serve

JSON = {"content-type": "application/json"}
ROOT = Path(__file__).parents[1]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[httpx.Client]:
    """A service that takes bodies of 1,000 bytes at most."""
    with (
        serve(create_app(Settings(roots=(tmp_path,), max_body_bytes=1000))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


def post(service: httpx.Client, content: Any, **headers: str) -> httpx.Response:
    return service.post("/v1/context", content=content, headers=JSON | headers)


def send(service: httpx.Client, body: Any) -> httpx.Response:
    return service.post("/v1/context", json=body)


# Bodies that are no JSON object


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"not json",
        b'{"model": "\xff"}',
        b"\xff\xfe{\x00}\x00",
        b'{"model": "\\ud800"}',
        b'{"model": "\\ud800\\u0041"}',
        b'{"model": "\\udc00"}',
        b'{"tools": %s}' % (b"[" * 100_000),
        b'{"tools": [{"maximum": %s}]}' % (b"9" * 5000),
    ],
    ids=[
        "empty",
        "cut",
        "text",
        "not utf-8",
        "utf-16",
        "half a pair",
        "half a pair and more",
        "the other half",
        "deep",
        "a number without end",
    ],
)
def test_a_body_that_is_not_json_says_so(content: bytes, service: httpx.Client) -> None:
    problem = refused(post(service, content), 400, "not-json")
    assert problem["detail"].endswith("Send one JSON object in UTF-8.")


@pytest.mark.parametrize("content", [b"[]", b"null", b'"text"', b"3", b"true"])
def test_a_body_that_is_no_object_says_so(content: bytes, service: httpx.Client) -> None:
    problem = refused(post(service, content), 422, "invalid-request", "")
    assert problem["detail"] == "The body: Input should be an object"


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/xml"])
def test_another_media_type_is_refused(media_type: str, service: httpx.Client) -> None:
    answer = post(service, json.dumps(inline()).encode(), **{"content-type": media_type})
    assert "content-type: application/json" in refused(answer, 415, "unsupported-media-type")["detail"]


def test_no_media_type_is_refused(service: httpx.Client) -> None:
    refused(service.post("/v1/context", content=json.dumps(inline()).encode()), 415, "unsupported-media-type")


@pytest.mark.parametrize(
    "media_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.strata+json"]
)
def test_a_media_type_of_json_is_taken(media_type: str, service: httpx.Client) -> None:
    answered(post(service, json.dumps(inline()).encode(), **{"content-type": media_type}))


# Fields


MISSPELT: dict[str, tuple[Any, str]] = {
    "top": (inline(modle="x"), "/modle"),
    "workspace": (inline(workspace={"fils": {}}), "/workspace/fils"),
    "git": (inline(workspace={"git": {"brnch": "x"}}), "/workspace/git/brnch"),
    "file": (inline({"/a~b/c": {"link": "x", "to": "y"}}), "/workspace/files/~1a~0b~1c/to"),
    "message": (inline(messages=[{"role": "user", "content": "a", "i": 1}]), "/messages/0/i"),
    "meta": (inline(messages=[{"role": "user", "content": "a", "meta": {"b": 1}}]), "/messages/0/meta/b"),
    "server": (inline(mcp_servers=[{"name": "a"}, {"name": "b", "text": ""}]), "/mcp_servers/1/text"),
    "touch": (inline(touched=[{"path": "a", "evnt": "read"}]), "/touched/0/evnt"),
    "system prompt": (inline(system_prompt={"apend": "x"}), "/system_prompt/apend"),
    "settings": (inline(settings={"x": 1}), "/settings/x"),
    "memory": (inline(memory={"bar": True}), "/memory/bar"),
    "cache": (inline(cache={"enable": True}), "/cache/enable"),
    "tokens": (inline(tokens={"window": 1}), "/tokens/window"),
}


@pytest.mark.parametrize(("body", "pointer"), MISSPELT.values(), ids=MISSPELT)
def test_a_field_that_is_not_in_the_contract_is_refused(body: Any, pointer: str, service: httpx.Client) -> None:
    problem = refused(send(service, body), 422, "invalid-request", pointer)
    assert problem["detail"] == f"{pointer}: there is no such field: check its spelling, or remove it"


WRONG: dict[str, tuple[Any, str, str]] = {
    "no model": ({"workspace": inline()["workspace"]}, "/model", "this field is needed: add it"),
    "no workspace": ({"model": "m"}, "/workspace", "this field is needed: add it"),
    "model": (inline(model=3), "/model", "valid string"),
    "empty model": (inline(model=""), "/model", "at least 1 character"),
    "flag": (inline(cache={"enabled": "true"}), "/cache/enabled", "valid boolean"),
    "provider": (inline(provider="aws"), "/provider", "'anthropic', 'bedrock'"),
    "source": (inline(workspace={"source": "disk"}), "/workspace/source", "'local', 'inline' or 'git'"),
    "files": (inline(workspace={"files": []}), "/workspace/files", "object"),
    "a file": (inline({"/a": 3}), "/workspace/files/~1a", "a file is its text"),
    "a file of null": (inline({"/a": None}), "/workspace/files/~1a", "a file is its text"),
    "a folder that is none": (inline({"/a": {"directory": False}}), "/workspace/files/~1a/directory", "True"),
    "base64": (inline({"/a": {"base64": "%%%"}}), "/workspace/files/~1a/base64", "this is not base64"),
    "base64 with letters": (inline({"/a": {"base64": "äöü="}}), "/workspace/files/~1a/base64", "this is not base64"),
    "base64 of no length": (inline({"/a": {"base64": "abc"}}), "/workspace/files/~1a/base64", "this is not base64"),
    "relative cwd": (inline(workspace={"cwd": "p"}), "/workspace/cwd", "this must be an absolute path"),
    "relative key": (inline({"CLAUDE.md": "x"}), "/workspace/files/CLAUDE.md", "this must be an absolute path"),
    "NUL in cwd": (inline(workspace={"cwd": "/p\0"}), "/workspace/cwd", "cannot hold a NUL"),
    "NUL in a key": (inline({"/p\0/a": "x"}), "/workspace/files/~1p\0~1a", "cannot hold a NUL"),
    "NUL in a link": (inline({"/a": {"link": "b\0"}}), "/workspace/files/~1a/link", "cannot hold a NUL"),
    "NUL in a touch": (inline(touched=[{"path": "a\0"}]), "/touched/0/path", "cannot hold a NUL"),
    "NUL in a folder": (
        inline(workspace={"additional_directories": ["a\0"]}),
        "/workspace/additional_directories/0",
        "cannot hold a NUL",
    ),
    "NUL in a ref": (
        inline(workspace={"source": "git", "cwd": None, "repository": "/r", "ref": "a\0"}),
        "/workspace/ref",
        "cannot hold a NUL",
    ),
    "a path without end": (inline(workspace={"cwd": "/" + "p" * 5000}), "/workspace/cwd", "at most 4096"),
    "two flavours": (inline({r"C:\a": "x"}), "/workspace", "all POSIX or all Windows"),
    "no cwd": (inline(workspace={"cwd": None}), "/workspace", "source inline needs cwd"),
    "no repository": (inline(workspace={"source": "git", "cwd": None}), "/workspace", "source git needs repository"),
    "ref of a folder": (inline(workspace={"ref": "main"}), "/workspace", "ref belongs to source git only"),
    "git of a folder": (
        inline(workspace={"source": "local", "git": {}}),
        "/workspace",
        "git describes an inline workspace",
    ),
    "git of a commit": (
        inline(workspace={"source": "git", "cwd": None, "repository": "/r", "git": {}}),
        "/workspace",
        "source git finds it out itself",
    ),
    "session id": (inline(session_id="s" * 129), "/session_id", "at most 128"),
    "tool": (inline(tools=["Read"]), "/tools/0", "object"),
    "content": (inline(messages=[{"role": "user", "content": 3}]), "/messages/0/content", "text or a list of blocks"),
    "block": (inline(messages=[{"role": "user", "content": ["a"]}]), "/messages/0/content/0", "object"),
    "block without type": (
        inline(messages=[{"role": "user", "content": [{"text": "a"}]}]),
        "/messages/0/content",
        "every content block needs a type",
    ),
    "usage": (
        inline(messages=[{"role": "assistant", "content": "a", "usage": {"input_tokens": -1}}]),
        "/messages/0/usage/input_tokens",
        "greater than or equal to 0",
    ),
    "fraction": (inline(tokens={"max_context_tokens": 1.5}), "/tokens/max_context_tokens", "valid integer"),
    "kept results": (inline(settings={"function_result_clearing": 0}), "/settings/function_result_clearing", "than or"),
    "30 February": (inline(date="2026-02-30"), "/date", "a day of the calendar, written YYYY-MM-DD"),
    "29 February": (inline(date="2026-02-29"), "/date", "a day of the calendar"),
    "short date": (inline(date="2026-1-1"), "/date", "a day of the calendar"),
    "compact date": (inline(date="20260101"), "/date", "a day of the calendar"),
    "date of a week": (inline(date="2026-W01-1"), "/date", "a day of the calendar"),
    "date in other digits": (inline(date="٢٠٢٦-٠١-٠١"), "/date", "a day of the calendar"),
    "5 MB of prompt": (inline(system_prompt={"append": "x" * 5_000_000}), "/system_prompt/append", "at most 1048576"),
}


@pytest.mark.parametrize(("body", "pointer", "said"), WRONG.values(), ids=WRONG)
def test_a_value_that_does_not_fit_is_pointed_at(body: Any, pointer: str, said: str, service: httpx.Client) -> None:
    problem = refused(send(service, body), 422, "invalid-request", pointer)
    assert said in problem["detail"]
    assert problem["detail"].startswith(f"{pointer}: ")


def test_all_faults_are_pointed_at_together(service: httpx.Client) -> None:
    body = {"model": 1, "workspace": {"source": "inline", "cwd": "a"}, "x": 1}
    refused(send(service, body), 422, "invalid-request", "/workspace/cwd", "/model", "/x")


def test_a_leap_day_is_a_day(service: httpx.Client) -> None:
    assert ask(service, inline(date="2028-02-29"))["user_context"]["entries"] == {
        "currentDate": "Today's date is 2028-02-29."
    }


@pytest.mark.parametrize("percent", [0, -5, 101, 1e300])
def test_a_percentage_out_of_range_is_ignored_with_a_warning(percent: float, service: httpx.Client) -> None:
    body = ask(service, inline(tokens={"percent_override": percent}))
    assert [warning["code"] for warning in body["warnings"]] == ["percent_override_ignored"]
    assert body["compaction"]["threshold"] == 167_000


@pytest.mark.parametrize("tokens", [0, -1, -(10**30)])
def test_a_window_out_of_range_is_ignored_with_a_warning(tokens: int, service: httpx.Client) -> None:
    body = ask(service, inline(tokens={"max_context_tokens": tokens}))
    assert [warning["code"] for warning in body["warnings"]] == ["max_context_tokens_ignored"]
    assert body["compaction"]["window"] == 200_000


def test_whole_numbers_of_any_size_come_back_as_they_were(service: httpx.Client) -> None:
    limits = [2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**40]
    tool = {"name": "n", "input_schema": {"enum": limits}}
    body = ask(service, inline(tools=[tool], cache={"enabled": False}))
    assert body["request"]["tools"] == [tool]


def test_an_unknown_model_is_answered_with_a_warning(service: httpx.Client) -> None:
    body = ask(service, inline(model="gpt-4"))
    assert [warning["where"] for warning in body["warnings"] if warning["code"] == "unknown_model"] == ["model"]
    assert body["request"]["model"] == "gpt-4"
    assert body["compaction"]["window"] == 200_000


# Files


def test_a_file_of_5_mb_is_reported_and_the_rest_loads(service: httpx.Client) -> None:
    files = {f"{CWD}/CLAUDE.md": "x" * 5_000_000, f"{CWD}/CLAUDE.local.md": "Local."}
    memory = ask(service, inline(files))["memory"]
    rows = {row["path"]: (row["verdict"], row["reason"]) for row in memory["report"]}
    assert rows[f"{CWD}/CLAUDE.md"] == ("skipped", "budget")
    assert [file["content"] for file in memory["files"]] == ["Local."]


@pytest.mark.parametrize("text", ["{", "[]", "", "\0", '{"language": 3'])
def test_a_broken_settings_file_is_reported_and_the_rest_loads(text: str, service: httpx.Client) -> None:
    path = f"{CWD}/.claude/settings.json"
    files = {path: text, f"{CWD}/CLAUDE.md": "Rest.", f"{CWD}/.claude/settings.local.json": '{"language": "Latin"}'}
    body = ask(service, inline(files))
    (row,) = (row for row in body["memory"]["report"] if row["path"] == path)
    assert (row["verdict"], row["reason"]) == ("skipped", "settings_unreadable")
    assert row["hint"].endswith("The file was ignored.")
    assert [(warning["code"], warning["where"]) for warning in body["warnings"]] == [("settings_unreadable", path)]
    assert [file["content"] for file in body["memory"]["files"]] == ["Rest."]
    assert "Latin" in body["system_blocks"][-1]["text"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"/a": "x", "/a/b": "y"}, "nothing can be below /a, which is a file"),
        ({"/a": {"link": "/a"}, "/a/b": "y"}, "in a circle"),
        ({"/f": "x", "/a": {"link": "/f"}, "/a/b": "y"}, "something else is given at /f already"),
        ({"/a": "x", "/b/../a": "y"}, "something else is given at /a already"),
        ({"/": "x"}, "the root"),
    ],
    ids=["below a file", "below a circle", "below a link to a file", "two at one place", "the root"],
)
def test_files_that_make_no_tree_are_refused(files: Any, said: str, service: httpx.Client) -> None:
    assert said in refused(send(service, inline(files)), 422, "invalid-request", "/workspace/files")["detail"]


def test_a_cwd_that_is_a_file_is_refused(service: httpx.Client) -> None:
    problem = refused(send(service, inline({CWD: "x"})), 422, "invalid-request", "/workspace/cwd")
    assert "Give a folder as cwd" in problem["detail"]


# Folders and repositories


def test_a_missing_folder_and_one_outside_the_roots_look_alike(
    service: httpx.Client, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.getbasetemp().parent
    details = []
    for cwd in (tmp_path / "missing", outside, Path("/etc"), Path("/etc/no/such")):
        problem = refused(send(service, local(cwd)), 404, "workspace-not-found", "/workspace/cwd")
        details.append(problem["detail"].replace(str(cwd), "CWD"))
    assert len(set(details)) == 1
    assert details[0].endswith("the roots that it has for you (STRATA_ROOTS, or roots of your key) as cwd.")


def test_a_circle_of_links_is_no_folder(service: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    refused(send(service, local(tmp_path / "a")), 404, "workspace-not-found", "/workspace/cwd")
    refused(send(service, local(tmp_path / "a" / "deeper")), 404, "workspace-not-found", "/workspace/cwd")


def test_a_link_out_of_the_roots_is_no_folder(service: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    refused(send(service, local(tmp_path / "out")), 404, "workspace-not-found", "/workspace/cwd")


def test_a_file_is_no_folder(service: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(send(service, local(tmp_path / "file")), 404, "workspace-not-found", "/workspace/cwd")


def test_a_repository_that_is_missing_or_outside_the_roots_looks_alike(service: httpx.Client, tmp_path: Path) -> None:
    details = []
    for repository in (tmp_path / "missing", Path("/etc"), tmp_path, Path("/no/such")):
        body = inline(workspace={"source": "git", "cwd": None, "repository": str(repository)})
        problem = refused(send(service, body), 404, "workspace-not-found", "/workspace")
        details.append(problem["detail"].replace(str(repository), "REPOSITORY"))
    assert len(set(details)) == 1


@pytest.mark.parametrize("ref", ["no-such", "--help", "main:CLAUDE.md", "main..main", "\n", "HEAD^{tree}", "é" * 900])
def test_a_bad_ref_is_refused(ref: str, service: httpx.Client, tmp_path: Path) -> None:
    git(tmp_path / "r", "init", "--quiet", "--initial-branch=main")
    first_commit(tmp_path / "r")
    body = inline(workspace={"source": "git", "cwd": None, "repository": str(tmp_path / "r"), "ref": ref})
    problem = refused(send(service, body), 404, "workspace-not-found", "/workspace")
    assert "Give a branch, a tag or a commit id as ref" in problem["detail"]


def test_a_folder_that_is_not_in_the_commit_is_refused(service: httpx.Client, tmp_path: Path) -> None:
    git(tmp_path / "r", "init", "--quiet", "--initial-branch=main")
    first_commit(tmp_path / "r")
    body = inline(workspace={"source": "git", "cwd": "/repo/src", "repository": str(tmp_path / "r")})
    problem = refused(send(service, body), 404, "workspace-not-found", "/workspace")
    assert "give a folder below it as cwd" in problem["detail"]


# Sizes


def test_a_body_over_the_limit_is_refused(small: httpx.Client) -> None:
    problem = refused(post(small, b"x" * 1001), 413, "too-large")
    assert problem["detail"].startswith("The body may have 1,000 bytes (STRATA_MAX_BODY_BYTES)")


def test_a_body_at_the_limit_is_read(small: httpx.Client) -> None:
    answered(post(small, json.dumps(inline()).encode().ljust(1000)))


def test_a_body_over_the_limit_in_chunks_is_refused(small: httpx.Client) -> None:
    answer = post(small, iter([b"x" * 400] * 3))
    assert answer.request.headers["transfer-encoding"] == "chunked"
    refused(answer, 413, "too-large")


def test_a_body_at_the_limit_in_chunks_is_read(small: httpx.Client) -> None:
    content = json.dumps(inline()).encode().ljust(1000)
    answered(post(small, iter([content[:300], content[300:]])))


def test_a_large_body_is_read(service: httpx.Client) -> None:
    body = inline({f"{CWD}/{number}.txt": "x" * 10_000 for number in range(100)})
    ask(service, body)


# Addresses and methods


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/contexts", "/v2/context", "/v1/context/"])
def test_an_unknown_address_says_where_to_look(path: str, service: httpx.Client) -> None:
    assert "/docs" in refused(service.get(path), 404, "not-found")["detail"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/context"), ("PUT", "/v1/context"), ("POST", "/v1/models")])
def test_another_method_says_which_ones_there_are(method: str, path: str, service: httpx.Client) -> None:
    answer = service.request(method, path)
    assert "/docs" in refused(answer, 405, "method-not-allowed")["detail"]
    assert answer.headers["allow"] == ("GET" if path == "/v1/models" else "POST")


def test_the_model_table_is_answered(service: httpx.Client) -> None:
    table = service.get("/v1/models").json()
    rows = {row["id"]: row for row in table["models"]}
    assert rows["claude-sonnet-4-5"]["supports_1m"] is True
    assert rows[table["aliases"]["opus"]]["family"] == "opus"
    assert table["default"]["client_window"] == 200_000


def test_a_refusal_of_the_framework_has_the_one_shape() -> None:
    app = FastAPI()
    answer_problems(app)

    @app.get("/teapot")
    async def refuse() -> None:
        raise HTTPException(418, "short and stout")

    with serve(app) as address:
        answer = httpx.get(f"{address}/teapot", trust_env=False)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert "short and stout" in answer.json()["detail"]


# What nobody expected


SECRET = "sk-secret /home/ada/diary.md"


@dataclass
class FailingStore:
    """A store that fails in a way that nobody listed."""

    async def load(self, key: str) -> Held:
        raise RuntimeError(SECRET + key)

    async def save(self, key: str, remembered: Remembered, version: int) -> bool:
        raise RuntimeError(SECRET + key)

    async def forget(self, key: str) -> bool:
        raise RuntimeError(SECRET + key)

    async def close(self) -> None:
        """It holds nothing."""

    async def ready(self) -> bool:
        return False


@pytest.fixture
def failing() -> Iterator[httpx.Client]:
    settings = Settings(roots=())
    contexts = build_contexts(settings)
    contexts = replace(contexts, sessions=Sessions(FailingStore(), "v"))
    with (
        serve(build_app(settings, contexts)) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


def test_an_unexpected_error_is_answered_without_what_it_says(failing: httpx.Client) -> None:
    answer = failing.post("/v1/context", json=inline(session_id="s"), headers={"x-request-id": "mine"})
    problem = refused(answer, 500, "internal")
    assert problem == {
        "type": "urn:strata:problem:internal",
        "title": "Internal error",
        "status": 500,
        "detail": "This is a fault of the service: its log has a line with this request id.",
        "errors": [],
        "request_id": "mine",
    }


def test_the_service_goes_on_after_an_unexpected_error(failing: httpx.Client) -> None:
    refused(failing.post("/v1/context", json=inline(session_id="s")), 500, "internal")
    ask(failing, inline())


def test_a_store_that_cannot_be_reached_makes_the_service_not_ready(failing: httpx.Client) -> None:
    answer = failing.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (503, {"store": False})
    assert failing.get("/healthz").status_code == 200


def test_git_that_does_not_answer_is_a_problem_of_its_own(tmp_path: Path) -> None:
    git(tmp_path / "r", "init", "--quiet", "--initial-branch=main")
    first_commit(tmp_path / "r")
    settings = Settings(roots=(tmp_path,), git_timeout_seconds=1e-9)
    body = inline(workspace={"source": "git", "cwd": None, "repository": str(tmp_path / "r")})
    with serve(create_app(settings)) as address:
        refused(httpx.post(f"{address}/v1/context", json=body, trust_env=False), 503, "git-unavailable")


def test_a_body_that_ends_early_is_no_fault_of_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    with serve(create_app(Settings(roots=()))) as address:
        where = urlsplit(address)
        with socket.create_connection((where.hostname, where.port)) as line:
            line.sendall(
                b"POST /v1/context HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: 100\r\n\r\n{"
            )
            line.shutdown(socket.SHUT_WR)
            while line.recv(1000):
                pass
        httpx.get(f"{address}/healthz", trust_env=False)
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["route"], line["status"]) for line in logged] == [("/v1/context", 400), ("/healthz", 200)]


# The same request gives the same bytes


def determined() -> Any:
    files: dict[str, Any] = {f"{CWD}/.claude/rules/{name}.md": f"Rule {name}." for name in "zaMé1B_-"}
    files |= {f"{CWD}/CLAUDE.md": "Use tabs. @docs/a.md @gone.md", f"{CWD}/docs/a.md": "A"}
    files |= {f"{CWD}/link": {"link": "docs"}, f"{CWD}/src": {"directory": True}, f"{CWD}/src/CLAUDE.md": "Nested"}
    return inline(
        files,
        workspace={"git": {"toplevel": CWD, "branch": "main", "status": "?? a", "log": ["a b"]}},
        tools=[{"name": name, "input_schema": {}} for name in ("Write", "mcp__b__x", "Bash", "mcp__a__y")],
        mcp_servers=[{"name": name, "instructions": f"From {name}."} for name in ("zeta", "alpha")],
        touched=[{"path": f"{CWD}/src/a.ts"}],
        messages=[{"role": "user", "content": "Hello"}],
    )


def test_the_same_request_gives_the_same_bytes(service: httpx.Client) -> None:
    first, second = (send(service, determined()) for _ in range(2))
    assert first.content == second.content
    assert first.headers["etag"] == second.headers["etag"]


def test_the_order_of_files_in_the_request_does_not_matter(service: httpx.Client) -> None:
    body = determined()
    turned = determined()
    turned["workspace"]["files"] = dict(reversed(turned["workspace"]["files"].items()))
    assert list(turned["workspace"]["files"]) != list(body["workspace"]["files"])
    assert send(service, body).content == send(service, turned).content


def test_the_order_of_tools_and_servers_does_not_matter(service: httpx.Client) -> None:
    body = determined()
    turned = body | {"tools": body["tools"][::-1], "mcp_servers": body["mcp_servers"][::-1]}
    assert send(service, body).content == send(service, turned).content


def strata_context(folder: Path, home: Path, *arguments: str, umask: int = 0o022, **environment: str) -> bytes:
    """What `strata context` prints in a process of its own."""
    kept = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", "from app.cli import main; main()", "context", str(folder), *arguments],
        env=kept | environment,
        cwd=ROOT,
        capture_output=True,
        check=True,
        umask=umask,
    )
    return done.stdout


def tree(folder: Path, names: list[str]) -> None:
    rules = folder / ".claude" / "rules"
    rules.mkdir(parents=True)
    for name in names:
        (rules / f"{name}.md").write_text(f"Rule {name}.")
        (folder / name).mkdir()
        (folder / name / "CLAUDE.md").write_text(f"Nested {name}.")
    (folder / "CLAUDE.md").write_text("Größe. @gone.md")


@pytest.fixture
def in_turn(tmp_path: Path) -> tuple[Path, Path]:
    """A folder to be assembled, and a request with a date."""
    tree(tmp_path / "p", ["b", "a", "ü", "Z", "0"])
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"date": "2026-11-30", "touched": [{"path": "a/x.py"}, {"path": "ü/x.py"}]}))
    return tmp_path / "p", request


SURROUNDINGS: dict[str, dict[str, Any]] = {
    "another hash seed": {"PYTHONHASHSEED": "4711"},
    "no random hashes": {"PYTHONHASHSEED": "0"},
    "the C locale": {"LANG": "C", "LC_ALL": "C"},
    "a Turkish locale": {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"},
    "another zone": {"TZ": "Pacific/Kiritimati"},
    "the other side of the world": {"TZ": "Pacific/Pago_Pago"},
    "a strict umask": {"umask": 0o777},
}


@pytest.mark.parametrize("surroundings", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_another_process_gives_the_same_bytes_whatever_surrounds_it(
    surroundings: dict[str, Any], in_turn: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, request = in_turn
    home = tmp_path / "home"
    home.mkdir()
    usual = strata_context(folder, home, "--request", str(request))
    assert json.loads(usual)["memory"]["attachments"]
    assert strata_context(folder, home, "--request", str(request), **surroundings) == usual


def test_the_order_in_which_a_folder_was_filled_does_not_matter(tmp_path: Path) -> None:
    names = [f"{letter}{number}" for letter in "xbM" for number in range(20)]
    answers = []
    home = tmp_path / "home"
    home.mkdir()
    for order in (names, names[::-1], sorted(names)):
        tree(tmp_path / "p", order)
        answers.append(strata_context(tmp_path / "p", home))
        (tmp_path / "p").rename(tmp_path / f"done{len(answers)}")
    assert answers[0] == answers[1] == answers[2]


# Folders on disk


def test_a_tree_of_2000_folders_and_300_rules_is_answered_whole(service: httpx.Client, tmp_path: Path) -> None:
    rules = tmp_path / ".claude" / "rules"
    for number in range(300):
        folder = rules / f"{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        condition = f"---\npaths: src/{number}/**\n---\n" if number % 3 == 0 else ""
        (folder / f"{number:03}.md").write_text(f"{condition}Rule {number}.")
    for number in range(2000):
        (tmp_path / "src" / f"{number}" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "3" / "CLAUDE.md").write_text("Nested 3.")
    (tmp_path / "CLAUDE.md").write_text("Top.")

    body = ask(service, local(tmp_path, touched=[{"path": "src/3/deep/a.py"}]))

    plain = [f"Rule {number}." for number in range(300) if number % 3]
    loaded = [file["content"] for file in body["memory"]["files"]]
    assert loaded[0] == "Top."
    assert sorted(loaded[1:]) == sorted(plain)
    paths = [file["path"] for file in body["memory"]["files"][1:]]
    assert paths == sorted(paths)
    assert [file["content"] for file in body["memory"]["attachments"]] == ["Nested 3.", "Rule 3."]
    reported = [row["path"] for row in body["memory"]["report"]]
    assert len([path for path in reported if path.startswith(str(rules))]) == 300
    assert len(reported) == len(set(reported))


def test_this_repository_is_a_workspace(tmp_path: Path) -> None:
    with serve(create_app(Settings(roots=(ROOT,), home=tmp_path))) as address:
        answer = httpx.post(f"{address}/v1/context", json=local(ROOT), timeout=60, trust_env=False)
    body = answered(answer)
    assert f" - Primary working directory: {ROOT}" in body["system_blocks"][-1]["text"]
    assert {row["path"] for row in body["memory"]["report"]} >= {f"{ROOT}/CLAUDE.md", f"{ROOT}/CLAUDE.local.md"}


def test_the_store_of_the_service_is_one_of_the_process() -> None:
    assert isinstance(build_contexts(Settings(roots=())).sessions.store, ProcessStore)
