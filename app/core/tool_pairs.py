"""Calls of tools and their results, which the API takes only together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile

from app.core.facts import Json, Message

Content = str | tuple[Json, ...]


def pairs(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """The index of a call and that of each of its results, in the order of the results; server tools included."""
    called: dict[str, int] = {}
    for index, message in enumerate(messages):
        called.update((identity, index) for identity in call_ids(message.content))
        yield from ((called[identity], index) for identity in result_ids(message.content) if identity in called)


def whole_before(messages: Sequence[Message]) -> tuple[bool, ...]:
    """For each index whether a cut in front of that message leaves every call with its results."""
    steps = [0] * (len(messages) + 1)
    for call, result in pairs(messages):
        steps[call + 1] += 1
        steps[result + 1] -= 1
    return tuple(crossing == 0 for crossing in accumulate(steps))[: len(messages)]


def has_result(message: Message) -> bool:
    return any(_is_result(block) for block in _blocks(message.content))


def owed_from(messages: Sequence[Message]) -> int | None:
    """Where the assistant's last turn begins, if one of its calls has no result; None when nothing is owed."""
    last = next((index for index in reversed(range(len(messages))) if messages[index].role == "assistant"), None)
    if last is None:
        return None
    turn = list(takewhile(lambda index: messages[index].role == "assistant", range(last, -1, -1)))
    called = {identity for index in turn for identity in call_ids(messages[index].content)}
    answered = {identity for message in messages[turn[-1] :] for identity in result_ids(message.content)}
    return turn[-1] if called - answered else None


def settled(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Without the assistant's last turn when it is owed results, nor those that came; what the user said stays."""
    first = owed_from(messages)
    if first is None:
        return messages
    return (
        *messages[:first],
        *_without_results(message for message in messages[first:] if message.role != "assistant"),
    )


def unanswered(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """What the user said since the assistant last spoke, word for word, without results of tools or a summary."""
    waiting = takewhile(
        lambda message: message.role != "assistant" and not message.boundary, reversed(settled(messages))
    )
    return tuple(_without_results(message for message in reversed(list(waiting)) if message.role == "user"))


def without_results(content: Content) -> Content:
    """``content`` without results of tools; empty when there was nothing else."""
    return content if isinstance(content, str) else tuple(block for block in content if not _is_result(block))


def call_ids(content: Content) -> Iterator[str]:
    return _ids(content, "tool_use", "id")


def result_ids(content: Content) -> Iterator[str]:
    return _ids(content, "tool_result", "tool_use_id")


def _without_results(messages: Iterator[Message]) -> Iterator[Message]:
    for message in messages:
        left = without_results(message.content)
        if left:
            yield replace(message, content=left)


def _ids(content: Content, kind: str, key: str) -> Iterator[str]:
    for block in _blocks(content):
        if str(block.get("type")).endswith(kind) and isinstance(block.get(key), str):
            yield block[key]


def _is_result(block: Json) -> bool:
    return str(block.get("type")).endswith("tool_result")


def _blocks(content: Content) -> tuple[Json, ...]:
    return () if isinstance(content, str) else content
