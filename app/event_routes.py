"""The route of a session's events, and how a stream of them is sent."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse
from starlette.types import Receive, Scope, Send

from app.carrying import AsSent, named, problem_answers
from app.events import Listener
from app.hub import Hub

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
    """Events until the last one, or until the reader goes away; a comment every ``heartbeat`` seconds."""

    def __init__(self, hub: Hub, listener: Listener, heartbeat: float, last: float = LAST_SECONDS) -> None:
        super().__init__((), headers=HEADERS)
        self._hub, self._listener, self._heartbeat, self._last = hub, listener, heartbeat, last

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
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._heartbeat):
                return await self._listener.take()
        except TimeoutError:
            return KEEPALIVE_COMMENT


def event_routes(hub: Hub, heartbeat: float) -> APIRouter:
    """A part of the contract's routes, over what `main` has built. ``heartbeat`` is in seconds."""
    router = APIRouter(responses=problem_answers(401, 403, 421, 500), route_class=AsSent, tags=["sessions"])

    @router.get(
        "/v1/sessions/{session_id}/events",
        response_class=Response,
        responses={200: STREAM, **problem_answers(404, 422, 503)},
        openapi_extra=DOCUMENTED,
    )
    async def tell_events(session_id: str, request: Request) -> Response:
        """What changes on disk of what the session's answer was built from, as server-sent events."""
        return EventStream(hub, await hub.listen(named(session_id), request.headers.get(LAST_EVENT_ID)), heartbeat)

    return router


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
