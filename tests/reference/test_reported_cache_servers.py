"""What servers and skills put into the prompt: bounded, in order, and told late where it changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import anthropic
import httpx
import pytest

from tests.reference.caching import (
    MODEL,
    assembled,
    read,
    request,
    role_taking_client,
    said,
    send,
    server,
    system,
    tool,
    turns,
    wire,
    written,
)

LATE = {"cache": {"layout": "late"}}
HEADING = "# MCP Server Instructions"
CHANGED = "The MCP servers have changed."
SKILL = tool("Skill")


@pytest.fixture
def client() -> Iterator[anthropic.Anthropic]:
    with role_taking_client() as made:
        yield made


# Servers come and go


COMING = (
    [server("docs")],
    [server("docs"), server("search")],
    [server("docs", status="failed"), server("search")],
    [server("search", "Ask otherwise.")],
    [server("search", "Ask otherwise.")],
    [],
    [server("docs")],
)
TOLD = (
    [],
    [("## search", "Ask search first.")],
    [("No longer connected", "docs")],
    [("## search", "Ask otherwise.")],
    [],
    [("No longer connected", "search")],
    [("## docs", "Ask docs first.")],
)


@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-6"])
def test_late_servers_that_come_and_go_are_told_late_and_move_no_byte_in_front(
    model: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    session, fronts, held, count = uuid4().hex, set(), 0, 0
    for turn, (servers, news) in enumerate(zip(COMING, TOLD, strict=True), 1):
        body = request(LATE, model=model, session_id=session, mcp_servers=servers, messages=turns(turn))
        answer = assembled(service, body)
        fronts.add(wire([system(answer), said(answer)[: 2 if model == MODEL else 1]]))
        late = [words for _, texts in said(answer) for words in texts if CHANGED in words]
        count += len(news)
        assert len(late) == count
        assert all(word in late[-1] for words in news for word in words)
        usage = send(client, answer)
        assert read(usage) == held
        held = read(usage) + written(usage)
    assert len(fronts) == 1


def test_in_the_classic_layout_a_server_that_comes_breaks_the_cache_at_its_section_and_that_is_told(
    service: httpx.Client, client: anthropic.Anthropic
) -> None:
    session = uuid4().hex
    for turn, servers in enumerate(COMING[:2], 1):
        answer = assembled(service, request(session_id=session, mcp_servers=servers, messages=turns(turn)))
        usage = send(client, answer)
    previous = answer["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == (False, "system_changed")
    assert (previous["first_change"]["at"], previous["first_change"]["section"]) == ("system[1]", "mcp_instructions")
    assert read(usage) > 0
    assert previous["hit_blocks"] == 1


# E14, E15: what servers say


LAYOUTS = ("classic", "late")


def told_of_servers(answer: dict[str, Any]) -> str:
    whole = "\n\n".join([*system(answer), *(words for _, texts in said(answer) for words in texts)])
    return whole.partition(HEADING)[2]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ["abc", "cba", "bca"])
@pytest.mark.parametrize("unit", ["x", "é", "文", "🙂"])
def test_e14_each_server_has_a_limit_of_its_own_and_they_stand_by_name(
    unit: str, order: str, layout: str, service: httpx.Client
) -> None:
    width = len(unit.encode("utf-16-le")) // 2
    words = {name: unit * (size // width) for name, size in {"a": 1900, "b": 3000, "c": 500}.items()}
    servers = [server(name, words[name]) for name in order]
    answer = assembled(service, request(mcp_servers=servers, cache={"layout": layout}))
    parts = told_of_servers(answer).split("## ")[1:]
    assert [part[0] for part in parts] == ["a", "b", "c"]
    sizes = [1900 // width, 2048 // width, 500 // width]
    assert all(unit * size in part and unit * (size + 1) not in part for size, part in zip(sizes, parts, strict=True))
    assert ["cut" in part for part in parts] == [False, True, False]


@pytest.mark.parametrize(("size", "cut"), [(2047, False), (2048, False), (2049, True)])
def test_e14_the_limit_is_2048_characters_and_can_be_set(size: int, cut: bool, service: httpx.Client) -> None:
    told = told_of_servers(assembled(service, request(mcp_servers=[server("a", "x" * size)])))
    assert ("[cut" in told) is cut
    set_lower = request(mcp_servers=[server("a", "x" * size)], settings={"mcp_instruction_limit": 10})
    assert "x" * 11 not in told_of_servers(assembled(service, set_lower))


def test_e14_a_server_that_comes_late_is_cut_too(service: httpx.Client) -> None:
    session = uuid4().hex
    assembled(service, request(LATE, session_id=session))
    answer = assembled(service, request(LATE, session_id=session, mcp_servers=[server("a", "x" * 3000)]))
    (late,) = (words for _, texts in said(answer) for words in texts if CHANGED in words)
    assert late.count("x" * 2048) == 1
    assert "x" * 2049 not in late
    assert "[cut" in late


@pytest.mark.parametrize("layout", LAYOUTS)
def test_e15_connected_servers_are_told_and_others_leave_no_heading(layout: str, service: httpx.Client) -> None:
    silent = [
        server("waiting", status="pending"),
        server("broken", status="failed"),
        server("unwanted", status="disabled"),
        server("empty", ""),
        server("blank", " \n "),
        {"name": "wordless"},
    ]
    changes = {"cache": {"layout": layout}}
    told = told_of_servers(assembled(service, request(changes, mcp_servers=[server("stdio"), *silent, server("http")])))
    assert [line for line in told.splitlines() if line.startswith("## ")] == ["## http", "## stdio"]
    without = assembled(service, request(changes, mcp_servers=silent))
    assert HEADING not in wire(without["request"])
    assert without["digest"] == assembled(service, request(changes))["digest"]


# Skills do not outgrow the prompt


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("count", "length"), [(500, 10), (500, 1000), (40, 1000), (99, 1), (101, 1)])
def test_the_list_of_skills_is_bounded_and_says_how_many_are_left_out(
    count: int, length: int, layout: str, service: httpx.Client
) -> None:
    files = {
        f"/home/dev/p/.claude/skills/s{number:03}/SKILL.md": f"---\ndescription: {'d' * length}\n---\nBody {number}.\n"
        for number in range(count)
    }
    body = request(workspace={"files": files}, tools=[SKILL], cache={"layout": layout})
    answer = assembled(service, body)
    whole = "\n\n".join([*system(answer), *(words for _, texts in said(answer) for words in texts)])
    rows = [line for line in whole.splitlines() if re.match(r"- s\d{3}: ", line)]
    assert rows == sorted(rows)
    assert len(rows) <= 100
    assert max(map(len, rows)) <= 300
    assert len("\n".join(rows)) <= 8000
    left = count - len(rows)
    assert (f"{left} more skill{'s are' if left > 1 else ' is'} not listed" in whole) is (left > 0)
    assert "Body" not in whole


def test_e14_two_servers_of_one_name_stand_in_one_order(service: httpx.Client) -> None:
    both = [server("docs", "One."), server("docs", "Two.")]
    first, second = (assembled(service, request(mcp_servers=rows)) for rows in (both, both[::-1]))
    assert first["digest"] == second["digest"]


def test_late_one_of_two_servers_of_one_name_that_goes_is_told(service: httpx.Client) -> None:
    session = uuid4().hex
    both = [server("docs", "One."), server("docs", "Two.")]
    for turn, servers in enumerate((both, both[1:]), 1):
        body = request(session_id=session, mcp_servers=servers, messages=turns(turn), cache={"layout": "late"})
        answer = assembled(service, body)
    assert "The MCP servers have changed." in wire(answer["request"])
