"""Texts that join the conversation after it began, and where: a place that stays when the conversation grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.candidates import MemoryFile
from app.core.facts import Json, Message
from app.core.message import attachment_text, date_change_text
from app.core.paths import paths_for
from app.core.tokens import bytes_per_token


@dataclass(frozen=True, slots=True)
class Late:
    """Text that joined the conversation. ``at``: the number of caller's messages it stands behind.

    ``real`` is the real path of an attachment.
    """

    at: int
    part: str
    text: str
    units_per_token: int = 4
    real: str | None = None


def late_date(date: str, messages: Sequence[Message]) -> Late:
    return Late(end(messages), "date_change", date_change_text(date))


def late_attachment(file: MemoryFile, messages: Sequence[Message], cwd: str) -> Late:
    """An attachment stands behind the result of the tool call that touched its file, else behind everything."""
    at = _behind_result(file.trigger, messages, cwd) if file.trigger else None
    place = end(messages) if at is None else at
    return Late(place, f"attachment:{file.path}", attachment_text(file), bytes_per_token(file.path), file.real)


def end(messages: Sequence[Message]) -> int:
    """How many messages a late one stands behind: all, but for an answer that the model is to go on with."""
    return len(messages) - 1 if messages and messages[-1].role == "assistant" else len(messages)


def _behind_result(path: str, messages: Sequence[Message], cwd: str) -> int | None:
    paths = paths_for(cwd)
    touched = paths.join(cwd, path)
    calls = {
        block.get("id")
        for message in messages
        for block in _blocks(message, "tool_use")
        if isinstance(block.get("input"), Mapping)
        and any(isinstance(one, str) and paths.join(cwd, one) == touched for one in block["input"].values())
    }
    for index, message in enumerate(messages):
        if any(block.get("tool_use_id") in calls for block in _blocks(message, "tool_result")):
            return _past_results(index, messages)
    return None


def place_in(messages: Sequence[Message], late: Late) -> int:
    """Where a late text stands in a conversation that may have been cut since: never before a tool's result."""
    return _past_results(min(late.at, len(messages)), messages)


def _past_results(index: int, messages: Sequence[Message]) -> int:
    """Behind all results of the turn: the API takes no text before one of them."""
    while index < len(messages) and any(_blocks(messages[index], "tool_result")):
        index += 1
    return index


def _blocks(message: Message, kind: str) -> Iterator[Json]:
    if not isinstance(message.content, str):
        yield from (block for block in message.content if block.get("type") == kind)
