"""One ASGI layer around everything: a request id and a log line for each request."""

from __future__ import annotations

import re
import sys
import time
import traceback
import uuid
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LINES_OF_A_FAULT = 6
_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}")


class Telemetry:
    """Takes a caller's ``x-request-id`` when it is plain, else makes one; logs neither bodies nor keys nor paths.

    An unexpected error is logged by its kind and the lines it came through; what it says may be a caller's text.
    """

    def __init__(self, app: ASGIApp, log: Any) -> None:
        self.app = app
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 500
        began = time.perf_counter()

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", request_id.encode())]}
            await send(message)

        try:
            await self.app(scope, receive, send_named)
        finally:
            self.log.info(
                "request",
                id=request_id,
                method=scope["method"],
                route=getattr(scope.get("route"), "path", None),
                status=status,
                milliseconds=round(1000 * (time.perf_counter() - began), 2),
                **scope["state"].get("fault", {}),
            )


def note_fault(scope: Scope, error: Exception) -> None:
    """Keeps for the log line what kind of error it was and the last lines of code it came through."""
    lines = [f"{frame.f_globals.get('__name__')}:{line}" for frame, line in traceback.walk_tb(error.__traceback__)]
    scope.setdefault("state", {})["fault"] = {"error": type(error).__name__, "through": lines[-_LINES_OF_A_FAULT:]}


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _ACCEPTABLE.fullmatch(given) else uuid.uuid4().hex


def logger(level: str) -> Any:
    """JSON lines on standard error."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
