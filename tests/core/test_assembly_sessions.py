"""Sessions of several turns: what was sent stays the same bytes, and what changed since is told behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.assembly import Assembly
from app.core.attachments import Attached
from app.core.facts import CacheOptions, Client, GitFacts, McpServer, Message, OutputStyle, PromptOptions, Request
from app.core.memory import Memory
from tests.core.assembling import asked, assembled, conversation, memory_file, said

LATE = CacheOptions(layout="late")
GIT = GitFacts(branch="main", status="?? a.txt", log=("a1 first",))
DOCS = McpServer("docs", instructions="Be brief.")
NEWS = McpServer("news", instructions="Be quick.")
REPLACING = OutputStyle("Poet", "In verse.")
KEEPING = OutputStyle("Teacher", "Explain.", keep_coding_instructions=True)


def styled(request: Request, style: OutputStyle | None, **more: Any) -> Request:
    return replace(request, settings=replace(request.settings, output_style=style, **more))


def codes(assembly: Assembly) -> list[tuple[str, str]]:
    return [(notice.code, notice.where) for notice in assembly.notices]


def system_of(assembly: Assembly) -> str:
    return "\n\n".join(block["text"] for block in assembly.planned.system)


# --- the late layout -------------------------------------------------------------------------------------------------


def test_what_varies_follows_the_instructions_and_the_system_prompt_is_for_everyone() -> None:
    request = asked(cache=LATE, mcp_servers=(DOCS,), messages=conversation("Hello"))
    request = replace(request, prompt=PromptOptions(append="Appended.", memory_mechanics="Mechanics."))
    memory = Memory(files=(memory_file("/p/CLAUDE.md", "Use tabs."),))
    assembly = assembled(request=styled(request, KEEPING, language="German"), git=GIT, memory=memory, memory_dir="/m")
    (role, (context, back)), hello = said(assembly)
    assert role == "user"
    assert "Use tabs." in context
    for varies in ("Primary working directory: /p", "Branch", "Be brief.", "German", "Explain.", "`/m`", "Mechanics."):
        assert varies.lower() in back.lower()
        assert varies not in system_of(assembly)
    assert back.index("Mechanics.") < back.index("Appended.") < back.index("gitStatus")
    assert hello == ("user", ["Hello"])


def test_ten_workspaces_share_the_whole_system_prompt_in_the_late_layout_and_the_static_part_in_the_classic() -> None:
    def asks(layout: Any) -> list[Assembly]:
        return [
            assembled(
                request=styled(
                    asked(
                        client=Client(cwd=f"/home/u{number}/p", platform="linux", home=f"/home/u{number}"),
                        cache=CacheOptions(layout=layout, scope="org"),
                        mcp_servers=(McpServer(f"s{number}", instructions="x" * number),),
                        prompt=PromptOptions(append=f"User {number}."),
                    ),
                    (None, KEEPING, REPLACING)[number % 3],
                    language=f"language {number}",
                ),
                git=replace(GIT, branch=f"b{number}"),
                memory_dir=f"/home/u{number}/m",
            )
            for number in range(10)
        ]

    assert len({system_of(one) for one in asks("late")}) == 1
    assert len({system_of(one) for one in asks("classic")}) == 10


@pytest.mark.parametrize("style", [None, KEEPING, REPLACING])
def test_a_style_is_ranked_where_the_system_prompt_cannot_depend_on_it(style: OutputStyle | None) -> None:
    assembly = assembled(request=styled(asked(cache=LATE), style))
    assert "# Doing tasks" in system_of(assembly)
    back = said(assembly)[0][1][1]
    assert ("does not apply" in back) is (style is REPLACING)
    assert ("it decides" in back) is (style is not None)


def test_the_simple_prompt_leaves_its_place_and_date_behind() -> None:
    assembly = assembled(request=asked(cache=LATE, prompt=PromptOptions(simple=True)))
    assert "CWD" not in system_of(assembly)
    assert "CWD: /p\nDate: 2026-11-30" in said(assembly)[0][1][1]


def test_a_custom_prompt_stays_in_front() -> None:
    assembly = assembled(request=asked(cache=LATE, prompt=PromptOptions(custom="Only this.", append="For me.")))
    assert system_of(assembly) == "Only this."
    assert "For me." in said(assembly)[0][1][1]


def test_servers_that_come_and_go_are_told_late() -> None:
    first = assembled(request=asked(cache=LATE, mcp_servers=(DOCS,), messages=conversation("a")))
    second = assembled(
        first.remember, request=asked(cache=LATE, mcp_servers=(NEWS,), messages=conversation("a", "b", "c"))
    )
    assert second.planned.system == first.planned.system
    assert said(second)[0] == said(first)[0]
    late = said(second)[-1][1][0]
    assert "no longer hold: docs." in late
    assert "Be quick." in late
    third = assembled(
        second.remember, request=asked(cache=LATE, mcp_servers=(NEWS,), messages=conversation("a", "b", "c", "d", "e"))
    )
    assert said(third)[: len(said(second))] == said(second)
    assert [text for _, texts in said(third) for text in texts if "MCP servers have changed" in text] == [late]


def test_the_bill_names_the_servers_that_the_session_began_with() -> None:
    first = assembled(request=asked(cache=LATE, mcp_servers=(DOCS,)))
    second = assembled(first.remember, request=asked(cache=LATE, mcp_servers=(NEWS,)))
    for one, servers in ((first, {"mcp:docs"}), (second, set())):
        rows = {part.name: part.tokens for part in one.tally.count.parts}
        assert {name for name in rows if name.startswith("mcp:")} == servers
        assert sum(rows.values()) == one.tally.count.used
        assert rows["system:mcp_instructions"] > 0
    assert {part.name for part in second.tally.count.parts} > {
        "mcp_change",
        "system:late_opening",
        "system:late_closing",
    }


# --- what a session keeps --------------------------------------------------------------------------------------------


def test_a_section_that_comes_within_a_session_moves_nothing_that_stands_before_it() -> None:
    first = assembled(request=asked(), git=GIT)
    second = assembled(first.remember, request=asked(mcp_servers=(DOCS,)))
    texts = [{element.name: element.text for element in one.prompt.elements} for one in (first, second)]
    at = [element.name for element in second.prompt.elements].index("mcp_instructions")
    assert [element.text for element in first.prompt.elements[:at]] == [
        element.text for element in second.prompt.elements[:at]
    ]
    assert texts[0]["mcp_instructions"] is None
    assert "Be brief." in str(texts[1]["mcp_instructions"])


@pytest.mark.parametrize(("began", "then"), [(None, REPLACING), (REPLACING, None), (KEEPING, REPLACING)])
def test_the_style_is_the_one_that_the_session_began_with(began: OutputStyle | None, then: OutputStyle | None) -> None:
    first = assembled(request=styled(asked(), began), style=(began.name, began) if began else None)
    second = assembled(
        first.remember, request=styled(asked(), then), style=(then.name, then) if then else first.remember.style
    )
    assert second.planned.system == first.planned.system
    assert codes(second) == [("section_kept", "output_style")]
    third = assembled(second.remember, request=styled(asked(), then), style=(then.name, then) if then else None)
    assert third.planned.system == first.planned.system


def test_settings_that_no_longer_hold_are_told() -> None:
    first = assembled(request=asked(), git=GIT, memory_dir="/m")
    second = assembled(first.remember, request=styled(asked(), None, language="German"), git=GIT)
    assert codes(second) == [("section_kept", "memory"), ("section_kept", "language")]
    assert second.planned.system == first.planned.system


def test_nothing_is_told_of_a_section_that_is_written_anew_on_another_model() -> None:
    first = assembled(request=asked(), git=GIT)
    assert codes(assembled(first.remember, request=asked(model="claude-opus-4-1"), git=GIT)) == []


def test_another_edition_of_a_model_is_named_by_its_own_id_in_a_session_that_goes_on() -> None:
    first = assembled(request=asked(model="claude-sonnet-4-5-20250929"))
    assert "ID is claude-sonnet-4-5-20250929." in system_of(first)
    then = assembled(first.remember, request=asked(model="claude-sonnet-4-5"))
    assert "ID is claude-sonnet-4-5." in system_of(then)
    assert codes(then) == []


def test_a_tag_that_is_not_sent_moves_no_byte_of_a_session() -> None:
    first = assembled(request=asked(model="claude-sonnet-4-5"))
    then = assembled(first.remember, request=asked(model="claude-sonnet-4-5[1m]"))
    assert system_of(then) == system_of(first)


def test_a_changed_repository_is_told_when_the_user_speaks() -> None:
    first = assembled(request=asked(messages=conversation("a")), git=GIT)
    other = replace(GIT, branch="feature")
    second = assembled(first.remember, request=asked(messages=conversation("a", "b", "c")), git=other)
    assert second.planned.system == first.planned.system
    assert "Current branch: feature" in said(second)[-1][1][0]
    again = assembled(second.remember, request=asked(messages=conversation("a", "b", "c")), git=other)
    assert said(again) == said(second)


@pytest.mark.parametrize(
    "request_",
    [asked(prompt=PromptOptions(custom="x")), styled(asked(), None, include_git_instructions=False)],
)
def test_a_prompt_that_says_nothing_of_the_repository_is_not_told_of_its_changes(request_: Request) -> None:
    first = assembled(request=replace(request_, messages=conversation("a")), git=GIT)
    second = assembled(
        first.remember, request=replace(request_, messages=conversation("a", "b", "c")), git=replace(GIT, branch="x")
    )
    assert said(second)[: len(said(first))] == said(first)
    assert len(said(second)) == len(said(first)) + 2


# --- the law ---------------------------------------------------------------------------------------------------------


PROMPT = Message("user", "go on")


@dataclass(frozen=True)
class World:
    """What may be different on the next turn."""

    date: str = "2026-11-30"
    servers: tuple[McpServer, ...] = ()
    git: GitFacts | None = GIT
    language: str | None = None
    style: OutputStyle | None = None
    touched: tuple[str, ...] = ()
    told: tuple[Message, ...] = (PROMPT,)


RESULT = Message("user", ({"type": "tool_result", "tool_use_id": "t", "content": "x"},))
CALL = Message("assistant", ({"type": "tool_use", "id": "t", "name": "Read", "input": {"b": 1, "a": 2}},))
WORLDS = st.builds(
    World,
    date=st.sampled_from(["2026-11-30", "2026-12-01", "2026-12-02"]),
    servers=st.sampled_from([(), (DOCS,), (NEWS,), (DOCS, NEWS), (replace(DOCS, instructions="Other."),)]),
    git=st.sampled_from([None, GIT, replace(GIT, branch="x"), replace(GIT, status=""), replace(GIT, log=("b2", "a1"))]),
    language=st.sampled_from([None, "German"]),
    style=st.sampled_from([None, KEEPING, REPLACING]),
    touched=st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True).map(tuple),
    told=st.sampled_from([(PROMPT,), (CALL, RESULT), (CALL, RESULT, PROMPT), (PROMPT, Message("assistant", "well"))]),
)


def history(worlds: list[World], cache: CacheOptions) -> list[Assembly]:
    """The answers of one session in which the world is another on each turn."""
    remembered, messages, answers = None, conversation("Hello"), []
    for world in worlds:
        delivered = set(remembered.delivered) if remembered else set()
        files = [f"/p/{name}/CLAUDE.md" for name in world.touched]
        attached = Attached(files=tuple(memory_file(one, one, trigger=one) for one in files if one not in delivered))
        messages = (*messages, Message("assistant", "ok"), *world.told) if answers else messages
        request = asked(messages=messages, date=world.date, mcp_servers=world.servers, cache=cache)
        assembly = assembled(
            remembered,
            request=styled(request, world.style, language=world.language),
            git=world.git,
            attached=attached,
            style=(world.style.name, world.style) if world.style else None,
        )
        answers.append(assembly)
        remembered = assembly.remember
    return answers


def flat(assembly: Assembly) -> list[tuple[str, str]]:
    return [(role, text) for role, texts in said(assembly) for text in texts]


@given(st.lists(WORLDS, min_size=2, max_size=8), st.sampled_from(["auto", "org", "off"]))
def test_whatever_happens_a_late_request_begins_with_the_one_before(worlds: list[World], scope: Any) -> None:
    for earlier, later in pairwise(history(worlds, CacheOptions(layout="late", scope=scope))):
        assert system_of(later) == system_of(earlier)
        assert flat(later)[: len(flat(earlier))] == flat(earlier)


@given(st.lists(WORLDS, min_size=2, max_size=8))
def test_in_a_classic_request_only_the_servers_instructions_move_what_follows_them(worlds: list[World]) -> None:
    for earlier, later in pairwise(history(worlds, CacheOptions())):
        assert flat(later)[: len(flat(earlier))] == flat(earlier)
        own = [[one for one in each.prompt.elements if one.name != "mcp_instructions"] for each in (earlier, later)]
        assert [one.text for one in own[0]] == [one.text for one in own[1]]
