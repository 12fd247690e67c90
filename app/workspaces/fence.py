"""The folders of this server that a caller may be shown."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from app.core.paths import Paths

SERVER_PATHS = Paths(windows=os.name == "nt")


@dataclass(frozen=True, slots=True)
class Fence:
    """``roots`` are real paths; what lies in none of them is outside."""

    roots: tuple[str, ...]
    _beginnings: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Of every path below a root."""

    def __post_init__(self) -> None:
        separator = SERVER_PATHS.separator
        beginnings = tuple(root.removesuffix(separator) + separator for root in self.roots)
        object.__setattr__(self, "_beginnings", beginnings)

    @classmethod
    def of(cls, paths: Iterable[str]) -> Fence:
        """A fence around ``paths``, links resolved; empty ones are left out."""
        return cls(tuple(dict.fromkeys(os.path.realpath(path) for path in paths if path)))

    def holds(self, real: str) -> bool:
        return real.startswith(self._beginnings) or real in self.roots

    def is_above(self, real: str) -> bool:
        """Whether a root lies below ``real``: such a folder may be passed, not shown."""
        return any(SERVER_PATHS.within(root, real) for root in self.roots)

    def may_tell(self, real: str) -> bool:
        """Whether it may be told that something stands at ``real``."""
        return self.holds(real) or self.is_above(real)
