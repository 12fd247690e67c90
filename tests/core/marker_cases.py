"""Requests made by chance, with markers legal and illegal of every kind, for the marker planner."""

from dataclasses import dataclass
from typing import Any

from app.core.blocks import Block
from app.core.facts import CacheOptions
from app.core.markers import plan_markers
from app.core.models import Model
from app.data.tables import load_models

PROVIDERS = ("anthropic", "bedrock", "vertex", "foundry", "custom")
MODELS = tuple(
    load_models().find(spelling)
    for spelling in ("opus", "claude-opus-4-8", "claude-sonnet-4-5", "claude-sonnet-4", "claude-3-5-haiku", "llama-7")
)
LEGAL = (
    {"type": "ephemeral"},
    {"type": "ephemeral"},
    {"type": "ephemeral", "ttl": "5m"},
    {"type": "ephemeral", "ttl": "1h"},
    {"type": "ephemeral", "ttl": "1h"},
    {"type": "ephemeral", "scope": "global"},
)
ILLEGAL = (
    {"type": "eternal"},
    {"type": "ephemeral", "ttl": "2h"},
    {"type": "ephemeral", "ttl": None},
    {"type": "ephemeral", "scope": "galaxy"},
    {"type": "ephemeral", "extra": 1},
    {},
)
WORDS = ("a", "words " * 40, "words " * 200, "w" * 2400, "w" * 8000)
BETAS = ((), ("files-1",), ("prompt-caching-scope-2026-01-05", "context-1m-2025-08-07"))


@dataclass(frozen=True)
class Case:
    tools: Any
    system: Any
    messages: Any
    cache: CacheOptions
    provider: str
    model: Model
    automatic: Any
    before: int | None
    changing: frozenset[int]
    betas: tuple[str, ...]
    callers: bool

    def planned(self):
        return plan_markers(
            self.tools,
            self.system,
            self.messages,
            cache=self.cache,
            provider=self.provider,
            model=self.model,
            automatic=self.automatic,
            before=self.before,
            changing=self.changing,
            betas=self.betas,
            callers=self.callers,
        )


def case(random):
    """A request; ``share`` of its places carry a marker of the caller's."""
    share = random.choice((0, 0, 0.1, 0.3, 0.8))
    blocks = _system(random, share)
    messages = _messages(random, share)
    return Case(
        tools=[_tool(random, share, number) for number in range(random.choice((0, 0, 1, 3)))],
        system=blocks,
        messages=messages,
        cache=CacheOptions(
            enabled=random.random() < 0.9, ttl=random.choice(("5m", "1h")), scope_on_wire=random.random() < 0.3
        ),
        provider=random.choice(PROVIDERS),
        model=random.choice(MODELS),
        automatic=_marker(random) if random.random() < 0.4 else None,
        before=random.choice((None, None, random.randint(0, len(messages)))),
        changing=frozenset(index for index in range(len(blocks) + 1) if random.random() < 0.15),
        betas=random.choice(BETAS),
        callers=random.random() < 0.95,
    )


def _marker(random):
    return dict(random.choice(LEGAL if random.random() < 0.85 else ILLEGAL))


def _marked(random, share, block):
    return {**block, "cache_control": _marker(random)} if random.random() < share else block


def _tool(random, share, number):
    later = {"defer_loading": True} if random.random() < 0.2 else {}
    schema = {"type": "object", "description": random.choice(WORDS)}
    return _marked(random, share, {"name": f"tool_{number}", "input_schema": schema, **later})


def _text(random, share):
    words = random.choice(("", " \n")) if random.random() < 0.15 else random.choice(WORDS)
    return _marked(random, share, {"type": "text", "text": words})


def _system(random, share):
    header = Block("x-anthropic-billing-header: 1", None, ("attribution_header",), ())
    prefix = Block(random.choice(WORDS), "org", ("prefix",), ())
    shared = Block(random.choice(WORDS), "global", ("intro",), ())
    rest = Block(random.choice(WORDS), random.choice((None, "org")), ("env_info",), ())
    ours = random.choice(([], [prefix], [header, prefix, rest], [prefix, shared, rest]))
    return [*ours, *(_text(random, share) for _ in range(random.choice((0, 0, 1, 3))))]


def _block(random, share):
    kind = random.choice(("text", "text", "text", "thinking", "tool_use", "tool_result", "document"))
    if kind == "text":
        return _text(random, share)
    inner = [_text(random, share) for _ in range(random.choice((0, 1, 2)))]
    bare = {
        "thinking": {"type": random.choice(("thinking", "redacted_thinking")), "thinking": "x"},
        "tool_use": {"type": "tool_use", "id": "1", "name": "x", "input": {"cache_control": "a word"}},
        "tool_result": {"type": "tool_result", "tool_use_id": "1", "content": random.choice((inner, "done"))},
        "document": {"type": "document", "source": {"type": "content", "content": inner}},
    }
    return _marked(random, share, bare[kind])


def _messages(random, share):
    count = random.choice((0, 1, 2, 3, 5))
    long = random.random() < 0.25
    return [_message(random, share / 4 if long else share, number, long) for number in range(count)]


def _message(random, share, number, long):
    role = ("user", "assistant")[number % 2 if random.random() < 0.9 else 0]
    if random.random() < 0.3:
        return {"role": role, "content": random.choice(("", " ", *WORDS))}
    blocks = random.randint(10, 30) if long and number % 2 else random.choice((0, 1, 2, 3))
    return {"role": role, "content": [_block(random, share) for _ in range(blocks)]}
