"""The folders of this server that a caller may be shown."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.core.paths import Paths

MOST_LINKS = 40
"""As Linux has it."""

SERVER_PATHS = Paths(windows=os.name == "nt")


@dataclass(frozen=True, slots=True)
class Fence:
    """``roots`` are real paths; what lies in none of them is outside.

    ``passed`` are the places that lead to a root as it was written, links among them: no other place outside is even
    looked at, so that not even the time it takes tells what stands there.
    """

    roots: tuple[str, ...]
    passed: frozenset[str] = frozenset()
    _beginnings: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Of every path below a root."""

    def __post_init__(self) -> None:
        separator = SERVER_PATHS.separator
        beginnings = tuple(root.removesuffix(separator) + separator for root in self.roots)
        object.__setattr__(self, "_beginnings", beginnings)

    @classmethod
    def of(cls, paths: Iterable[str]) -> Fence:
        """A fence around ``paths``, links resolved; empty ones are left out."""
        written = tuple(path for path in paths if path)
        passed = frozenset(place for path in written for place in _places_to(path))
        return cls(tuple(dict.fromkeys(os.path.realpath(path) for path in written)), passed)

    def holds(self, real: str) -> bool:
        return real.startswith(self._beginnings) or real in self.roots

    def is_above(self, real: str) -> bool:
        """Whether a root lies below ``real``: such a folder may be passed, not shown."""
        return any(SERVER_PATHS.within(root, real) for root in self.roots)

    def may_tell(self, real: str) -> bool:
        """Whether it may be told that something stands at ``real``."""
        return self.holds(real) or self.is_above(real) or real in self.passed


def _places_to(path: str) -> Iterator[str]:
    """Every place that is passed on the way to ``path``, those where its links lead included."""
    coming, here, links = deque(Path(os.path.abspath(path)).parts), "", MOST_LINKS  # noqa: PTH100 - links stay
    while coming:
        here = os.path.normpath(os.path.join(here, coming.popleft()))  # noqa: PTH118 - text
        yield here
        if links and os.path.islink(here):  # noqa: PTH114 - text
            links -= 1
            target = os.readlink(here)  # noqa: PTH115 - text
            coming.extendleft(reversed(Path(target).parts))
            here = os.path.dirname(here)  # noqa: PTH120 - text
