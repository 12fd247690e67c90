"""A stand-in for the Messages API: it holds requests to the API's rules, models the prompt cache, answers one text."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

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
    """``app`` is the ASGI application; ``seen`` holds its requests, oldest first.

    ``takes_system_role`` names the models that take messages of the role ``system`` without a beta value.
    """

    def __init__(
        self, *, reply: str = "Understood.", minimum: int = 1024, takes_system_role: frozenset[str] = frozenset()
    ) -> None:
        self.reply = reply
        self.seen: list[Seen] = []
        self.cache = PromptCache(minimum)
        self.takes_system_role = takes_system_role
        self._failures: deque[int] = deque()
        self.app = Starlette(
            routes=[
                Route("/v1/messages", self._create, methods=["POST"]),
                Route("/v1/messages/count_tokens", self._count, methods=["POST"]),
            ],
            exception_handlers={HTTPException: self._refused, BreachError: self._refused},
        )

    def fail_next(self, *statuses: int) -> None:
        """Answer the next requests with these statuses, whatever they hold."""
        self._failures.extend(statuses)

    def forget(self) -> None:
        """As new: nothing seen, nothing cached, no failure to come."""
        self.seen.clear()
        self.cache.forget()
        self._failures.clear()

    async def _create(self, request: Request) -> Response:
        body = await self._checked(request, counting=False)
        usage = self.cache.use(body) | {"output_tokens": max(1, len(self.reply) // 4)}
        message = {
            "id": f"msg_{len(self.seen):024d}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": self.reply}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
        if body.get("stream"):
            return Response(_stream(message), media_type="text/event-stream", headers=self._identity())
        return JSONResponse(message, headers=self._identity())

    async def _count(self, request: Request) -> Response:
        body = await self._checked(request, counting=True)
        return JSONResponse({"input_tokens": prefixes(body)[-1].tokens}, headers=self._identity())

    async def _checked(self, request: Request, *, counting: bool) -> Json:
        raw = await request.body()
        body = _object(raw)
        self.seen.append(Seen(request.url.path, dict(request.headers), body, raw))
        if self._failures:
            raise HTTPException(self._failures.popleft(), "told to fail")
        if not any(name in request.headers for name in ("x-api-key", "authorization")):
            raise HTTPException(401, "x-api-key header is required")
        if "anthropic-version" not in request.headers:
            raise BreachError("anthropic-version: header is required")
        model = body.get("model")
        if isinstance(model, str) and "[" in model:
            raise HTTPException(404, f"model: {model}")
        betas = frozenset(filter(None, map(str.strip, request.headers.get("anthropic-beta", "").split(","))))
        check(Call(body, betas, counting=counting, system_role=model in self.takes_system_role))
        return body

    async def _refused(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 400
        message = error.detail if isinstance(error, HTTPException) else str(error)
        told = {
            "type": "error",
            "error": {"type": KINDS.get(status, "api_error"), "message": message},
            "request_id": self._identity()["request-id"],
        }
        return JSONResponse(told, status_code=status, headers=self._identity())

    def _identity(self) -> dict[str, str]:
        return {"request-id": f"req_{len(self.seen):024d}"}


def _object(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BreachError("The request body is not valid JSON") from error
    if not isinstance(body, dict):
        raise BreachError("Input should be a valid dictionary")
    return body


def _stream(message: Json) -> bytes:
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
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": message["usage"]["output_tokens"]},
        },
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
