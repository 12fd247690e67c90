"""How much of a tree one request may take: the core stops there, says so, and goes on with the rest."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

PATTERN_CHARACTERS = 64
"""Of a pattern that counts for one: time and memory of reading it go by its characters."""


@dataclass(frozen=True, slots=True)
class Limits:
    """For all files of one request together: entries of rules folders, includes looked up, bytes, rules' patterns.

    ``looks`` are questions to its workspace, ``files`` those that come with it, ``depth`` is in folders above each
    other.
    """

    rules: int = 5_000
    includes: int = 1_000
    memory_bytes: int = 16 * 1024 * 1024
    patterns: int = 20_000
    looks: int = 200_000
    files: int = 20_000
    depth: int = 128


@dataclass(slots=True)
class Allowance:
    """What is left of the limits. ``paid`` was taken already, and is not taken again."""

    rules: int
    includes: int
    patterns: int
    paid: set[Hashable] = field(default_factory=set)

    @classmethod
    def of(cls, limits: Limits) -> Allowance:
        return cls(limits.rules, limits.includes, limits.patterns)

    def take_rule(self, path: str) -> bool:
        if path not in self.paid and self.rules > 0:
            self.rules -= 1
            self.paid.add(path)
        return path in self.paid

    def take_include(self) -> bool:
        self.includes -= 1
        return self.includes >= 0

    def take_patterns(self, globs: tuple[str, ...]) -> bool:
        """Patterns that do not fit leave the rest for fewer. A long one counts for several."""
        cost = sum(1 + len(glob) // PATTERN_CHARACTERS for glob in globs)
        if globs not in self.paid and cost <= self.patterns:
            self.patterns -= cost
            self.paid.add(globs)
        return globs in self.paid
