"""The layer in front of the routes that answers what was answered before: no parsing, no assembling, no writing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.carrying import WARM_KEY, WORTH_COMPRESSING
from app.encoding import IDENTITY, coding_for, refuses_identity, tag_among
from app.warm import Given, Warm

POSTED = b"/v1/context"
POLLED = (b"/v1/sessions/", b"/context")
NAMED = (b"content-type", b"anthropic-beta")
"""Headers that belong to what is asked."""


class WarmLayer:
    """``today`` is the server's day, which an answer may depend on."""

    def __init__(self, app: ASGIApp, *, warm: Warm, today: Callable[[], str]) -> None:
        self.app = app
        self.warm = warm
        self.today = today

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("raw_path") or b""
        if scope["type"] == "http" and scope["method"] == "POST" and path == POSTED:
            await self._posted(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "GET" and (session := _polled(path)):
            await self._answered(_key(self.today(), scope, b"GET", session), POLL_ROUTE, scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _posted(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages, body = await _taken(receive)
        again = _again(messages, receive)
        if body is None:
            await self.app(scope, again, send)
        else:
            await self._answered(_key(self.today(), scope, b"POST", body), POST_ROUTE, scope, again, send)

    async def _answered(self, key: bytes, route: SimpleNamespace, scope: Scope, receive: Receive, send: Send) -> None:
        given = await self.warm.find_or_wait(key)
        if given is not None:
            scope["route"] = route
            await self._send(key, given, scope, send)
            return
        scope.setdefault("state", {})[WARM_KEY] = key

        async def send_noting(message: Message) -> None:
            self.warm.brought(key)
            await send(message)

        try:
            await self.app(scope, receive, send_noting)
        finally:
            self.warm.brought(key)

    async def _send(self, key: bytes, given: Given, scope: Scope, send: Send) -> None:
        accepted, wanted = _negotiated(scope)
        if wanted and scope["method"] == "GET" and (tag := tag_among(wanted, given.tag)):
            headers = [(b"etag", tag.encode()), (b"vary", b"accept-encoding")]
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        small = len(given.content) < WORTH_COMPRESSING and not refuses_identity(accepted)
        coding = IDENTITY if small else coding_for(accepted) or IDENTITY
        headers, body = given.coded.get(coding) or await self.warm.coded(key, given, coding)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


POST_ROUTE = SimpleNamespace(path="/v1/context")
POLL_ROUTE = SimpleNamespace(path="/v1/sessions/{session_id}/context")
"""What a log line and the figures are told of the route, which is not reached."""


def _polled(path: bytes) -> bytes:
    """The session that is named; empty for another address."""
    front, back = POLLED
    if not (path.startswith(front) and path.endswith(back)):
        return b""
    named = path[len(front) : -len(back)]
    return b"" if b"/" in named else unquote_to_bytes(named)


def _key(today: str, scope: Scope, *asked: bytes) -> bytes:
    """Different for whatever may have another answer."""
    named = [b"%s:%s" % header for header in scope["headers"] if header[0] in NAMED]
    digest = hashlib.sha256(b"\n".join((today.encode(), *named, b"")))
    for part in asked:
        digest.update(b"%d\n" % len(part))
        digest.update(part)
    return digest.digest()


async def _taken(receive: Receive) -> tuple[list[Message], bytes | None]:
    """The messages of a body, and the body; None where it was not sent to its end."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        return [message], message.get("body", b"")
    messages = [message]
    while message["type"] == "http.request" and message.get("more_body"):
        message = await receive()
        messages.append(message)
    whole = message["type"] == "http.request"
    return messages, b"".join([one.get("body", b"") for one in messages]) if whole else None


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Gives ``messages`` once more, then what comes."""
    waiting = iter(messages)

    async def receive_again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return receive_again


def _negotiated(scope: Scope) -> tuple[list[str], list[str]]:
    """What the caller says of codings, and of tags that it has."""
    accepted, wanted = [], []
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            accepted.append(value.decode("latin-1"))
        elif name == b"if-none-match":
            wanted.append(value.decode("latin-1"))
    return accepted, wanted
