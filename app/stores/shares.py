"""What each tenant holds of a room that all share, and who makes room first where it is short."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import count

from app.core.tenants import APART


def tenant_of(key: str) -> str:
    """Whose the session at a store's ``key`` is; empty where callers are not told apart.

    All keys of a tenant are one, whatever their roots.
    """
    before, apart, _ = key.partition(APART)
    return before.rpartition(":")[2].partition("/")[0] if apart else ""


@dataclass(slots=True)
class Holding:
    """Of one tenant. ``used`` is when each of its keys was used last, as a number that grows, the least first."""

    bytes: int = 0
    used: OrderedDict[str, int] = field(default_factory=OrderedDict)

    @property
    def count(self) -> int:
        return len(self.used)

    @property
    def oldest(self) -> tuple[str, int]:
        return next(iter(self.used.items()))


Measure = Callable[[Holding], int]
"""How much of the room that is short one holds."""


class Holdings:
    """All tenants that hold something; one that does not leaves nothing behind."""

    def __init__(self) -> None:
        self._of: dict[str, Holding] = {}
        self._uses = count()

    def __len__(self) -> int:
        return len(self._of)

    def add(self, tenant: str, key: str, size: int) -> None:
        holding = self._of.setdefault(tenant, Holding())
        holding.bytes += size
        holding.used[key] = next(self._uses)

    def use(self, tenant: str, key: str) -> None:
        used = self._of[tenant].used
        used[key] = next(self._uses)
        used.move_to_end(key)

    def remove(self, tenant: str, key: str, size: int) -> None:
        holding = self._of[tenant]
        holding.bytes -= size
        del holding.used[key]
        if not holding.used:
            del self._of[tenant]

    def left_for(self, tenant: str, most_bytes: int) -> int:
        """The bytes that others do not hold, and those that they hold beyond an equal share."""
        others = [holding.bytes for name, holding in self._of.items() if name != tenant]
        share = most_bytes // (len(others) + 1)
        return most_bytes - sum(min(held, share) for held in others)

    def first_to_go(self, measure: Measure, comer: str, brought: int) -> Iterator[str]:
        """The keys used longest ago of who holds the most, where ``comer`` brings ``brought`` more, without an end.

        Each is to be removed before the next is asked for. Of those that hold as much, the comer goes first, then who
        used its oldest longest ago. Tenants are compared anew once the fullest holds no more than the next.
        """

        def held(tenant: str) -> int:
            return measure(self._of[tenant]) + (tenant == comer) * brought

        def fatness(tenant: str) -> tuple[int, bool, int]:
            return held(tenant), tenant == comer, -self._of[tenant].oldest[1]

        while True:
            fullest, *others = nlargest(2, self._of, key=fatness)
            beside = max(map(held, others), default=-1)
            yield self._of[fullest].oldest[0]
            while fullest in self._of and held(fullest) > beside:
                yield self._of[fullest].oldest[0]
