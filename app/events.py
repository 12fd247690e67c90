"""What is told of a session while it is listened to: events as they are sent, the last ones, and who receives them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from fastapi.sse import format_sse_event

from app.core.footprint import Change
from app.wire.answers import to_bytes

KEPT = 256
"""Events of a session that can be sent again."""

KEPT_BYTES = 1024 * 1024
"""What they may take together; the last one is always kept."""

WAITING = 64
"""Events that may wait for one reader."""

RETRY_MILLISECONDS = 2_000

Words = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    words: Words

    def sent(self, number: str | None = None, retry: int | None = None) -> bytes:
        """As a server-sent event; ``number`` is where a reader goes on from."""
        data = to_bytes(self.words).decode()
        return format_sse_event(event=self.name, data_str=data, id=number, retry=retry)


def told_change(session: str, name: str, changes: Iterable[Change], at: str) -> Event:
    """``at`` is a moment in ISO 8601, UTC."""
    paths = [{"path": change.path, "kind": change.kind} for change in changes]
    return Event(name, {"session": session, "paths": paths, "at": at})


class Log:
    """The last events of a session, numbered. ``epoch`` is another one for each log."""

    def __init__(self) -> None:
        self._epoch = uuid4().hex[:12]
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=KEPT)

    @property
    def last(self) -> str:
        return f"{self._epoch}-{self._number}"

    def add(self, event: Event) -> bytes:
        self._number += 1
        written = event.sent(self.last)
        self._kept.append(written)
        while len(self._kept) > 1 and sum(map(len, self._kept)) > KEPT_BYTES:
            self._kept.popleft()
        return written

    def since(self, last: str) -> tuple[bytes, ...] | None:
        """What came after the event ``last``; None when that is not known here, or too long ago."""
        epoch, _, number = last.rpartition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdigit()) or len(number) > len(str(self._number)):
            return None
        missed = self._number - int(number)
        if not 0 <= missed <= len(self._kept):
            return None
        return tuple(self._kept)[len(self._kept) - missed :]


class Listener:
    """One reader of a session's events. At most ``most`` of them wait for it."""

    def __init__(self, session: str, most: int = WAITING) -> None:
        self.session = session
        self.ended = asyncio.Event()
        self._most = most
        self._begun = False
        self._waiting: deque[bytes] = deque()
        self._arrived = asyncio.Event()

    def begin(self, opening: Sequence[bytes]) -> None:
        """What is offered before counts as part of ``opening``, which may be of any length."""
        self._most += len(opening)
        self._begun = True
        self._put(opening)

    def offer(self, event: bytes) -> bool:
        """False when too many wait already."""
        if not self._begun:
            return True
        if self.ended.is_set() or len(self._waiting) >= self._most:
            return False
        self._put((event,))
        return True

    def end(self, event: Event, *, at_once: bool = False) -> None:
        """``event`` is the last one. ``at_once``: what still waits is left out."""
        if self.ended.is_set():
            return
        if at_once:
            self._waiting.clear()
        self.ended.set()
        self._put((event.sent(),))

    async def take(self) -> bytes | None:
        """The next event, when there is one; None after the last."""
        while not self._waiting:
            if self.ended.is_set():
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def _put(self, events: Sequence[bytes]) -> None:
        self._waiting.extend(events)
        self._arrived.set()
