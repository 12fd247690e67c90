"""Work for a caller, which ends when the caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

T = TypeVar("T")


class CallerGoneError(Exception):
    """Nobody waits for the answer any more."""


async def while_present(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` brings. The body of ``request`` must have been read.

    Raises:
        CallerGoneError: the connection ended first, and the work with it.
    """
    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise CallerGoneError
        return doing.result()
    finally:
        doing.cancel()
        leaving.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
