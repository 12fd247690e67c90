"""Requests about the prompt cache, and what every answer to one is held to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx

from tests.asking import ask, inline
from tests.core.api_rules import marked, violations
from tests.serving import serve
from tests.standin.server import StandIn

MODEL = "claude-sonnet-5-5"
PROVIDERS = ("anthropic", "bedrock", "vertex", "foundry", "custom")
SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
HEADER = "x-anthropic-billing-header: version=7; entry=cli;"
PREAMBLE = "You work for Example Ltd. and follow its house rules."
QUESTION = {"role": "user", "content": "What is in pkg?"}
FILES = {"/home/dev/p/CLAUDE.md": "Use tabs. PELICAN."}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool(name: str, words: int = 5, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"name": name, "description": "word " * words, "input_schema": schema} | more


def result(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(blocks)} | more


def conversation(count: int, marker: dict[str, Any]) -> list[dict[str, Any]]:
    """So many messages, each with a marker."""
    roles = [assistant if number % 2 else user for number in range(count)]
    return [role(text(f"Message {number}.", cache_control=marker)) for number, role in enumerate(roles)]


CALL = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a.py"}}
MANY: dict[str, dict[str, Any]] = {
    "on every tool": {"tools": [tool(f"t{n}", cache_control=SHORT) for n in range(6)]},
    "on every content item": {"messages": [user(*(text(f"{n}", cache_control=SHORT) for n in range(7)))]},
    "on every message": {"messages": conversation(9, SHORT)},
    "on a tool and on four messages": {
        "tools": [tool("a", cache_control=SHORT)],
        "messages": conversation(5, SHORT),
    },
    "on four blocks and on the request": {"messages": conversation(4, SHORT), "cache_control": SHORT},
    "on five blocks and on the request": {"messages": conversation(5, SHORT), "cache_control": SHORT},
    "in a tool's answer": {
        "tools": [tool("read_file", cache_control=SHORT)],
        "messages": [
            QUESTION,
            assistant(CALL | {"cache_control": SHORT}),
            user(result(*(text(f"{n}", cache_control=SHORT) for n in range(3)), cache_control=SHORT)),
        ],
    },
    "on every tool of a server": {"tools": [tool(f"mcp__docs__{n}", cache_control=LONG) for n in range(5)]},
}
"""More markers than the API takes, by where they stand."""

MODES: dict[str, dict[str, Any]] = {
    "global": {},
    "tool_based": {"tools": [tool("mcp__docs__find"), tool("read_file")]},
    "org by the provider": {"provider": "bedrock"},
    "org by choice": {"cache": {"scope": "org"}},
    "no scope": {"cache": {"scope": "off"}},
    "no cache": {"cache": {"enabled": False}},
    "a custom prompt": {"system_prompt": {"custom": "You review code."}},
    "the simple prompt": {"system_prompt": {"simple": True}},
    "a style": {"settings": {"output_style": "Explanatory"}},
}
"""What a request says for each way in which the prompt is cut."""


def request(*changes: dict[str, Any], workspace: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A request with instructions and a question; groups of options in ``changes`` and ``more`` are joined."""
    body = inline(FILES, workspace=workspace, model=MODEL, messages=[QUESTION])
    for change in (*changes, more):
        for name, value in change.items():
            joined = isinstance(value, dict) and isinstance(body.get(name), dict)
            body[name] = body[name] | value if joined else value
    return body


def server(name: str, words: str | None = None, status: str = "connected") -> dict[str, Any]:
    """An MCP server, with words of its own or the usual ones."""
    return {"name": name, "status": status, "instructions": f"Ask {name} first." if words is None else words}


@contextmanager
def role_taking_client() -> Iterator[anthropic.Anthropic]:
    """The official SDK, talking to a stand-in whose model takes messages of the role ``system``."""
    with (
        serve(StandIn(minimum=20, takes_system_role=frozenset({MODEL})).app) as address,
        anthropic.Anthropic(base_url=address, api_key="test", max_retries=0) as made,
    ):
        yield made


def turns(count: int) -> list[dict[str, Any]]:
    """The messages of the turn of that number, from 1 on."""
    later = [one for number in range(1, count) for one in (assistant(text("Done.")), user(text(f"And {number}?")))]
    return [QUESTION, *later]


def assembled(service: httpx.Client, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    """The answer, which the API's rules have nothing against."""
    answer = ask(service, body, **headers)
    sent, provider = answer["request"], body.get("provider", "anthropic")
    faults = violations(
        sent.get("tools", []),
        sent.get("system", []),
        sent["messages"],
        scope_allowed=body.get("cache", {}).get("scope_on_wire", False),
        automatic=sent.get("cache_control"),
        provider=provider,
        model=body["model"],
        betas=answer["headers"].get("anthropic-beta", "").split(","),
    )
    assert faults == []
    return answer


def send(client: anthropic.Anthropic, answer: dict[str, Any]) -> anthropic.types.Usage:
    """What the API's cache did with it."""
    told = client.messages.create(**answer["request"], extra_headers=answer["headers"], max_tokens=64)
    assert told.stop_reason == "end_turn"
    usage: anthropic.types.Usage = told.usage
    return usage


def read(usage: anthropic.types.Usage) -> int:
    return usage.cache_read_input_tokens or 0


def written(usage: anthropic.types.Usage) -> int:
    return usage.cache_creation_input_tokens or 0


def marks(answer: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """(place, marker) of each marker in wire order, the request's own last."""
    sent = answer["request"]
    found = marked(sent.get("tools", []), sent.get("system", []), sent["messages"])
    own = [("cache_control", sent["cache_control"])] if "cache_control" in sent else []
    return [*((where, marker) for where, _, marker in found), *own]


def told(answer: dict[str, Any]) -> list[str]:
    """The codes of the warnings."""
    return [warning["code"] for warning in answer["warnings"]]


def system(answer: dict[str, Any]) -> list[str]:
    return [block["text"] for block in answer["request"].get("system", [])]


def said(answer: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Role and texts of each message."""
    found = []
    for message in answer["request"]["messages"]:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [block.get("text", "") for block in content]
        found.append((message["role"], texts))
    return found


def wire(value: Any) -> str:
    """Its bytes, with keys in the order in which they are sent."""
    return json.dumps(value, ensure_ascii=False)
