"""Reported faults that take several turns, a large text or a tree of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.asking import ask, inline, local

RULE = '---\npaths: "chart/**"\n---\nB'
NOTES = "/home/dev/.claude/projects/-home-dev-p/memory/MEMORY.md"


def contents(files: list[dict[str, Any]]) -> list[str]:
    return [file["content"].strip() for file in files]


def in_session(tree: Path, **more: Any) -> Any:
    return local(tree, memory={"walk_stop": str(tree)}, **more)


def write(tree: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)


# B17, B23: what comes on demand comes once, until the session starts anew


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    write(
        tmp_path,
        {"CLAUDE.md": "TOP", "r1/CLAUDE.md": "C", "r1/.claude/rules/a.md": "A", "r1/.claude/rules/b.md": RULE},
    )
    return tmp_path


def test_b17_a_second_touch_brings_nothing_new(nested: Path, service: httpx.Client) -> None:
    body = in_session(nested, session_id=uuid4().hex, touched=[{"path": str(nested / "r1/chart/v.yaml")}])
    assert contents(ask(service, body)["memory"]["attachments"]) == ["C", "A", "B"]
    assert contents(ask(service, body)["memory"]["attachments"]) == []


def test_b17_a_rule_that_a_first_touch_did_not_meet_comes_with_a_later_one(nested: Path, service: httpx.Client) -> None:
    session = uuid4().hex
    first = in_session(nested, session_id=session, touched=[{"path": str(nested / "r1/x")}])
    second = in_session(nested, session_id=session, touched=[{"path": str(nested / "r1/chart/v.yaml")}])
    assert contents(ask(service, first)["memory"]["attachments"]) == ["C", "A"]
    assert contents(ask(service, second)["memory"]["attachments"]) == ["B"]


def test_b23_in_a_session_that_starts_anew_a_rule_waits_for_the_next_touch(nested: Path, service: httpx.Client) -> None:
    touched = [{"path": str(nested / "r1/chart/v.yaml")}]
    assert "B" in contents(
        ask(service, in_session(nested, session_id=uuid4().hex, touched=touched))["memory"]["attachments"]
    )
    anew = uuid4().hex
    idle = ask(service, in_session(nested, session_id=anew))["memory"]
    assert (contents(idle["files"]), idle["attachments"]) == (["TOP"], [])
    again = ask(service, in_session(nested, session_id=anew, touched=touched))["memory"]
    assert contents(again["attachments"]) == ["C", "A", "B"]


def test_b23_after_a_compaction_a_rule_waits_for_the_next_touch_and_the_rest_is_read_anew(
    nested: Path, service: httpx.Client
) -> None:
    session = uuid4().hex
    touched = [{"path": str(nested / "r1/chart/v.yaml")}]
    before = [{"role": "user", "content": "Begin."}]
    after = [{"role": "user", "content": "A summary.", "meta": {"compact_boundary": True}}]
    first = ask(service, in_session(nested, session_id=session, touched=touched, messages=before))
    assert contents(first["memory"]["attachments"]) == ["C", "A", "B"]
    write(nested, {"CLAUDE.md": "EDITED"})
    idle = ask(service, in_session(nested, session_id=session, messages=after))
    assert contents(idle["memory"]["files"]) == ["EDITED"]
    assert idle["memory"]["attachments"] == []
    assert "r1/" not in json.dumps(idle["request"]["messages"])
    assert "r1/CLAUDE.md" in json.dumps(first["request"]["messages"])
    again = ask(service, in_session(nested, session_id=session, touched=touched, messages=after))
    assert contents(again["memory"]["attachments"]) == ["C", "A", "B"]


# C22: edits in the middle of a session


def test_c22_an_edit_waits_for_the_end_of_the_session(nested: Path, service: httpx.Client) -> None:
    body = in_session(nested, session_id=uuid4().hex)
    before = ask(service, body)
    write(nested, {"CLAUDE.md": "EDITED", "r1/CLAUDE.md": "NEW"})
    after = ask(service, body)
    assert after["request"] == before["request"]
    assert contents(ask(service, in_session(nested, session_id=uuid4().hex))["memory"]["files"]) == ["EDITED"]


def test_c22_what_comes_on_demand_comes_as_it_is_then(nested: Path, service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, in_session(nested, session_id=session))
    write(nested, {"r1/CLAUDE.md": "NEW"})
    touched = in_session(nested, session_id=session, touched=[{"path": str(nested / "r1/x")}])
    assert contents(ask(service, touched)["memory"]["attachments"]) == ["NEW", "A"]


@pytest.mark.parametrize("freshness", ["validate", "reload"])
def test_c22_a_caller_can_have_the_edit_at_once(nested: Path, freshness: str, service: httpx.Client) -> None:
    body = in_session(nested, session_id=uuid4().hex)
    ask(service, body)
    write(nested, {"CLAUDE.md": "EDITED"})
    assert contents(ask(service, body | {"freshness": freshness})["memory"]["files"]) == ["EDITED"]


def test_c22_settings_of_a_session_stay_too(nested: Path, service: httpx.Client) -> None:
    body = in_session(nested, session_id=uuid4().hex)
    before = ask(service, body)["request"]
    write(nested, {".claude/settings.json": json.dumps({"language": "french", "claudeMdExcludes": ["**/CLAUDE.md"]})})
    assert ask(service, body)["request"] == before


# B10 on disk: a checkout behind a link


def test_b10_a_checkout_reached_through_a_link_matches(tmp_path: Path, service: httpx.Client) -> None:
    write(tmp_path, {"real/app/.claude/rules/r.md": '---\npaths: "src/**"\n---\nR', "real/app/src/a.c": ""})
    (tmp_path / "link").symlink_to(tmp_path / "real" / "app")
    for touched in (tmp_path / "link/src/a.c", tmp_path / "real/app/src/a.c"):
        answer = ask(service, local(tmp_path / "link", touched=[{"path": str(touched)}]))
        assert [(file["path"], file["content"]) for file in answer["memory"]["attachments"]] == [
            (str(tmp_path / "real/app/.claude/rules/r.md"), "R")
        ]


# C11: no limit for instruction files


def test_c11_a_long_ancestor_loads_in_full(service: httpx.Client) -> None:
    long = "\n".join(f"Line {number} of more than forty thousand." for number in range(1100))
    answer = ask(service, inline({"/home/dev/m/CLAUDE.md": long}, workspace={"cwd": "/home/dev/m/ui/app"}))
    assert contents(answer["memory"]["files"]) == [long]
    assert len(long) > 40_000


# D04: what is measured is what reaches the model


def test_d04_frontmatter_and_comments_do_not_count_towards_the_limit_of_notes(service: httpx.Client) -> None:
    front = "".join(f"key{number}: value\n" for number in range(28))
    comment = "\n".join(f"old note {number}" for number in range(38))
    lines = "\n".join(f"- note {number}" for number in range(195))
    answer = ask(service, inline({NOTES: f"---\n{front}---\n<!--\n{comment}\n-->\n\n{lines}\n"}))
    assert contents(answer["memory"]["files"]) == [lines]


@pytest.mark.parametrize(("count", "whole"), [(200, True), (201, False)])
def test_d04_the_two_hundredth_line_is_the_last(count: int, whole: bool, service: httpx.Client) -> None:
    lines = [f"- note {number}" for number in range(count)]
    (content,) = contents(ask(service, inline({NOTES: "<!-- x -->\n" + "\n".join(lines)}))["memory"]["files"])
    assert content.startswith("\n".join(lines[:200]))
    assert (content == "\n".join(lines)) is whole
    assert ("201 lines" in content) is not whole
