"""A problem as an answer, for layers in front of the application."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope, Send

from app.errors import Problem
from app.wire.problems import MEDIA_TYPE, problem_bytes


async def refuse(problem: Problem, scope: Scope, send: Send, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Answers with ``problem``, with its own headers and ``headers``."""
    scope.setdefault("state", {}).setdefault("fault", {"problem": problem.type})
    body = problem_bytes(problem, scope.get("state", {}).get("request_id"))
    own = ((name.encode(), value.encode()) for name, value in problem.headers.items())
    start = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body)), *own, *headers]
    await send({"type": "http.response.start", "status": problem.status, "headers": start})
    await send({"type": "http.response.body", "body": body})
