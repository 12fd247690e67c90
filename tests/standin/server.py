"""A stand-in for the Messages API: it holds requests to the API's rules, models the prompt cache, answers one text."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.standin.mishaps import (
    BODIES,
    Cut,
    Drip,
    Ending,
    Endless,
    Failure,
    Hold,
    Reset,
    Scripted,
    Slow,
    Stall,
    Unending,
    Words,
    gone,
    reset,
)
from tests.standin.prompt_cache import PromptCache, prefixes
from tests.standin.rules import BreachError, Call, Json, check

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Seen:
    """A request as it came in, whether or not it was accepted."""

    path: str
    headers: Mapping[str, str]
    body: Json
    raw: bytes


class StandIn:
    """``app`` is the ASGI application; ``seen`` holds its requests, oldest first; ``asked`` is set by the first.

    ``takes_system_role`` names the models that take messages of the role ``system`` without a beta value. ``deaf``
    holds the fields that its count endpoint leaves out, as some proxies do. ``standing`` is how it answers whatever no
    script is left for.
    """

    def __init__(
        self, *, reply: str = "Understood.", minimum: int = 1024, takes_system_role: frozenset[str] = frozenset()
    ) -> None:
        self.reply = reply
        self.seen: list[Seen] = []
        self.asked = threading.Event()
        self.cache = PromptCache(minimum)
        self.takes_system_role = takes_system_role
        self.deaf: frozenset[str] = frozenset()
        self.standing: Scripted | None = None
        self._script: deque[Scripted] = deque()
        self.app = Starlette(
            routes=[
                Route("/v1/messages", self._create, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
            ],
            exception_handlers={HTTPException: self._refused, BreachError: self._refused},
        )

    def fail_next(self, *statuses: int) -> None:
        """Answer the next requests with these statuses, whatever they hold."""
        self.answer_next(*map(Failure, statuses))

    def answer_next(self, *script: Scripted) -> None:
        """Answer the next requests so, in order."""
        self._script.extend(script)

    def forget(self) -> None:
        """As new: nothing seen, nothing cached, no failure to come."""
        self.seen.clear()
        self.asked.clear()
        self.cache.forget()
        self._script.clear()
        self.deaf = frozenset()
        self.standing = None

    async def _create(self, request: Request) -> Response:
        told, body = await self._heard(request, counting=False)
        if isinstance(told, Response):
            return told
        message = self._message(body) | ({"stop_reason": told.stop_reason} if isinstance(told, Ending) else {})
        if not body.get("stream"):
            return _delivered(JSONResponse(message, headers=self._identity()), told)
        events = _events(message)
        sent = events[: told.events] if isinstance(told, Cut) else events
        kind = BODIES[told.then if isinstance(told, Cut) else "ended"]
        return _delivered(kind(b"".join(sent), media_type="text/event-stream", headers=self._identity()), told)

    def _message(self, body: Json) -> Json:
        usage = self.cache.use(body) | {"output_tokens": max(1, len(self.reply) // 4)}
        return {
            "id": f"msg_{len(self.seen):024d}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": self.reply}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }

    async def _count(self, request: Request) -> Response:
        told, body = await self._heard(request, counting=True)
        if isinstance(told, Response):
            return told
        heard = {name: value for name, value in body.items() if name not in self.deaf}
        return _delivered(JSONResponse({"input_tokens": prefixes(heard)[-1].tokens}, headers=self._identity()), told)

    async def _heard(self, request: Request, *, counting: bool) -> tuple[Scripted | Response | None, Json]:
        """What the script says of this request, as a whole answer or as a change to one, and the body."""
        raw = await request.body()
        body = _object(raw)
        self.seen.append(Seen(request.url.path, dict(request.headers), body, raw))
        self.asked.set()
        told = self._script.popleft() if self._script else self.standing
        match told:
            case Failure(status, message, headers):
                raise HTTPException(status, message, dict(headers))
            case Words(words, status, content_type, headers):
                return Response(words, status, headers, content_type), body
            case Stall():
                await gone(request.receive)
                return Response(status_code=204), body
            case Reset():
                await reset(request)
                return Response(status_code=204), body
            case Endless(piece, content_type):
                return Unending(piece, media_type=content_type), body
            case Hold(released):
                await asyncio.to_thread(released.wait)
        self._check(request, body, counting=counting)
        return told, body

    def _check(self, request: Request, body: Json, *, counting: bool) -> None:
        if not any(name in request.headers for name in ("x-api-key", "authorization")):
            raise HTTPException(401, "x-api-key header is required")
        if "anthropic-version" not in request.headers:
            raise BreachError("anthropic-version: header is required")
        model = body.get("model")
        if isinstance(model, str) and "[" in model:
            raise HTTPException(404, f"model: {model}")
        betas = frozenset(filter(None, map(str.strip, request.headers.get("anthropic-beta", "").split(","))))
        check(Call(body, betas, counting=counting, system_role=model in self.takes_system_role))

    async def _refused(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 400
        message = error.detail if isinstance(error, HTTPException) else str(error)
        told = {
            "type": "error",
            "error": {"type": KINDS.get(status, "api_error"), "message": message},
            "request_id": self._identity()["request-id"],
        }
        more = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        return JSONResponse(told, status_code=status, headers=self._identity() | more)

    def _identity(self) -> dict[str, str]:
        return {"request-id": f"req_{len(self.seen):024d}"}


def _delivered(whole: Response, told: Scripted | Response | None) -> Response:
    return Slow(whole, told.pause) if isinstance(told, Drip) else whole


def _object(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BreachError("The request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise BreachError("Input should be a valid dictionary")
    return body


def _events(message: Json) -> list[bytes]:
    text = message["content"][0]["text"]
    started = message | {"content": [], "stop_reason": None, "usage": message["usage"] | {"output_tokens": 1}}
    half = len(text) // 2
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}}
            for part in (text[:half], text[half:])
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
