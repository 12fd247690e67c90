"""Answers that were given, for the same request while nothing changed: the bytes that were sent, found by a digest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from cachetools import LRUCache

from app.core.weight import weight
from app.encoding import IDENTITY, compressed, tag_among, tag_in
from app.metrics import WarmFigures
from app.recall import Repeats
from app.stores.sessions import Sessions
from app.workspaces.footprints import Footprints

ENTRY = 6 * 1024
"""Bytes that holding any answer takes in all codings, but for the bodies: its key and all headers included."""

WAIT_SECONDS = 5.0
"""How long one waits for what another brings: then, and where it brought nothing, everybody asks."""

GLANCE_SECONDS = 1.0
"""How often a session that is fixed looks whether its folder is still there."""

BYTE = 255

NOSNIFF = (b"x-content-type-options", b"nosniff")
"""A browser takes an answer for nothing but what it says it is."""

LARGE = 64 * 1024
"""Answers beyond so many bytes are compressed on a worker thread."""

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Coded:
    """An answer in one coding: its headers as ASGI and as HTTP have them, and its body."""

    headers: tuple[Header, ...]
    lines: bytes
    body: bytes

    @classmethod
    def of(cls, tag: str, coding: str, body: bytes) -> Coded:
        headers = (
            (b"content-length", b"%d" % len(body)),
            (b"content-type", b"application/json"),
            (b"etag", (tag if coding == IDENTITY else tag_in(coding, tag)).encode()),
            (b"vary", b"accept-encoding"),
            NOSNIFF,
            *(() if coding == IDENTITY else ((b"content-encoding", coding.encode()),)),
        )
        return cls(headers, _lines(headers), body)

    @classmethod
    def unchanged(cls, tag: str) -> Coded:
        """Says that the caller has it."""
        headers = ((b"etag", tag.encode()), (b"vary", b"accept-encoding"), NOSNIFF)
        return cls(headers, _lines(headers), b"")


@dataclass(slots=True)
class Given:
    """An answer as it was sent. ``tag`` is its ETag without a coding.

    ``told`` is when its session is told next; ``until`` is how long it holds, by the clock that all processes share.
    ``coded`` holds it by coding, ``identity`` among them; ``weight`` is of the rest, in bytes.
    ``quick``: what it was read from takes no thread to compare; ``looked`` is when it was compared last.
    """

    content: bytes
    tag: str
    repeats: Repeats
    told: float
    until: float
    weight: int = 0
    quick: bool = True
    looked: float = -inf
    coded: dict[str, Coded] = field(default_factory=dict)
    told_unchanged: dict[str, Coded] = field(default_factory=dict)

    def unchanged(self, tags: frozenset[str]) -> Coded | None:
        """Says to a caller who has it under one of ``tags`` that it is the same; None: it has another one."""
        tag = tag_among(tags, self.tag)
        if tag is None:
            return None
        told = self.told_unchanged.get(tag)
        if told is None:
            told = self.told_unchanged[tag] = Coded.unchanged(tag)
        return told

    @property
    def bytes(self) -> int:
        return ENTRY + self.weight + sum(len(one.body) for one in self.coded.values() if one.body is not self.content)


class Warm:
    """Holds answers of together ``most_bytes``.

    A session is told every ``seconds`` that its last turn was repeated: it is not idle, and the prompt cache still has
    it. Where the cache may have forgotten it, the answer is another one. ``clock`` is for waiting, ``now`` the one that
    all processes share. To be used on one event loop.
    """

    def __init__(
        self,
        sessions: Sessions,
        footprints: Footprints,
        most_bytes: int,
        seconds: float,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._given: LRUCache[bytes, Given] = LRUCache(most_bytes, lambda given: given.bytes)
        self._seconds, self._clock, self._now = seconds, clock, now
        self._sessions, self._footprints = sessions, footprints
        self._coming: dict[bytes, asyncio.Event] = {}
        self._repeated = self._assembled = 0

    def figures(self) -> WarmFigures:
        return WarmFigures(len(self._given), int(self._given.currsize), self._repeated, self._assembled)

    def at_once(self, key: bytes) -> Given | None:
        """As `find`, where nobody has to be asked and nothing told; None: it has to be found out."""
        given = self._given.get(key)
        if given is None or not given.quick or not given.repeats.lasts:
            return None
        repeats = given.repeats
        if repeats.session is not None and not self._is_known(given, repeats.session):
            return None
        if self._is_fresh(given):
            return given
        if self._footprints.renewed(repeats.footprint, repeats.fence) is not repeats.footprint:
            return None
        given.looked = self._clock()
        return given

    async def find(self, key: bytes) -> Given | None:
        """The answer that ``key`` had and would have again."""
        given = self._given.get(key)
        if given is None or not given.repeats.lasts:
            return None
        if given.repeats.session is not None and not await self._is_as_it_was(key, given, given.repeats.session):
            return None
        if self._is_fresh(given):
            return given
        before = given.repeats.footprint
        now = (
            self._footprints.renewed(before, given.repeats.fence)
            if given.quick
            else await asyncio.to_thread(self._footprints.renewed, before, given.repeats.fence)
        )
        if now is None:
            return None
        given.looked = self._clock()
        if now is not before:
            given.repeats, given.quick = replace(given.repeats, footprint=now), self._footprints.is_quick(now)
        return given

    async def find_or_wait(self, key: bytes) -> Given | None:
        """As `find`; while another request brings an answer anew that was held, waits for it once. None: bring it."""
        given = await self.find(key)
        if given is not None or key not in self._given:
            return given
        coming = self._coming.get(key)
        if coming is None:
            self._coming[key] = asyncio.Event()
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                await coming.wait()
        return await self.find(key)

    def gave(self) -> None:
        """Counts an answer that was given again."""
        self._repeated += 1

    def brought(self, key: bytes) -> None:
        """What `find_or_wait` asked for is there, or will not come: those who wait go on."""
        coming = self._coming.pop(key, None)
        if coming is not None:
            coming.set()

    def keep(self, key: bytes, content: bytes, tag: str, repeats: Repeats | None) -> None:
        """Keeps an answer that repeats. Of one that would once more be another, only that it was asked for."""
        self._assembled += 1
        if repeats is None:
            self._given.pop(key, None)
        elif not repeats.lasts:
            self._put(key, Given(b"", tag, repeats, 0.0, 0.0))
        else:
            quick = self._footprints.is_quick(repeats.footprint)
            size = len(content) + weight(repeats)
            self._put(key, Given(content, tag, repeats, self._later(key), repeats.until, size, quick))

    async def coded(self, key: bytes, given: Given, coding: str) -> Coded:
        """The answer in ``coding``, which is one of `encoding.CODINGS` or `encoding.IDENTITY`."""
        found = given.coded.get(coding)
        if found is None:
            body = given.content if coding == IDENTITY else await self._compressed(given.content, coding)
            found = given.coded[coding] = Coded.of(given.tag, coding, body)
            if self._given.get(key) is given:
                self._put(key, given)
        return found

    async def _compressed(self, content: bytes, coding: str) -> bytes:
        return (
            await asyncio.to_thread(compressed, content, coding)
            if len(content) > LARGE
            else compressed(content, coding)
        )

    def _is_fresh(self, given: Given) -> bool:
        return given.repeats.fixed and self._clock() - given.looked < GLANCE_SECONDS

    def _is_known(self, given: Given, session: str) -> bool:
        repeats = given.repeats
        if self._sessions.alone != repeats.alone or self._sessions.version_here(session) != repeats.version:
            return False
        return self._now() <= given.until and self._clock() < given.told

    async def _is_as_it_was(self, key: bytes, given: Given, session: str) -> bool:
        repeats = given.repeats
        if self._sessions.alone != repeats.alone or await self._sessions.version(session) != repeats.version:
            return False
        if self._now() > given.until:
            return False
        return self._clock() < given.told or await self._told(key, given, session)

    async def _told(self, key: bytes, given: Given, session: str) -> bool:
        """Tells the session that its last turn was repeated; False when it was written meanwhile."""
        given.told = self._later(key)
        repeats, held = given.repeats, await self._sessions.load(session)
        if held.remembered is None or held.version != repeats.version:
            return False
        if not repeats.sent:
            return True
        repeated = held.remembered.repeated(self._now())
        version = await self._sessions.save(session, repeated, held)
        if not version:
            return False
        given.repeats = replace(repeats, version=version, started=repeated.started, moment=repeated.started)
        given.until = given.repeats.until
        return True

    def _later(self, key: bytes) -> float:
        """When a session is told next: not all at once."""
        return self._clock() + self._seconds * (1 + key[0] / BYTE) / 2

    def _put(self, key: bytes, given: Given) -> None:
        if given.bytes <= self._given.maxsize:
            self._given[key] = given


def _lines(headers: Sequence[Header]) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)
