"""A connection that is not waited for without end, and holds no more than it may."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import httptools
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.cli.turning_away import Crowded, name_for, refusing, tell_of, too_slow, written
from app.errors import NotHttp, Overloaded, Problem, TookTooLong
from app.guard import host_in
from app.telemetry import STOPPED, Telling, tell_of_stop
from app.traffic import LONGEST_PAUSE, LOOKS, BodyBudget, Counted, Patience, Traffic

MOST_HEADERS = 256
"""Headers of a request."""

MOST_WAITING = 32
"""Requests that wait on one connection for the answer to an earlier one."""

VERSIONS = frozenset({"1.0", "1.1"})

_OF_ONE_HOP = frozenset({b"upgrade", b"connection"})


class Connection(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, within ``app.state.traffic``.

    Time is counted in looks: what this process itself was late with is no caller's.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        app = self.config.app
        given: Traffic | None = getattr(getattr(app, "state", None), "traffic", None)
        self._traffic = given or Traffic(Patience(), BodyBudget(), len)
        self._telling: Telling | None = getattr(getattr(app, "front", None), "telling", None)
        self._most_head = self._traffic.patience.max_head_bytes
        self._piece = self._traffic.patience.piece
        self._pause = min(self._traffic.patience.pause, self.timeout_keep_alive / LOOKS or LONGEST_PAUSE)
        self._running: RequestResponseCycle | None = None
        self._weights: dict[RequestResponseCycle, int] = {}
        self._crowded = self._deaf = self._coming = self._is_aside = False
        self._headed: object = None
        self._unheard = 0
        self._awaited: object = None
        self._taken = self._unsent = 0
        self._head_waited = self._body_waited = self._stuck = 0.0

    # The transport's calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wire, self._counted = transport, Counted(transport, lambda: self._coming or self._deaf)
        self.transport = cast("asyncio.Transport", self._counted)
        self._traffic.connections += 1
        self._looking = self.loop.call_later(self._pause, self._look)
        beyond = self._traffic.connections - self._traffic.patience.max_connections
        if beyond > self._traffic.patience.max_connections:
            self._traffic.sheds("connections")
            transport.abort()
        elif beyond > 0:
            self._crowded = True
            self.app = cast("Any", Crowded(cast("ASGIApp", self.app), self._traffic, self._telling))

    def data_received(self, data: bytes) -> None:
        if len(data) > self._piece:
            for at in range(0, len(data), self._piece):
                self.data_received(data[at : at + self._piece])
        elif not self._deaf:
            self._unheard += len(data)
            self._feed(data)
            if self._coming or self._unheard:
                self._go_on_waiting()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._cut_unreadable()
        except httptools.HttpParserUpgrade as at:
            if self._is_aside:
                self._stay_with_this_protocol(data[at.args[0] :])
            else:
                self._hear_no_more()

    def _stay_with_this_protocol(self, behind: bytes) -> None:
        """Reads the request once more as if it had not asked for another one: the parser would leave out its body."""
        self._is_aside = False
        lines = [b"%b: %b" % header for header in self.headers if header[0] not in _OF_ONE_HOP]
        first = b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(b"\r\n".join([first, *lines, b"connection: close", b"", behind]))

    def _hear_no_more(self) -> None:
        self._deaf = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _go_on_waiting(self) -> None:
        """A request has not come whole yet."""
        if self._unheard > self._most_head or len(self.headers or ()) > MOST_HEADERS:
            self._cut_long()

    def connection_lost(self, exc: Exception | None) -> None:
        self._looking.cancel()
        self._traffic.connections -= 1
        self._traffic.unsent -= self._unsent
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()
        self.pipeline.clear()
        for cycle in [cycle for cycle in self._weights if cycle is not running]:
            self._let_weight_go(cycle)
        super().connection_lost(exc)

    # The parser's calls

    def on_headers_complete(self) -> None:
        if self._deaf or self.transport.is_closing():
            self._deaf = True  # uvicorn would ask a transport that is gone to wait
        elif self._is_long():
            self._cut_long()
        elif self.parser.get_http_version() not in VERSIONS:
            self._cut_unreadable()
        elif len(self.pipeline) >= MOST_WAITING:
            self._hear_no_more()
        elif self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._is_aside = True
        else:
            self._take_host_from_target()
            self._begin()
            self._headed, self._coming, self._unheard = self.scope, True, 0  # not of a target that cannot be read

    def _is_long(self) -> bool:
        if self._unheard <= self._most_head:
            return len(self.headers) > MOST_HEADERS
        written = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        return written > self._most_head or len(self.headers) > MOST_HEADERS

    def _take_host_from_target(self) -> None:
        if (host := host_in(self.url)) is not None:
            self.headers[:] = [*(header for header in self.headers if header[0] != b"host"), (b"host", host)]

    def _begin(self) -> None:
        super().on_headers_complete()
        self.headers = []  # what comes behind a body in chunks is no header
        if self._crowded:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if self._deaf:
            return
        self._unheard, cycle = 0, self.cycle
        if not cycle.response_complete:
            if not self._traffic.bodies.take(len(body)):
                self._cut_heavy()
                return
            self._weights[cycle] = self._weights.get(cycle, 0) + len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._deaf and not self._is_aside:
            self._coming, self._unheard = False, 0
            if not self.parser.should_keep_alive():  # that may stand behind the body
                self.cycle.keep_alive = False
            super().on_message_complete()

    # Requests under way

    def on_response_complete(self) -> None:
        """As it was, but that a connection at rest is found by the next looks, and needs no timer."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, partial(self._run, cycle, app))

    async def _run(self, cycle: RequestResponseCycle, app: Any, scope: Scope, receive: Receive, send: Send) -> Any:
        try:
            return await app(scope, receive, send)
        except asyncio.CancelledError:
            self._stop(cycle)
        finally:
            self._let_weight_go(cycle)
            if self._running is cycle:
                self._running = None

    def _let_weight_go(self, cycle: RequestResponseCycle) -> None:
        self._traffic.bodies.give_back(self._weights.pop(cycle, 0))

    # Time

    def _look(self) -> None:
        patience = self._traffic.patience
        self._looking = self.loop.call_later(self._pause, self._look)
        self._look_at_reader(patience)
        if not self._deaf and not self.transport.is_closing():
            self._look_for_head(patience)
            self._look_for_body(patience)

    def _look_at_reader(self, patience: Patience) -> None:
        """One who takes nothing is waited for, but not while too much waits to be sent to all of them."""
        before, unsent = self._unsent, self._wire.get_write_buffer_size()
        taken, self._taken = self._taken, self._counted.written - unsent
        self._stuck = self._stuck + self._pause if unsent and taken == self._taken else 0
        self._unsent = unsent
        self._traffic.unsent += unsent - before
        if self._stuck >= patience.send_seconds:
            self._counted.abort()
        elif self._stuck and self._traffic.holds_too_much():
            self._traffic.sheds("connections")
            self._counted.abort()

    def _look_for_head(self, patience: Patience) -> None:
        waits = not self._coming and (self.cycle is None or self.cycle.response_complete)
        before, self._awaited = self._awaited, self.scope
        self._head_waited = self._head_waited + self._pause if waits and before is self.scope else 0
        begun = self.scope is not self._headed
        rests = self.scope is not None and not begun and not self._unheard
        if self._head_waited >= (self.timeout_keep_alive if rests else patience.head_seconds):
            if begun:
                self._cut(too_slow("head", patience.head_seconds))
            else:
                self.transport.close()

    def _look_for_body(self, patience: Patience) -> None:
        if not self._coming:
            self._body_waited = 0
        elif not self.flow.read_paused:
            self._body_waited += self._pause
            if self._body_waited >= patience.body_seconds:
                self._cut(too_slow("body", patience.body_seconds))

    # Refusals

    def _cut(self, problem: Problem) -> None:
        """Refuses what is coming; what was asked before is answered, and nothing after it is heard."""
        if self._deaf:
            return
        self._deaf, cycle = True, self.cycle
        if cycle is None or (cycle.response_complete and not self._coming):
            self._refuse(problem)
        elif not self._coming:
            cycle.keep_alive = False
        elif self.pipeline and self.pipeline[0][0] is cycle:
            cycle.keep_alive = False
            self.pipeline[0] = cycle, cast("Any", refusing(problem, self._telling))
        else:
            self._cut_under_way(cycle, problem)
        self._coming = False

    def _cut_under_way(self, cycle: RequestResponseCycle, problem: Problem) -> None:
        state: dict[str, Any] = cycle.scope.setdefault("state", {})
        if not cycle.response_started:
            state["refused"] = problem
            self._write(problem, state.get("request_id") or name_for([*cycle.scope["headers"]], self._telling))
        cycle.disconnected = True
        cycle.message_event.set()
        self.transport.close()

    def _cut_unreadable(self) -> None:
        self._cut(NotHttp("Send one request of HTTP/1.1 after another, each with one length."))

    def _stop(self, cycle: RequestResponseCycle) -> None:
        """The process ends, and waits no longer for what it has begun."""
        if "request_id" not in cycle.scope["state"] and self._telling is not None:
            tell_of_stop(cast("Scope", cycle.scope), self._telling)
        if not cycle.disconnected:
            self._cut_under_way(cycle, TookTooLong(STOPPED))

    def _cut_long(self) -> None:
        told = f"A head may have {self._most_head:,} bytes (STRATA_MAX_HEAD_BYTES) and {MOST_HEADERS} headers"
        self._cut(NotHttp(f"{told}: send less of it."))

    def _cut_heavy(self) -> None:
        self._traffic.sheds("bodies")
        told = "The bodies of requests under way leave no room for this one (STRATA_MAX_BODIES_BYTES)"
        self._cut(Overloaded(f"{told}: ask again."))

    def _refuse(self, problem: Problem) -> None:
        """Of a request that the application has not seen."""
        name = name_for(self.headers or [], self._telling)
        self._write(problem, name)
        tell_of(problem, name, "", self._telling)
        self.transport.close()

    def _write(self, problem: Problem, name: str | None) -> None:
        self.transport.write(written(problem, name, self.server_state.default_headers))
