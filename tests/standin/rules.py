"""The Messages API's rules for a request, each a function that raises the first breach it finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.standin import shapes

MOST_MARKERS = 4
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
LEAST_THINKING = 1024

Json = dict[str, Any]


class BreachError(ValueError):
    """A request the API answers with 400; the text is the API's message."""


@dataclass(frozen=True)
class Call:
    """A request to check. ``betas`` are the values of the ``anthropic-beta`` header."""

    body: Json
    betas: frozenset[str] = frozenset()
    counting: bool = False
    system_role: bool = False
    """The model takes messages of the role ``system`` without a beta value."""

    def takes_system_role(self) -> bool:
        return self.system_role or any(beta.startswith(shapes.SYSTEM_ROLE_BETA) for beta in self.betas)


def blocks_of(content: Any) -> list[Json]:
    """A message's or the system prompt's content as blocks."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def rows(body: Json) -> Iterator[tuple[str, Json]]:
    """Everything that can be part of a cached prefix, in the API's order, with its place."""
    for number, tool in enumerate(body.get("tools") or []):
        yield f"tools.{number}", tool
    for number, block in enumerate(blocks_of(body.get("system"))):
        yield f"system.{number}", block
    for number, message in enumerate(body["messages"]):
        for index, block in enumerate(blocks_of(message["content"])):
            yield f"messages.{number}.content.{index}", block


def markers(body: Json) -> Iterator[tuple[str, Json]]:
    """All ``cache_control`` values in order, those inside tool results too, the top-level one last."""
    for place, row in rows(body):
        inner = row.get("content") if row.get("type") == "tool_result" else None
        for index, block in enumerate(inner if isinstance(inner, list) else []):
            if block.get("cache_control") is not None:
                yield f"{place}.content.{index}", block["cache_control"]
        if row.get("cache_control") is not None:
            yield place, row["cache_control"]
    if body.get("cache_control") is not None:
        yield "cache_control", body["cache_control"]


def refuse_extra(place: str, given: Json, known: frozenset[str] | set[str]) -> None:
    for name in given:
        if name not in known:
            raise BreachError(f"{place}{name}: Extra inputs are not permitted")


def fields(call: Call) -> None:
    refuse_extra("", call.body, shapes.COUNT_FIELDS if call.counting else shapes.CREATE_FIELDS)
    needed = ["model", "messages"] if call.counting else ["model", "max_tokens", "messages"]
    for name in needed:
        if call.body.get(name) is None:
            raise BreachError(f"{name}: Field required")
    if not call.counting and (not isinstance(call.body["max_tokens"], int) or call.body["max_tokens"] < 1):
        raise BreachError("max_tokens: Input should be greater than or equal to 1")


def messages(call: Call) -> None:
    if not isinstance(call.body["messages"], list):
        raise BreachError("messages: Input should be a valid array")
    if not call.body["messages"]:
        raise BreachError("messages: at least one message is required")
    for number, message in enumerate(call.body["messages"]):
        place = f"messages.{number}."
        refuse_extra(place, message, shapes.MESSAGE_FIELDS)
        role = message.get("role")
        if role not in {"user", "assistant", "system"}:
            raise BreachError(f"{place}role: Input should be 'user' or 'assistant'")
        if role == "system" and not call.takes_system_role():
            raise BreachError(f"{place}role: Input should be 'user' or 'assistant'; 'system' is not enabled")
        if "content" not in message:
            raise BreachError(f"{place}content: Field required")
        if not message["content"]:
            raise BreachError(f"messages.{number}: all messages must have non-empty content")
    if call.body["messages"][0]["role"] != "user":
        raise BreachError('messages: first message must use the "user" role')


def block(place: str, given: Json) -> None:
    kind = given.get("type")
    if kind not in shapes.BLOCK_FIELDS:
        raise BreachError(f"{place}.type: {kind!r} is not a kind of content block")
    required, optional = shapes.BLOCK_FIELDS[kind]
    refuse_extra(f"{place}.{kind}.", given, required | optional | {"type"})
    for name in sorted(required - given.keys()):
        raise BreachError(f"{place}.{kind}.{name}: Field required")
    if kind == "text" and not given["text"].strip():
        raise BreachError(f"{place}: text content blocks must contain non-whitespace text")


def contents(call: Call) -> None:
    for number, given in enumerate(blocks_of(call.body.get("system"))):
        block(f"system.{number}", given)
        if given["type"] != "text":
            raise BreachError(f"system.{number}: only text blocks are permitted")
    for number, message in enumerate(call.body["messages"]):
        for index, given in enumerate(blocks_of(message["content"])):
            place = f"messages.{number}.content.{index}"
            block(place, given)
            by_role(place, message["role"], given["type"])
            inner = given.get("content") if given["type"] == "tool_result" else None
            for at, nested in enumerate(inner if isinstance(inner, list) else []):
                block(f"{place}.content.{at}", nested)


def by_role(place: str, role: str, kind: str) -> None:
    if role == "system" and kind != "text":
        raise BreachError(f"{place}: `system` messages hold text only")
    if kind in shapes.ONLY_BY_ASSISTANT and role != "assistant":
        raise BreachError(f"{place}: `{kind}` blocks can only be in `assistant` messages")
    if kind in shapes.ONLY_BY_USER and role != "user":
        raise BreachError(f"{place}: `{kind}` blocks can only be in `user` messages")


def turns(body: Json) -> list[tuple[str, list[Json]]]:
    """Messages of one role in a row are one turn; system messages stand outside the turns."""
    found: list[tuple[str, list[Json]]] = []
    for message in body["messages"]:
        if message["role"] == "system":
            continue
        if not found or found[-1][0] != message["role"]:
            found.append((message["role"], []))
        found[-1][1].extend(blocks_of(message["content"]))
    return found


def tool_pairs(call: Call) -> None:
    asked: list[str] = []
    for role, turn in turns(call.body):
        answered = [given["tool_use_id"] for given in turn if given["type"] == "tool_result"]
        for identity in answered:
            if identity not in asked:
                raise BreachError(f"messages: unexpected `tool_use_id` found in `tool_result` blocks: {identity}")
        if len(set(answered)) != len(answered):
            raise BreachError("messages: each tool_use must have a single result")
        if role == "user":
            missing = [identity for identity in asked if identity not in answered]
            leading = [given["type"] for given in turn[: len(answered)]]
            if missing or set(leading) > {"tool_result"} or (answered and leading != ["tool_result"] * len(answered)):
                raise BreachError(
                    "messages: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    + ", ".join(missing or answered)
                )
        asked = [given["id"] for given in turn if given["type"] == "tool_use"]
        if len(set(asked)) != len(asked):
            raise BreachError("messages: `tool_use` ids must be unique")
    if asked:
        raise BreachError(
            "messages: `tool_use` ids were found without `tool_result` blocks immediately after: " + ", ".join(asked)
        )


def tools(call: Call) -> None:
    names: set[str] = set()
    for number, tool in enumerate(call.body.get("tools") or []):
        place = f"tools.{number}"
        name = tool.get("name")
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            raise BreachError(f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            raise BreachError("tools: Tool names must be unique.")
        names.add(name)
        if tool.get("type", "custom") not in {"custom", None}:
            continue
        refuse_extra(f"{place}.custom.", tool, shapes.TOOL_FIELDS)
        if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
            raise BreachError(f"{place}.custom.input_schema: Field required, of type 'object'")


def cache_controls(call: Call) -> None:
    found = list(markers(call.body))
    for place, marker in found:
        refuse_extra(f"{place}.cache_control.", marker, shapes.CACHE_CONTROL_FIELDS)
        if marker.get("type") != "ephemeral":
            raise BreachError(f"{place}.cache_control.type: Input should be 'ephemeral'")
        if marker.get("ttl", "5m") not in {"5m", "1h"}:
            raise BreachError(f"{place}.cache_control.ttl: Input should be '5m' or '1h'")
        if "scope" in marker and shapes.SCOPE_BETA not in call.betas:
            raise BreachError(f"{place}.cache_control.scope: Extra inputs are not permitted")
        if marker.get("scope", "global") not in {"global", "org"}:
            raise BreachError(f"{place}.cache_control.scope: Input should be 'global' or 'org'")
    if len(found) > MOST_MARKERS:
        raise BreachError(f"A maximum of {MOST_MARKERS} blocks with cache_control may be provided. Found {len(found)}.")
    short = False
    for place, marker in found:
        if marker.get("ttl", "5m") == "1h" and short:
            raise BreachError(
                f"{place}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' one "
                "in the order `tools`, `system`, `messages`"
            )
        short = short or marker.get("ttl", "5m") == "5m"


def empty_marked(call: Call) -> None:
    for place, row in rows(call.body):
        if row.get("cache_control") is None:
            continue
        if row.get("type") in shapes.THINKING:
            raise BreachError(f"{place}.{row['type']}.cache_control: Extra inputs are not permitted")
        if row.get("type") == "text" and not row.get("text"):
            raise BreachError(f"{place}: cache_control cannot be set for empty text blocks")


def thinking(call: Call) -> None:
    given = call.body.get("thinking")
    if given is None or given.get("type") in {"disabled", "adaptive"}:
        return
    budget = given.get("budget_tokens", 0)
    if given.get("type") != "enabled" or budget < LEAST_THINKING:
        raise BreachError("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if not call.counting and budget >= call.body["max_tokens"]:
        raise BreachError("`max_tokens` must be greater than `thinking.budget_tokens`")


RULES = (fields, messages, empty_marked, contents, tool_pairs, tools, cache_controls, thinking)


def check(call: Call) -> None:
    """Raise the first breach, in the order of ``RULES``."""
    for rule in RULES:
        rule(call)
