"""What the service answers is a request that the official SDK sends and the API's rules accept."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx
import pytest

from tests.reference.cases import CASES
from tests.standin.rules import markers

MODEL = "claude-sonnet-5-5"
SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
FILES = {
    "/home/dev/.claude/CLAUDE.md": "Answer briefly.",
    "/home/dev/project/CLAUDE.md": "Use tabs.\n\n@docs/style.md\n",
    "/home/dev/project/docs/style.md": "Names before comments.",
    "/home/dev/project/pkg/CLAUDE.md": "The package has its own rules.",
    "/home/dev/project/pkg/a.py": "pass\n",
}
TOUCHED = [{"path": "/home/dev/project/pkg/a.py", "event": "read"}]
THOUGHT = {"type": "thinking", "thinking": "First the tests.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "b3BhcXVl"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "pkg/a.py"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "pass"}]}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
USAGE = {"input_tokens": 900, "output_tokens": 40, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def tool(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"name": name, "description": f"{name} does one thing.", "input_schema": schema} | more


def body(**changed: Any) -> dict[str, Any]:
    described = {"source": "inline", "cwd": "/home/dev/project", "home": "/home/dev", "platform": "linux"}
    request = {
        "workspace": described | {"files": FILES},
        "model": MODEL,
        "date": "2026-11-30",
        "messages": [user("What is in pkg?")],
    }
    return request | changed


READ_A_FILE = [user("Read it."), assistant([THOUGHT, text("Reading."), CALL]), user([RESULT])]
MARKED_FOUR_TIMES = [
    user([text("one", cache_control=SHORT), text("two", cache_control=SHORT)]),
    assistant("three"),
    user([text("four", cache_control=SHORT), text("five", cache_control=SHORT)]),
]
MANY = [each for n in range(60) for each in (user(f"Question {n}? " + "why " * 300), assistant(f"Answer {n}."))]

REQUESTS: dict[str, dict[str, Any]] = {
    "one question": body(),
    "no message yet": body(messages=[]),
    "a conversation that begins with the assistant": body(messages=[assistant("Hello."), user("Hi.")]),
    "users in a row": body(messages=[user("One."), user([text("Two."), IMAGE])]),
    "a long conversation": body(messages=[*MANY, user("And now?")]),
    "messages with what the service alone reads": body(
        messages=[
            user("Hi.") | {"id": "m1"},
            assistant([text("Hello.")]) | {"id": "msg_1", "usage": USAGE},
            user("Go on.") | {"meta": True},
        ]
    ),
    "tools": body(tools=[tool("write_file"), tool("read_file")]),
    "tools of servers": body(
        tools=[tool("read_file"), tool("mcp__docs__find"), tool("mcp__docs__get")],
        mcp_servers=[{"name": "docs", "status": "connected", "instructions": "Search first."}],
    ),
    "a tool that the API runs": body(tools=[tool("read_file"), {"type": "web_search_20250305", "name": "web_search"}]),
    "a tool's answer last": body(messages=READ_A_FILE, tools=[tool("read_file")]),
    "a tool's answer with a file that brings memory": body(
        messages=READ_A_FILE, tools=[tool("read_file")], touched=TOUCHED
    ),
    "a tool's answer and then a question": body(
        messages=[*READ_A_FILE[:2], user([RESULT, text("What does it say?")])],
        tools=[tool("read_file")],
        touched=TOUCHED,
    ),
    "a file that brings memory": body(touched=TOUCHED),
    "thoughts at the end": body(messages=[user("Think."), assistant([text("I do."), THOUGHT])]),
    "hidden thoughts at the end": body(messages=[user("Think."), assistant([text("I do."), HIDDEN])]),
    "nothing but thoughts at the end": body(messages=[user("Think."), assistant([THOUGHT, HIDDEN])]),
    "four markers of the caller": body(messages=MARKED_FOUR_TIMES),
    "markers of the caller on tools": body(tools=[tool("a", cache_control=SHORT), tool("b", cache_control=SHORT)]),
    "short markers of the caller before long ones of the service": body(
        tools=[tool("a", cache_control=SHORT)], cache={"ttl": "1h"}
    ),
    "long markers of the caller behind short ones of the service": body(
        messages=[user([text("one", cache_control=LONG)]), assistant("two"), user("three")]
    ),
    "a marker of the caller in a tool's answer": body(
        messages=[
            *READ_A_FILE[:2],
            user([RESULT | {"content": [text("pass", cache_control=SHORT)], "cache_control": SHORT}]),
        ],
        tools=[tool("read_file", cache_control=SHORT)],
    ),
    "one hour": body(cache={"ttl": "1h"}),
    "a scope on the wire": body(cache={"scope_on_wire": True}),
    "a scope on the wire with tools of servers": body(cache={"scope_on_wire": True}, tools=[tool("mcp__docs__find")]),
    "a scope on the wire that another provider would refuse": body(cache={"scope_on_wire": True}, provider="vertex"),
    "no scope": body(cache={"scope": "off"}),
    "the organisation's scope": body(cache={"scope": "org"}),
    "no cache": body(cache={"enabled": False}),
    "no cache and markers of the caller": body(cache={"enabled": False}, messages=MARKED_FOUR_TIMES),
    "the larger window": body(model=f"{MODEL}[1m]"),
    "a prompt of the caller": body(system_prompt={"custom": "You review code.", "append": "Be kind."}),
    "a simple prompt": body(system_prompt={"simple": True}),
    "a header and an addition": body(
        system_prompt={"attribution_header": "x-anthropic-billing-header: a=b", "append": "Be kind."}
    ),
    "an empty prompt of the caller": body(system_prompt={"custom": ""}),
    "no memory": body(memory={"enabled": False}),
    **{f"provider {name}": body(provider=name) for name in ("anthropic", "bedrock", "vertex", "foundry", "custom")},
    **{f"case {case['id']}": case["request"] | {"model": MODEL} for case in CASES[::12]},
}


def assemble(service: httpx.Client, request: dict[str, Any]) -> dict[str, Any]:
    answered = service.post("/v1/context", json=request)
    assert answered.status_code == 200, answered.text
    answer: dict[str, Any] = answered.json()
    return answer


def send(client: anthropic.Anthropic, answer: dict[str, Any]) -> anthropic.types.Message:
    message: anthropic.types.Message = client.messages.create(
        **answer["request"], extra_headers=answer["headers"], max_tokens=64
    )
    return message


@pytest.mark.parametrize("what", REQUESTS)
def test_the_answer_is_a_request_the_api_accepts(what: str, service: httpx.Client, client: anthropic.Anthropic) -> None:
    assert send(client, assemble(service, REQUESTS[what])).stop_reason == "end_turn"


@pytest.mark.parametrize("what", REQUESTS)
def test_the_answer_can_be_counted(what: str, service: httpx.Client, client: anthropic.Anthropic) -> None:
    answer = assemble(service, REQUESTS[what])
    counted = client.messages.count_tokens(**answer["request"], extra_headers=answer["headers"])
    assert counted.input_tokens > 0


@pytest.mark.parametrize("touched", [[], TOUCHED], ids=["nothing touched", "a file that brings memory"])
def test_the_next_turn_reads_what_this_turn_wrote(
    touched: list[dict[str, str]], service: httpx.Client, client: anthropic.Anthropic
) -> None:
    tools = [tool("read_file")]
    first = send(client, assemble(service, body(messages=READ_A_FILE, tools=tools, touched=touched)))
    grown = [*READ_A_FILE, assistant("It says pass."), user("Change it.")]
    second = send(client, assemble(service, body(messages=grown, tools=tools, touched=touched)))
    written = first.usage.cache_creation_input_tokens or 0
    assert written > 0 == first.usage.cache_read_input_tokens
    assert second.usage.cache_read_input_tokens == written


def test_the_system_prompt_stays_cached_when_a_memory_file_changes(
    service: httpx.Client, client: anthropic.Anthropic
) -> None:
    send(client, assemble(service, body()))
    edited = body()
    edited["workspace"] |= {"files": FILES | {"/home/dev/project/CLAUDE.md": "Use spaces."}}
    assert (send(client, assemble(service, edited)).usage.cache_read_input_tokens or 0) > 0


def test_a_cache_that_is_off_leaves_no_marker(service: httpx.Client) -> None:
    answer = assemble(service, REQUESTS["no cache and markers of the caller"])
    assert list(markers(answer["request"])) == []
