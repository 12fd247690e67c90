"""Long work in steps: it pauses now and then, and whoever drives the flow that it is part of looks at the clock."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from app.core.flow import Flow, look

T = TypeVar("T")
Steps = Generator[None, None, T]

PAUSE = 64 * 1024
"""Characters that are compared with patterns between two pauses."""


def in_steps(steps: Steps[T], path: str) -> Flow[T]:
    """What comes of the work. At each pause a question is asked whose answer is known: what stands at ``path``."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: T = ended.value
            return found
        yield from look(path)


def at_once(steps: Steps[T]) -> T:
    """What comes of the work, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            found: T = ended.value
            return found
