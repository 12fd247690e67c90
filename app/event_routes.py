"""The route of a session's events, and how a stream of them is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse
from starlette.types import Receive, Scope, Send

from app.callers import Caller, caller_of
from app.carrying import AsSent, called, problem_answers
from app.events import Listener
from app.hub import Hub, closing
from app.workspaces.fence import Fence

LAST_SECONDS = 5.0
"""How long a reader may take to take the last event."""

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

LAST_EVENT_ID = "last-event-id"

STREAM: dict[str, Any] = {
    "description": "Server-sent events, for as long as the session lives",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}

DOCUMENTED = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "description": "The id of the last event that was received: the stream goes on behind it.",
            "schema": {"type": "string"},
        }
    ]
}


class EventStream(EventSourceResponse):
    """Events until the last one, or until the reader goes away; a comment every ``heartbeat`` seconds.

    ``admitted`` says whether the reader would still be let in: before each event.
    """

    def __init__(
        self,
        hub: Hub,
        listener: Listener,
        heartbeat: float,
        last: float = LAST_SECONDS,
        *,
        admitted: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__((), headers=HEADERS)
        self._hub, self._listener, self._heartbeat, self._last = hub, listener, heartbeat, last
        self._admitted = admitted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the signature is ASGI's
        writing = asyncio.create_task(self._written(send))
        leaving = asyncio.create_task(_gone(receive))
        ending = asyncio.create_task(self._listener.ended.wait())
        try:
            await asyncio.wait({writing, leaving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not leaving.done():
                await asyncio.wait({writing, leaving}, timeout=self._last, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                writing.result()
        finally:
            self._hub.leave(self._listener)
            for task in (writing, leaving, ending):
                task.cancel()
            await asyncio.gather(writing, leaving, ending, return_exceptions=True)

    async def _written(self, send: Send) -> None:
        with suppress(OSError):  # the reader is gone
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while (event := await self._next()) is not None:
                revoked = not self._admitted()
                told = closing("key_revoked").sent() if revoked else event
                await send({"type": "http.response.body", "body": told, "more_body": True})
                if revoked:
                    break
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._heartbeat):
                return await self._listener.take()
        except TimeoutError:
            return KEEPALIVE_COMMENT


def event_routes(hub: Hub, heartbeat: float, fence: Fence, knows: Callable[[Caller], bool]) -> APIRouter:
    """A part of the contract's routes, over what `main` has built.

    ``heartbeat`` is in seconds; ``fence`` the service's own; ``knows`` says whether a caller would still be let in.
    """
    router = APIRouter(responses=problem_answers(401, 403, 421, 429, 500, 503), route_class=AsSent, tags=["sessions"])

    @router.get(
        "/v1/sessions/{session_id}/events",
        response_class=Response,
        responses={200: STREAM, **problem_answers(404, 422, 503)},
        openapi_extra=DOCUMENTED,
    )
    async def tell_events(session_id: str, request: Request) -> Response:
        """What changes on disk of what the session's answer was built from, as server-sent events."""
        caller, last = caller_of(request.scope), request.headers.get(LAST_EVENT_ID)
        listener = await hub.listen(called(session_id, request), caller.fence or fence, last)
        return EventStream(hub, listener, heartbeat, admitted=lambda: knows(caller))

    return router


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
