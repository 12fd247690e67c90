"""How tokens are counted without asking anybody: roughly by length, or estimated from what the text is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from app.core.estimate import estimate, estimate_block, estimate_message, estimate_tool
from app.core.facts import Json, Message
from app.core.tokens import rough_block, rough_message, rough_tool, spread, utf16_length

TOOL_OVERHEAD = 346
"""Tokens of the instructions that the API adds once for all tools, as published."""

Sized = tuple[str, int]
"""A text, and how many UTF-16 units of it make a rough token."""


class Measure(Protocol):
    """Tokens of the pieces of a request. ``overhead`` is what any tools at all cost beside themselves."""

    @property
    def method(self) -> Literal["rough", "estimate"]: ...

    @property
    def overhead(self) -> int: ...

    def texts(self, texts: Sequence[Sized]) -> tuple[int, ...]:
        """Of texts that stand behind one another."""

    def message(self, message: Message) -> int: ...

    def block(self, block: Any) -> int: ...

    def tool(self, tool: Json) -> int: ...


@dataclass(frozen=True, slots=True)
class Rough:
    """By length."""

    method: Literal["rough"] = "rough"
    overhead: int = 0

    def texts(self, texts: Sequence[Sized]) -> tuple[int, ...]:
        """Together the rounded count of them all."""
        return spread([(utf16_length(text), units) for text, units in texts])

    def message(self, message: Message) -> int:
        return rough_message(message)

    def block(self, block: Any) -> int:
        return rough_block(block)

    def tool(self, tool: Json) -> int:
        return rough_tool(tool)


@dataclass(frozen=True, slots=True)
class Estimated:
    """By classes of characters, for one generation of tokenizer."""

    tokenizer: int
    method: Literal["estimate"] = "estimate"
    overhead: int = TOOL_OVERHEAD

    def texts(self, texts: Sequence[Sized]) -> tuple[int, ...]:
        return tuple(estimate(text, self.tokenizer) for text, _ in texts)

    def message(self, message: Message) -> int:
        return estimate_message(message, self.tokenizer)

    def block(self, block: Any) -> int:
        return estimate_block(block, self.tokenizer)

    def tool(self, tool: Json) -> int:
        return estimate_tool(tool, self.tokenizer)
