"""A problem as an answer, for layers in front of the application."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope, Send

from app.errors import Problem
from app.wire.problems import MEDIA_TYPE, problem_bytes

FAULT = "fault"
"""Where what the log line says of a failure stands, in the scope's state."""


def note_problem(scope: Scope, problem: Problem) -> bool:
    """Keeps for the log line why the request was refused: the type of its problem. False: something is noted already.

    That is so where the request has been answered in this one's place.
    """
    noted = {"problem": problem.type}
    return scope.setdefault("state", {}).setdefault(FAULT, noted) is noted


async def refuse(problem: Problem, scope: Scope, send: Send, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Answers with ``problem``, with its own headers and ``headers``."""
    note_problem(scope, problem)
    body = problem_bytes(problem, scope.get("state", {}).get("request_id"))
    own = ((name.encode(), value.encode()) for name, value in problem.headers.items())
    start = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body)), *own, *headers]
    await send({"type": "http.response.start", "status": problem.status, "headers": start})
    await send({"type": "http.response.body", "body": body})
