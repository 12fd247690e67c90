"""Numbers and words that follow from a seed alone: the same on every machine and every Python."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence

NOUNS = """
order customer invoice payment session account item price discount address country product stock warehouse shipment
carrier status user role token event message queue worker retry timeout region cluster node service request response
total amount currency created updated expires enabled visible label title summary comment author version branch
"""
COMMON = """
the a of to and in that is was for on it with as at by from this which be are not have when has they would one all will
there can more if no said time people into only new some could them than first water been call who oil its now find long
down day did get come made may part failed connection started finished unexpected closed ready waiting
"""
FIRST_NAMES = "Anna Bilal Chen Dora Emeka Farah Goran Hana Igor Julia Kofi Lena Marta Nils Olga Pedro Quinn Rosa Sven"
MARKS = "😀 🎉 🚀 ✅ ❌ ⚠️ 👍 🔥 🐛 📦 → ✓ • … —"
NAMES, WORDS, PEOPLE, FACES = (tuple(words.split()) for words in (NOUNS, COMMON, FIRST_NAMES, MARKS))


class Dice:
    """A stream of numbers that follows from ``seed`` alone."""

    def __init__(self, seed: str) -> None:
        self.seed, self.drawn = seed, 0

    def octets(self, size: int) -> bytes:
        self.drawn += 1
        return hashlib.shake_256(f"{self.seed}:{self.drawn}".encode()).digest(size)

    def number(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        return low + int.from_bytes(self.octets(8), "big") % (high - low + 1)

    def pick(self, choices: Sequence[str]) -> str:
        return choices[self.number(0, len(choices) - 1)]

    def phrase(self, low: int, high: int, words: Sequence[str] = WORDS) -> str:
        return " ".join(self.pick(words) for _ in range(self.number(low, high)))

    def name(self) -> str:
        first, second = self.pick(NAMES), self.pick(NAMES)
        return self.pick((first, f"{first}_{second}", first + second.title(), f"{first}-{second}"))

    def moment(self) -> str:
        date = f"2026-{self.number(1, 12):02}-{self.number(1, 28):02}"
        second = f"{self.number(0, 59):02}.{self.number(0, 999):03}"
        return f"{date}T{self.number(0, 23):02}:{self.number(0, 59):02}:{second}Z"

    def amount(self) -> str:
        return f"{self.number(1, 99_999) / 100:.2f}"

    def version(self) -> str:
        return f"{self.number(0, 20)}.{self.number(0, 40)}.{self.number(0, 9)}"

    def base64(self, low: int, high: int) -> str:
        """Of ``low`` to ``high`` octets."""
        return base64.b64encode(self.octets(self.number(low, high))).decode()

    def hexadecimal(self, size: int) -> str:
        return self.octets(size).hex()
