"""``POST /v1/attachments`` over HTTP: what a touched file brings, once in a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.wire.schema import AttachmentsAnswer
from tests.asking import CWD, inline, local, refused
from tests.asking import ask as ask_context

FILES: dict[str, Any] = {
    "/etc/claude-code/.claude/rules/m.md": '---\npaths: "*.ts"\n---\nMANAGED',
    "/home/dev/.claude/rules/u.md": '---\npaths: "*.ts"\n---\nUSER',
    f"{CWD}/CLAUDE.md": "TOP @src/notes.md",
    f"{CWD}/.claude/rules/r.md": '---\npaths: "src/**"\n---\nRULE',
    f"{CWD}/.claude/rules/w.md": '---\npaths: "*.sql"\n---\nWAITS',
    f"{CWD}/src/CLAUDE.md": "SRC @notes.md @more.md",
    f"{CWD}/src/notes.md": "NOTES",
    f"{CWD}/src/more.md": "MORE",
    f"{CWD}/src/deep/CLAUDE.local.md": "DEEP",
}
TOUCHED = f"{CWD}/src/deep/a.ts"
BROUGHT = ["MANAGED", "USER", "SRC @notes.md @more.md", "MORE", "DEEP", "RULE"]


def touching(*paths: str | dict[str, str], **more: Any) -> dict[str, Any]:
    touched = [{"path": path} if isinstance(path, str) else path for path in paths]
    return {"workspace": inline(FILES)["workspace"], "touched": touched, **more}


def ask(service: httpx.Client, body: Any) -> dict[str, Any]:
    response = service.post("/v1/attachments", json=body)
    assert response.status_code == 200, response.text
    AttachmentsAnswer.model_validate_json(response.content)
    answer: dict[str, Any] = response.json()
    return answer


def contents(answer: dict[str, Any]) -> list[str]:
    return [one["content"] for one in answer["attachments"]]


def reported(answer: dict[str, Any]) -> dict[str, str | None]:
    return {row["path"]: row["reason"] or row["verdict"] for row in answer["report"] if row["reason"] != "not_found"}


# What arrives


def test_a_touched_file_brings_rules_and_nested_files_in_their_order(service: httpx.Client) -> None:
    answer = ask(service, touching(TOUCHED))
    assert contents(answer) == BROUGHT
    assert [one["reason"] for one in answer["attachments"]] == [
        *("conditional_rule", "conditional_rule"),
        *("nested", "include", "nested"),
        "conditional_rule",
    ]
    assert {one["trigger"] for one in answer["attachments"]} == {TOUCHED}
    for one in answer["attachments"]:
        text = f"<system-reminder>\nContents of {one['path']}:\n\n{one['content']}\n</system-reminder>"
        assert one["text"] == text
    assert answer["session"] == {"id": None, "new": True}
    assert answer["warnings"] == []


def test_the_same_files_arrive_as_with_a_whole_context(service: httpx.Client) -> None:
    whole = ask_context(service, inline(FILES, touched=[{"path": TOUCHED}]))
    assert ask(service, touching(TOUCHED))["attachments"] == whole["memory"]["attachments"]


def test_what_loaded_up_front_does_not_arrive(service: httpx.Client) -> None:
    assert "NOTES" not in contents(ask(service, touching(TOUCHED)))
    assert reported(ask(service, touching(TOUCHED)))[f"{CWD}/src/notes.md"] == "already_loaded"


def test_the_report_tells_of_every_file_considered_for_the_touch(service: httpx.Client) -> None:
    assert reported(ask(service, touching(TOUCHED))) == {
        "/etc/claude-code/.claude/rules/m.md": "loaded",
        "/home/dev/.claude/rules/u.md": "loaded",
        f"{CWD}/.claude/rules/r.md": "loaded",
        f"{CWD}/.claude/rules/w.md": "condition_not_met",
        f"{CWD}/src/CLAUDE.md": "loaded",
        f"{CWD}/src/notes.md": "already_loaded",
        f"{CWD}/src/more.md": "loaded",
        f"{CWD}/src/deep/CLAUDE.local.md": "loaded",
    }


def test_a_touch_that_brings_nothing_says_so(service: httpx.Client) -> None:
    answer = ask(service, touching(f"{CWD}/x.txt"))
    assert answer["attachments"] == []
    assert reported(answer)[f"{CWD}/.claude/rules/r.md"] == "condition_not_met"


def test_a_file_elsewhere_brings_nothing(service: httpx.Client) -> None:
    answer = ask(service, touching("/home/dev/other/a.ts"))
    assert (answer["attachments"], reported(answer)) == ([], {"/home/dev/other/a.ts": "touched_outside"})


def test_without_touched_files_there_is_nothing_to_say(service: httpx.Client) -> None:
    answer = ask(service, touching())
    assert (answer["attachments"], answer["report"]) == ([], [])


def test_files_on_disk_arrive_too(tmp_path: Path, service: httpx.Client) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "CLAUDE.md").write_text("SRC")
    body = {"workspace": local(tmp_path)["workspace"], "touched": [{"path": str(tmp_path / "src/x")}]}
    assert contents(ask(service, body)) == ["SRC"]


# Once in a session


def test_without_a_session_each_answer_is_the_same(service: httpx.Client) -> None:
    first, second = (service.post("/v1/attachments", json=touching(TOUCHED)).content for _ in range(2))
    assert first == second


def test_in_a_session_each_file_arrives_once(service: httpx.Client) -> None:
    session = uuid4().hex
    first = ask(service, touching(f"{CWD}/src/a.sql", session_id=session))
    second = ask(service, touching(TOUCHED, session_id=session))
    third = ask(service, touching(TOUCHED, session_id=session))
    assert contents(first) == ["SRC @notes.md @more.md", "MORE", "RULE", "WAITS"]
    assert contents(second) == ["MANAGED", "USER", "DEEP"]
    assert contents(third) == []
    assert [one["session"] for one in (first, second, third)] == [
        {"id": session, "new": new} for new in (True, False, False)
    ]


def test_another_session_gets_them_again(service: httpx.Client) -> None:
    for _ in range(2):
        assert contents(ask(service, touching(TOUCHED, session_id=uuid4().hex))) == BROUGHT


def test_two_touches_at_once_bring_each_file_once(service: httpx.Client) -> None:
    assert contents(ask(service, touching(TOUCHED, TOUCHED, f"{CWD}/src/b.ts"))) == BROUGHT


def in_session(session: str, **more: Any) -> Any:
    return inline(FILES, session_id=session, messages=[{"role": "user", "content": "Go on."}], **more)


def test_a_context_of_the_same_session_neither_repeats_nor_inserts_them(service: httpx.Client) -> None:
    session = uuid4().hex
    before = ask_context(service, in_session(session))
    assert contents(ask(service, touching(TOUCHED, session_id=session))) == BROUGHT
    after = ask_context(service, in_session(session, touched=[{"path": TOUCHED}]))
    assert after["memory"]["attachments"] == []
    assert after["request"] == before["request"]


def test_nor_when_the_session_began_with_the_touch(service: httpx.Client) -> None:
    session = uuid4().hex
    assert contents(ask(service, touching(TOUCHED, session_id=session))) == BROUGHT
    after = ask_context(service, in_session(session, touched=[{"path": TOUCHED}]))
    alone = ask_context(service, in_session(uuid4().hex))
    assert after["memory"]["attachments"] == []
    assert after["request"] == alone["request"]


def test_a_touch_before_the_first_context_does_not_decide_what_the_session_is_like(service: httpx.Client) -> None:
    files = FILES | {f"{CWD}/AGENTS.md": "AGENTS"}
    wanted = {"agents_md": "both"}
    session = uuid4().hex
    ask(service, touching(TOUCHED, session_id=session, agent="explorer"))
    after = ask_context(service, inline(files, session_id=session, date="2020-02-02", memory=wanted))
    alone = ask_context(service, inline(files, date="2020-02-02", memory=wanted))
    assert after["request"] == alone["request"]


def test_what_a_context_inserted_does_not_arrive_again(service: httpx.Client) -> None:
    session = uuid4().hex
    context = ask_context(service, in_session(session, touched=[{"path": TOUCHED}]))
    assert [one["content"] for one in context["memory"]["attachments"]] == BROUGHT
    assert contents(ask(service, touching(TOUCHED, session_id=session))) == []


def test_a_session_with_another_folder_starts_anew(service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, touching(TOUCHED, session_id=session))
    other = touching("/home/dev/q/src/a.ts", session_id=session)
    other["workspace"] = inline({"/home/dev/q/src/CLAUDE.md": "Q"}, workspace={"cwd": "/home/dev/q"})["workspace"]
    answer = ask(service, other)
    assert contents(answer) == ["Q"]
    assert answer["session"] == {"id": session, "new": True}
    assert [warning["code"] for warning in answer["warnings"]] == ["session_workspace_changed"]


# Options


@pytest.mark.parametrize("event", ["write", "edit", "shell"])
def test_other_events_bring_something_only_when_they_are_asked_for(event: str, service: httpx.Client) -> None:
    touch = {"path": TOUCHED, "event": event}
    assert contents(ask(service, touching(touch))) == []
    assert contents(ask(service, touching(touch, memory={"trigger_events": [event]}))) == BROUGHT


@pytest.mark.parametrize(
    ("agent", "brought"), [("main", BROUGHT), ("subagent", BROUGHT), ("explorer", [])], ids=lambda one: str(one)[:9]
)
def test_kinds_of_agents(agent: str, brought: list[str], service: httpx.Client) -> None:
    assert contents(ask(service, touching(TOUCHED, agent=agent))) == brought


def test_sources_that_are_off_bring_nothing(service: httpx.Client) -> None:
    assert contents(ask(service, touching(TOUCHED, setting_sources=["user"]))) == ["MANAGED", "USER"]
    assert contents(ask(service, touching(TOUCHED, setting_sources=[]))) == ["MANAGED"]


def test_memory_that_is_off_brings_nothing(service: httpx.Client) -> None:
    assert ask(service, touching(TOUCHED, memory={"enabled": False}))["report"] == []


def test_what_is_excluded_does_not_arrive(service: httpx.Client) -> None:
    answer = ask(service, touching(TOUCHED, memory={"exclude": ["**/src/**/*.md"]}))
    assert contents(answer) == ["MANAGED", "USER", "RULE"]
    assert reported(answer)[f"{CWD}/src/CLAUDE.md"] == "excluded"


def test_the_texts_as_they_were_read_come_on_request(service: httpx.Client) -> None:
    assert "raw_content" not in ask(service, touching(TOUCHED))["attachments"][0]
    raw = ask(service, touching(TOUCHED, memory={"include_raw": True}))["attachments"][0]
    assert raw["raw_content"] == FILES["/etc/claude-code/.claude/rules/m.md"]


# Requests that are refused


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"model": "sonnet"}, "/model"),
        ({"messages": []}, "/messages"),
        ({"freshness": "reload"}, "/freshness"),
        ({"touched": [{"path": TOUCHED, "why": "x"}]}, "/touched/0/why"),
        ({"touched": [{"path": TOUCHED, "event": "grep"}]}, "/touched/0/event"),
        ({"touched": TOUCHED}, "/touched"),
        ({"memory": {"trigger_event": []}}, "/memory/trigger_event"),
        ({"agent": "fork"}, "/agent"),
        ({"session_id": ""}, "/session_id"),
    ],
    ids=lambda one: one if isinstance(one, str) else None,
)
def test_unknown_fields_and_values_are_refused(change: dict[str, Any], pointer: str, service: httpx.Client) -> None:
    refused(service.post("/v1/attachments", json=touching(TOUCHED) | change), 422, "invalid-request", pointer)


@pytest.mark.parametrize("missing", ["workspace", "touched"])
def test_what_is_needed_must_be_there(missing: str, service: httpx.Client) -> None:
    body = {name: value for name, value in touching(TOUCHED).items() if name != missing}
    refused(service.post("/v1/attachments", json=body), 422, "invalid-request", f"/{missing}")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, service: httpx.Client) -> None:
    body = {"workspace": local(tmp_path / "gone")["workspace"], "touched": []}
    refused(service.post("/v1/attachments", json=body), 404, "workspace-not-found", "/workspace/cwd")


def test_other_media_types_and_broken_bodies_are_refused(service: httpx.Client) -> None:
    refused(service.post("/v1/attachments", content=b"{}"), 415, "unsupported-media-type")
    headers = {"content-type": "application/json"}
    refused(service.post("/v1/attachments", content=b"{", headers=headers), 400, "not-json")
