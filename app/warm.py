"""Answers that were given, for the same request while nothing changed: the bytes that were sent, found by a digest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cachetools import LRUCache

from app.core.weight import weight
from app.encoding import IDENTITY, compressed, tag_in
from app.recall import Repeats
from app.stores.sessions import Sessions
from app.workspaces.footprints import Footprints

ENTRY = 1024
"""Bytes that holding any answer takes, its key included."""

LARGE = 64 * 1024
"""Answers beyond so many bytes are compressed on a worker thread."""

Header = tuple[bytes, bytes]


@dataclass(slots=True)
class Given:
    """An answer as it was sent. ``tag`` is its ETag without a coding; ``until`` is by the clock, None: no end.

    ``coded`` holds headers and body by coding, ``identity`` among them; ``weight`` is of the rest, in bytes.
    ``quick``: what it was read from takes no thread to compare.
    """

    content: bytes
    tag: str
    repeats: Repeats
    until: float | None
    weight: int = 0
    quick: bool = True
    coded: dict[str, tuple[list[Header], bytes]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return ENTRY + self.weight + sum(len(body) for _, body in self.coded.values() if body is not self.content)


class Warm:
    """Holds answers of together ``most_bytes``, those of sessions for ``seconds`` each.

    A session's answer says when it was last sent to (the prompt cache forgets) and keeps it from being idle, so that
    it is assembled again now and then though nothing changed. To be used on one event loop.
    """

    def __init__(
        self,
        most_bytes: int,
        seconds: float,
        clock: Callable[[], float],
        sessions: Sessions,
        footprints: Footprints,
    ) -> None:
        self._given: LRUCache[bytes, Given] = LRUCache(most_bytes, lambda given: given.bytes)
        self._seconds, self._clock = seconds, clock
        self._sessions, self._footprints = sessions, footprints
        self._coming: dict[bytes, asyncio.Event] = {}

    async def find(self, key: bytes) -> Given | None:
        """The answer that ``key`` had and would have again."""
        given = self._given.get(key)
        if given is None or (given.until is not None and self._clock() > given.until):
            return None
        repeats = given.repeats
        if repeats.session is not None and not await self._is_as_it_was(repeats, repeats.session):
            return None
        before = repeats.footprint
        now = (
            self._footprints.renewed(before)
            if given.quick
            else await asyncio.to_thread(self._footprints.renewed, before)
        )
        if now is None:
            return None
        if now is not before:
            given.repeats, given.quick = replace(repeats, footprint=now), self._footprints.is_quick(now)
        return given

    async def find_or_wait(self, key: bytes) -> Given | None:
        """As `find`; while another request brings an answer anew that was held, waits for it. None: bring it."""
        while True:
            given = await self.find(key)
            if given is not None or key not in self._given:
                return given
            coming = self._coming.get(key)
            if coming is None:
                self._coming[key] = asyncio.Event()
                return None
            await coming.wait()

    def brought(self, key: bytes) -> None:
        """What `find_or_wait` asked for is there, or will not come: those who wait go on."""
        coming = self._coming.pop(key, None)
        if coming is not None:
            coming.set()

    def keep(self, key: bytes, content: bytes, tag: str, repeats: Repeats | None) -> None:
        """Keeps an answer that repeats. Of one that would once more be another, only that it was asked for."""
        if repeats is None:
            self._given.pop(key, None)
        elif not repeats.lasts:
            self._put(key, Given(b"", tag, repeats, self._clock() - 1))
        else:
            size = len(content) + weight(repeats)
            until = None if repeats.session is None else self._clock() + self._seconds
            self._put(key, Given(content, tag, repeats, until, size, self._footprints.is_quick(repeats.footprint)))

    async def coded(self, key: bytes, given: Given, coding: str) -> tuple[list[Header], bytes]:
        """Headers and body in ``coding``, which is one of `encoding.CODINGS` or `encoding.IDENTITY`."""
        found = given.coded.get(coding)
        if found is None:
            body = given.content if coding == IDENTITY else await self._compressed(given.content, coding)
            found = given.coded[coding] = (headers_of(given.tag, coding, len(body)), body)
            if self._given.get(key) is given:
                self._put(key, given)
        return found

    async def _compressed(self, content: bytes, coding: str) -> bytes:
        return (
            await asyncio.to_thread(compressed, content, coding)
            if len(content) > LARGE
            else compressed(content, coding)
        )

    async def _is_as_it_was(self, repeats: Repeats, session: str) -> bool:
        return self._sessions.alone == repeats.alone and await self._sessions.version(session) == repeats.version

    def _put(self, key: bytes, given: Given) -> None:
        if given.bytes <= self._given.maxsize:
            self._given[key] = given


def headers_of(tag: str, coding: str, length: int) -> list[Header]:
    headers = [
        (b"content-length", str(length).encode()),
        (b"content-type", b"application/json"),
        (b"etag", (tag if coding == IDENTITY else tag_in(coding, tag)).encode()),
        (b"vary", b"accept-encoding"),
    ]
    return headers if coding == IDENTITY else [*headers, (b"content-encoding", coding.encode())]
