"""One ASGI layer around everything: a request id, a log line and figures for each request."""

from __future__ import annotations

import os
import re
import time
import traceback

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.log import Log
from app.request_metrics import RequestMetrics

_LINES_OF_A_FAULT = 6
_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_BYTES_OF_AN_ID = 16


class Telemetry:
    """Takes a caller's ``x-request-id`` when it is plain, else makes one; logs neither bodies nor keys nor paths.

    An unexpected error is logged by its kind and the lines it came through; what it says may be a caller's text.
    """

    def __init__(self, app: ASGIApp, log: Log, metrics: RequestMetrics) -> None:
        self.app = app
        self.log = log
        self.metrics = metrics
        self.logs = log.takes("info")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status, answered = 500, 0.0
        began = time.perf_counter()

        async def send_named(message: Message) -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], time.perf_counter()
                message = {**message, "headers": [*message["headers"], (b"x-request-id", request_id.encode())]}
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        finally:
            self._tell(scope, status, began, answered)

    def _tell(self, scope: Scope, status: int, began: float, answered: float) -> None:
        ended = time.perf_counter()
        route: str | None = getattr(scope.get("route"), "path", None)
        self.metrics.request(route, scope["method"], status, (answered or ended) - began)
        if self.logs:
            state = scope["state"]
            values = {
                "id": state["request_id"],
                "method": scope["method"],
                "route": route,
                "status": status,
                "milliseconds": round(1000 * (ended - began), 2),
            }
            self.log.line("info", "request", {**values, **state["fault"]} if "fault" in state else values)


def note_fault(scope: Scope, error: Exception) -> None:
    """Keeps for the log line what kind of error it was and the last lines of code it came through."""
    lines = [f"{frame.f_globals.get('__name__')}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    scope.setdefault("state", {})["fault"] = {"error": type(error).__name__, "through": lines[-_LINES_OF_A_FAULT:]}


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return value.decode() if _ACCEPTABLE.fullmatch(value) else os.urandom(_BYTES_OF_AN_ID).hex()
    return os.urandom(_BYTES_OF_AN_ID).hex()
