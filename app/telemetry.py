"""One ASGI layer around everything: a request id, a log line and figures for each request."""

from __future__ import annotations

import os
import re
import time
import traceback
from collections.abc import Iterable
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.log import Log
from app.request_metrics import METHODS, RequestMetrics

_LINES_OF_A_FAULT = 6
_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_BYTES_OF_A_PROCESS = 10


class Telling:
    """A line of the log and a figure for each request; bodies, keys and paths are in neither."""

    def __init__(self, log: Log, metrics: RequestMetrics) -> None:
        self._log, self._metrics = log, metrics
        self._logs = log.takes("info")
        self._process = ""
        self._numbers = count()

    def new_id(self) -> str:
        """A name for a request that nobody else has, in any process."""
        if not self._process:  # a process that was forked draws its own
            self._process = os.urandom(_BYTES_OF_A_PROCESS).hex()
        return f"{self._process}{next(self._numbers):012x}"

    def tell(
        self, name: str, method: str, route: str | None, *, status: int, began: float, answered: float, **fault: Any
    ) -> None:
        """``answered`` is when the answer began, 0: it did not."""
        ended = time.perf_counter()
        self._metrics.request(route, method, status, (answered or ended) - began)
        milliseconds = round(1000 * (ended - began), 2)
        if self._logs and not fault and route is not None and method in METHODS:
            fields = f'"id":"{name}","method":"{method}","route":"{route}","status":{status}'
            self._log.plain("info", "request", f'{fields},"milliseconds":{milliseconds}')
        elif self._logs:
            told = {"id": name, "method": method, "route": route, "status": status, "milliseconds": milliseconds}
            self._log.line("info", "request", {**told, **fault})


class Telemetry:
    """Takes a caller's ``x-request-id`` when it is plain, else makes one.

    An unexpected error is logged by its kind and the lines it came through; what it says may be a caller's text.
    """

    def __init__(self, app: ASGIApp, telling: Telling) -> None:
        self.app = app
        self.telling = telling

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name = id_given(scope["headers"]) or self.telling.new_id()
        scope.setdefault("state", {})["request_id"] = name
        status, answered = 500, 0.0
        began = time.perf_counter()

        async def send_named(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], time.perf_counter()
                message = {**message, "headers": [*message["headers"], (b"x-request-id", name.encode())]}
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        finally:
            route: str | None = getattr(scope.get("route"), "path", None)
            fault = scope["state"].get("fault", {})
            self.telling.tell(name, scope["method"], route, status=status, began=began, answered=answered, **fault)


def note_fault(scope: Scope, error: Exception) -> None:
    """Keeps for the log line what kind of error it was and the last lines of code it came through."""
    lines = [f"{frame.f_globals.get('__name__')}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    scope.setdefault("state", {})["fault"] = {"error": type(error).__name__, "through": lines[-_LINES_OF_A_FAULT:]}


def id_given(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The caller's own name for its request, if it is plain."""
    given = next((value for name, value in headers if name == b"x-request-id"), b"")
    return given.decode() if _ACCEPTABLE.fullmatch(given) else None
