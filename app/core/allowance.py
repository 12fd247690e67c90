"""How much of a tree one request may take: the core stops there, says so, and goes on with the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """For all files of one request together: entries of rules folders, includes looked up, bytes, rules' patterns."""

    rules: int = 5_000
    includes: int = 1_000
    memory_bytes: int = 16 * 1024 * 1024
    patterns: int = 20_000


@dataclass(slots=True)
class Allowance:
    """What is left of the limits."""

    rules: int
    includes: int
    memory_bytes: int
    patterns: int

    @classmethod
    def of(cls, limits: Limits) -> Allowance:
        return cls(limits.rules, limits.includes, limits.memory_bytes, limits.patterns)

    def take_rule(self) -> bool:
        self.rules -= 1
        return self.rules >= 0

    def take_include(self) -> bool:
        self.includes -= 1
        return self.includes >= 0

    def take_patterns(self, count: int) -> bool:
        self.patterns -= count
        return self.patterns >= 0

    def take_bytes(self, size: int) -> bool:
        """A file that does not fit leaves the rest for smaller ones."""
        if size > self.memory_bytes:
            return False
        self.memory_bytes -= size
        return True
