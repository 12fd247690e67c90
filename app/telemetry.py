"""One ASGI layer around everything: a request id, a log line, figures and a span for each request."""

from __future__ import annotations

import asyncio
import os
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.callers import caller_of
from app.errors import TookTooLong
from app.log import Log
from app.origins import Origins
from app.phases import Phase, Phases, Timeline, run_with, run_without, timeline_of
from app.refusing import FAULT
from app.request_metrics import METHODS, OTHER, RequestMetrics
from app.tracing import Spans, Told

SLOW_SECONDS = 1.0
"""From here on the line of a request says what its time went into."""

STOPPED = "The service stops, and this took longer than it waits for what is under way: ask again."

NOSNIFF = (b"x-content-type-options", b"nosniff")

_LINES_OF_A_FAULT = 6
_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_BYTES_OF_A_PROCESS = 10


class Telling:
    """A line of the log, figures and a span for each request; bodies, keys and paths are in none of them.

    ``turned_away`` is told the type of the problem of each request that the application has not seen.
    """

    def __init__(
        self,
        log: Log,
        metrics: RequestMetrics,
        phases: Phases | None = None,
        spans: Spans | None = None,
        slow_seconds: float = SLOW_SECONDS,
        *,
        turned_away: Callable[[str], object] = str,
    ) -> None:
        self.turned_away = turned_away
        self._log, self._metrics, self._phases, self._spans = log, metrics, phases, spans
        self._logs = log.takes("info")
        self._slow = slow_seconds
        self._process = ""
        self._numbers = count()

    def new_id(self) -> str:
        """A name for a request that nobody else has, in any process."""
        if not self._process:  # a process that was forked draws its own
            self._process = os.urandom(_BYTES_OF_A_PROCESS).hex()
        return f"{self._process}{next(self._numbers):012x}"

    def tell(
        self,
        name: str,
        method: str,
        route: str | None,
        *,
        status: int,
        began: float,
        answered: float,
        timeline: Timeline | None = None,
        parent: bytes | None = None,
        key: str = "",
        **fault: Any,
    ) -> None:
        """``answered`` is when the answer began, 0: it did not. ``parent`` is the caller's span, as it named it.

        ``key`` is the name of the caller's.
        """
        ended = time.perf_counter()
        seconds = (answered or ended) - began
        self._metrics.request(route, method, status, seconds)
        if timeline is not None and self._phases is not None:
            self._phases.told(route, timeline.rows)
        if self._spans is not None:
            rows = tuple(timeline.rows) if timeline is not None else ()
            self._spans.told(Told(name, _known(method), route, status, began, ended, parent, rows))
        if self._logs:
            slow = timeline.totals() if timeline is not None and seconds >= self._slow else {}
            more = {"phases": _milliseconds(slow), **fault} if slow else fault
            milliseconds = round(1000 * (ended - began), 2)
            if not more and route is not None and method in METHODS:
                fields = f'"id":"{name}","method":"{method}","route":"{route}","status":{status}'
                named = f',"key":"{key}"' if key else ""
                self._log.plain("info", "request", f'{fields}{named},"milliseconds":{milliseconds}')
            else:
                told = {"id": name, "method": _known(method), "route": route, "status": status}
                told |= {"key": key} if key else {}
                self._log.line("info", "request", {**told, "milliseconds": milliseconds, **more})


class Telemetry:
    """Takes a caller's ``x-request-id`` when it is plain, else makes one.

    An unexpected error is logged by its kind and the lines it came through; what it says may be a caller's text.
    ``origins`` says which web pages may read an answer.
    """

    def __init__(self, app: ASGIApp, telling: Telling, origins: Origins | None = None) -> None:
        self.app = app
        self.telling = telling
        self.origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name = id_given(scope["headers"]) or self.telling.new_id()
        own = self._own_headers(name, scope["headers"])
        timeline = timeline_of(scope)
        scope["state"]["request_id"] = name
        status, answered = 500, 0.0

        async def send_named(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], time.perf_counter()
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        running = run_with(timeline)
        try:
            await self.app(scope, receive, send_named)
        except asyncio.CancelledError:
            status = status if answered else TookTooLong.status
            _note_stop(scope, begun=bool(answered))
            raise
        finally:
            run_without(running)
            self.telling.tell(
                name,
                scope["method"],
                getattr(scope.get("route"), "path", None),
                status=status,
                began=timeline.began,
                answered=answered,
                timeline=timeline,
                parent=parent_given(scope["headers"]),
                key=caller_of(scope).name,
                **scope["state"].get(FAULT, {}),
            )

    def _own_headers(self, name: str, given: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        shared = self.origins.headers_for(given) if self.origins is not None else ()
        return [(b"x-request-id", name.encode()), NOSNIFF, *shared]


def note_fault(scope: Scope, error: Exception) -> None:
    """Keeps for the log line what kind of error it was and the last lines of code it came through."""
    scope.setdefault("state", {})[FAULT] = fault_of(error)


def tell_of_stop(scope: Scope, telling: Telling) -> None:
    """As `Telemetry` does, of a request that was cut because the process ends before it came as far as that."""
    name = scope["state"]["request_id"] = id_given(scope["headers"]) or telling.new_id()
    began = timeline_of(scope).began
    _note_stop(scope, begun=False)
    fault = scope["state"][FAULT]
    telling.tell(name, scope["method"], None, status=TookTooLong.status, began=began, answered=0.0, **fault)


def _note_stop(scope: Scope, *, begun: bool) -> None:
    """Keeps for the log line that the request was cut because the process ends: nothing failed."""
    problem = {} if begun else {"problem": TookTooLong.type}
    scope["state"][FAULT] = {**problem, **scope["state"].get(FAULT, {}), "cut": "stopping"}


def fault_of(error: BaseException) -> dict[str, Any]:
    """What is told of an error: its kind and where it came through, and nothing that it says."""
    lines = [f"{frame.f_globals.get('__name__')}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    return {"error": type(error).__name__, "through": lines[-_LINES_OF_A_FAULT:]}


def id_given(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The caller's own name for its request, if it is plain."""
    given = next((value for name, value in headers if name == b"x-request-id"), b"")
    return given.decode() if _ACCEPTABLE.fullmatch(given) else None


def parent_given(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """What the caller says of the span that its request belongs to; None where it says nothing, or more than once."""
    given = [value for name, value in headers if name == b"traceparent"]
    return given[0] if len(given) == 1 else None


def _known(method: str) -> str:
    return method if method in METHODS else OTHER


def _milliseconds(seconds: Mapping[Phase, float]) -> dict[str, float]:
    return {phase: round(1000 * each, 2) for phase, each in seconds.items()}
