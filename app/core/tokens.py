"""Counting tokens without asking anybody: rough counts, and counts that start from a response's own usage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import lcm
from typing import Any

from app.core.facts import Json, Message

BYTES_PER_TOKEN = 4
JSON_BYTES_PER_TOKEN = 2
JSON_ENDINGS = (".json", ".jsonl", ".jsonc")
ATTACHED_FILE_TOKENS = 2_000
USAGE_DIFFERENCE = "usage_difference"
RECENT = 6
"""Responses from which the pace is taken."""

COUNT_DIFFERENCE = "count_difference"


def utf16_length(text: str) -> int:
    """The length of ``text`` in UTF-16 units: characters beyond U+FFFF count twice."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def bytes_per_token(path: str) -> int:
    """How many units of the file at ``path`` make a token, going by its ending in any case."""
    return JSON_BYTES_PER_TOKEN if path.lower().endswith(JSON_ENDINGS) else BYTES_PER_TOKEN


def rough(text: str, bytes_per_token: int = BYTES_PER_TOKEN) -> int:
    """Tokens of ``text``: its length in UTF-16 units by ``bytes_per_token``, a half rounded up."""
    return _half_up(utf16_length(text), bytes_per_token)


def spread(sizes: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Tokens of each ``(UTF-16 length, units per token)``, so that they add up to the rounded total of them all.

    A row may differ by one from what it would round to alone; none is negative.
    """
    scale = lcm(*(per_token for _, per_token in sizes))
    sums = accumulate((length * (scale // per_token) for length, per_token in sizes), initial=0)
    return tuple(after - before for before, after in pairwise(_half_up(total, scale) for total in sums))


def _half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def rough_message(message: Message) -> int:
    if isinstance(message.content, str):
        return rough(message.content)
    return sum(rough_block(block) for block in message.content)


def rough_block(block: Any) -> int:
    """Tokens of one content block, whatever JSON it is; a tool result is the sum of the blocks in it."""
    return sum(_rough_leaf(leaf) for leaf in leaves(block))


def attached_files(message: Message) -> int:
    """How many images and documents a message holds, those in tool results included."""
    blocks = () if isinstance(message.content, str) else message.content
    found = (leaf for block in blocks for leaf in leaves(block) if isinstance(leaf, Mapping))
    return sum(1 for leaf in found if leaf.get("type") in {"image", "document"})


def rough_tool(tool: Json) -> int:
    return _half_up(json_length(tool), BYTES_PER_TOKEN)


def leaves(block: Any) -> Iterator[Any]:
    waiting = [block]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, Mapping) or current.get("type") != "tool_result":
            yield current
            continue
        content = current.get("content")
        waiting.extend(content if isinstance(content, list | tuple) else [] if content is None else [content])


def _rough_leaf(block: Any) -> int:
    if isinstance(block, str):
        return rough(block)
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return rough(text)
        case {"type": "image" | "document"}:
            return ATTACHED_FILE_TOKENS
        case {"type": "tool_use", "name": str(name)}:
            return _half_up(utf16_length(name) + json_length(block.get("input", {})), BYTES_PER_TOKEN)
        case _:
            return _half_up(json_length(block), BYTES_PER_TOKEN)


def json_length(value: Any) -> int:
    """The length of ``value`` as compact JSON (no spaces, non-ASCII kept), in UTF-16 units, at any depth."""
    try:
        return utf16_length(compact_json(value))
    except RecursionError:
        return _deep_json_length(value)


def compact_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=dict)


def _deep_json_length(value: Any) -> int:
    total, waiting = 0, [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mapping):
            total += 2 + max(0, len(current) - 1) + sum(utf16_length(compact_json(key)) + 1 for key in current)
            waiting.extend(current.values())
        elif isinstance(current, list | tuple):
            total += 2 + max(0, len(current) - 1)
            waiting.extend(current)
        else:
            total += utf16_length(compact_json(current))
    return total


@dataclass(frozen=True, slots=True)
class Anchor:
    """A response whose own usage stands for everything up to and including message ``first``.

    ``first`` is the index of the response's first fragment, ``carrier`` of the fragment whose usage is taken;
    ``total`` is that usage, in tokens.
    """

    first: int
    carrier: int
    total: int


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the tokens in use. ``usage_difference`` and ``count_difference``: what the others are off by."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens in use. ``parts`` add up to ``used``; ``anchored_on`` is the index of the anchor's first fragment."""

    used: int
    anchored_on: int | None
    parts: tuple[Part, ...]


def anchor(messages: tuple[Message, ...]) -> Anchor | None:
    """The last response with usage after the last compaction boundary, else the boundary's own figure, else None."""
    last = max((index for index, message in enumerate(messages) if message.boundary), default=-1)
    start = last + 1
    for carrier in reversed(range(start, len(messages))):
        message = messages[carrier]
        if message.role == "assistant" and message.usage is not None and message.usage.total > 0:
            return Anchor(_first_fragment(messages, start, carrier), carrier, message.usage.total)
    own = messages[last].boundary_tokens if last >= 0 else None
    return Anchor(last, last, own) if own else None


def pace(messages: Sequence[Message]) -> int | None:
    """By how many tokens the conversation has grown with each of the last responses; None: nothing is known of it."""
    last = max((index for index, message in enumerate(messages) if message.boundary), default=-1)
    totals: dict[str | int, int] = {}
    for index, message in enumerate(messages[last + 1 :]):
        if message.role == "assistant" and message.usage is not None and message.usage.total > 0:
            totals[message.response_id or index] = message.usage.total
    recent = list(totals.values())[-RECENT:]
    grown = [after - before for before, after in pairwise(recent) if after > before]
    return sum(grown) // len(grown) or None if grown else None


def _first_fragment(messages: tuple[Message, ...], start: int, carrier: int) -> int:
    """Back from ``carrier`` over messages that are no response's, as tool results are, but never over another's."""
    response, first = _response(messages[carrier]), carrier
    if response is None:
        return carrier
    for index in reversed(range(start, carrier)):
        other = _response(messages[index])
        if other == response:
            first = index
        elif other is not None:
            break
    return first


def _response(message: Message) -> str | None:
    return message.response_id if message.role == "assistant" else None


@dataclass(frozen=True, slots=True)
class Rows:
    """Tokens of all parts of a request.

    ``fixed`` are (name, tokens) in front of the conversation; ``messages`` those of each of the caller's messages;
    ``late`` are (name, tokens, position): what stands before the message of that index, or behind all of them.
    """

    fixed: tuple[tuple[str, int], ...] = ()
    messages: tuple[int, ...] = ()
    late: tuple[tuple[str, int, int], ...] = ()

    @property
    def total(self) -> int:
        return sum(part.tokens for part in self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (
            *(Part(name, tokens) for name, tokens in self.fixed),
            *(Part(f"messages[{index}]", tokens) for index, tokens in enumerate(self.messages)),
            *(Part(name, tokens) for name, tokens, _ in self.late),
        )

    def mapped(self, change: Callable[[int], int]) -> Rows:
        """Every figure changed in the same way."""
        return Rows(
            tuple((name, change(tokens)) for name, tokens in self.fixed),
            tuple(map(change, self.messages)),
            tuple((name, change(tokens), at) for name, tokens, at in self.late),
        )


def count(messages: tuple[Message, ...], rows: Rows) -> Count:
    """Tokens in use by the conversation and what is sent with it: from usage, where there is one, and the rows."""
    found = anchor(messages)
    if found is None:
        return Count(rows.total, None, rows.parts)
    later = sum(rows.messages[found.first + 1 :]) + sum(tokens for _, tokens, at in rows.late if at > found.first)
    used = found.total + later
    return Count(used, found.first, (*rows.parts, Part(USAGE_DIFFERENCE, used - rows.total)))


def counted(rows: Rows, exact: int) -> Count:
    """``exact`` is the API's own figure of the whole request."""
    return Count(exact, None, (*rows.parts, Part(COUNT_DIFFERENCE, exact - rows.total)))
