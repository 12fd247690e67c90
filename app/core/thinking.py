"""Thinking of earlier turns, which some models are not given again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.core.facts import Message
from app.core.late import is_prompt

THINKING = ("thinking", "redacted_thinking")


def without_old_thinking(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as they count for a model that drops thinking: that of the turn at hand stays."""
    last = max((index for index in range(len(messages)) if is_prompt(messages[: index + 1])), default=0)
    return (*(_without(message) for message in messages[:last]), *messages[last:])


def _without(message: Message) -> Message:
    if message.role != "assistant" or isinstance(message.content, str):
        return message
    return replace(message, content=tuple(block for block in message.content if block.get("type") not in THINKING))
