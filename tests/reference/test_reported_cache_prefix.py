"""Reported faults of the bytes in front of the conversation: what may stand there, and what may change."""

from __future__ import annotations

from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any
from uuid import uuid4

import anthropic
import httpx
import pytest

from tests.asking import ask, local
from tests.reference.caching import (
    FILES,
    HEADER,
    MODES,
    QUESTION,
    assembled,
    assistant,
    marks,
    read,
    request,
    said,
    send,
    system,
    text,
    told,
    turns,
    user,
    wire,
)
from tests.reference.programs import first_commit, git

OLDER = "claude-sonnet-4-6"
"""Takes no messages of the role system."""
LAYOUTS = ("classic", "late")
HOME = "/home/dev/.claude"
GIT = {"toplevel": "/home/dev/p", "branch": "main", "default_branch": "main", "log": ["af53 start"]}
STATUSES = ("", "?? a.txt", " M src/a.py\n?? new.py", "?? x\n" * 900)
WORDS_OF_GIT = ("gitStatus", "Current branch", "Main branch", "Recent commits", "Status:", "af53 start")


def before_the_conversation(answer: dict[str, Any]) -> str:
    sent = answer["request"]
    return wire([sent.get("tools"), system(answer), sent["messages"][:-1]])


# E05: the state of the repository stands behind what is shared


@pytest.mark.parametrize("mode", MODES)
def test_e05_only_what_is_said_of_git_differs_when_its_status_does(mode: str, service: httpx.Client) -> None:
    prompts = ["\n\n".join(system(assembled(service, with_status(MODES[mode], one)))) for one in STATUSES]
    shared = "".join(
        same[0] for same in takewhile(lambda characters: len(set(characters)) == 1, zip(*prompts, strict=False))
    )
    assert all("gitStatus" not in prompt or "Recent commits" in prompt for prompt in prompts)
    if "gitStatus" in prompts[0]:
        assert "gitStatus" in shared
        assert shared.endswith("Status:\n")
    else:
        assert prompts == [shared] * len(prompts)


def with_status(change: dict[str, Any], status: str, **more: Any) -> dict[str, Any]:
    return request(change, workspace={"git": GIT | {"status": status}}, **more)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_e05_all_up_to_the_last_shared_marker_is_read_when_the_status_differs(
    layout: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    reads, blocks = [], set()
    for status in STATUSES:
        body = with_status({"cache": {"layout": layout}}, status)
        answer = assembled(service, body | {"model": OLDER})
        blocks.add(wire(answer["request"]["system"][0]))
        reads.append(read(send(client, answer)))
    assert len(blocks) == 1
    assert reads[0] == 0 < reads[1] == reads[2] == reads[3]


@pytest.mark.parametrize("asked", ["in the request", "in a settings file"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_e05_without_git_instructions_nothing_is_said_of_its_state(
    mode: str, layout: str, asked: str, service: httpx.Client
) -> None:
    bodies = [with_status(MODES[mode], status, cache={"layout": layout}) for status in STATUSES]
    for body in bodies:
        if asked == "in the request":
            body["settings"] = body.get("settings", {}) | {"include_git_instructions": False}
        else:
            body["workspace"]["files"] = FILES | {f"{HOME}/settings.json": '{"includeGitInstructions": false}'}
    answers = [assembled(service, body) for body in bodies]
    assert len({wire(answer["request"]) for answer in answers}) == 1
    assert [word for word in WORDS_OF_GIT if word in wire(answers[0]["request"])] == []
    assert len({answer["digest"] for answer in answers}) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_e05_within_a_session_a_new_state_is_told_late_and_moves_no_byte_in_front(
    mode: str, layout: str, service: httpx.Client
) -> None:
    session, fronts = uuid4().hex, set()
    for turn, status in enumerate(STATUSES, 1):
        change = {"session_id": session, "messages": turns(turn), "cache": {"layout": layout}}
        answer = assembled(service, with_status(MODES[mode], status, **change))
        fronts.add(wire([system(answer), said(answer)[:2]]))
        late = [words for _, texts in said(answer) for words in texts if "git repository has changed" in words]
        if mode not in {"a custom prompt", "the simple prompt"}:
            assert len(late) == turn - 1
            assert all("Status:" in words for words in late)
        assert answer["cache"]["previous"]["hit"] in (None, True)
    assert len(fronts) == 1


def test_e05_a_real_checkout_that_is_edited_keeps_its_shared_bytes(tmp_path: Path, service: httpx.Client) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    first_commit(tmp_path)
    (tmp_path / "CLAUDE.md").write_text("Use tabs.")
    body = local(tmp_path, memory={"walk_stop": str(tmp_path)}, messages=[QUESTION])
    before = ask(service, body)
    (tmp_path / "new.py").write_text("pass")
    after = ask(service, body)
    assert "?? new.py" in system(after)[-1]
    assert after["request"]["system"][0] == before["request"]["system"][0]
    off = [ask(service, body | {"settings": {"include_git_instructions": False}})]
    (tmp_path / "other.py").write_text("pass")
    off.append(ask(service, body | {"settings": {"include_git_instructions": False}}))
    assert off[0]["digest"] == off[1]["digest"]


# E06: the day changes at midnight


DAYS = ("2026-11-30", "2026-12-01", "2026-12-01", "2026-12-02", "2026-12-31", "2027-01-01")
"""23:59, 00:01, a little later, and so on."""
CHANGES = [0, 1, 1, 2, 3, 4]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_e06_a_new_day_is_told_once_and_moves_no_byte_in_front(
    mode: str, layout: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    session, fronts, held = uuid4().hex, set(), 0
    files = {path: words * 1000 for path, words in FILES.items()}
    for turn, (day, changed) in enumerate(zip(DAYS, CHANGES, strict=True), 1):
        body = request(MODES[mode], session_id=session, date=day, messages=turns(turn), cache={"layout": layout})
        body["workspace"]["files"] = files
        answer = assembled(service, body | {"model": OLDER})
        first = {"tools": answer["request"].get("tools"), "system": system(answer), "first": said(answer)[0]}
        fronts.add(wire(first))
        late = [words for role, texts in said(answer)[1:] for words in texts if "The day has changed" in words]
        assert len(late) == changed
        assert all(day in words for words in late[-1:])
        assert wire(said(answer)[0]).count("Today's date is 2026-11-30.") == 1
        usage = send(client, answer)
        assert read(usage) == held
        held = read(usage) + (usage.cache_creation_input_tokens or 0)
    assert len(fronts) == 1
    assert (held > 0) is (mode != "no cache")


def test_e06_the_word_on_a_new_day_keeps_its_place(service: httpx.Client) -> None:
    session = uuid4().hex
    answers = [
        assembled(service, request(session_id=session, date=day, messages=turns(turn)))
        for turn, day in enumerate(DAYS[:4], 1)
    ]
    for earlier, later in pairwise(answers):
        assert said(later)[: len(said(earlier))] == said(earlier)
        assert later["cache"]["previous"]["hit"] is True


def test_e06_the_word_on_a_new_day_stands_before_an_answer_that_is_to_be_gone_on_with(service: httpx.Client) -> None:
    session = uuid4().hex
    assembled(service, request(session_id=session, date=DAYS[0]))
    begun = [QUESTION, assistant(text("It holds"))]
    answer = assembled(service, request(session_id=session, date=DAYS[1], messages=begun))
    assert [role for role, _ in said(answer)] == ["user", "user", "user", "assistant"]
    assert "The day has changed" in said(answer)[2][1][0]


def test_e06_another_session_begins_with_the_day_it_is(service: httpx.Client) -> None:
    for day in DAYS:
        answer = assembled(service, request(session_id=uuid4().hex, date=day))
        assert answer["user_context"]["entries"]["currentDate"] == f"Today's date is {day}."
        assert "The day has changed" not in wire(answer["request"])


# E07: nothing of one request in front of the first marker


@pytest.mark.parametrize("header", [None, HEADER])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "the simple prompt"])
def test_e07_nothing_per_request_stands_in_tools_and_system(
    mode: str, layout: str, header: str | None, service: httpx.Client
) -> None:
    answers = [
        assembled(
            service,
            request(
                MODES[mode],
                {"system_prompt": {"attribution_header": header}, "cache": {"layout": layout}},
                session_id=uuid4().hex,
                date=day,
                messages=[user(text(f"Question of {day}."))],
            ),
            **{"x-request-id": uuid4().hex},
        )
        for day in DAYS
    ]
    assert len({wire([one["request"].get("tools"), one["request"]["system"]]) for one in answers}) == 1
    assert len({one["cache"]["prefix_sha256"] for one in answers}) == 1
    assert any(HEADER in words for words in system(answers[0])) is (header is not None)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_e07_a_header_that_changes_is_told_at_its_place(layout: str, service: httpx.Client) -> None:
    session = uuid4().hex
    for turn in (1, 2, 3):
        changed = {"system_prompt": {"attribution_header": f"{HEADER} turn={turn};"}, "cache": {"layout": layout}}
        answer = assembled(service, request(changed, session_id=session, messages=turns(turn)))
    previous = answer["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == (False, "system_changed")
    change = previous["first_change"]
    assert (change["block"], change["at"], change["section"]) == (0, "system[0]", "attribution_header")
    assert change["offset"] == len(f"{HEADER} turn=")
    assert not any(where.startswith("system") for where, _ in marks(answer))
    assert "marker_dropped" in told(answer)


def test_e07_a_header_that_stays_is_read_with_the_rest(service: httpx.Client, client: anthropic.Anthropic) -> None:
    session, held = uuid4().hex, 0
    for turn in (1, 2, 3):
        body = request(session_id=session, messages=turns(turn), system_prompt={"attribution_header": HEADER})
        usage = send(client, assembled(service, body))
        assert read(usage) == held
        held = read(usage) + (usage.cache_creation_input_tokens or 0)
