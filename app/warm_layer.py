"""The layer in front of everything that answers what was answered before: no parsing, no assembling, no writing.

What it does not answer itself goes on to the application untouched.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.ahead import again, taken_whole
from app.callers import Caller
from app.carrying import WARM_KEY, WORTH_COMPRESSING
from app.encoding import IDENTITY, coding_for, refuses_identity, tags_given
from app.errors import Problem, TooManyAtOnce
from app.guard import COUNTED, Admission, Headers
from app.phases import timeline_of
from app.telemetry import Telling, id_given, parent_given
from app.warm import Coded, Given, Warm

POST_PATH = "/v1/context"
POLL_PATH = "/v1/sessions/{session_id}/context"
POSTED = POST_PATH.encode()
POLLED_BEFORE, POLLED_BEHIND = b"/v1/sessions/", b"/context"

BEYOND = re.compile(rb"[/?#]")
"""What is no part of a name in a path."""

OWN = frozenset({b"x-request-id", b"traceparent"})
"""Headers that are others with each request, and mean nothing to its answer."""

NAMED = frozenset({b"content-type", b"anthropic-beta"})
"""Headers that belong to what is asked."""

MOST_HEADS, LONGEST_HEAD, MOST_HEADERS, MOST_TAGS = 1024, 2048, 64, 32
"""Sets of headers whose meaning is remembered, the bytes of one, the headers in it, and the tags that they name."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a request's headers mean. ``asked`` are those that belong to what is asked; ``coding`` of the answer.

    ``tags`` are those of what the caller has; ``shared`` are headers for a web page that may read the answer.
    """

    caller: Caller
    asked: bytes
    coding: str
    refuses_identity: bool
    tags: frozenset[str]
    shared: Headers
    shared_lines: bytes


class Request(NamedTuple):
    """A request that came whole. ``client`` is an address, None for a caller in the process."""

    method: bytes
    path: bytes
    headers: Headers
    client: str | None
    body: bytes


class Reply(NamedTuple):
    """``lines`` are the headers as HTTP has them, with the empty line behind them."""

    status: int
    lines: bytes
    body: bytes


class Asked(NamedTuple):
    """A request that may have been answered before; ``began`` is when it came.

    ``own`` are the headers that name it, or the request of its caller that it belongs to.
    """

    key: bytes
    head: Head
    method: str
    began: float
    own: Headers


class WarmLayer:
    """``today`` is the server's day, which an answer may depend on. ``admission`` says who is answered here."""

    def __init__(
        self, app: ASGIApp, *, warm: Warm, admission: Admission, telling: Telling, today: Callable[[], str]
    ) -> None:
        self.app = app
        self.warm, self.admission, self.telling, self.today = warm, admission, telling, today
        self._heads: dict[tuple[object, ...], Head] = {}
        self._heads_of = admission.ring

    def epoch(self) -> tuple[str, object]:
        """Another one once what was found out of a request may not hold any more: the day, and who may call."""
        return self.today(), self._current()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        path, method = scope.get("raw_path") or b"", scope["method"]
        session = _polled(path) if method == "GET" else b""
        asks = session or (method == "POST" and path == POSTED)
        client = scope.get("client")
        head = self._head(scope["path"], scope["headers"], client[0] if client else None) if asks else None
        if head is None:
            await self.app(scope, receive, send)
        elif session:
            asked = Asked(self._key(head, b"GET", session), head, method, began, _own(scope["headers"]))
            await self._answered(asked, scope, receive, send)
        else:
            await self._counted(head, began, scope, receive, send)

    async def _counted(self, head: Head, began: float, scope: Scope, receive: Receive, send: Send) -> None:
        """A body that is waited for here is a request under way."""
        with ExitStack() as counting:
            try:
                counting.enter_context(self.admission.under_way(head.caller, streams=False))
            except TooManyAtOnce:
                await self.app(scope, receive, send)
                return
            scope.setdefault("state", {})[COUNTED] = True
            await self._posted(head, began, scope, receive, send)

    async def _posted(self, head: Head, began: float, scope: Scope, receive: Receive, send: Send) -> None:
        timeline, most = timeline_of(scope), self.admission.most_bytes(head.caller)
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            messages, body = [message], message.get("body", b"")
        else:
            messages, body = await taken_whole(message, receive, most)
        timeline.add("read", timeline.began, perf_counter())
        once_more = again(messages, receive)
        if body is None or len(body) > most:
            await self.app(scope, once_more, send)
        else:
            asked = Asked(self._key(head, b"POST", body), head, "POST", began, _own(scope["headers"]))
            await self._answered(asked, scope, once_more, send)

    async def _answered(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        given = await self.warm.find_or_wait(asked.key)
        if given is not None and not self.admission.wait(asked.head.caller):
            await self._given(asked, given, send)
            return
        scope.setdefault("state", {})[WARM_KEY] = asked.key

        async def send_noting(message: Message) -> None:
            self.warm.brought(asked.key)
            await send(message)

        try:
            await self.app(scope, receive, send_noting)
        finally:
            self.warm.brought(asked.key)

    async def _given(self, asked: Asked, given: Given, send: Send) -> None:
        key, head, method, _, own = asked
        name = id_given(own) or self.telling.new_id()
        status, coded = _reply(head, method, given)
        if coded is None:
            coded = await self.warm.coded(key, given, _coding(head, given))
        headers = [*coded.headers, (b"x-request-id", name.encode()), *head.shared]
        answered = perf_counter()
        try:
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": coded.body})
        finally:
            self._tell(name, asked, status, asked.began, answered)

    def asked(self, request: Request) -> Asked | None:
        """A whole request to an address that `answers` knows; None: the caller is not answered here."""
        method, path, headers, client, body = request
        head = self._head(POST_PATH, headers, client)
        if head is None:
            return None
        key = self._key(head, method, body if method == b"POST" else _polled(path))
        return Asked(key, head, method.decode(), perf_counter(), _own(headers))

    def at_once(self, asked: Asked, began: float) -> Reply | None:
        """The answer, for a server that can do without ASGI. None: the application has to be asked."""
        key, head, method, _, own = asked
        given = self.warm.at_once(key)
        if given is None:
            return None
        status, coded = _reply(head, method, given)
        if coded is None or self.admission.wait(head.caller):
            return None
        name = id_given(own) or self.telling.new_id()
        self._tell(name, asked, status, began, perf_counter())
        lines = b"%bx-request-id: %b\r\n%b\r\n" % (coded.lines, name.encode(), head.shared_lines)
        return Reply(status, lines, coded.body)

    def answers(self, method: bytes, path: bytes, headers: Headers, client: str | None) -> bool:
        """Whether such a request is answered here at all, going by its head.

        That of a key that may have so many at once is counted from its head on, which is not done here.
        """
        known = path == POSTED if method == b"POST" else method == b"GET" and _polled(path) != b""
        head = self._head(POST_PATH, headers, client) if known else None
        return head is not None and head.caller.at_once is None

    def _tell(self, name: str, asked: Asked, status: int, began: float, answered: float) -> None:
        self.warm.gave()
        method, parent, key = asked.method, parent_given(asked.own), asked.head.caller.name
        route = POST_PATH if method == "POST" else POLL_PATH
        self.telling.tell(name, method, route, status=status, began=began, answered=answered, parent=parent, key=key)

    def _head(self, path: str, headers: Headers, client: str | None) -> Head | None:
        """None: the caller is not answered here."""
        self._current()
        own = _own(headers)
        known = (client, *(headers if not own else [header for header in headers if header not in own]))
        head = self._heads.get(known)
        if head is None:
            caller = self.admission.verdict("POST", path, headers, client)
            if isinstance(caller, Problem):
                return None
            head = _read(headers, caller, self.admission.origins.headers_for(headers))
            short = sum(len(name) + len(value) for name, value in headers) <= LONGEST_HEAD
            if short and len(headers) <= MOST_HEADERS and len(head.tags) <= MOST_TAGS:
                if len(self._heads) >= MOST_HEADS:
                    self._heads.clear()
                self._heads[known] = head
        return head

    def _current(self) -> object:
        """Forgets what was found out about callers once the keys have changed."""
        ring = self.admission.ring
        if ring is not self._heads_of:
            self._heads_of = ring
            self._heads.clear()
        return ring

    def _key(self, head: Head, kind: bytes, asked: bytes) -> bytes:
        """Different for whatever may have another answer, and for each tenant."""
        parts = self.today().encode(), head.caller.space.encode(), kind, head.asked, len(asked)
        digest = hashlib.sha256(b"%b\n%b\n%b\n%b%d\n" % parts)
        digest.update(asked)
        return digest.digest()


def _own(headers: Headers) -> Headers:
    return [header for header in headers if header[0] in OWN]


def _read(headers: Headers, caller: Caller, shared: Headers) -> Head:
    accepted = [value.decode("latin-1") for name, value in headers if name == b"accept-encoding"]
    wanted = [value.decode("latin-1") for name, value in headers if name == b"if-none-match"]
    return Head(
        caller=caller,
        asked=b"".join(b"%b:%b\n" % header for header in headers if header[0] in NAMED),
        coding=coding_for(accepted) or IDENTITY,
        refuses_identity=refuses_identity(accepted),
        tags=tags_given(wanted),
        shared=shared,
        shared_lines=b"".join(b"%b: %b\r\n" % header for header in shared),
    )


def _reply(head: Head, method: str, given: Given) -> tuple[int, Coded | None]:
    """Status and answer; None: it has not been compressed yet."""
    if head.tags and method == "GET" and (unchanged := given.unchanged(head.tags)):
        return 304, unchanged
    return 200, given.coded.get(_coding(head, given))


def _coding(head: Head, given: Given) -> str:
    return IDENTITY if len(given.content) < WORTH_COMPRESSING and not head.refuses_identity else head.coding


def _polled(path: bytes) -> bytes:
    """The session that is named; empty for another address."""
    if not (path.startswith(POLLED_BEFORE) and path.endswith(POLLED_BEHIND)):
        return b""
    named = path[len(POLLED_BEFORE) : -len(POLLED_BEHIND)]
    return b"" if BEYOND.search(named) else unquote_to_bytes(named)
