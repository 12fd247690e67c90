"""Sessions that several processes share in Redis, with a memory of this process in front."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.metrics import StoreFigures
from app.stores.batches import Batches
from app.stores.connection import Connection, UnreachableError
from app.stores.copies import ABSENT, ANY, Copies, Copy, Head, judged, lineage_of
from app.stores.forms import UnreadableError
from app.stores.hashes import Found, Hashes
from app.stores.news import News
from app.stores.process import NOTHING
from app.stores.records import Records
from app.stores.shelf import bytes_of
from app.stores.socket import Held

VERSION_BITS = 53
"""A version is a number that every reader of JSON takes as it is."""

PROBE_SECONDS = 1.0
LARGE = 64 * 1024
"""Sessions beyond so many bytes are packed and unpacked on a worker thread."""

Tell = Callable[[str, str, Mapping[str, Any]], object]
"""Writes a line of the log: level, event, values."""


class RedisStore:
    """Bounds as of a `ProcessStore`, for this process's memory; in Redis a session lives for ``idle_seconds``.

    There each tenant holds no more than these bounds, as `Bookings` has it.
    ``seconds`` is what a call of Redis may take. When one fails, this process goes on from its memory, and asks every
    second whether Redis is back. To be used on one event loop.
    """

    def __init__(
        self,
        url: str,
        seconds: float,
        *,
        most: int,
        most_bytes: int,
        idle_seconds: float,
        clock: Callable[[], float],
        tell: Tell,
    ) -> None:
        self._connection = Connection(url, seconds)
        self._hashes = Hashes(self._connection, idle_seconds, most, most_bytes, clock)
        self._records = Records(most_bytes)
        self._copies = Copies(most, most_bytes, idle_seconds, clock)
        self._heads: Batches[Found] = Batches(self._hashes.find)
        self._news = News(most, idle_seconds, clock)
        self._counts: Counter[str] = Counter()
        self._tell, self._clock = tell, clock
        self._alone = False
        self._asked_at = clock()
        self._asking: asyncio.Task[None] | None = None
        self._repeating = asyncio.Lock()

    @property
    def alone(self) -> bool:
        return self._alone

    async def load(self, key: str) -> Held:
        if not self._alone:
            try:
                return await self._shared(key)
            except UnreachableError as error:
                self._lose(error)
        return self._copies.held(key)

    async def version(self, key: str) -> int:
        if not self._alone:
            try:
                head = (await self._heads.get(key)).head
            except UnreachableError as error:
                self._lose(error)
            else:
                self._copies.get(key)
                return head.version if head else 0
        return self._copies.held(key).version

    def version_here(self, key: str) -> int | None:  # noqa: ARG002 - the socket's
        """Another process may have written it."""
        return None

    async def save(self, key: str, remembered: Remembered, version: int) -> int:
        """A session too heavy to be kept here is kept nowhere, nor what it was before."""
        written, tried = _drawn(), not self._alone
        if not self._alone:
            try:
                return await self._write(key, remembered, version, written)
            except UnreachableError as error:
                self._lose(error)
        return self._copies.save(key, remembered, version, written, tried=tried)

    async def forget(self, key: str) -> bool:
        if not self._alone:
            try:
                return await self._delete(key)
            except UnreachableError as error:
                self._lose(error)
        return self._copies.forget(key)

    def notices(self, key: str, remembered: Remembered, *, looks: bool = False) -> tuple[Notice, ...]:
        kept = self._copies.notices(key, remembered, elsewhere=not self._alone)
        return (*kept, *self._news.notices(key, alone=self._alone, looks=looks))

    async def ready(self) -> bool:
        """Asks Redis, but not more often than every second while it is away."""
        if not self._alone or self._clock() - self._asked_at >= PROBE_SECONDS:
            await self._probe()
        return not self._alone

    def figures(self) -> StoreFigures:
        return StoreFigures(
            sessions=len(self._copies),
            bytes=self._copies.bytes,
            reachable=not self._alone,
            failures=dict(self._connection.failures),
            evicted=self._hashes.evicted,
            **self._counts,
        )

    async def close(self) -> None:
        if self._asking:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._heads.close()
        await self._connection.close()

    async def _shared(self, key: str) -> Held:
        """What goes on, of what Redis holds and what is remembered here; both then hold it."""
        while True:
            found = await self._heads.get(key)
            head = self._copies.beyond(key, await self._cleared(key, found))
            deleted = self._copies.deleted(key)
            if ANY in deleted or (head.version and head.lineage in deleted):
                await self._repeat_deletion(key)
                continue
            copy = self._copies.get(key)
            held = await (self._settled(key, head, copy) if copy else self._read(key, head, None))
            if held is not None:
                return held

    async def _cleared(self, key: str, found: Found) -> Head:
        """What no one here has written counts as nothing."""
        if found.head is not None:
            return found.head
        self._note_unreadable(key)
        if found.version:
            await self._hashes.discard(key, found.version)
        return ABSENT

    async def _settled(self, key: str, head: Head, copy: Copy) -> Held | None:
        """None: something happened meanwhile."""
        verdict = judged(head, copy)
        if verdict == "ours":
            return await self._write_back(key, head.version, copy)
        if verdict == "deleted":
            self._copies.drop(key)
            return NOTHING
        if verdict == "same":
            if copy.is_ahead:
                self._copies.put(key, copy.taken(head))
            return Held(copy.head.version, copy.remembered)
        held = await self._read(key, head, copy)
        if held is not None and verdict == "diverged":
            self._news.note(key, "session_diverged")
            self._counts["diverged"] += 1
        return held

    async def _read(self, key: str, head: Head, copy: Copy | None) -> Held | None:
        """None: it is another one by now, or nothing that could be read."""
        if not head.version:
            return NOTHING
        found, body = await self._hashes.body(key, partial(self._records.begins, key))
        now = found.head
        if now is None or not now.version:
            return None
        try:
            remembered = await self._unpacked(key, body)
        except UnreadableError:
            self._note_unreadable(key)
            await self._hashes.discard(key, found.version)
            return None
        if self._copies.get(key) is copy:
            self._copies.put(key, Copy(now, remembered, bytes_of(remembered), now))
        return Held(now.version, remembered)

    async def _write_back(self, key: str, expected: int, copy: Copy) -> Held | None:
        """What Redis lost, or never had."""
        body = await self._packed(key, copy.remembered, copy.bytes)
        written = await self._hashes.save(key, expected, copy.head, body)
        if written is None:
            return None
        self._counts["written_back"] += 1
        if self._copies.get(key) is copy:
            self._copies.put(key, copy.taken(written))
        return Held(copy.head.version, copy.remembered)

    async def _write(self, key: str, remembered: Remembered, expected: int, version: int) -> int:
        size = bytes_of(remembered)
        body = await self._packed(key, remembered, size) if self._copies.fits(size) else b""
        head = await self._hashes.save(key, expected, Head(version, lineage_of(version), 0), body)
        if head is None:
            self._counts["lost_races"] += 1
            return 0
        self._copies.put(key, Copy(head, remembered, size, head))
        return version

    async def _delete(self, key: str) -> bool:
        copy = self._copies.get(key)
        lineage = await self._hashes.delete(key, (ANY,), copy.head.lineage if copy else "", _drawn())
        self._copies.drop(key)
        if lineage:
            self._copies.delete(key, lineage)
        return lineage != ""

    async def _repeat_deletion(self, key: str) -> None:
        """What was deleted while Redis was away, or what came back with it."""
        async with self._repeating:
            if self._alone:
                raise UnreachableError("gone", "It went away while others waited for it.")
            lineages = self._copies.deleted(key)
            if lineages:
                there = await self._hashes.delete(key, lineages, lineages[-1], _drawn())
                self._copies.settle(key, there)

    async def _packed(self, key: str, remembered: Remembered, size: int) -> bytes:
        if size > LARGE:
            return await asyncio.to_thread(self._records.written, key, remembered)
        return self._records.written(key, remembered)

    async def _unpacked(self, key: str, body: bytes | None) -> Remembered:
        """Raises UnreadableError."""
        if body is None:
            raise UnreadableError("too long for a session")
        if len(body) > LARGE // 4:
            return await asyncio.to_thread(self._records.read, key, body)
        return self._records.read(key, body)

    def _note_unreadable(self, key: str) -> None:
        self._news.note(key, "session_unreadable")
        self._counts["unreadable"] += 1
        self._tell("warning", "session_unreadable", {})

    def _lose(self, error: UnreachableError) -> None:
        self._asked_at = self._clock()
        if self._alone:
            return
        self._alone = True
        self._tell("warning", "session_store_lost", {"kind": error.kind, "error": str(error)})
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask_again())

    async def _ask_again(self) -> None:
        while self._alone:
            await asyncio.sleep(PROBE_SECONDS)
            await self._probe()

    async def _probe(self) -> None:
        try:
            await self._connection.probe(anew=self._alone)
            if self._alone:
                self._alone = False
                self._tell("info", "session_store_back", {})
                await self._catch_up()
        except UnreachableError as error:
            self._lose(error)

    async def _catch_up(self) -> None:
        """Tells Redis what it missed: what was deleted first, so that nothing of it comes back."""
        for key in self._copies.with_deletions():
            await self._repeat_deletion(key)
        for key in self._copies.ahead():
            await self._shared(key)


def _drawn() -> int:
    return secrets.randbits(VERSION_BITS) or 1
