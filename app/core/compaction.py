"""Whether a compaction may be tried, whether it can help, and whether it did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from app.core.budget import Breaker, Outcome
from app.core.summary import Failure
from app.core.tokens import Part

LEAST_FREED_PERCENT = 10
MOST_NAMED = 5
FIXED = ("system:", "system[", "tool:", "tool_overhead", "memory:", "mcp:", "user_context")
"""How the names of parts begin that stay whatever is compacted."""

Trigger = Literal["automatic", "manual"]


@dataclass(frozen=True, slots=True)
class Success:
    """``freed`` is in tokens."""

    freed: int


@dataclass(frozen=True, slots=True)
class Attempts:
    """What a session knows of its compactions. ``opened_at``: seconds of any clock, the same for all calls."""

    breaker: Breaker = field(default_factory=Breaker)
    opened_at: float | None = None

    def at(self, now: float, cool_down: float) -> Attempts:
        """As they stand ``now``: an open breaker is half open after ``cool_down`` seconds, never with 0.

        One that opened further ahead than that opened by a clock that was wrong: its time is over.
        """
        if self.opened_at is None:
            return self
        seconds = now - self.opened_at
        return Attempts(self.breaker.cooled(seconds if seconds >= -cool_down else cool_down, cool_down), self.opened_at)

    def allow(self, trigger: Trigger, now: float, cool_down: float) -> bool:
        """A person may always try."""
        return trigger == "manual" or self.at(now, cool_down).breaker.state != "open"

    def after(self, outcome: Outcome, trigger: Trigger, now: float) -> Attempts:
        """Once an attempt ended ``now``. Any success closes the breaker; a person's failure says nothing of it."""
        if outcome == "failed" and trigger == "manual":
            return self
        breaker = self.breaker.after(outcome)
        if breaker.state == "closed":
            return Attempts(breaker)
        return Attempts(breaker, now if outcome == "failed" else self.opened_at)


def fixed_parts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts that no compaction makes smaller, the largest first."""
    return largest_first(part for part in parts if part.name.startswith(FIXED))


def largest_first(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Those that cost anything."""
    return tuple(sorted((part for part in parts if part.tokens > 0), key=lambda part: (-part.tokens, part.name)))


def hopeless(parts: Iterable[Part], threshold: int) -> Failure | None:
    """Why no compaction can help, before one is paid for; None when one can. ``threshold`` is in tokens."""
    fixed = fixed_parts(parts)
    if _total(fixed) < threshold:
        return None
    told = (
        f"Compaction cannot help: it starts at {threshold:,} tokens, and {staying(fixed)}. Make these smaller, or use "
        "a model with a larger window."
    )
    return Failure("fixed_parts_too_large", told, fixed)


def outcome(before: int, after: int, threshold: int, parts: Iterable[Part]) -> Success | Failure:
    """Whether a summary was worth it. All figures in tokens, ``parts`` as they are after the compaction.

    It was not when the conversation is at ``threshold`` or above it, or when less than a tenth was freed of what the
    summary was to replace, which is all but the fixed parts.
    """
    fixed, freed = fixed_parts(parts), before - after
    replaced = max(1, before - _total(fixed))
    if after < threshold and 100 * freed >= LEAST_FREED_PERCENT * replaced:
        return Success(freed)
    if after >= threshold:
        why = f"{after:,} tokens are in use after it, {before:,} before, and compaction starts at {threshold:,}"
    else:
        why = f"of {replaced:,} tokens that it was to replace it freed {max(0, freed):,}"
    return Failure("did_not_help", f"Compaction did not help: {why}. {_blame(fixed, after)}", fixed)


def _blame(fixed: tuple[Part, ...], after: int) -> str:
    stays = f"{staying(fixed)}. " if fixed else ""
    if not fixed or 2 * _total(fixed) < after:
        return f"{stays}Most is the summary and the messages that stay behind it: make the longer of them shorter."
    return f"{stays}Make these smaller, or use a model with a larger window."


def staying(fixed: tuple[Part, ...]) -> str:
    return f"{_total(fixed):,} stay whatever is compacted: {named(fixed)}"


def named(parts: tuple[Part, ...]) -> str:
    """The first few, and how many more there are."""
    rest = parts[MOST_NAMED:]
    more = [f"{len(rest)} more with {_total(rest):,}"] if rest else []
    return ", ".join([*(f"{part.name} {part.tokens:,}" for part in parts[:MOST_NAMED]), *more])


def _total(parts: tuple[Part, ...]) -> int:
    return sum(part.tokens for part in parts)
