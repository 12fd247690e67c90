"""What the callers of a process have under way together, and how long each of them is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from app.figures import Shed

LOOKS = 4
"""How often at least a caller is looked at in the shortest time it has."""

LONGEST_PAUSE = 1.0
"""Seconds between two looks, at most."""

LINGER_SECONDS = 2.0
"""For how long who was refused may go on sending, unheard."""

MOST_BODIES_BYTES = 256 * 1024 * 1024
"""Of an application that says nothing of it."""

LONGEST_HEAD = 64 * 1024
"""Bytes; of an application that says nothing of it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a caller is waited for, in seconds, and with how many connections.

    ``head_seconds`` to the first byte of a request and from there to the end of its head; ``body_seconds`` for a whole
    body; ``send_seconds`` for a reader who takes nothing. Twice ``max_connections`` are taken, to tell those beyond
    it that they are too many, and to answer probes of health. ``max_head_bytes`` are of a request's head, and of what
    may stand between two pieces of a body.
    """

    head_seconds: float = 10
    body_seconds: float = 30
    send_seconds: float = 30
    max_connections: int = 4_096
    max_head_bytes: int = LONGEST_HEAD

    @property
    def pause(self) -> float:
        """Seconds between two looks at a caller."""
        return min(LONGEST_PAUSE, min(self.head_seconds, self.body_seconds, self.send_seconds) / LOOKS)

    @property
    def piece(self) -> int:
        """Bytes that are read at once, after which it is seen whether a head is too long."""
        return min(LONGEST_HEAD, self.max_head_bytes)


class BodyBudget:
    """Bytes of bodies of requests that are under way; never more than ``most_bytes``."""

    def __init__(self, most_bytes: int = MOST_BODIES_BYTES) -> None:
        self.most_bytes = most_bytes
        self.held = 0

    def take(self, size: int) -> bool:
        """False: there is no room for ``size`` bytes, and none are counted."""
        if self.held + size > self.most_bytes:
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        self.held -= size


class Place:
    """One that was taken. It is held until its answer begins: a reader who is slow keeps nobody from working.

    Where somebody else has answered for it, it is held until its work has ended.
    """

    def __init__(self, give_back: Callable[[], object]) -> None:
        self._give_back: Callable[[], object] | None = give_back

    def give_back(self) -> None:
        """Once; after that it does nothing."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


class Traffic:
    """``connections`` are open now, with ``unsent`` bytes of answers that nobody has taken.

    ``sheds`` is told why each request that found no room was turned away.
    """

    def __init__(self, patience: Patience, bodies: BodyBudget, sheds: Callable[[Shed], object]) -> None:
        self.patience, self.bodies, self.sheds = patience, bodies, sheds
        self.connections = self.unsent = 0

    def holds_too_much(self) -> bool:
        """Whether more waits to be sent than bodies may have."""
        return self.unsent > self.bodies.most_bytes


class Counted:
    """A transport that knows how many bytes it was given.

    Where ``sends`` says that the caller may still be sending, it is heard for `LINGER_SECONDS` after the last word:
    else the system would reset the connection, and what was said with it.
    """

    def __init__(self, transport: asyncio.Transport, sends: Callable[[], bool]) -> None:
        self._transport, self._sends = transport, sends
        self.written = 0
        self._lingers = False
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        if not self._lingers:
            self.written += len(data)
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._lingers or self._transport.is_closing()

    def close(self) -> None:
        if self.is_closing() or not self._sends():
            self._transport.close()
            return
        self._lingers = True
        self._transport.write_eof()
        self._transport.resume_reading()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
