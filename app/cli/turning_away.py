"""How a connection tells of what does not reach the application, or not whole."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from time import perf_counter

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.errors import Overloaded, Problem, TooSlow
from app.guard import OPEN_PATHS, Headers
from app.refusing import refuse
from app.telemetry import Telling, id_given
from app.traffic import Traffic
from app.wire.problems import MEDIA_TYPE, problem_bytes

PROBED = frozenset({"GET", "HEAD"})
CLOSES = (b"connection", b"close")


class Crowded:
    """Answers in the place of ``app`` on a connection too many; probes of health are answered as ever."""

    def __init__(self, app: ASGIApp, traffic: Traffic, telling: Telling | None) -> None:
        self.app, self._traffic, self._telling = app, traffic, telling

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in OPEN_PATHS and scope["method"] in PROBED:
            await self.app(scope, receive, send)
            return
        self._traffic.sheds("connections")
        problem = Overloaded("Too many connections are open (STRATA_MAX_CONNECTIONS): ask again, on one that you keep.")
        await _turn_away(problem, self._telling, scope, receive, send)


def written(problem: Problem, name: str | None, more: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The answer as HTTP has it, with the headers ``more``: the last one on its connection."""
    body = problem_bytes(problem, name)
    headers = [
        *more,
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        *((key.encode(), value.encode()) for key, value in problem.headers.items()),
        *([(b"x-request-id", name.encode())] if name else []),
        CLOSES,
    ]
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"%b%b\r\n%b" % (STATUS_LINE[problem.status], lines, body)


def refusing(problem: Problem, telling: Telling | None) -> ASGIApp:
    """An application that answers with ``problem``."""
    return partial(_turn_away, problem, telling)


async def _turn_away(problem: Problem, telling: Telling | None, scope: Scope, _: Receive, send: Send) -> None:
    name = name_for(scope["headers"], telling)
    scope.setdefault("state", {})["request_id"] = name
    tell_of(problem, name, scope["method"], telling)
    await refuse(problem, scope, send, [CLOSES, *([(b"x-request-id", name.encode())] if name else [])])


def too_slow(what: str, seconds: float) -> Problem:
    told = f"The {what} of a request has {seconds:g} seconds to come whole (STRATA_{what.upper()}_SECONDS)"
    return TooSlow(f"{told}: send it again, without a pause.")


def name_for(headers: Headers, telling: Telling | None) -> str | None:
    return id_given(headers) or (telling.new_id() if telling else None)


def tell_of(problem: Problem, name: str | None, method: str, telling: Telling | None) -> None:
    """A line of the log and a figure, for a request that the application has not seen."""
    if telling is not None and name is not None:
        now = perf_counter()
        telling.tell(name, method, None, status=problem.status, began=now, answered=now, problem=problem.type)
        telling.turned_away(problem.type)
