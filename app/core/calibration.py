"""What a session's own usage says about the estimate of its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor

LEAST_FACTOR, MOST_FACTOR = 0.5, 2.0

FIRST_SHARE, LEAST_SHARE = 1 / 2, 1 / 4
"""How far the factor may move towards the ratio that one response shows: at first, and once there were many."""

HALF_WEIGHT = 1_000
"""A request of so many tokens moves the factor half as far as a very large one."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """By what estimates of one session are multiplied, and how many responses it was learned from.

    ``factor`` is exact by estimated tokens, from ``LEAST_FACTOR`` to ``MOST_FACTOR``. It belongs to one tokenizer.
    """

    factor: float = 1.0
    samples: int = 0

    def learned(self, estimated: int, exact: int) -> Calibration:
        """What is known after a response: the uncalibrated estimate of its whole prefix, and its usage's own figure.

        The factor moves at most ``FIRST_SHARE`` of the way to the ratio of the two. Without a positive number on both
        sides nothing is learned.
        """
        if estimated <= 0 or exact <= 0:
            return self
        way = _ratio(estimated, exact) - self.factor
        return Calibration(_bounded(self.factor + way * self._share(exact)), self.samples + 1)

    def apply(self, tokens: int) -> int:
        """``tokens`` of an uncalibrated estimate, corrected; a half rounds up."""
        return floor(tokens * Fraction(self.factor) + Fraction(1, 2))

    def _share(self, size: int) -> float:
        return max(1 / (self.samples + 1 / FIRST_SHARE), LEAST_SHARE) * (size / (size + HALF_WEIGHT))


def _ratio(estimated: int, exact: int) -> float:
    return float(max(Fraction(LEAST_FACTOR), min(Fraction(exact, estimated), Fraction(MOST_FACTOR))))


def _bounded(factor: float) -> float:
    return max(LEAST_FACTOR, min(factor, MOST_FACTOR))
