"""What routes share: bodies in, answers out, and how both are documented."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from app.callers import caller_of
from app.context import Answer
from app.core.tenants import name_in
from app.encoding import coding_for, compressed, refuses_identity, tag_among, tag_in, tags_given
from app.errors import InvalidRequest, UnsupportedMediaType
from app.phases import phase
from app.warm import Warm
from app.wire.answers import context_answer, to_bytes
from app.wire.parsing import Model, parsed
from app.wire.problems import MEDIA_TYPE

T = TypeVar("T")

WARM_KEY = "warm_key"
"""Where the layer in front leaves the key of a request for its route, in the scope's state."""

UPSTREAM_KEY = "x-upstream-api-key"
"""The header with the caller's own key of the Messages API."""

LONGEST_NAME = 128
"""Characters of a session's id."""

LARGE_BODY = 64 * 1024
"""Bodies and answers beyond this many bytes are parsed and written on a worker thread."""

WORTH_COMPRESSING = 1024
"""Answers below this many bytes are sent as they are, unless the caller refuses that."""

PASSING = frozenset({409, 429, 503})
"""Statuses of problems that may say when to ask again."""

REFERENCE = "#/components/schemas/{model}"


class AsSent(APIRoute):
    """Matches a path as it was sent, so that an encoded slash is part of a session's name and not of the address."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw = scope.get("raw_path") or quote(scope["path"]).encode()
        found, child = super().matches({**scope, "path": raw.decode("latin-1")})
        params: dict[str, Any] = child.get("path_params", {})
        return found, {**child, "path_params": {name: unquote(value) for name, value in params.items()}}


class JsonAnswer(Response):
    """JSON that is already written; it is sent in the coding the caller likes best, with a tag of its own."""

    media_type = "application/json"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.headers.add_vary_header("accept-encoding")
        if scope["method"] == "GET" and (known := self._known_to(scope)):
            headers = {"etag": known, "vary": self.headers["vary"]}
            await Response(status_code=304, headers=headers)(scope, receive, send)
            return
        accepted = Headers(scope=scope).getlist("accept-encoding")
        coding = coding_for(accepted)
        if coding and scope["method"] != "HEAD" and self._is_worth_it(accepted):
            await self._compress(coding)
        await super().__call__(scope, receive, send)

    def _known_to(self, scope: Scope) -> str | None:
        """The tag under which the caller has this answer already."""
        given, tag = tags_given(Headers(scope=scope).getlist("if-none-match")), self.headers.get("etag")
        return tag_among(given, tag) if given and tag else None

    def _is_worth_it(self, accepted: list[str]) -> bool:
        return len(self.body) >= WORTH_COMPRESSING or (bool(self.body) and refuses_identity(accepted))

    async def _compress(self, coding: str) -> None:
        content = bytes(self.body)
        self.body = await off_loop(lambda: compressed(content, coding), len(content))
        self.headers["content-encoding"] = coding
        self.headers["content-length"] = str(len(self.body))
        if tag := self.headers.get("etag"):
            self.headers["etag"] = tag_in(coding, tag)


async def context_sent(request: Request, answer: Answer, warm: Warm) -> Response:
    """The answer in bytes, kept for the next one who asks the same."""
    with phase("write"):
        values, content = await asyncio.to_thread(_written, answer)
    tag = f'"{values["digest"]}"'
    key = request.scope.get("state", {}).get(WARM_KEY)
    if key is not None:
        warm.keep(key, content, tag, answer.repeats)
    return JsonAnswer(content, headers={"etag": tag})


def _written(answer: Answer) -> tuple[dict[str, Any], bytes]:
    values = context_values(answer)
    return values, to_bytes(values)


def context_values(answer: Answer) -> dict[str, Any]:
    """The body of a context answer."""
    return context_answer(answer.assembly, asdict(answer.session), answer.notices)


def json_answer(values: Any, status: int = 200) -> Response:
    return JsonAnswer(to_bytes(values), status)


def betas_of(request: Request) -> tuple[str, ...]:
    given = ",".join(request.headers.getlist("anthropic-beta"))
    return tuple(beta.strip() for beta in given.split(",") if beta.strip())


def require_json(request: Request) -> None:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise UnsupportedMediaType("Send the body as JSON with the header content-type: application/json.")


def called(session: str, request: Request) -> str:
    """What the session that a path names is called inside. Raises InvalidRequest."""
    if len(session) > LONGEST_NAME:
        raise InvalidRequest(f"A session's id has at most {LONGEST_NAME} characters: send it as it was given.")
    return name_in(caller_of(request.scope).space, session)


async def parsed_body(model: type[Model], body: bytes) -> Model:
    return await off_loop(lambda: parsed(model, body), len(body))


async def off_loop(work: Callable[[], T], size: int) -> T:
    """Does ``work`` on a body of ``size`` bytes: on a worker thread when it is large."""
    return await asyncio.to_thread(work) if size > LARGE_BODY else work()


def body_of(model: type) -> dict[str, Any]:
    reference = {"$ref": REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="ProblemBody")}}}
    passing = {"headers": {"Retry-After": {"description": "Seconds", "schema": {"type": "integer", "minimum": 1}}}}
    return {
        status: {"description": "A problem", "content": content, **(passing if status in PASSING else {})}
        for status in statuses
    }
