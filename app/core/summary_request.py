"""The request for a summary of a conversation: the one that was to be sent, with one more message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.facts import Json, Message, Notice
from app.core.tool_pairs import Content, owed_from, without_results

MOST_SUMMARY_TOKENS = 20_000
LEAST_BESIDE_THINKING = 4_000
"""Tokens of a summary for which the budget of thinking must leave room."""

ADDED = "For this summary the user adds the following. It decides what weighs more; the form stays as described above."
MISSING = (
    "The first {count} messages of the conversation are not above, because it was too long to be sent whole. "
    "Say under Open that they are missing, and write nothing about them."
)
NOT_FROM_CACHE = "The messages are therefore not read from the cache."


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A Messages API body, complete with ``max_tokens``, and a word on each thing that differs from the one given."""

    body: Json
    notices: tuple[Notice, ...] = ()


def summary_request(
    request: Json,
    prose: Mapping[str, str],
    *,
    instructions: str | None,
    max_output: int,
    most_summary: int = MOST_SUMMARY_TOKENS,
    missing: int = 0,
) -> SummaryRequest:
    """``request`` with one more message that asks for a summary; what stands before it stays, so that it is cached.

    What would keep the model from writing text is changed, and told. An assistant's last turn that is owed results is
    left out, because the API refuses it and nothing came of it.

    Args:
        request: an assembled Messages API body; it is not mutated.
        prose: the texts by name; ``compact_summary`` is used.
        instructions: what the user adds for this summary; blank counts as None.
        max_output: the most output tokens there is room for, thinking included.
        most_summary: the most tokens of the summary itself.
        missing: how many of the oldest messages are not in ``request``, because it would have been too long.
    """
    messages, moved, owed = _settled(request["messages"])
    free, choosing = _free_to_write(request)
    plain, formatting = _without_format(free)
    most = min(MOST_SUMMARY_TOKENS, most_summary, max_output)
    sent, max_tokens, thinking = _with_room(plain, max_output, most)
    words = prose["compact_summary"].replace("{count}", f"{most // 2:,}")
    asking = {"role": "user", "content": list(_instruction(words, instructions, missing, moved))}
    body = {**sent, "messages": [*messages, asking], "max_tokens": max_tokens}
    return SummaryRequest(body, (*owed, *choosing, *formatting, *thinking, *_missing_notices(missing)))


def _instruction(words: str, instructions: str | None, missing: int, marker: Json | None) -> Iterator[Json]:
    added = (instructions or "").strip()
    texts = [
        words,
        *([MISSING.format(count=f"{missing:,}")] if missing else []),
        *([f"{ADDED}\n\n{added}"] if added else []),
    ]
    yield from ({"type": "text", "text": text} for text in texts[:-1])
    yield {"type": "text", "text": texts[-1], **({} if marker is None else {"cache_control": marker})}


def _missing_notices(missing: int) -> Iterator[Notice]:
    if missing:
        told = f"The whole was too long for the API: the {missing:,} oldest messages are not in the summary."
        yield Notice("oldest_left_out", told, "messages")


def _settled(messages: Sequence[Json]) -> tuple[Sequence[Json], Json | None, tuple[Notice, ...]]:
    """The messages without calls that are owed results, and a cache marker that lost its place with them."""
    first = owed_from([Message(message["role"], _content(message)) for message in messages])
    if first is None:
        return messages, None, ()
    tail = list(_said(messages[first:]))
    before, after = list(_markers(messages[first:])), list(_markers(tail))
    moved = before[-1] if len(after) < len(before) else None
    told = "Calls of tools that have no results were left out: answer them first if the summary is to know of them."
    return [*messages[:first], *tail], moved, (Notice("owed_calls_left_out", told, f"messages[{first}]"),)


def _said(messages: Sequence[Json]) -> Iterator[Json]:
    """Without the assistant's messages and the results of tools."""
    for message in messages:
        left = without_results(_content(message))
        if left and message["role"] != "assistant":
            yield {**message, "content": left if isinstance(left, str) else list(left)}


def _content(message: Json) -> Content:
    content = message["content"]
    return content if isinstance(content, str) else tuple(content)


def _markers(value: Any) -> Iterator[Json]:
    """Cache markers of messages and of blocks, those within results included, in order."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _markers(one)
    elif isinstance(value, Mapping):
        yield from _markers(value.get("content"))
        if value.get("cache_control") is not None:
            yield value["cache_control"]


def _free_to_write(request: Json) -> tuple[Json, tuple[Notice, ...]]:
    match request.get("tool_choice"):
        case {"type": "any" | "tool"}:
            told = f"A call of a tool was demanded; for the summary none is allowed. {NOT_FROM_CACHE}"
            notice = Notice("tool_choice_changed", told, "tool_choice")
            return {**request, "tool_choice": {"type": "none"}}, (notice,)
        case _:
            return request, ()


def _without_format(request: Json) -> tuple[Json, tuple[Notice, ...]]:
    config = request.get("output_config")
    if not isinstance(config, Mapping) or config.get("format") is None:
        return request, ()
    told = f"The format of answers was left out: a summary is plain text. {NOT_FROM_CACHE}"
    notice = Notice("output_format_left_out", told, "output_config.format")
    rest = _without(config, "format")
    return {**_without(request, "output_config"), **({"output_config": rest} if rest else {})}, (notice,)


def _with_room(request: Json, max_output: int, summary: int) -> tuple[Json, int, tuple[Notice, ...]]:
    """``max_tokens`` for the summary, on top of a budget of thinking, which goes when it leaves too little."""
    budget = _budget(request)
    if max_output - budget >= min(LEAST_BESIDE_THINKING, summary):
        return request, min(budget + summary, max_output), ()
    told = (
        f"Thinking was left out: its budget of {budget:,} tokens leaves too few of {max_output:,} for a summary. "
        f"{NOT_FROM_CACHE}"
    )
    return _without(request, "thinking"), summary, (Notice("thinking_left_out", told, "thinking.budget_tokens"),)


def _budget(request: Json) -> int:
    match request.get("thinking"):
        case {"type": "enabled", "budget_tokens": int(budget)}:
            return budget
        case _:
            return 0


def _without(values: Json, key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}
