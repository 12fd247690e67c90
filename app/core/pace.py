"""How fast a key may ask: an even pace, and a burst ahead of it."""

from __future__ import annotations

from dataclasses import dataclass

ROUNDING = 1e-6
"""Seconds that adding up pauses may be off by."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests a minute, ``burst`` of them at once."""

    per_minute: int
    burst: int


@dataclass(slots=True)
class Meter:
    """What one key has asked lately. ``due`` is when the last request would have come at an even pace, in seconds."""

    due: float = 0.0
    under_way: int = 0
    streams: int = 0

    def take(self, rate: Rate, now: float) -> float:
        """0: the request may come (the generic cell rate algorithm). Else the seconds after which it may."""
        pause = 60 / rate.per_minute
        due = max(self.due, now)
        early = due - now - pause * (rate.burst - 1)
        if early > ROUNDING:
            return early
        self.due = due + pause
        return 0.0
