"""Bytes as choices: what chance decides elsewhere is decided by an input here, so that a fuzzer can steer it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Drawn:
    """The part of `random.Random` that makers of cases use. Behind the last byte every choice is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def randint(self, least: int, most: int) -> int:
        value, spread = 0, most - least
        while spread:
            value = (value << 8) | self._byte()
            spread >>= 8
        return least + value % (most - least + 1)

    def random(self) -> float:
        """From 0 up to but not including 1."""
        return self._byte() / 256

    def choice(self, among: Sequence[T]) -> T:
        return among[self.randint(0, len(among) - 1)]

    def maybe(self, share: float = 0.5) -> bool:
        """False behind the last byte."""
        return self.random() > 1 - share

    def several(self, most: int) -> Iterator[int]:
        """Numbers from 0, up to ``most`` of them."""
        yield from range(self.randint(0, most))

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0
