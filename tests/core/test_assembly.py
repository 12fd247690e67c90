from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.assembly import assemble
from app.core.attachments import Attached
from app.core.bill import section_tokens
from app.core.candidates import MemoryFile
from app.core.facts import (
    CacheOptions,
    GitFacts,
    McpServer,
    Message,
    Notice,
    PromptOptions,
    Request,
    TokenOptions,
    Usage,
)
from app.core.memory import Memory
from app.core.remembered import Remembered
from app.core.report import Row
from app.core.tokens import rough
from tests.core.api_rules import violations
from tests.core.assembling import DATE, asked, assembled, conversation, facts, fresh, memory_file, said


def test_the_user_context_stands_before_the_conversation() -> None:
    memory = Memory(files=(memory_file("/p/CLAUDE.md", "Use tabs."),))
    assembly = assembled(memory=memory, request=asked(messages=conversation("Hello")))
    (role, (context,)), hello = said(assembly)
    assert (role, context) == ("user", assembly.prompt.opening.context.text)
    assert "Use tabs." in context
    assert hello == ("user", ["Hello"])


def test_without_entries_there_is_no_message() -> None:
    assembly = assembled(
        Remembered("workspace", "", {"date": ""}), request=asked(date="", messages=conversation("Hello"))
    )
    assert said(assembly) == [("user", ["Hello"])]
    assert assembly.prompt.opening.context.entries == {}


@pytest.mark.parametrize("content", ["text", ({"type": "text", "text": "block"}, {"type": "image", "source": {}})])
def test_messages_keep_their_content(content: Any) -> None:
    assembly = assembled(request=asked(messages=(Message("user", content), Message("user", "end"))))
    sent = assembly.planned.messages[1]["content"]
    assert sent == (content if isinstance(content, str) else list(content))


def test_what_does_not_reach_the_model_is_left_out_of_messages() -> None:
    message = Message("assistant", "a", response_id="r", usage=Usage(input_tokens=1), boundary=True)
    assembly = assembled(request=asked(messages=(message, Message("user", "b"))))
    assert assembly.planned.messages[1] == {"role": "assistant", "content": "a"}


def test_what_touches_brought_stands_behind_the_conversation_and_is_kept() -> None:
    attached = Attached(files=(memory_file("/p/src/CLAUDE.md", "Nested.", trigger="/p/src/a"),))
    assembly = assembled(attached=attached, request=asked(messages=conversation("Hello")))
    assert said(assembly)[-1] == (
        "user",
        ["<system-reminder>\nContents of /p/src/CLAUDE.md:\n\nNested.\n</system-reminder>"],
    )
    assert assembly.remember.delivered == ("/p/src/CLAUDE.md",)
    again = assembled(assembly.remember, request=asked(messages=conversation("Hello", "Hi", "More")))
    assert [role for role, _ in said(again)] == ["user", "user", "user", "assistant", "user"]
    assert said(again)[2] == said(assembly)[-1]
    assert again.remember == assembly.remember


def test_what_joined_late_stands_behind_all_of_a_shorter_conversation() -> None:
    attached = Attached(files=(memory_file("/p/src/CLAUDE.md", "Nested.", trigger="/p/src/a"),))
    long = assembled(attached=attached, request=asked(messages=conversation("a", "b", "c", "d", "e")))
    short = assembled(long.remember, request=asked(messages=conversation("a")))
    assert "Nested." in said(short)[-1][1][0]


def test_an_answer_the_model_goes_on_with_stays_last() -> None:
    assembly = assembled(
        replace(fresh(), told={"date": "2026-11-29"}), request=asked(messages=conversation("Hello", "I think"))
    )
    assert said(assembly)[-1] == ("assistant", ["I think"])
    assert "The day has changed" in said(assembly)[-2][1][0]


def test_a_changed_day_is_told_once_and_before_what_touches_brought() -> None:
    attached = Attached(files=(memory_file("/p/src/CLAUDE.md", "Nested."),))
    first = assembled(fresh("2026-11-29"), attached=attached)
    (context,), late = said(first)[0][1], said(first)[1][1]
    assert "Today's date is 2026-11-29." in context
    assert ["2026-11-30" in late[0], "Nested." in late[1], len(late)] == [True, True, 2]
    assert first.remember.date == "2026-11-29"
    assert first.remember.known["date"] == DATE
    assert said(assembled(first.remember)) == said(first)


def test_cached_sections_come_from_the_session_absent_ones_too() -> None:
    remembered = replace(fresh(), sections={"env_info": "# Environment\nremembered", "system_context": None})
    assembly = assembled(remembered, git=GitFacts(branch="main"))
    origins = {element.name: (element.origin, element.text) for element in assembly.prompt.elements}
    assert origins["env_info"] == ("remembered", "# Environment\nremembered")
    assert origins["system_context"] == ("remembered", None)
    assert origins["language"] == ("computed", None)
    assert set(assembly.remember.sections) > {"env_info", "language", "system_context"}
    assert "mcp_instructions" not in assembly.remember.sections


def test_sections_of_another_kind_of_prompt_stay_remembered() -> None:
    first = assembled()
    simple = assembled(first.remember, request=asked(prompt=PromptOptions(simple=True)))
    assert simple.remember.sections.items() > first.remember.sections.items()


@pytest.mark.parametrize(
    ("model", "betas", "options", "provider", "sent"),
    [
        ("claude-sonnet-4-5", (), TokenOptions(), "anthropic", ()),
        ("claude-sonnet-4-5[1m]", (), TokenOptions(), "anthropic", ("context-1m-2025-08-07",)),
        ("claude-sonnet-4-5", ("context-1m-x",), TokenOptions(), "anthropic", ("context-1m-2025-08-07",)),
        ("claude-sonnet-4-5", ("other",), TokenOptions(), "anthropic", ()),
        ("claude-sonnet-4-5[1m]", (), TokenOptions(disable_1m=True), "anthropic", ()),
        ("claude-sonnet-4-5[1m]", (), TokenOptions(), "vertex", ("context-1m-2025-08-07",)),
        ("claude-sonnet-4-5[1m]", (), TokenOptions(), "custom", ()),
        ("claude-opus-4-5[1m]", (), TokenOptions(), "anthropic", ()),
    ],
)
def test_the_beta_for_a_million_tokens_is_sent_where_it_is_needed_and_taken(
    model: str, betas: tuple[str, ...], options: TokenOptions, provider: Any, sent: tuple[str, ...]
) -> None:
    request = asked(model=model, betas=betas, tokens=options, provider=provider)
    assert assembled(request=request).planned.betas == sent


def test_all_notices_come_together() -> None:
    own, memory = Notice("a", "", ""), Notice("b", "", "")
    request = asked(tokens=TokenOptions(percent_override=0), prompt=PromptOptions(custom="Short."))
    assembly = assembled(request=request, notices=(own,), memory=Memory(notices=(memory,)))
    codes = [notice.code for notice in assembly.notices]
    assert codes == ["a", "b", "percent_override_ignored", "prefix_below_minimum", "prefix_below_minimum"]


def test_what_touches_say_of_a_candidate_replaces_what_was_said_before() -> None:
    withheld, other = Row("/p/r.md", "withheld", "condition_not_met"), Row("/p/CLAUDE.md", "loaded")
    loaded = Row("/p/r.md", "loaded")
    assembly = assembled(memory=Memory(rows=(withheld, other)), attached=Attached(rows=(loaded,)))
    assert assembly.rows == (loaded, other)


def test_the_services_own_window_holds_unless_the_request_has_one() -> None:
    assert assembled(window_override=50_000).tally.state.window == 50_000
    own = assembled(window_override=50_000, request=asked(tokens=TokenOptions(max_context_tokens=60_000)))
    assert own.tally.state.window == 60_000


def test_tools_without_a_name_have_a_row_by_their_place() -> None:
    assembly = assembled(request=asked(tools=({"type": "web_search_20250305"}, {"name": "Read"})))
    names = [part.name for part in assembly.tally.count.parts if part.name.startswith("tool:")]
    assert names == ["tool:Read", "tool:1"]


def test_the_rows_of_sections_add_up_to_the_blocks() -> None:
    servers = (McpServer("docs", instructions="ä🦊" * 50),)
    assembly = assembled(git=GitFacts(branch="main", status="?? ä🦊" * 50), request=asked(mcp_servers=servers))
    counted = section_tokens(assembly.tally.rows)
    assert sum(counted.values()) == sum(rough(block.text) for block in assembly.prompt.blocks)
    assert counted["mcp_instructions"] > 25


MERGED_HEADER = "x-anthropic-billing-header: v=1\n\nYou work for Ada."


def test_what_follows_a_header_has_a_row_of_its_own_that_is_counted_and_shared_with_nobody() -> None:
    assembly = assembled(request=asked(prompt=PromptOptions(attribution_header=MERGED_HEADER)))
    rows = {element.name: element.text for element in assembly.prompt.elements}
    assert rows["attribution_header"] == "x-anthropic-billing-header: v=1"
    assert rows["attribution_rest"] == "You work for Ada."
    counted = section_tokens(assembly.tally.rows)
    assert counted["attribution_rest"] > 0
    assert sum(counted.values()) == sum(rough(block.text) for block in assembly.prompt.blocks)
    assert [block.scope for block in assembly.prompt.blocks if "Ada" in block.text] == [None]


def test_in_the_late_layout_what_follows_a_header_follows_the_instructions() -> None:
    prompt = PromptOptions(attribution_header=MERGED_HEADER)
    assembly = assembled(request=asked(prompt=prompt, cache=CacheOptions(layout="late"), messages=conversation("Hi")))
    assert not any("Ada" in block["text"] for block in assembly.planned.system)
    assert "You work for Ada." in said(assembly)[0][1][-1]


@pytest.mark.parametrize(
    ("spelling", "named"),
    [
        ("claude-sonnet-4-5", "named Sonnet 4.5. The exact model ID is claude-sonnet-4-5."),
        ("claude-sonnet-4-5-20250929", "named Sonnet 4.5. The exact model ID is claude-sonnet-4-5-20250929."),
        ("claude-sonnet-4-5-20250929[1m]", "named Sonnet 4.5. The exact model ID is claude-sonnet-4-5-20250929."),
        ("opus", "named Opus 5.5. The exact model ID is claude-opus-5-5."),
        ("llama-7[1m]", "llama-7."),
    ],
)
def test_the_prompt_names_the_model_by_the_id_that_is_sent(spelling: str, named: str) -> None:
    assembly = assembled(request=asked(model=spelling))
    info = next(element.text for element in assembly.prompt.elements if element.name == "env_info")
    assert f" - You are powered by the model {named}\n" in (info or "")


TEXT = st.text(max_size=40)
MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant"]),
        content=TEXT | st.lists(st.builds(lambda text: {"type": "text", "text": text}, TEXT), max_size=3).map(tuple),
        response_id=st.none() | st.sampled_from(["r1", "r2"]),
        usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 10**6), output_tokens=st.integers(0, 1000)),
        boundary=st.booleans(),
    ),
    max_size=6,
).map(tuple)
FILES = st.lists(st.sampled_from(["/p/CLAUDE.md", "/p/a.json", "/p/b.md"]), unique=True).flatmap(
    lambda paths: st.tuples(*(st.builds(memory_file, st.just(path), TEXT) for path in paths))
)
REQUESTS = st.builds(
    asked,
    messages=MESSAGES,
    tools=st.lists(st.sampled_from(["Read", "Bash", "mcp__a__b"]), unique=True).map(
        lambda names: tuple({"name": name, "input_schema": {}} for name in names)
    ),
    mcp_servers=st.lists(st.builds(McpServer, st.sampled_from(["a", "b"]), instructions=TEXT), max_size=2).map(tuple),
    prompt=st.builds(PromptOptions, custom=st.none() | TEXT, append=st.none() | TEXT, prefix=st.none() | TEXT),
    cache=st.builds(
        CacheOptions,
        enabled=st.booleans(),
        ttl=st.sampled_from(["5m", "1h"]),
        scope=st.sampled_from(["auto", "org", "off"]),
        scope_on_wire=st.booleans(),
    ),
    provider=st.sampled_from(["anthropic", "bedrock"]),
)


@given(REQUESTS, FILES, FILES, st.sampled_from([DATE, "2026-11-29"]))
def test_parts_add_up_to_what_is_used_and_the_api_takes_the_request(
    request: Request, files: tuple[MemoryFile, ...], late: tuple[MemoryFile, ...], date: str
) -> None:
    assembly = assembled(fresh(date), request=request, memory=Memory(files=files), attached=Attached(files=late))
    assert sum(part.tokens for part in assembly.tally.count.parts) == assembly.tally.count.used
    planned = assembly.planned
    assert violations(planned.tools, planned.system, planned.messages, scope_allowed=True) == []
    assert [text for block in planned.system if not (text := block["text"]).strip()] == []


@given(REQUESTS, FILES)
def test_the_same_facts_give_the_same_assembly(request: Request, files: tuple[MemoryFile, ...]) -> None:
    gathered = facts(request, memory=Memory(files=files))
    assert assemble(gathered, fresh()) == assemble(gathered, fresh())


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5),
    st.lists(st.sampled_from([DATE, "2026-12-01", "2026-12-02"]), min_size=5, max_size=5),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_each_request_of_a_growing_conversation_begins_with_the_one_before(
    turns: list[str], dates: list[str], touches: list[bool]
) -> None:
    remembered, messages, requests = fresh(), (), []
    for number, (text, date, touch) in enumerate(zip(turns, dates, touches, strict=False)):
        messages = (*messages, Message("user", text))
        attached = Attached(files=(memory_file(f"/p/{number}/CLAUDE.md", f"Nested {number}."),) if touch else ())
        assembly = assembled(remembered, request=asked(messages=messages, date=date), attached=attached)
        requests.append(said(assembly))
        remembered = assembly.remember
        messages = (*messages, Message("assistant", "ok"))
    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier


def test_each_mcp_servers_instructions_have_a_row_of_their_own():
    servers = (McpServer("docs", instructions="d" * 400), McpServer("cut", instructions="c" * 5000), McpServer("mute"))
    found = assembled(request=asked(mcp_servers=servers))
    rows = {part.name: part.tokens for part in found.tally.count.parts}
    assert {name for name in rows if name.startswith("mcp:")} == {"mcp:docs", "mcp:cut"}
    assert rows["mcp:docs"] in range(100, 106)
    assert rows["mcp:cut"] in range(512, 530)
    assert rows["system:mcp_instructions"] in range(20, 40)
    assert sum(rows.values()) == found.tally.count.used
    assert sum(tokens for name, tokens in rows.items() if name.startswith(("system:", "mcp:"))) == sum(
        rough(block.text) for block in found.prompt.blocks
    )
