"""JSON keys in a fixed order: a caller whose maps have none must not break the prompt cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEEPEST = 200
"""Levels that are put in order: a body of JSON that is nested deeper is refused before it comes here."""


def ordered(value: Any, depth: int = DEEPEST) -> Any:
    """``value`` with the keys of every object in code point order; lists keep theirs. Nothing is mutated."""
    if isinstance(value, Mapping):
        return {key: ordered(value[key], depth - 1) for key in sorted(value)} if depth else value
    if isinstance(value, list | tuple):
        return [ordered(one, depth - 1) for one in value] if depth else value
    return value
