from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.building import build_contexts
from app.core.facts import Client, GitFacts, Node, Request
from app.core.paths import Paths
from app.errors import GitUnavailable, TookTooLong
from app.gather import Known, Wanted, gather
from app.main import build_app, create_app
from app.settings import Settings
from app.workspaces.containment import Shown
from app.workspaces.inline import InlineFile, InlineWorkspace, Text
from app.workspaces.program import GitProgram
from tests.asking import CWD, DATE, ask, bare, inline, local
from tests.reference.programs import first_commit, git
from tests.serving import serve

READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
MCP = {"name": "mcp__docs__find", "description": "Finds.", "input_schema": {"type": "object"}}


def session() -> str:
    return uuid.uuid4().hex


def text_of(body: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in body["request"]["messages"][0]["content"])


# The prefix does not move


PLACES = (
    f"{CWD}/CLAUDE.md",
    f"{CWD}/.claude/CLAUDE.md",
    f"{CWD}/CLAUDE.local.md",
    f"{CWD}/.claude/rules/a.md",
    f"{CWD}/.claude/output-styles/mine.md",
    "/home/dev/.claude/CLAUDE.md",
    "/home/dev/.claude/projects/-home-dev-p/memory/MEMORY.md",
)
SAID = st.sampled_from(
    [
        {},
        {"outputStyle": "mine"},
        {"outputStyle": "Explanatory"},
        {"language": "Latin"},
        {"includeGitInstructions": False},
        {"claudeMdExcludes": ["**/CLAUDE.md"]},
        {"autoMemoryEnabled": False},
    ]
).map(json.dumps)
TEXTS = st.sampled_from(["", "Use tabs.", "---\npaths: src/**\n---\nRule.", "@CLAUDE.md <!-- x -->", "Grüße 🦊", "{"])
FILES = st.dictionaries(st.sampled_from(PLACES), TEXTS).flatmap(
    lambda files: st.one_of(st.just(files), SAID.map(lambda said: files | {f"{CWD}/.claude/settings.json": said}))
)
GIT = st.none() | st.fixed_dictionaries(
    {
        "toplevel": st.sampled_from([CWD, "/home/dev", None]),
        "branch": st.sampled_from(["main", "topic", None]),
        "status": st.sampled_from(["", "?? a.txt", None]),
        "log": st.lists(st.sampled_from(["a1 one", "b2 two"])),
        "user": st.sampled_from([None, "Ada"]),
    }
)
SERVERS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["docs", "mail", "wiki"]),
            "status": st.sampled_from(["connected", "pending", "failed", "disabled"]),
            "instructions": st.sampled_from([None, "", "Ask first.", "x" * 3000]),
        }
    ),
    unique_by=lambda server: server["name"],
)
STATES = st.fixed_dictionaries({"files": FILES, "git": GIT, "servers": SERVERS})
MODES: dict[str, dict[str, Any]] = {
    "global": {"tools": [READ]},
    "tool_based": {"tools": [READ, MCP]},
    "org": {"tools": [READ], "provider": "bedrock"},
    "off": {"tools": [READ], "cache": {"enabled": False}},
}


def turn(state: dict[str, Any], **more: Any) -> Any:
    return inline(state["files"], workspace={"git": state["git"]}, mcp_servers=state["servers"], **more)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=STATES, after=STATES)
def test_nothing_in_front_of_the_first_uncached_section_moves_within_a_session(
    mode: str, before: dict[str, Any], after: dict[str, Any], service: httpx.Client
) -> None:
    more = MODES[mode] | {"session_id": session(), "messages": [{"role": "user", "content": "Hello"}]}
    first = ask(service, turn(before, **more))
    later = ask(service, turn(after, **more))
    assert first["cache"]["mode"] == later["cache"]["mode"] == mode

    blocks = [body["system_blocks"] for body in (first, later)]
    for one, other in zip(*blocks, strict=False):
        if "mcp_instructions" in (*one["sections"], *other["sections"]):
            break
        assert other == one
    sections = [
        [(row["name"], row["present"], row["sha256"]) for row in body["sections"] if row["kind"] != "uncached"]
        for body in (first, later)
    ]
    assert sections[1] == sections[0]
    assert bare(later["request"]["messages"])[0] == bare(first["request"]["messages"])[0]
    assert later["user_context"] == first["user_context"]
    assert later["memory"]["files"] == first["memory"]["files"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=STATES)
def test_the_same_turn_again_gives_the_same_request(state: dict[str, Any], service: httpx.Client) -> None:
    body = turn(state, session_id=session(), touched=[{"path": "src/a.ts"}])
    first, second = ask(service, body), ask(service, body)
    assert second["request"] == first["request"]
    assert second["digest"] == first["digest"]


def test_only_what_servers_say_changes_when_a_server_disconnects(service: httpx.Client) -> None:
    more: dict[str, Any] = {"session_id": session()}
    servers = [{"name": "docs", "instructions": "Ask first."}]
    first = ask(service, inline(mcp_servers=servers, **more))
    later = ask(service, inline(mcp_servers=[], **more))
    assert [later["system_blocks"][0], len(later["system_blocks"])] == [first["system_blocks"][0], 2]
    gone = "\n\n# MCP Server Instructions"
    kept, _, said = first["system_blocks"][1]["text"].partition(gone)
    assert "Ask first." in said
    assert later["system_blocks"][1]["text"].startswith(kept)
    assert gone not in later["system_blocks"][1]["text"]


# A session


def test_a_session_counts_what_it_remembers(service: httpx.Client) -> None:
    body = inline(session_id=session())
    first, later = ask(service, body)["session"], ask(service, body)["session"]
    assert (first["new"], first["section_hits"]) == (True, 0)
    assert first["section_misses"] > 5
    assert later == {
        "id": body["session_id"],
        "new": False,
        "section_hits": first["section_misses"],
        "section_misses": 0,
    }


def test_sections_that_had_nothing_to_say_are_remembered_too(service: httpx.Client) -> None:
    body = inline(session_id=session())
    ask(service, body)
    later = ask(service, body | {"settings": {"language": "Latin", "summarize_tool_results": True}})
    assert later["session"]["section_misses"] == 0
    rows = {row["name"]: (row["origin"], row["present"]) for row in later["sections"]}
    assert rows["language"] == rows["summarize_tool_results"] == ("remembered", False)


def test_without_a_session_nothing_is_kept(service: httpx.Client) -> None:
    for text in ("One.", "Two."):
        body = ask(service, inline({f"{CWD}/CLAUDE.md": text}))
        assert text in body["user_context"]["text"]
        assert body["session"] == {
            "id": None, "new": True, "section_hits": 0, "section_misses": body["session"]["section_misses"]
        }  # fmt: skip


def test_sessions_do_not_mix(service: httpx.Client) -> None:
    one, two = session(), session()
    ask(service, inline({f"{CWD}/CLAUDE.md": "One."}, session_id=one))
    ask(service, inline({f"{CWD}/CLAUDE.md": "Two."}, session_id=two))
    assert "One." in ask(service, inline(session_id=one))["user_context"]["text"]
    assert "Two." in ask(service, inline(session_id=two))["user_context"]["text"]


@pytest.mark.parametrize(
    "moved", [{"cwd": "/home/dev/q"}, {"home": "/home/ada"}, {"config_dir": "/home/dev/other"}, {"home": None}]
)
def test_another_workspace_under_the_same_name_starts_again_with_a_warning(
    moved: dict[str, Any], service: httpx.Client
) -> None:
    name = session()
    ask(service, inline({f"{CWD}/CLAUDE.md": "One."}, session_id=name))
    later = ask(service, inline({"/home/dev/CLAUDE.md": "Other."}, workspace=moved, session_id=name))
    assert later["session"]["new"] is True
    assert later["session"]["section_hits"] == 0
    assert "One." not in later["user_context"]["text"]
    (warning,) = (one for one in later["warnings"] if one["code"] == "session_workspace_changed")
    assert warning["where"] == "session_id"
    again = ask(service, inline(workspace=moved, session_id=name))
    assert again["session"]["new"] is False
    assert "Other." in again["user_context"]["text"]


@pytest.mark.parametrize(("freshness", "seen"), [("session", "One."), ("validate", "Two."), ("reload", "Two.")])
def test_memory_is_read_again_when_that_is_asked_for(freshness: str, seen: str, service: httpx.Client) -> None:
    name = session()
    ask(service, inline({f"{CWD}/CLAUDE.md": "One."}, session_id=name))
    later = ask(service, inline({f"{CWD}/CLAUDE.md": "Two."}, session_id=name, freshness=freshness))
    assert seen in later["user_context"]["text"]
    assert later["session"]["section_misses"] == 0
    after = ask(service, inline({f"{CWD}/CLAUDE.md": "Three."}, session_id=name))
    assert seen in after["user_context"]["text"]


def test_a_file_on_disk_is_read_again_when_that_is_asked_for(service: httpx.Client, tmp_path: Path) -> None:
    name = session()
    for freshness, text, seen in (
        ("session", "One.", "One."),
        ("session", "Two.", "One."),
        ("validate", "Three.", "Three."),
        ("session", "Four.", "Three."),
    ):
        (tmp_path / "CLAUDE.md").write_text(text)
        body = ask(service, local(tmp_path, session_id=name, freshness=freshness))
        assert [file["content"] for file in body["memory"]["files"]] == [seen]


# The day


def test_another_day_is_a_late_message_and_the_first_one_keeps_its_bytes(service: httpx.Client) -> None:
    name = session()
    talk: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    first = ask(service, inline(session_id=name, messages=talk))
    talk += [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Go on"}]
    second = ask(service, inline(session_id=name, messages=talk, date="2026-12-01"))
    talk += [{"role": "assistant", "content": "Done"}, {"role": "user", "content": "Thanks"}]
    third = ask(service, inline(session_id=name, messages=talk, date="2026-12-01"))
    fourth = ask(service, inline(session_id=name, messages=talk, date="2026-12-02"))

    assert [body["user_context"]["entries"]["currentDate"] for body in (first, second, third, fourth)] == [
        f"Today's date is {DATE}."
    ] * 4
    told = [[text for text in texts(body) if "The day has changed" in text] for body in (first, second, third, fourth)]
    assert [len(one) for one in told] == [0, 1, 1, 2]
    assert "2026-12-01" in told[1][0]
    assert "2026-12-02" in told[3][1]
    for earlier, later in pairwise((first, second, third, fourth)):
        assert extends(later, earlier)
    assert {"date_change"} <= {part["part"] for part in third["tokens"]["parts"]}


def texts(body: dict[str, Any]) -> list[str]:
    return [block["text"] for _, blocks in bare(body["request"]["messages"]) for block in blocks if "text" in block]


def extends(later: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Whether the earlier request is the beginning of the later one, markers aside."""
    first, more = bare(earlier["request"]["messages"]), bare(later["request"]["messages"])
    same = all(earlier["request"].get(part) == later["request"].get(part) for part in ("system", "tools"))
    return same and more[: len(first)] == first


# Attachments


NESTED = {
    f"{CWD}/CLAUDE.md": "Top.",
    f"{CWD}/src/CLAUDE.md": "Nested.",
    f"{CWD}/lib/CLAUDE.md": "Library.",
    f"{CWD}/.claude/rules/ts.md": "---\npaths: '*.ts'\n---\nTypes.",
}


def reading(path: str, number: int) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": path}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "text"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def attached(body: dict[str, Any]) -> list[str]:
    return [file["content"] for file in body["memory"]["attachments"]]


def test_attachments_come_once_and_stay_at_their_place_while_the_conversation_grows(service: httpx.Client) -> None:
    name = session()
    talk: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]
    bodies = []
    for number, (path, brought) in enumerate(
        [
            (f"{CWD}/src/a.ts", ["Nested.", "Types."]),
            (f"{CWD}/src/b.ts", []),
            (f"{CWD}/lib/c.py", ["Library."]),
            (f"{CWD}/src/a.ts", []),
        ]
    ):
        talk += reading(path, number)
        body = ask(service, inline(NESTED, session_id=name, messages=talk, touched=[{"path": path}]))
        assert attached(body) == brought
        bodies.append(body)
        talk += [{"role": "assistant", "content": f"Answer {number}"}, {"role": "user", "content": "Next"}]
        bodies.append(ask(service, inline(NESTED, session_id=name, messages=talk)))
    for earlier, later in pairwise(bodies):
        assert extends(later, earlier)
    for text in ("Nested.", "Types.", "Library."):
        assert sum(f"\n\n{text}\n</system-reminder>" in one for one in texts(bodies[-1])) == 1
    parts = [part["part"] for part in bodies[-1]["tokens"]["parts"]]
    assert len([part for part in parts if part.startswith("attachment:")]) == 3


def test_without_a_session_attachments_come_every_time(service: httpx.Client) -> None:
    body = inline(NESTED, touched=[{"path": f"{CWD}/src/a.ts"}])
    assert attached(ask(service, body)) == attached(ask(service, body)) == ["Nested.", "Types."]


def test_a_conversation_taken_back_loses_what_stood_behind_that_place_and_it_can_arrive_again(
    service: httpx.Client,
) -> None:
    name = session()
    talk = [{"role": "user", "content": "Hello"}, *reading("src/a.ts", 1)]
    ask(service, inline(NESTED, session_id=name, messages=talk, touched=[{"path": "src/a.ts"}]))
    short = ask(service, inline(NESTED, session_id=name, messages=[{"role": "user", "content": "Again"}]))
    assert not [text for text in texts(short) if "Nested." in text]
    assert "already_attached" not in {row["reason"] for row in short["memory"]["report"]}
    again = ask(service, inline(NESTED, session_id=name, messages=talk, touched=[{"path": "src/a.ts"}]))
    assert [text for text in texts(again) if "Nested." in text]


def test_a_request_without_messages_takes_nothing_back(service: httpx.Client) -> None:
    name = session()
    talk = [{"role": "user", "content": "Hello"}, *reading("src/a.ts", 1)]
    ask(service, inline(NESTED, session_id=name, messages=talk, touched=[{"path": "src/a.ts"}]))
    poll = ask(service, inline(NESTED, session_id=name))
    assert [text for text in texts(poll) if "Nested." in text]


def test_what_arrived_earlier_in_the_session_has_a_row_that_says_so(service: httpx.Client) -> None:
    name = session()
    talk = [{"role": "user", "content": "Hello"}, *reading("src/a.ts", 1)]
    for _ in range(2):
        body = ask(service, inline(NESTED, session_id=name, messages=talk, touched=[{"path": "src/a.ts"}]))
    assert body["memory"]["attachments"] == []
    told = {row["path"] for row in body["memory"]["report"] if row["reason"] == "already_attached"}
    assert f"{CWD}/src/CLAUDE.md" in told


def test_another_model_in_a_session_is_named_in_the_prompt(service: httpx.Client) -> None:
    name = session()
    first = ask(service, inline(NESTED, session_id=name, model="sonnet"))
    second = ask(service, inline(NESTED, session_id=name, model="haiku"))
    assert "claude-sonnet-5-5." in json.dumps(first["request"]["system"])
    assert "The exact model ID is claude-haiku-5-5." in json.dumps(second["request"]["system"])
    assert "The exact model ID is claude-sonnet-5-5." not in json.dumps(second["request"]["system"])


def test_files_that_differ_from_those_of_the_session_are_told_until_memory_is_read_again(service: httpx.Client) -> None:
    name = session()

    def codes(text: str, **more: Any) -> list[str]:
        body = ask(service, inline({f"{CWD}/CLAUDE.md": text}, session_id=name, **more))
        return [warning["code"] for warning in body["warnings"]]

    assert [codes("one"), codes("one"), codes("two")] == [[], [], ["session_memory_kept"]]
    assert codes("two", freshness="validate") == []
    assert codes("two") == []


# Many turns at once


def test_16_turns_of_one_new_session_at_once_get_one_prompt_and_one_memory(service_url: str) -> None:
    name = session()

    def one(number: int) -> dict[str, Any]:
        git = {"toplevel": CWD, "branch": f"b{number}", "status": f"?? {number}", "log": [f"{number} c"]}
        files = {f"{CWD}/CLAUDE.md": f"State {number}.", f"{CWD}/src/CLAUDE.md": f"Nested {number}."}
        body = inline(files, workspace={"git": git}, session_id=name, touched=[{"path": "src/a"}], settings={
            "language": f"Language {number}"
        })  # fmt: skip
        with httpx.Client(base_url=service_url, trust_env=False, timeout=60) as client:
            return ask(client, body)

    with ThreadPoolExecutor(16) as pool:
        bodies = list(pool.map(one, range(16)))
    for part in ("system", "messages"):
        assert len({json.dumps(body["request"][part], sort_keys=True) for body in bodies}) == 1
    assert len({json.dumps(body["memory"]["files"]) for body in bodies}) == 1
    assert len([body for body in bodies if body["session"]["new"]]) == 1
    assert len([body for body in bodies if attached(body)]) == 1
    again = one(99)
    assert again["request"]["system"] == bodies[0]["request"]["system"]
    assert again["request"]["messages"] == bodies[0]["request"]["messages"]


def test_sessions_beyond_the_limit_are_forgotten_oldest_first() -> None:
    with (
        serve(create_app(Settings(roots=(), max_sessions=2))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        for name in ("a", "b", "a", "c"):
            ask(client, inline(session_id=name))
        assert [ask(client, inline(session_id=name))["session"]["new"] for name in ("a", "c", "b")] == [
            False,
            False,
            True,
        ]


# Layers


@dataclass
class Watched:
    """An inline workspace that tells in which order it is asked."""

    inner: InlineWorkspace
    paths: Paths = field(default_factory=Paths)
    told: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def look(self, path: str) -> Node:
        if path.endswith("CLAUDE.local.md"):
            self.told.append("memory read")
        return self.inner.look(path)

    @contextmanager
    def asking_git(self, cwd: str) -> Iterator[Callable[[], GitFacts | None]]:
        self.told.append("git begun")
        try:
            yield partial(self.answer, cwd)
        finally:
            self.told.append("git left")

    def answer(self, cwd: str) -> GitFacts | None:
        self.told.append("git awaited")
        return self.inner.git(cwd)


@pytest.fixture(scope="module")
def known() -> Known:
    return build_contexts(Settings(roots=())).known


def request() -> Request:
    return Request(client=Client(cwd=CWD, platform="linux"), model="claude-sonnet-4-5", date=DATE)


def workspace(files: dict[str, InlineFile]) -> InlineWorkspace:
    return InlineWorkspace(files, GitFacts(branch="main"), Paths(), 1000)


def test_git_works_while_memory_is_read(known: Known) -> None:
    watched = Watched(workspace({f"{CWD}/CLAUDE.md": Text("Use tabs.")}))
    facts = asyncio.run(gather(watched, request(), known, Wanted()))
    assert list(dict.fromkeys(watched.told)) == ["git begun", "memory read", "git awaited", "git left"]
    assert [file.content for file in facts.memory.files] == ["Use tabs."]
    assert facts.git == GitFacts(branch="main")


def test_git_that_nobody_needs_is_not_asked(known: Known) -> None:
    watched = Watched(workspace({}))
    asyncio.run(gather(watched, request(), known, Wanted(git=False)))
    assert set(watched.told) == {"memory read"}


class Failing(Watched):
    """Git cannot answer."""

    def answer(self, cwd: str) -> GitFacts | None:
        raise GitUnavailable("git did not answer.")


def test_git_that_cannot_answer_is_a_problem_and_is_left(known: Known) -> None:
    failing = Failing(workspace({}))
    with pytest.raises(GitUnavailable, match="git did not answer"):
        asyncio.run(gather(failing, request(), known, Wanted()))
    assert failing.told[-1] == "git left"


def test_git_is_left_when_the_rest_takes_too_long(known: Known) -> None:
    watched, late = Watched(workspace({})), replace(known, request_seconds=1.0, clock=iter(range(0, 99, 9)).__next__)
    with pytest.raises(TookTooLong):
        asyncio.run(gather(watched, request(), late, Wanted()))
    assert watched.told == ["git begun", "git left"]


@pytest.mark.parametrize(("asked", "shown"), [(None, False), (True, True), (False, False)])
def test_what_the_request_says_of_git_goes_before_the_settings_file(
    asked: bool | None, shown: bool, service: httpx.Client
) -> None:
    files = {f"{CWD}/.claude/settings.json": '{"includeGitInstructions": false, "language": "Latin"}'}
    workspace = {"git": {"toplevel": CWD, "branch": "main", "status": ""}}
    body = ask(service, inline(files, workspace=workspace, settings={"include_git_instructions": asked}))
    assert ("Current branch: main" in body["system_blocks"][-1]["text"]) is shown
    assert "Latin" in body["system_blocks"][-1]["text"]


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[httpx.Client]:
    (tmp_path / "in" / "p").mkdir(parents=True)
    (tmp_path / "CLAUDE.md").write_text("Outside.")
    (tmp_path / "in" / "CLAUDE.md").write_text("Inside.")
    with (
        serve(create_app(Settings(roots=(tmp_path / "in",)))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


def test_what_lies_above_the_roots_is_reported_and_not_read(walled: httpx.Client, tmp_path: Path) -> None:
    memory = ask(walled, local(tmp_path / "in" / "p"))["memory"]
    assert [file["content"] for file in memory["files"]] == ["Inside."]
    rows = {row["path"]: row["reason"] for row in memory["report"]}
    assert rows[f"{tmp_path}/CLAUDE.md"] == "outside_fence"
    assert rows[f"{tmp_path}/CLAUDE.local.md"] == "outside_fence"


@dataclass(frozen=True)
class Counting(GitProgram):
    """The git program, which says each time a snapshot is taken."""

    taken: list[str] = field(default_factory=list)

    def asking(self, shown: Shown, cwd: str, *more: Any) -> AbstractContextManager[Callable[[], GitFacts]]:
        self.taken.append(cwd)
        return super().asking(shown, cwd, *more)


@pytest.mark.parametrize(
    ("prompt", "session_id", "snapshots"),
    [({}, "s", 1), ({}, None, 2), ({"custom": "Mine."}, "s", 0), ({"simple": True}, None, 0)],
)
def test_a_snapshot_of_git_is_taken_once_in_a_session_and_only_where_it_is_shown(
    prompt: dict[str, Any], session_id: str | None, snapshots: int, tmp_path: Path
) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    first_commit(tmp_path)
    settings = Settings(roots=(tmp_path,))
    built = build_contexts(settings)
    program = Counting()
    contexts = replace(built, ground=replace(built.ground, program=program))
    with serve(build_app(settings, contexts)) as address, httpx.Client(base_url=address, trust_env=False) as client:
        for _ in range(2):
            ask(client, local(tmp_path, session_id=session_id, system_prompt=prompt))
    assert program.taken == [str(tmp_path)] * snapshots


# Compaction, and time


def test_a_compaction_in_the_conversation_reads_memory_again_and_lets_attachments_come_again(
    service: httpx.Client,
) -> None:
    name = session()
    talk = [{"role": "user", "content": "Hello"}, *reading("src/a.ts", 1)]
    ask(service, inline(NESTED, session_id=name, messages=talk, touched=[{"path": "src/a.ts"}]))
    changed = {**NESTED, f"{CWD}/CLAUDE.md": "Changed."}
    summary = {"role": "user", "content": "Summary.", "meta": {"compact_boundary": True}}
    after = ask(service, inline(changed, session_id=name, messages=[summary]))
    assert [text for text in texts(after) if "Changed." in text]
    assert not [text for text in texts(after) if "Nested." in text]
    talk = [summary, *reading("src/a.ts", 2)]
    again = ask(service, inline(changed, session_id=name, messages=talk, touched=[{"path": "src/a.ts"}]))
    assert [text for text in texts(again) if "Nested." in text]


def test_a_workspace_that_takes_too_long_to_read_is_a_problem_that_says_so(tmp_path: Path) -> None:
    with (
        serve(create_app(Settings(roots=(tmp_path,), request_seconds=1e-9))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        answer = client.post("/v1/context", json=inline({f"{CWD}/CLAUDE.md": "x"}))
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:strata:problem:took-too-long"
    assert "STRATA_REQUEST_SECONDS" in answer.json()["detail"]


def test_memory_is_read_again_when_the_caller_asks_otherwise(service: httpx.Client) -> None:
    name = session()
    files = {f"{CWD}/CLAUDE.md": "See @/home/dev/notes.md", "/home/dev/notes.md": "Notes."}
    before = ask(service, inline(files, session_id=name))
    agreed = ask(service, inline(files, session_id=name, memory={"allow_external_includes": True}))
    after = ask(service, inline(files, session_id=name, memory={"allow_external_includes": True}))
    loaded = [[file["path"] for file in body["memory"]["files"]] for body in (before, agreed, after)]
    both = [f"{CWD}/CLAUDE.md", "/home/dev/notes.md"]
    assert loaded == [[f"{CWD}/CLAUDE.md"], both, both]


@pytest.mark.parametrize(
    ("provider", "spelling", "told"),
    [
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0[1m]", False),
        ("vertex", "claude-sonnet-4-5@20250929 [1M]", False),
        ("custom", " llama-7[1m]", False),
        ("foundry", "claude-opus-4-6", False),
        ("bedrock", "opus", True),
        ("vertex", "Opus[1m]", True),
        ("anthropic", "opus[1m]", False),
    ],
)
def test_only_an_alias_is_told_to_other_providers(
    provider: str, spelling: str, told: bool, service: httpx.Client
) -> None:
    body = ask(service, inline(provider=provider, model=spelling))
    places = [warning["where"] for warning in body["warnings"] if warning["code"] == "alias_for_provider"]
    assert places == (["model"] if told else [])
