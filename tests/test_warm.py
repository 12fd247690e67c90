"""Over HTTP: a request that comes again has the bytes that were sent before, until something changes."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.building import build_contexts
from app.main import create_app
from app.settings import Settings
from app.wire.requests import Ask, Server, asked_as
from tests.asking import CWD, ask, inline, local, refused
from tests.reference.programs import git
from tests.serving import serve

TALK = [{"role": "user", "content": "Go."}]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = (tmp_path / "p").resolve()
    (folder / ".claude" / "rules").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Use tabs.")
    return folder


def posted(client: httpx.Client, body: Any, **headers: str) -> httpx.Response:
    response = client.post("/v1/context", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response


def settle(client: httpx.Client, body: Any) -> httpx.Response:
    """The answer once a session has learned all that it learns of this request."""
    for _ in range(3):
        response = posted(client, body)
    return response


def texts(response: httpx.Response) -> str:
    text: str = response.json()["user_context"]["text"]
    return text


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
@pytest.mark.parametrize("freshness", ["session", "validate"])
def test_the_same_request_of_a_session_has_the_same_bytes(
    service: httpx.Client, project: Path, freshness: str, coding: str
) -> None:
    body = local(project, session_id=uuid4().hex, freshness=freshness, messages=TALK)
    settle(service, body)
    answers = [posted(service, body, **{"accept-encoding": coding}) for _ in range(3)]
    assert len({(answer.content, answer.headers["etag"], answer.headers["vary"]) for answer in answers}) == 1
    assert answers[0].headers.get("content-encoding", "identity") == coding


def test_how_many_were_given_again_is_counted() -> None:
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs."})
    with serve(create_app(Settings(roots=()))) as address, httpx.Client(base_url=address, trust_env=False) as client:
        for _ in range(3):
            posted(client, body)
        told = client.get("/metrics").text
    assert 'strata_answers_total{origin="repeated"} 2.0' in told
    assert 'strata_answers_total{origin="assembled"} 1.0' in told
    assert "strata_warm_answers 1.0" in told


def test_it_is_what_is_assembled_without_anything_held(service: httpx.Client) -> None:
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs. " * 500})
    with serve(create_app(Settings(roots=(), max_warm_bytes=0))) as address, httpx.Client(base_url=address) as cold:
        wanted = posted(cold, body)
    assert {posted(service, body).content for _ in range(3)} == {wanted.content}


def test_an_edit_is_seen_at_once_where_freshness_is_validate(service: httpx.Client, project: Path) -> None:
    body = local(project, session_id=uuid4().hex, freshness="validate")
    settle(service, body)
    for number in range(20):
        (project / "CLAUDE.md").write_text(f"Use rule {number:02}.")
        assert f"Use rule {number:02}." in texts(posted(service, body))


def test_so_is_one_of_the_same_size_and_time(service: httpx.Client, project: Path) -> None:
    body = local(project, session_id=uuid4().hex, freshness="validate")
    file = project / "CLAUDE.md"
    os.utime(file, (1_000_000, 1_000_000))
    assert "Use tabs." in texts(settle(service, body))
    file.write_text("Use bats.")
    os.utime(file, (1_000_000, 1_000_000))
    assert "Use bats." in texts(posted(service, body))


@pytest.mark.parametrize(
    ("path", "content", "found"),
    [
        ("CLAUDE.local.md", "Mine.", "Mine."),
        (".claude/rules/a.md", "A rule.", "A rule."),
        (".claude/CLAUDE.md", "Beside.", "Beside."),
        ("../CLAUDE.md", "Above.", "Above."),
    ],
)
def test_so_is_a_file_that_was_not_there(
    service: httpx.Client, project: Path, path: str, content: str, found: str
) -> None:
    body = local(project, session_id=uuid4().hex, freshness="validate")
    assert found not in texts(settle(service, body))
    (project / path).write_text(content)
    assert found in texts(posted(service, body))
    (project / path).unlink()
    assert found not in texts(posted(service, body))


def test_so_are_settings_files(service: httpx.Client, project: Path) -> None:
    body = local(project, session_id=uuid4().hex, freshness="validate")
    assert "Use tabs." in texts(settle(service, body))
    (project / ".claude" / "settings.json").write_text('{"claudeMdExcludes": ["**/CLAUDE.md"]}')
    assert posted(service, body).json()["memory"]["files"] == []


def test_a_session_that_is_fixed_sees_them_once_it_is_cleared(service: httpx.Client, project: Path) -> None:
    session = uuid4().hex
    body = local(project, session_id=session)
    before = settle(service, body)
    (project / "CLAUDE.md").write_text("Use spaces.")
    assert posted(service, body).content == before.content
    service.post(f"/v1/sessions/{session}/clear", json={"reason": "clear"})
    assert "Use spaces." in texts(posted(service, body))


def test_what_a_touched_file_brings_is_seen_although_the_rest_is_fixed(service: httpx.Client, project: Path) -> None:
    (project / "src").mkdir()
    touched = [{"path": str(project / "src" / "a.py")}]
    body = local(project, session_id=uuid4().hex, touched=touched)
    assert settle(service, body).json()["memory"]["attachments"] == []
    (project / "src" / "CLAUDE.md").write_text("Nested.")
    assert [file["content"] for file in posted(service, body).json()["memory"]["attachments"]] == ["Nested."]


def test_git_is_asked_again_without_a_session_and_on_the_next_prompt_of_one(
    service: httpx.Client, project: Path
) -> None:
    git(project, "init", "-q", "-b", "main")
    one = local(project)
    session = local(project, session_id=uuid4().hex, freshness="validate", messages=TALK)
    assert "?? new" not in posted(service, one).text
    before = settle(service, session)
    (project / "new").write_text("x")
    assert "?? new" in posted(service, one).text
    assert posted(service, session).content == before.content
    session["messages"] = [*TALK, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "More."}]
    assert "?? new" in str(posted(service, session).json()["request"]["messages"])


@pytest.mark.parametrize(("method", "path", "misses"), [("POST", "/clear", 10), ("DELETE", "", 10)])
def test_a_session_that_was_emptied_is_assembled_again(
    service: httpx.Client, method: str, path: str, misses: int
) -> None:
    session = uuid4().hex
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs."}, session_id=session)
    assert settle(service, body).json()["session"]["section_misses"] == 0
    service.request(method, f"/v1/sessions/{session}{path}", json={"reason": "clear"})
    assert posted(service, body).json()["session"]["section_misses"] == misses


def test_what_is_said_beside_the_body_belongs_to_the_request(service: httpx.Client) -> None:
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs."}, model="claude-sonnet-4-5-20250929")
    plain = ask(service, body)
    long = ask(service, body, **{"anthropic-beta": "context-1m-2025-08-07"})
    assert (plain["compaction"]["window"], long["compaction"]["window"]) == (200_000, 1_000_000)
    content = service.build_request("POST", "/v1/context", json=body).content
    refused(
        service.post("/v1/context", content=content, headers={"content-type": "text/plain"}),
        415,
        "unsupported-media-type",
    )


def test_a_caller_without_a_key_is_not_given_what_another_asked_for() -> None:
    body = inline({f"{CWD}/CLAUDE.md": "Use tabs."})
    with serve(create_app(Settings(roots=(), api_keys=("secret",)))) as address, httpx.Client(base_url=address) as one:
        for _ in range(2):
            posted(one, body, **{"x-api-key": "secret"})
        refused(one.post("/v1/context", json=body), 401, "key-missing")


def test_many_at_once_have_one_answer(service: httpx.Client, project: Path) -> None:
    body = local(project, session_id=uuid4().hex, freshness="validate", messages=TALK)
    settle(service, body)
    (project / "CLAUDE.md").write_text("Use spaces.")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: texts(posted(service, body)), range(64)))
    assert len(set(answers)) == 1
    assert "Use spaces." in answers[0]


class TestPolling:
    def test_nothing_new_is_a_304_with_the_tag_that_the_post_had(self, service: httpx.Client, project: Path) -> None:
        session = uuid4().hex
        tag = posted(service, local(project, session_id=session, freshness="validate")).headers["etag"]
        for _ in range(3):
            told = service.get(f"/v1/sessions/{session}/context", headers={"if-none-match": tag})
            assert (told.status_code, told.content, told.headers["etag"]) == (304, b"", tag)
            assert told.headers["vary"] == "accept-encoding"

    def test_something_new_is_the_whole_answer(self, service: httpx.Client, project: Path) -> None:
        session = uuid4().hex
        tag = posted(service, local(project, session_id=session, freshness="validate")).headers["etag"]
        (project / "CLAUDE.md").write_text("Use spaces.")
        for _ in range(3):
            told = service.get(f"/v1/sessions/{session}/context", headers={"if-none-match": tag})
            assert told.status_code == 200
            assert "Use spaces." in texts(told)
            assert told.headers["etag"] != tag

    def test_it_is_what_the_next_turn_is_answered_with_and_writes_nothing(
        self, service: httpx.Client, project: Path
    ) -> None:
        session = uuid4().hex
        body = local(project, session_id=session, freshness="validate", messages=TALK)
        posted(service, body)
        (project / "CLAUDE.md").write_text("Use spaces.")
        before = service.get(f"/v1/sessions/{session}").json()
        polled = [service.get(f"/v1/sessions/{session}/context").json() for _ in range(3)]
        assert service.get(f"/v1/sessions/{session}").json() == before
        turn = ask(service, body)
        assert [one["request"] for one in polled] == [turn["request"]] * 3
        assert polled[0]["memory"] == turn["memory"]

    def test_after_a_clear_it_is_read_anew(self, service: httpx.Client, project: Path) -> None:
        session = uuid4().hex
        posted(service, local(project, session_id=session))
        (project / "CLAUDE.md").write_text("Use spaces.")
        assert "Use tabs." in texts(service.get(f"/v1/sessions/{session}/context"))
        service.post(f"/v1/sessions/{session}/clear", json={"reason": "clear"})
        assert "Use spaces." in texts(service.get(f"/v1/sessions/{session}/context"))

    def test_the_beta_header_of_the_request_still_counts(self, service: httpx.Client) -> None:
        session = uuid4().hex
        body = inline(model="claude-sonnet-4-5-20250929", session_id=session)
        posted(service, body, **{"anthropic-beta": "context-1m-2025-08-07"})
        told = service.get(f"/v1/sessions/{session}/context").json()
        assert told["compaction"]["window"] == 1_000_000

    def test_a_name_with_a_slash_is_one_name(self, service: httpx.Client) -> None:
        session = f"a/b {uuid4().hex}"
        posted(service, inline(session_id=session))
        path = f"/v1/sessions/{session.replace('/', '%2F').replace(' ', '%20')}/context"
        assert [service.get(path).json()["session"]["id"] for _ in range(3)] == [session] * 3

    def test_what_never_asked_is_told_so(self, service: httpx.Client) -> None:
        session = uuid4().hex
        refused(service.get(f"/v1/sessions/{session}/context"), 404, "session-not-found")
        touched = {"workspace": inline()["workspace"], "session_id": session, "touched": [{"path": "a.py"}]}
        assert service.post("/v1/attachments", json=touched).status_code == 200
        refused(service.get(f"/v1/sessions/{session}/context"), 404, "nothing-asked")

    def test_a_tag_on_a_post_is_ignored(self, service: httpx.Client) -> None:
        body = inline({f"{CWD}/CLAUDE.md": "Use tabs."})
        tag = posted(service, body).headers["etag"]
        assert posted(service, body, **{"if-none-match": tag}).content


FILES = ("CLAUDE.md", ".claude/rules/r.md", "../CLAUDE.md")


def test_a_folder_that_leads_elsewhere_by_now_begins_the_session_anew(service: httpx.Client, tmp_path: Path) -> None:
    root = tmp_path.resolve()
    for name in ("one", "other"):
        (root / name).mkdir()
        (root / name / "CLAUDE.md").write_text(f"The {name}.")
    (root / "link").symlink_to("one")
    body = local(root / "link", session_id=uuid4().hex)
    assert "The one." in texts(settle(service, body))
    assert "The one." in texts(posted(service, body))
    (root / "new").symlink_to("other")
    (root / "new").rename(root / "link")
    until = time.monotonic() + 30
    while "The one." in texts(found := posted(service, body)):
        assert time.monotonic() < until
    assert [row["code"] for row in found.json()["warnings"]] == ["session_workspace_changed"]


class Moment:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def asked(**more: Any) -> Ask:
    body = json.dumps(inline({f"{CWD}/CLAUDE.md": "Use tabs. " * 900}, session_id="s", **more)).encode()
    return asked_as(body, Server("linux", None, "2026-11-30"), ())


def test_what_time_did_to_the_prompt_cache_is_told_once() -> None:
    async def told() -> list[tuple[str | None, bool]]:
        moment, built = Moment(), build_contexts(Settings(roots=()))
        contexts = replace(built, known=replace(built.known, now=moment))
        found = []
        for seconds in (0, 1, 2, 3, 400, 401, 402):
            moment.now = 1_000_000 + seconds
            answer = await contexts.answer(asked(messages=TALK))
            assert answer.repeats is not None
            found.append((answer.assembly.previous.cause, answer.repeats.lasts))
        await contexts.close()
        return found

    expired = [("ttl_expired", False), (None, False), (None, True)]
    assert asyncio.run(told()) == [(None, False), (None, False), (None, True), (None, True), *expired]


def test_a_look_at_what_the_session_asks_no_more_is_not_held() -> None:
    async def looked() -> list[bool]:
        contexts = build_contexts(Settings(roots=()))
        one, other = (replace(asked(messages=[{"role": "user", "content": text}]), is_sent=True) for text in "ab")
        found = [(await contexts.look(replace(one, is_sent=False))).repeats is None]
        await contexts.answer(one)
        found.append((await contexts.look(replace(one, is_sent=False))).repeats is None)
        await contexts.answer(other)
        found.append((await contexts.look(replace(one, is_sent=False))).repeats is None)
        await contexts.close()
        return found

    assert asyncio.run(looked()) == [True, False, True]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(FILES), st.text("ab")),
        st.tuples(st.just("remove"), st.sampled_from(FILES), st.just("")),
        st.tuples(st.just("post"), st.sampled_from(["session", "validate", "reload"]), st.sampled_from(["1", "2"])),
        st.tuples(st.just("get"), st.just(""), st.just("")),
        st.tuples(st.just("clear"), st.sampled_from(["clear", "compact"]), st.just("")),
    ),
    min_size=4,
    max_size=14,
)
Step = tuple[str, str, str]


class Pair:
    """Two services with the same disk, of which one holds no answers."""

    def __init__(self, root: Path, warm: httpx.Client, cold: httpx.Client) -> None:
        self.root, self.clients = root, (warm, cold)

    def run(self, steps: list[Step]) -> None:
        session, project = uuid4().hex, self.root / uuid4().hex / "p"
        (project / ".claude" / "rules").mkdir(parents=True)
        for kind, first, second in steps:
            if kind == "write":
                (project / first).write_text(second)
            elif kind == "remove":
                (project / first).unlink(missing_ok=True)
            else:
                one, other = (told(client, (kind, first, second), session, project) for client in self.clients)
                assert one == other


def told(client: httpx.Client, step: Step, session: str, project: Path) -> tuple[int, Any]:
    kind, first, second = step
    if kind == "post":
        messages = [{"role": "user", "content": second}]
        response = client.post(
            "/v1/context", json=local(project, session_id=session, freshness=first, messages=messages)
        )
    elif kind == "clear":
        response = client.post(f"/v1/sessions/{session}/clear", json={"reason": first})
    else:
        response = client.get(f"/v1/sessions/{session}/context")
    body = response.json()
    body.pop("request_id", None)
    return response.status_code, body


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    root = tmp_path.resolve()
    warm, cold = (create_app(Settings(roots=(root,), max_warm_bytes=size)) for size in (1_000_000, 0))
    with (
        serve(warm) as one,
        serve(cold) as other,
        httpx.Client(base_url=one, trust_env=False) as first,
        httpx.Client(base_url=other, trust_env=False) as second,
    ):
        yield Pair(root, first, second)


@given(STEPS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_that_are_held_change_no_answer(pair: Pair, steps: list[Step]) -> None:
    doubled = [step for step in steps for _ in range(3 if step[0] in {"post", "get"} else 1)]
    pair.run(doubled)
