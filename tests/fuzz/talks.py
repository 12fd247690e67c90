"""Conversations drawn from bytes: such as an agent has, and such as nobody should send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from app.core.facts import Json, Message
from tests.fuzz.drawing import Drawn

WORDS = ("a", "Go on.", "words " * 60, "é\u200b€😀", "x" * 5000, "# Title\n@a.md", "<system-reminder>", "\ud800")
BLANK = ("", " ", "\n")
IDS = ("t0", "t1", "t2", "t3")
KINDS = ("text", "tool_use", "tool_result", "server_tool_use", "web_search_tool_result", "thinking", "image", "odd")
MARKERS: tuple[Any, ...] = (
    {"type": "ephemeral"},
    {"type": "ephemeral", "ttl": "1h"},
    {"type": "ephemeral", "ttl": "5m"},
    {"type": "ephemeral", "scope": "global"},
    {"type": "other"},
    {},
    None,
    "ephemeral",
    [1],
)
LEGAL_MARKERS = MARKERS[:3]
ODD: tuple[Any, ...] = (None, 0, "x", [], {}, [{}], {"type": None}, {"type": "text"}, 1.5, True)


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def sound(drawn: Drawn, *, owing: bool = False) -> tuple[Message, ...]:
    """Rounds of prompts and calls with all their results, legal as the API has it. ``owing``: the last may be owed."""
    messages: list[Message] = []
    if drawn.maybe(0.2):
        messages.append(Message("user", "Summary.", boundary=True))
    for number in range(drawn.randint(1, 4)):
        messages.extend(_prompts(drawn, number))
        for _ in drawn.several(3):
            called = [f"t{len(messages)}.{at}" for at in range(drawn.randint(1, 3))]
            messages.extend(_calls(drawn, called))
            messages.extend(_results(drawn, called))
        if drawn.maybe(0.7):
            messages.append(Message("assistant", (*_thought(drawn), text(drawn.choice(WORDS)))))
    if owing and drawn.maybe():
        messages.append(Message("assistant", (*_thought(drawn), _call("owed"), _call("owed too"))))
        if drawn.maybe():
            messages.append(Message("user", (_result(drawn, "owed"),)))
    return tuple(messages)


def _prompts(drawn: Drawn, number: int) -> Iterator[Message]:
    yield Message("user", drawn.choice((f"prompt {number}", (text(drawn.choice(WORDS)),))))
    if drawn.maybe(0.3):
        yield Message("user", (text("and this"), {"type": "image", "source": {"type": "url", "url": "x"}}))


def _calls(drawn: Drawn, called: list[str]) -> Iterator[Message]:
    calls = tuple(map(_call, called))
    if drawn.maybe():
        yield Message("assistant", (*_thought(drawn), text("first"), *calls))
    else:
        yield Message("assistant", (text("first"),), response_id="r")
        yield from (Message("assistant", (one,), response_id="r") for one in calls)


def _results(drawn: Drawn, called: list[str]) -> Iterator[Message]:
    results = tuple(_result(drawn, one) for one in called)
    match drawn.randint(0, 2):
        case 0:
            yield Message("user", results)
        case 1:
            yield from (Message("user", (one,)) for one in results)
        case _:
            yield Message("user", (*results, text("and mind this")))


def _thought(drawn: Drawn) -> tuple[Json, ...]:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    return drawn.choice(((), (thought,), (thought, {"type": "redacted_thinking", "data": "x"})))


def _call(identity: str) -> Json:
    return {"type": "tool_use", "id": identity, "name": "Read", "input": {"path": "a/b.py"}}


def _result(drawn: Drawn, identity: str) -> Json:
    content = drawn.choice(("done", [text("done")], [text("a"), text("b")]))
    return {"type": "tool_result", "tool_use_id": identity, "content": content}


def marked(drawn: Drawn, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same with markers on some blocks, at places where the API takes one."""
    return tuple(
        one if isinstance(one.content, str) else replace(one, content=tuple(_marked(drawn, b) for b in one.content))
        for one in messages
    )


def _marked(drawn: Drawn, block: Json) -> Json:
    takes = block["type"] not in {"thinking", "redacted_thinking"}
    return {**block, "cache_control": drawn.choice(LEGAL_MARKERS)} if takes and drawn.maybe(0.1) else block


def has_sound_markers(messages: tuple[Message, ...]) -> bool:
    """Whether the markers are as the planner leaves them."""
    blocks = [block for one in messages if not isinstance(one.content, str) for block in one.content]
    return all(block["cache_control"] in LEGAL_MARKERS for block in blocks if "cache_control" in block)


def changed(drawn: Drawn, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same with messages lost, doubled or moved."""
    found = list(messages)
    for _ in drawn.several(3):
        at, to = drawn.randint(0, len(found)), drawn.randint(0, len(found))
        found = drawn.choice((found[:at] + found[at + 1 :], found[:at] + found[at - 1 :], found[to:] + found[:to]))
    return tuple(replace(one) for one in found)


def hostile(drawn: Drawn) -> tuple[Message, ...]:
    """Messages of any blocks that the contract lets pass."""
    return tuple(_any_message(drawn) for _ in drawn.several(8))


def _any_message(drawn: Drawn) -> Message:
    role = drawn.choice(("user", "assistant", "system"))
    blocks = tuple(_any_block(drawn) for _ in drawn.several(4))
    return Message(role, drawn.choice((blocks, blocks, drawn.choice((*WORDS, *BLANK)))), boundary=drawn.maybe(0.15))


def _any_block(drawn: Drawn, depth: int = 2) -> Json:
    kind = drawn.choice(KINDS)
    inner = drawn.choice(("done", [_any_block(drawn, depth - 1) for _ in drawn.several(2)] if depth else [], *ODD))
    known: dict[str, Any] = {
        "text": {"text": drawn.choice((*WORDS, *BLANK, *ODD))},
        "tool_use": {"id": drawn.choice((*IDS, *ODD)), "name": drawn.choice(("Read", None)), "input": inner},
        "tool_result": {"tool_use_id": drawn.choice((*IDS, *ODD)), "content": inner},
        "server_tool_use": {"id": drawn.choice(IDS), "name": "web_search", "input": inner},
        "web_search_tool_result": {"tool_use_id": drawn.choice(IDS), "content": inner},
        "thinking": {"thinking": drawn.choice(("hm", None)), "signature": "s"},
        "image": {"source": inner},
        "odd": {"source": {"content": inner}, "type": drawn.choice(("document", "", "new"))},
    }
    block = {"type": kind, **known[kind]}
    if drawn.maybe(0.1):
        block.pop(drawn.choice([name for name in block if name != "type"]))
    return {**block, "cache_control": drawn.choice(MARKERS)} if drawn.maybe(0.2) else block


def any_talk(drawn: Drawn) -> tuple[Message, ...]:
    match drawn.randint(0, 3):
        case 0:
            return sound(drawn, owing=True)
        case 1:
            return marked(drawn, sound(drawn))
        case 2:
            return changed(drawn, sound(drawn, owing=True))
        case _:
            return hostile(drawn)


def as_sent(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """The messages as a caller sends them."""
    return [
        {"role": one.role, "content": one.content if isinstance(one.content, str) else list(one.content)}
        for one in messages
    ]
