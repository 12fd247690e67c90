"""What each tenant holds in Redis, as it is booked there, and what of it goes where that is too much."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from app.stores.connection import Call, Connection, Row
from app.stores.scripts import BOOK, EVICT, MEND, RENEW, Script
from app.stores.shares import tenant_of

ENTRY = 1024
"""Bytes that any session takes in Redis, or the mark that one was deleted, with what is booked of it."""

NAMES = 3
"""How often its key is written there."""

AT_ONCE, ROUNDS = 200, 5
"""How much goes in one call, and in how many calls when something is written; the rest goes with the next writes."""

LONGER = 1000
"""Milliseconds for which what is booked outlives what it is of."""

BY = re.compile(rb"[0-9]{1,19}")
MARK = b":"
"""Before a name, so that none is taken for the field of the total."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the write ``by`` is booked to have left. ``booked`` is a mark and the name that it has in Redis."""

    booked: bytes
    by: bytes

    @property
    def name(self) -> bytes:
        return self.booked[len(MARK) :]

    def is_of(self, tenant: str) -> bool:
        try:
            named = self.name.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return False
        return self.booked.startswith(MARK) and tenant_of(named) == tenant


class Bookings:
    """Each tenant holds at most ``most`` sessions and marks of deletions, of together ``most_bytes``, but for its last.

    They are booked before they are written, so that none is forgotten when a process ends between the two; what was
    then not written is put right. Both bounds count what any service and any version of it wrote.
    ``milliseconds`` is how long a session lives.
    """

    def __init__(self, connection: Connection, most: int, most_bytes: int, milliseconds: int) -> None:
        self._connection = connection
        self._bounds = (most, most_bytes, AT_ONCE)
        self._milliseconds = milliseconds + LONGER
        self.evicted = 0

    def call(self, key: str, by: int, size: int) -> Call:
        """Books that ``by`` writes a body of ``size`` bytes. It is answered with what `make_room` takes."""
        name = name_of(key)
        given = (self._milliseconds, MARK + name, by, _cost(name, size))
        return self._on(tenant_of(key), BOOK, *self._bounds, *given)

    def renewals(self, keys: Iterable[str]) -> tuple[Call, ...]:
        """What keeps that they are booked for as long as they live."""
        return tuple(self._on(tenant, RENEW, self._milliseconds) for tenant in sorted(set(map(tenant_of, keys))))

    async def make_room(self, key: str, going: Row) -> None:
        """Removes what there is no room for beside ``key``: ``going``, as it was answered when that was booked.

        What was written again since is kept.
        """
        for _ in range(ROUNDS):
            if not going:
                return
            going = await self._settle(tenant_of(key), tuple(map(Entry, going[::2], going[1::2])))

    async def put_right(self, key: str, by: int) -> Row:
        """Once it is known that ``by``, which was booked, wrote nothing. Answered with what `make_room` takes."""
        return await self._settle(tenant_of(key), [Entry(MARK + name_of(key), b"%d" % by)], removes=False)

    async def _settle(self, tenant: str, entries: Sequence[Entry], *, removes: bool = True) -> Row:
        """What is booked of somebody else's is none of this tenant's: it stays, and is not booked any more."""
        own = [entry for entry in entries if entry.is_of(tenant)]
        found = await self._connection.ask(*(_look(entry, removes=removes) for entry in own)) if own else []
        self.evicted += sum(row == 1 for row in found)
        there = dict(zip(own, found, strict=True))
        words = chain.from_iterable(_mended(entry, there.get(entry)) for entry in entries)
        (going,) = await self._connection.ask(self._on(tenant, MEND, *self._bounds, *words))
        return going

    def _on(self, tenant: str, script: Script, *given: bytes | int) -> Call:
        return Call(script, _books(tenant), given)


def name_of(key: str) -> bytes:
    """What a store's ``key`` is called in Redis."""
    return key.encode("utf-8", "surrogatepass")


def _books(tenant: str) -> tuple[bytes, bytes]:
    """Where a tenant's order and rows are: of one place in a cluster."""
    digest = hashlib.sha256(name_of(tenant)).hexdigest()[:32].encode()
    return b"strata:{held:%s}:order" % digest, b"strata:{held:%s}:rows" % digest


def _cost(name: bytes, size: int) -> int:
    return ENTRY + NAMES * len(name) + size


def _look(entry: Entry, *, removes: bool) -> Call:
    return Call(EVICT, (entry.name,), (entry.by if removes else b"",))


def _mended(entry: Entry, there: Row) -> tuple[bytes | int, ...]:
    """What is booked instead of ``entry``: nothing where it is gone, or never was one of ours."""
    if isinstance(there, list) and BY.fullmatch(there[0]):
        return entry.booked, entry.by, there[0], _cost(entry.name, there[1])
    return entry.booked, entry.by, b"", 0
