"""Bodies that a Messages API answers with: read within a limit, whole or streamed, and made into JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

from app.core.refusals import Reason, told
from app.core.streamed import message_of

T = TypeVar("T")

MOST_DECODED_BYTES = 16 * 1024 * 1024
LARGE_BYTES = 64 * 1024
"""More are parsed beside the event loop; of a refusal no more are read."""
BETWEEN_EVENTS = re.compile(rb"\n\n+|\r\n(?:\r\n)+|\r\r+")
END_OF_SOME_GATEWAYS = b"[DONE]"


class UpstreamFailed(Exception):  # noqa: N818 - it is told, as the problems of this service are
    """The Messages API gave no answer that can be used.

    ``message`` is for the caller: what is wrong and what to do, without any key. ``status`` is None when no response
    came; ``retry_after`` is in seconds.
    """

    def __init__(
        self, reason: Reason, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status
        self.retry_after = retry_after


async def limited(read: Callable[[], AsyncGenerator[bytes, None]], *, refused: bool) -> AsyncGenerator[bytes, None]:
    taken = 0
    async with aclosing(read()) as parts:
        async for part in parts:
            taken += len(part)
            if taken > MOST_DECODED_BYTES:
                longer = f"The answer is longer than {MOST_DECODED_BYTES // 1024**2} MiB and was not read to its end."
                raise UpstreamFailed("unreadable", f"{told('unreadable')} {longer}")
            yield part
            if refused and taken > LARGE_BYTES:
                return


async def parsed(parse: Callable[[bytes], T], body: bytes) -> T:
    return await asyncio.to_thread(parse, body) if len(body) > LARGE_BYTES else parse(body)


def unstreamed(body: bytes) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    whole = json_object(body)
    return whole, whole


def streamed(body: bytes) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The message, and the event that broke it off; {}: none did."""
    errors = (event for event in _events(body) if event.get("type") == "error")
    return message_of(_events(body)), next(errors, {}) if b'"error"' in body else {}


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    """One after the other: many small ones take several times the room of their text."""
    start = 0
    for gap in BETWEEN_EVENTS.finditer(body):
        lines = body[start : gap.start()].splitlines()
        data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:")).strip()
        if data not in {b"", END_OF_SOME_GATEWAYS}:
            yield json_object(data)
        start = gap.end()


def json_object(written: bytes) -> dict[str, Any]:
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UpstreamFailed("unreadable", told("unreadable"))
    return found
