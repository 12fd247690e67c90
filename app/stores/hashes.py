"""Sessions in Redis: a hash each, written and deleted by scripts that know one key, so that a cluster takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from cachetools import TTLCache

from app.stores.bookings import Bookings, name_of
from app.stores.connection import Call, Connection, Row, UnreachableError
from app.stores.copies import ABSENT, Head
from app.stores.scripts import BODY, DELETE, DISCARD, FIND, SAVE
from app.stores.shelf import RENEWALS

LONGEST_SECONDS = 10 * 365 * 24 * 3600
"""Redis takes no time to live that it cannot add to its clock."""

NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
COUNT = re.compile(rb"0|[1-9][0-9]{0,12}")
"""One more is still written without an exponent by Redis."""
LINEAGE = re.compile(rb"[0-9a-f]{1,16}|\*")

AT_ONCE = 256 * 1024
"""Bytes of a body that are read without asking first how many there are."""

BEGINNING = 256
"""Bytes by which a body is looked at that is longer."""


@dataclass(frozen=True, slots=True)
class Found:
    """``head`` None: something that no one here has written. ``version`` as it stands there."""

    head: Head | None
    version: bytes = b""


class Hashes:
    """Every call ends within ``connection``'s time and raises UnreachableError; ``idle_seconds`` are sessions kept.

    Use renews that time, but not more often than a few times within it: ``most`` sessions are remembered for that.
    Each tenant holds at most ``most`` sessions of together ``most_bytes``, as `Bookings` has it.
    """

    def __init__(
        self, connection: Connection, idle_seconds: float, most: int, most_bytes: int, clock: Callable[[], float]
    ) -> None:
        self._ask = connection.ask
        self._renewed: TTLCache[str, bool] = TTLCache(most, idle_seconds / RENEWALS, clock)
        self._milliseconds = max(1, int(1000 * min(idle_seconds, LONGEST_SECONDS)))
        self._bookings = Bookings(connection, most, most_bytes, self._milliseconds)

    @property
    def evicted(self) -> int:
        """Sessions that made room for later ones of their tenant."""
        return self._bookings.evicted

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """What is there, which from now on lives about as long as if it was written now."""
        stale = {key for key in keys if key not in self._renewed}
        renewals = self._bookings.renewals(stale)
        finds = (Call(FIND, (name_of(key),), (self._milliseconds if key in stale else b"",)) for key in keys)
        rows = await self._ask(*finds, aside=renewals)
        self._renewed.update(dict.fromkeys(stale, True))
        return {key: _found(row) for key, row in zip(keys, rows[len(renewals) :], strict=True)}

    async def body(self, key: str, begins: Callable[[bytes, int], bool]) -> tuple[Found, bytes | None]:
        """None: it does not begin as a session of so many bytes, of which ``begins`` is to tell.

        What is written meanwhile counts as nothing.
        """
        row = await self._body(key, AT_ONCE)
        size = row[3]
        if size <= AT_ONCE:
            return _found(row), row[4]
        if not begins(row[4], size):
            return _found(row), None
        row = await self._body(key, size, size)
        return (_found(row), row[4]) if row[3] <= size else (Found(ABSENT), None)

    async def _body(self, key: str, most: int, size: int = 0) -> Row:
        (row,) = await self._ask(Call(BODY, (name_of(key),), (most, BEGINNING)), size=size)
        return row

    async def save(self, key: str, expected: int, head: Head, body: bytes) -> Head | None:
        """Writes over the version ``expected``; None: another one is there.

        A ``head`` with the count 0 goes on with lineage and count as they are there, its own lineage being for a
        session that begins. Without a body it is written that the session is no more.
        """
        given = (expected, head.version, head.lineage, head.count, body, self._milliseconds)
        save = Call(SAVE, (name_of(key),), given)
        going, row = await self._ask(save, aside=[self._bookings.call(key, head.version, len(body))], size=len(body))
        await self._book(key, head.version, going, wrote=row is not None)
        return Head(head.version, row[0].decode(), int(row[1])) if row else None

    async def delete(self, key: str, lineages: Iterable[str], otherwise: str, token: int) -> str:
        """The lineage that was there and is one of ``lineages``, or ``otherwise`` where nothing was; empty: none.

        With one ``token`` it says the same again.
        """
        named = "*" if "*" in lineages else f" {' '.join(sorted(lineages))} "
        delete = Call(DELETE, (name_of(key),), (token, named, otherwise, self._milliseconds))
        going, (lineage, wrote) = await self._ask(delete, aside=[self._bookings.call(key, token, 0)])
        await self._book(key, token, going, wrote=bool(wrote))
        return str(lineage.decode())

    async def discard(self, key: str, version: bytes) -> None:
        """Deletes what cannot be read, unless something else is there by now."""
        await self._ask(Call(DISCARD, (name_of(key),), (version,)))

    async def _book(self, key: str, by: int, going: Row, *, wrote: bool) -> None:
        """Makes room, and puts right what was booked for nothing. Where that fails, a next write does it."""
        with suppress(UnreachableError):
            if not wrote:
                going = await self._bookings.put_right(key, by)
            await self._bookings.make_room(key, going)


def _found(row: Sequence[bytes | None] | None) -> Found:
    return Found(_head(row), row[0] or b"") if row else Found(None)


def _head(row: Sequence[bytes | None]) -> Head | None:
    """None: not as it is written here."""
    if not any(row[:3]):
        return Head()
    version, lineage, count = (one or b"" for one in row[:3])
    if not (NUMBER.fullmatch(version) and LINEAGE.fullmatch(lineage) and COUNT.fullmatch(count)):
        return None
    return Head(int(version), lineage.decode(), int(count))
