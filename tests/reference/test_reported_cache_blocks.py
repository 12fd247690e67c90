"""Reported faults of what stands where: instructions, the attribution header, blocks, and keys in order."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import anthropic
import httpx
import pytest

from tests.reference.caching import (
    HEADER,
    MODES,
    PREAMBLE,
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
    tool,
    user,
    wire,
)

OLDER = "claude-sonnet-4-6"
"""Takes no messages of the role system."""
HOME = "/home/dev/.claude"
LAYOUTS = ("classic", "late")


# E20: instructions are not part of the system prompt


EVERYWHERE = {
    "/etc/claude-code/CLAUDE.md": "PELICAN one",
    f"{HOME}/CLAUDE.md": "PELICAN two",
    f"{HOME}/rules/a.md": "PELICAN three",
    "/home/dev/p/CLAUDE.md": "PELICAN four @docs/a.md",
    "/home/dev/p/docs/a.md": "PELICAN five",
    "/home/dev/p/.claude/rules/b.md": "PELICAN six",
    "/home/dev/p/CLAUDE.local.md": "PELICAN seven",
    f"{HOME}/projects/-home-dev-p/memory/MEMORY.md": "PELICAN eight",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_e20_instructions_stand_in_the_first_message_and_an_edit_leaves_the_system_prompt(
    mode: str, layout: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    prefixes = set()
    for bird in ("PELICAN", "HERON"):
        files = {path: words.replace("PELICAN", bird) for path, words in EVERYWHERE.items()}
        body = request(MODES[mode], cache={"layout": layout}, workspace={"files": files})
        answer = assembled(service, body | {"model": OLDER})
        assert bird not in wire(system(answer))
        assert said(answer)[0][0] == "user"
        assert said(answer)[0][1][0].count(bird) == len(files)
        prefixes.add(answer["cache"]["prefix_sha256"])
        usage = send(client, answer)
    assert len(prefixes) == 1
    assert (read(usage) > 0) is any(where.startswith("system") for where, _ in marks(answer))


# E21: the header stays alone and in front


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
def test_e21_the_header_is_alone_and_first_and_a_preamble_comes_second(
    mode: str, layout: str, service: httpx.Client
) -> None:
    given = {"attribution_header": HEADER, "prefix": PREAMBLE, "append": "Be kind.", "memory_mechanics": "Remember."}
    answer = assembled(service, request(MODES[mode], system_prompt=given, cache={"layout": layout}))
    sent = answer["request"]["system"]
    assert sent[0] == {"type": "text", "text": HEADER}
    assert sent[1]["text"] == PREAMBLE
    assert len(sent) > 2
    assert all(set(block) <= {"type", "text", "cache_control"} for block in sent)
    assert wire(answer["request"]).count(HEADER) == 1
    assert [block["sections"] for block in answer["system_blocks"]][:2] == [["attribution_header"], ["prefix"]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("header", [None, "", "  \n"])
def test_e21_without_a_header_there_is_no_block_for_it(
    header: str | None, mode: str, layout: str, service: httpx.Client
) -> None:
    given = {"attribution_header": header, "prefix": PREAMBLE}
    answer = assembled(service, request(MODES[mode], system_prompt=given, cache={"layout": layout}))
    assert system(answer)[0] == PREAMBLE
    assert all(words.strip() for words in system(answer))


def test_e21_the_content_of_messages_stays_in_blocks(service: httpx.Client) -> None:
    blocks = [text("One."), text("Two."), text("Three.")]
    answer = assembled(service, request(messages=[user(*blocks), assistant(text("Four.")), QUESTION]))
    assert said(answer)[1:3] == [("user", ["One.", "Two.", "Three."]), ("assistant", ["Four."])]
    assert answer["request"]["messages"][1]["content"] == blocks


# The order of keys


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(one) for one in value] if isinstance(value, list) else value


def test_the_order_of_keys_in_tools_and_calls_moves_no_byte(service: httpx.Client) -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string", "enum": ["y", "x"]}, "a": {"type": "integer"}}}
    call = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a", "at": {"to": 1, "by": 2}}}
    answered = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("pass")]}
    body = request(
        session_id=uuid4().hex,
        tools=[tool("read_file", input_schema=schema), tool("mcp__docs__find", input_schema=schema)],
        messages=[QUESTION, assistant(call), user(answered)],
    )
    other = body | {name: reversed_keys(body[name]) for name in ("tools", "messages")}
    first, second, turned = (assembled(service, one) for one in (body, other, other | {"tools": other["tools"][::-1]}))
    for answer in (second, turned):
        assert wire(answer["request"]) == wire(first["request"])
        assert answer["digest"] == first["digest"]
        assert answer["cache"]["prefix_sha256"] == first["cache"]["prefix_sha256"]
        assert answer["cache"]["previous"]["hit"] is True
    kept = first["request"]["tools"][0]["input_schema"]["properties"]["b"]["enum"]
    assert kept == ["y", "x"]


def test_the_order_of_files_in_the_request_moves_no_byte(service: httpx.Client) -> None:
    first, second = (
        assembled(service, request(workspace={"files": dict(rows)}))
        for rows in (EVERYWHERE.items(), reversed(EVERYWHERE.items()))
    )
    assert wire(first["request"]) == wire(second["request"])
    assert first["digest"] == second["digest"]


def test_e21_a_header_that_the_caller_merged_into_a_prompt_is_parted_from_it(service: httpx.Client) -> None:
    answer = assembled(service, request(system_prompt={"custom": f"{HEADER}\n\nYou review code."}))
    assert system(answer) == [HEADER, "You review code."]
