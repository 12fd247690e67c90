"""What a Messages API, or what stands between it and us, can do instead of answering."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER for a connection that is reset when it is closed."""

PIECES = 40
"""In how many a body comes that drips."""

BOMB_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Failure:
    """An error in the API's shape."""

    status: int
    message: str = "told to fail"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Words:
    """A body of any kind, whole."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stall:
    """No answer, until the caller goes."""


@dataclass(frozen=True)
class Reset:
    """The connection is reset before a word of an answer."""


@dataclass(frozen=True)
class Cut:
    """The answer, streamed, up to this many events; then the connection ends, or the body does, or nothing comes."""

    events: int
    then: Literal["severed", "ended", "silent"] = "severed"


@dataclass(frozen=True)
class Drip:
    """The usual answer, whose body comes in pieces, ``pause`` seconds apart."""

    pause: float


@dataclass(frozen=True)
class Endless:
    """A body of this piece again and again, until the caller goes."""

    piece: bytes
    content_type: str = "application/json"


@dataclass(frozen=True)
class Hold:
    """The usual answer, once it is released."""

    released: threading.Event


@dataclass(frozen=True)
class Ending:
    """The answer with another stop reason."""

    stop_reason: str


Scripted = Failure | Words | Stall | Reset | Cut | Drip | Endless | Hold | Ending


@lru_cache(1)
def bomb() -> bytes:
    """A few kilobytes that are `BOMB_BYTES` once they are unpacked."""
    return gzip.compress(b" " * BOMB_BYTES, compresslevel=6)


def mishaps() -> Mapping[str, Scripted]:
    """One of each kind, by its name."""
    packed = {"content-encoding": "gzip"}
    return MappingProxyType(
        {
            "stalls": Stall(),
            "resets": Reset(),
            "is cut": Cut(4),
            "falls silent": Cut(4, "silent"),
            "drips": Drip(0.5),
            "never ends": Endless(b" " * 65_536),
            "streams without end": Endless(b"event: ping\ndata: {}\n\n" * 1000, "text/event-stream"),
            "garbage": Words(b"\x00\xff<html>"),
            "half a body": Words(b'{"input_tokens": 1, "content": [{"type": "te'),
            "another type": Words(b"<html>Bad gateway</html>", content_type="text/html"),
            "a list": Words(b"[1, 2]"),
            "redirects": Words(b"", status=307, headers={"location": "http://127.0.0.1:1/v1/messages"}),
            "swells": Words(bomb(), headers=packed),
            "false gzip": Words(b"no gzip at all", headers=packed),
            "a storm of 429": Failure(429, headers={"retry-after": "1"}),
            "a storm of 529": Failure(529),
            "a storm of 500": Failure(500),
            "refuses the key": Failure(401),
            "waits for a day": Failure(429, headers={"retry-after": "86400"}),
        }
    )


class Severed(Response):
    """A body that never ends: the server closes the connection over it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self._open_headers()})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await self._after(receive)

    async def _after(self, receive: Receive) -> None:
        """The server closes the connection as soon as this is over."""

    def _open_headers(self) -> list[tuple[bytes, bytes]]:
        return [(name, value) for name, value in self.raw_headers if name != b"content-length"]


class Silent(Severed):
    """A body that is never ended, over a connection that stays."""

    async def _after(self, receive: Receive) -> None:
        await gone(receive)


class Slow(Response):
    """A body whose pieces come ``pause`` seconds apart."""

    def __init__(self, whole: Response, pause: float) -> None:
        super().__init__(whole.body, whole.status_code)
        self.raw_headers, self.pause = whole.raw_headers, pause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(gone(receive))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body, size = bytes(self.body), max(1, -(-len(self.body) // PIECES))
        for at in range(0, len(body), size):
            await send({"type": "http.response.body", "body": body[at : at + size], "more_body": True})
            if leaving.done():
                return
            await asyncio.sleep(self.pause)
        leaving.cancel()
        await send({"type": "http.response.body", "body": b""})


class Unending(Severed):
    """The body again and again, until the caller goes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(gone(receive))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self._open_headers()})
        while not leaving.done():
            await send({"type": "http.response.body", "body": self.body, "more_body": True})
            await asyncio.sleep(0)


BODIES: Mapping[str, type[Response]] = MappingProxyType({"severed": Severed, "ended": Response, "silent": Silent})


async def gone(receive: Receive) -> None:
    """Returns when the caller has gone. The request's body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def reset(request: Request) -> None:
    """Ends the connection without a word: the server knows no other way than to take its socket from it."""
    cycle: Any = getattr(request.receive, "__self__")  # noqa: B009 - a bound method's own, for which there is no type
    wire = cycle.transport.abort.__self__  # the server's own protocol may stand in front of it
    wire.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    wire.abort()
    await gone(request.receive)
