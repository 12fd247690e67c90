"""Sessions over HTTP: what one holds, how it is emptied and ends, and what a turn that runs meanwhile finds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.building import build_contexts, compactions
from app.context import Contexts
from app.core.footprint import Footprint
from app.core.remembered import Remembered
from app.errors import CompactingAlready, SessionNotFound
from app.main import create_app
from app.metrics import Metrics
from app.session_routes import AsSent
from app.session_states import SessionStates
from app.settings import Settings
from app.wire.compactions import CompactionAsk
from app.wire.requests import Ask, Server, parse_context_request, to_ask
from app.wire.sessions import ClearAnswer, HeldSession
from tests.asking import CWD, ask, inline, local, refused
from tests.compacting import KEY, report
from tests.passing import Passing
from tests.serving import serve
from tests.standin.server import Hold, StandIn

TOUCHED = [{"path": "src/a.py"}]
SKILL = {"name": "Skill", "input_schema": {"type": "object"}}
NESTED = "Nested rule."
TALK = [
    {"role": "user", "content": "Add a discount. " * 300},
    {"role": "assistant", "content": "Done. " * 300},
    {"role": "user", "content": "And a test."},
]
REASONS = ["clear", "compact"]


def at(session: str, *rest: str) -> str:
    return "/".join(["/v1/sessions", quote(session, safe=""), *rest])


def told(client: httpx.Client, session: str) -> dict[str, Any]:
    """What the session holds, as the contract has it."""
    response = client.get(at(session))
    assert response.status_code == 200, response.text
    HeldSession.model_validate_json(response.content)
    found: dict[str, Any] = response.json()
    return found


def emptied(client: httpx.Client, session: str, reason: str) -> dict[str, Any]:
    response = client.post(at(session, "clear"), json={"reason": reason})
    assert response.status_code == 200, response.text
    ClearAnswer.model_validate_json(response.content)
    found: dict[str, Any] = response.json()
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with everything that a session keeps."""
    project = (tmp_path / "p").resolve()
    (project / "src").mkdir(parents=True)
    (project / "src" / "CLAUDE.md").write_text(NESTED)
    written(project, "old")
    return project


def written(project: Path, age: str) -> None:
    """The project's files, all of one age."""
    files = {
        "CLAUDE.md": f"Rule of {age}.",
        ".claude/settings.json": json.dumps({"language": f"Language-{age}", "outputStyle": "poet"}),
        ".claude/output-styles/poet.md": f"---\nname: poet\n---\nVerse of {age}.",
        ".claude/skills/deploy/SKILL.md": f"---\ndescription: Ships {age}.\n---\n",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


def turn(client: httpx.Client, project: Path, session: str, **more: Any) -> dict[str, Any]:
    given = {"messages": TALK, "tools": [SKILL], "touched": TOUCHED, "session_id": session}
    return ask(client, local(project, **(given | more)))


def ages(body: dict[str, Any]) -> list[bool]:
    """Of each of the project's texts, whether the request has it as of now rather than as it was."""
    request = json.dumps(body["request"])
    pairs = ("Rule of {}.", "Language-{}", "Verse of {}.", "Ships {}.")
    found = [[pair.format(age) in request for age in ("old", "new")] for pair in pairs]
    assert all(old != new for old, new in found), found
    return [new for _, new in found]


# Looking


def test_a_session_tells_what_it_holds_and_no_text(service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    turn(service, folder, session)
    turn(service, folder, session, date="2026-12-01")
    found = told(service, session)
    assert (found["id"], found["version"] > 0, found["date"]) == (session, True, "2026-11-30")
    assert (found["model"], found["layout"], found["boundary"]) == ("claude-sonnet-4-5", "classic", False)
    assert [(file["path"], file["type"]) for file in found["memory"]["files"]] == [
        (str(folder / "CLAUDE.md"), "Project")
    ]
    assert found["delivered"] == [str(folder / "src" / "CLAUDE.md")]
    assert [one["part"] for one in found["late"]] == [f"attachment:{folder / 'src' / 'CLAUDE.md'}", "date_change"]
    assert {row["name"]: row["present"] for row in found["sections"]}["language"]
    assert found["breaker"] == {"state": "closed", "consecutive_failures": 0, "since": None}
    last = found["last_request"]
    assert (last["model"], last["messages"], last["hit"]) == ("claude-sonnet-4-5", 3, True)
    assert last["tokens"] > 1_000
    assert last["at"].endswith("+00:00")
    for text in ("Rule of", "Language-", "Verse of", "Ships", NESTED, "Add a discount"):
        assert text not in json.dumps(found)


def test_digests_are_those_of_the_answer(service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    body, found = turn(service, folder, session), told(service, session)
    assert [(one["path"], one["sha256"]) for one in found["memory"]["files"]] == [
        (one["path"], one["sha256"]) for one in body["memory"]["files"]
    ]
    named = {row["name"]: row["sha256"] for row in body["sections"] if row["kind"] == "cached"}
    assert {row["name"]: row["sha256"] for row in found["sections"]} == named


def test_a_look_changes_nothing(service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, inline(session_id=session))
    assert told(service, session) == told(service, session)


def test_since_when_the_breaker_is_open_is_told(service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, inline(session_id=session))
    for _ in range(3):
        report(service, session, "failed")
    breaker = told(service, session)["breaker"]
    assert (breaker["state"], breaker["consecutive_failures"]) == ("open", 3)
    assert breaker["since"].endswith("+00:00")


# Emptying


@pytest.mark.parametrize("reason", REASONS)
def test_an_emptied_session_reads_everything_again(reason: str, service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    assert ages(turn(service, folder, session)) == [False] * 4
    turn(service, folder, session, date="2026-12-01")
    written(folder, "new")
    kept = turn(service, folder, session, date="2026-12-01")
    assert (ages(kept), kept["memory"]["attachments"]) == ([False] * 4, [])
    assert "2026-11-30" in kept["user_context"]["text"]

    before = told(service, session)
    answer = emptied(service, session, reason)
    assert answer["emptied"] == {
        "sections": len(before["sections"]),
        "memory_files": 1,
        "attachments": 1,
        "late": 2,
    }

    anew = turn(service, folder, session, date="2026-12-02")
    assert ages(anew) == [True] * 4
    assert [one["content"] for one in anew["memory"]["attachments"]] == [NESTED]
    assert "2026-12-02" in anew["user_context"]["text"]
    assert "2026-11-30" not in json.dumps(anew["request"])
    assert "2026-12-01" not in json.dumps(anew["request"])
    assert anew["session"]["section_hits"] == 0
    assert "section_kept" not in [one["code"] for one in anew["warnings"]]
    assert told(service, session)["date"] == "2026-12-02"


def test_a_cleared_session_has_nothing_to_compare_with(service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    turn(service, folder, session)
    assert emptied(service, session, "clear")["stays"]["last_request"] is False
    assert told(service, session)["last_request"] is None
    previous = turn(service, folder, session)["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == (None, None)


def test_a_compacted_one_is_compared_with_its_last_request(service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    turn(service, folder, session, touched=[])
    assert emptied(service, session, "compact")["stays"]["last_request"] is True
    summary = [{"role": "user", "content": "A summary."}]
    previous = turn(service, folder, session, messages=summary, touched=[])["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == (False, "messages_rewritten")


def test_after_a_compaction_changed_memory_is_named_as_the_cause(service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    turn(service, folder, session, touched=[])
    (folder / "CLAUDE.md").write_text("Another rule.")
    emptied(service, session, "compact")
    previous = turn(service, folder, session, touched=[])["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == (False, "memory_changed")


@pytest.mark.parametrize("reason", REASONS)
def test_the_breaker_and_what_usage_taught_stay(reason: str, service: httpx.Client) -> None:
    session = uuid4().hex
    estimated = {"session_id": session, "tokens": {"method": "estimate"}}
    ask(service, inline(**estimated, messages=TALK[:1]))
    usage = {"input_tokens": 9_000, "output_tokens": 10}
    ask(service, inline(**estimated, messages=[TALK[0], TALK[1] | {"usage": usage}, TALK[2]]))
    report(service, session, "failed")
    before = told(service, session)
    assert before["calibrations"][0]["samples"] == 1
    stays = emptied(service, session, reason)["stays"]
    assert stays["breaker"] == {"state": "closed", "consecutive_failures": 1}
    assert stays["calibrations"] == 1
    body = ask(service, inline(**estimated, messages=TALK[:1]))
    assert body["tokens"]["calibration"] == before["calibrations"][0]["factor"]
    assert body["compaction"]["breaker"]["consecutive_failures"] == 1


@pytest.mark.parametrize("reason", REASONS)
def test_emptying_twice_empties_nothing_more(reason: str, service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    turn(service, folder, session)
    emptied(service, session, reason)
    before = told(service, session)
    again = emptied(service, session, reason)
    assert set(again["emptied"].values()) == {0}
    assert told(service, session) == before


def test_an_attachment_that_was_given_by_itself_can_come_again(service: httpx.Client) -> None:
    body = inline({f"{CWD}/src/CLAUDE.md": NESTED})
    asked = {"workspace": body["workspace"], "touched": TOUCHED, "session_id": uuid4().hex}
    counts = []
    for reason in (None, None, "clear", "compact"):
        if reason:
            emptied(service, asked["session_id"], reason)
        counts.append(len(service.post("/v1/attachments", json=asked).json()["attachments"]))
    assert counts == [1, 0, 1, 1]


# Ending


def test_a_deleted_session_is_gone_and_its_name_begins_a_new_one(service: httpx.Client, folder: Path) -> None:
    session = uuid4().hex
    turn(service, folder, session)
    written(folder, "new")
    response = service.delete(at(session))
    assert (response.status_code, response.content) == (204, b"")
    assert "was deleted" in refused(service.delete(at(session)), 404, "session-not-found")["detail"]
    refused(service.get(at(session)), 404, "session-not-found")
    body = turn(service, folder, session)
    assert (body["session"]["new"], ages(body)) == (True, [True] * 4)
    assert told(service, session)["version"] > 0


# Names, bodies and keys

NAMES = ["a/b", "a/clear", "a/context", "a b?c#d", "ü\n%2F", "..a//", "/", "x" * 128]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_may_hold_any_character(name: str, service: httpx.Client) -> None:
    ask(service, inline(session_id=name))
    assert told(service, name)["id"] == name
    assert emptied(service, name, "compact")["reason"] == "compact"
    assert service.delete(at(name)).status_code == 204


def test_a_slash_that_is_not_encoded_is_no_part_of_a_name(service: httpx.Client) -> None:
    ask(service, inline(session_id="c/d"))
    ask(service, inline(session_id="c"))
    before = told(service, "c")["version"]
    refused(service.get("/v1/sessions/c/d"), 404, "not-found")
    refused(service.get("/v1/sessions/"), 404, "not-found")
    refused(service.post("/v1/sessions/c%2Fclear", json={"reason": "clear"}), 405, "method-not-allowed")
    assert told(service, "c")["version"] == before


def test_without_the_path_as_it_was_sent_the_decoded_one_counts() -> None:
    def nothing(session_id: str) -> str:
        return session_id

    route = AsSent("/v1/sessions/{session_id}", nothing)
    scope = {"type": "http", "method": "GET", "path": "/v1/sessions/a b%"}
    assert route.matches(scope)[1]["path_params"] == {"session_id": "a b%"}


CALLS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("POST", "/clear", {"reason": "clear"}),
    ("POST", "/clear", {"reason": "compact"}),
]


@pytest.mark.parametrize(("method", "rest", "body"), CALLS)
def test_a_session_that_is_not_there_is_a_problem(method: str, rest: str, body: Any, service: httpx.Client) -> None:
    response = service.request(method, f"/v1/sessions/nobody{rest}", json=body)
    assert "begins a new one" in refused(response, 404, "session-not-found")["detail"]


@pytest.mark.parametrize(("method", "rest", "body"), CALLS)
def test_a_name_that_no_session_can_have_is_refused(method: str, rest: str, body: Any, service: httpx.Client) -> None:
    response = service.request(method, f"/v1/sessions/{'x' * 129}{rest}", json=body)
    assert "128 characters" in refused(response, 422, "invalid-request")["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({}, "/reason"), ({"reason": "end"}, "/reason"), ({"reason": "clear", "all": True}, "/all"), ([], "")],
)
def test_a_body_that_says_something_else_is_refused(body: Any, pointer: str, service: httpx.Client) -> None:
    ask(service, inline(session_id="kept"))
    before = told(service, "kept")
    refused(service.post(at("kept", "clear"), json=body), 422, "invalid-request", pointer)
    assert told(service, "kept") == before


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json"}])
def test_a_missing_body_is_refused(headers: dict[str, str], service: httpx.Client) -> None:
    problem = refused(service.post(at("x", "clear"), headers=headers), 422, "invalid-request")
    assert '{"reason": "clear"}' in problem["detail"]


def test_what_is_not_json_is_refused(service: httpx.Client) -> None:
    as_json = {"content-type": "application/json"}
    refused(service.post(at("x", "clear"), content=b"{", headers=as_json), 400, "not-json")
    refused(service.post(at("x", "clear"), content=b"{}"), 415, "unsupported-media-type")


@pytest.fixture(scope="module")
def locked() -> Iterator[httpx.Client]:
    with (
        serve(create_app(Settings(roots=(), api_keys=("k",)))) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize(("method", "rest", "body"), CALLS)
def test_without_a_key_nobody_looks_at_a_session_or_ends_it(
    method: str, rest: str, body: Any, locked: httpx.Client
) -> None:
    key = {"x-api-key": "k"}
    locked.post("/v1/context", json=inline(session_id="s"), headers=key)
    refused(locked.request(method, f"/v1/sessions/s{rest}", json=body), 401, "key-missing")
    assert locked.request(method, f"/v1/sessions/s{rest}", json=body, headers=key).is_success


# At the same time


def test_turns_and_clears_at_once_leave_nothing_half_done(service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, inline(session_id=session))

    def one(number: int) -> None:
        files = {f"{CWD}/CLAUDE.md": f"Rule {number}.", f"{CWD}/src/CLAUDE.md": NESTED}
        body = ask(service, inline(files, session_id=session, messages=TALK, touched=TOUCHED))
        assert len(body["memory"]["files"]) <= 1

    def other(number: int) -> None:
        emptied(service, session, REASONS[number % 2])

    def look(_: int) -> None:
        found = told(service, session)
        held = [found["date"], found["model"], found["layout"], found["sections"]]
        assert all(held) or not any([*held, found["memory"]["count"], found["delivered"], found["late"]])

    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(work, number) for number, work in product(range(16), (one, other, look))]
        for call in calls:
            call.result()
    emptied(service, session, "clear")
    last = ask(service, inline({f"{CWD}/CLAUDE.md": "The last rule."}, session_id=session))
    assert [file["content"] for file in last["memory"]["files"]] == ["The last rule."]
    assert last["cache"]["previous"]["hit"] is None


@dataclass
class Overtaken(Passing):
    """A store in which something happens right before the first write of a turn."""

    meanwhile: Callable[[], Coroutine[Any, Any, Any]] | None = None

    async def save(self, key: str, remembered: Remembered, version: int) -> int:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            await meanwhile()
        return await self.store.save(key, remembered, version)


def overtaken() -> tuple[Contexts, SessionStates, Overtaken]:
    contexts = build_contexts(Settings(roots=()))
    store = Overtaken(contexts.sessions.store)
    contexts = replace(contexts, sessions=replace(contexts.sessions, store=store))
    return contexts, SessionStates(contexts.sessions, contexts.known), store


def asked(rule: str, **more: Any) -> Ask:
    body = inline({f"{CWD}/CLAUDE.md": rule, f"{CWD}/src/CLAUDE.md": NESTED}, session_id="s", messages=TALK, **more)
    return to_ask(parse_context_request(json.dumps(body).encode()), Server("linux", None, "2026-11-30"), ())


@pytest.mark.parametrize("end", [*REASONS, "delete"])
def test_a_turn_that_was_overtaken_is_assembled_again_as_a_first_one(end: Any) -> None:
    async def raced() -> None:
        contexts, states, store = overtaken()
        await contexts.answer(asked("Old.", touched=TOUCHED))

        async def meanwhile() -> None:
            await (states.forget("s") if end == "delete" else states.empty("s", end))

        store.meanwhile = meanwhile
        answer = await contexts.answer(asked("New.", touched=TOUCHED))
        facts = answer.assembly.facts
        assert [file.content for file in facts.memory.files] == ["New."]
        assert [file.content for file in facts.attached.files] == [NESTED]
        assert (answer.session.section_hits, answer.session.new) == (0, end == "delete")
        kept = replace(answer.assembly.remember, footprint=Footprint())
        assert (await contexts.sessions.load("s")).remembered == kept
        await contexts.close()

    asyncio.run(raced())


@pytest.mark.parametrize("reason", REASONS)
def test_emptying_that_was_overtaken_empties_what_the_turn_wrote(reason: Any) -> None:
    async def raced() -> None:
        contexts, states, store = overtaken()
        await contexts.answer(asked("Rule."))
        store.meanwhile = lambda: contexts.answer(asked("Rule.", touched=TOUCHED))
        done = await states.empty("s", reason)
        assert [one.part for one in done.before.late] == [f"attachment:{CWD}/src/CLAUDE.md"]
        held = await contexts.sessions.load("s")
        assert (held.version, held.remembered) == (3, done.before.emptied(reason))
        await contexts.close()

    asyncio.run(raced())


def test_a_session_that_ends_while_it_is_emptied_is_a_problem() -> None:
    async def raced() -> None:
        contexts, states, store = overtaken()
        await contexts.answer(asked("Rule."))
        store.meanwhile = lambda: states.forget("s")
        with pytest.raises(SessionNotFound):
            await states.empty("s", "clear")
        assert await contexts.sessions.peek("s") is None
        await contexts.close()

    asyncio.run(raced())


@pytest.mark.parametrize("reason", REASONS)
def test_a_compaction_of_the_conversation_that_was_left_keeps_nothing(
    reason: Any, upstream: StandIn, upstream_url: str
) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))

    async def raced() -> None:
        contexts = build_contexts(Settings(roots=(), upstream_url=upstream_url, anthropic_api_key=KEY))
        states = SessionStates(contexts.sessions, contexts.known)
        running = compactions(contexts, Metrics(CollectorRegistry()))
        run = asyncio.create_task(running.run(CompactionAsk(asked("Rule."), "manual")))
        await asyncio.to_thread(upstream.asked.wait)
        after = (await states.empty("s", reason)).after
        released.set()
        with pytest.raises(CompactingAlready):
            await run
        assert await contexts.sessions.peek("s") == after
        await contexts.close()

    asyncio.run(raced())


def test_what_was_emptied_does_not_warn_of_other_files(service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, inline({f"{CWD}/CLAUDE.md": "One."}, session_id=session))
    emptied(service, session, "clear")
    body = ask(service, inline({f"{CWD}/CLAUDE.md": "Two."}, session_id=session))
    assert "Two." in body["user_context"]["text"]
    assert "session_memory_kept" not in [warning["code"] for warning in body["warnings"]]
