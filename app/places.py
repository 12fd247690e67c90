"""Places that tenants share, and who has the next one."""

from __future__ import annotations

import asyncio
from collections import Counter


class Places:
    """So many may be taken at once; who waits for one has it in turn.

    A tenant with as many as are free has to wait, however many that are: there is always room for another one. Those
    who are not told apart (an empty name) take them all.
    """

    def __init__(self, most: int) -> None:
        self.taken = 0
        self._most = most
        self._held: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, tenant: str) -> bool:
        """False: the tenant has to wait."""
        if not self._may(tenant):
            return False
        self.taken += 1
        self._held[tenant] += 1
        return True

    def may_wait(self, tenant: str, most: int) -> bool:
        """Whether there is room for one more who waits, of ``most``."""
        own = sum(name == tenant for name, _ in self._waiting) if tenant else 0
        return own < most - self.waiting

    def turn(self, tenant: str) -> asyncio.Future[None]:
        """Done once a place has come to the one who waits; to be given up with `leave` before that."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((tenant, turn))
        return turn

    def leave(self, tenant: str, turn: asyncio.Future[None]) -> None:
        """Gives up the turn, or the place where it has come already."""
        if turn.done():
            self.give_back(tenant)
        else:
            self._waiting.remove((tenant, turn))

    def give_back(self, tenant: str) -> None:
        self.taken -= 1
        self._held[tenant] -= 1
        self._held += Counter()  # without those who hold none
        while (row := next((row for row in self._waiting if self._may(row[0])), None)) is not None:
            self._waiting.remove(row)
            self.take(row[0])
            row[1].set_result(None)

    def _may(self, tenant: str) -> bool:
        return (self._held[tenant] if tenant else 0) < self._most - self.taken
