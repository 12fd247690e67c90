"""Thin routes, one error shape."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from app.carrying import (
    REFERENCE,
    UPSTREAM_KEY,
    JsonAnswer,
    betas_of,
    body_of,
    context_sent,
    json_answer,
    off_loop,
    parsed_body,
    problem_answers,
    require_json,
)
from app.context import Contexts
from app.core.costs import Prices
from app.core.models import ModelTable
from app.errors import (
    Internal,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    NotJson,
    Problem,
)
from app.metrics import Metrics
from app.presence import CallerGoneError
from app.refusing import note_problem
from app.scanning import Scans
from app.telemetry import note_fault
from app.tokens import Tokens
from app.warm import Warm
from app.wire import schema
from app.wire.answers import attachments_answer, tokens_answer
from app.wire.base import Strict
from app.wire.compactions import CompactionReport, CompactionRequest
from app.wire.counts import TokensRequest, TokensResult, tokens_ask
from app.wire.lints import LintAnswer, LintRequest, lint_answer, linted
from app.wire.parsing import parsed
from app.wire.problems import MEDIA_TYPE, problem_bytes
from app.wire.requests import ContextRequest, Server, asked_as
from app.wire.scans import ScanAnswer, ScanRequest, scan_answer
from app.wire.touches import AttachmentsRequest, touches_ask

SECURITY = {
    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
"""How a key is sent; where none is configured, callers on the same machine need none."""

REFUSED = "refused"
"""In the scope's state of a request that its connection has answered already, with this problem."""

BODIES: tuple[type[Strict], ...] = (
    ContextRequest,
    AttachmentsRequest,
    TokensRequest,
    ScanRequest,
    LintRequest,
    CompactionRequest,
    CompactionReport,
)


class NameTakenError(ValueError):
    """Two models of the wire have one name: the contract would describe one of them as the other."""


def routes(
    contexts: Contexts,
    warm: Warm,
    scans: Scans,
    metrics: Metrics,
    *,
    models: ModelTable,
    prices: Prices,
    version: str,
    server: Callable[[Request], Server],
) -> APIRouter:
    """The contract's routes, over what `main` has built."""
    tokens = Tokens(contexts.known, contexts.sessions, contexts.reckoning)
    router = APIRouter(responses=problem_answers(401, 403, 421, 429, 500, 503))

    @router.post(
        "/v1/context",
        response_model=schema.ContextAnswer,
        responses=problem_answers(400, 404, 408, 413, 415, 422, 503),
        openapi_extra=body_of(ContextRequest),
        tags=["assembly"],
    )
    async def assemble_context(request: Request) -> Response:
        """Assembles the context of one model call: system blocks, CLAUDE.md message, tokens and compaction state."""
        require_json(request)
        body, betas, key = await request.body(), betas_of(request), request.headers.get(UPSTREAM_KEY)
        ask = await off_loop(lambda: asked_as(body, server(request), betas, key), len(body))
        answer = await contexts.answer(ask)
        metrics.assembled(answer.assembly, answer.session.section_hits, answer.session.section_misses)
        return await context_sent(request, answer, warm)

    @router.post(
        "/v1/attachments",
        response_model=schema.AttachmentsAnswer,
        responses=problem_answers(400, 404, 408, 413, 415, 422, 503),
        openapi_extra=body_of(AttachmentsRequest),
        tags=["assembly"],
    )
    async def attach(request: Request) -> Response:
        """Nested files and conditional rules for files the model touched, each once in a session."""
        require_json(request)
        content = await request.body()
        body = await parsed_body(AttachmentsRequest, content)
        ask = await off_loop(lambda: touches_ask(body, server(request)), len(content))
        answer = await contexts.attachments(ask)
        session, raw = asdict(answer.session), body.memory.include_raw
        return json_answer(attachments_answer(answer.attached, answer.memory, session, answer.notices, raw=raw))

    @router.post(
        "/v1/scan",
        response_model=ScanAnswer,
        responses=problem_answers(400, 404, 408, 413, 415, 422, 503),
        openapi_extra=body_of(ScanRequest),
        tags=["assembly"],
    )
    async def scan(request: Request) -> Response:
        """Other tools' files in a workspace, and the prompt with which a model proposes a CLAUDE.md from them."""
        require_json(request)
        content, here = await request.body(), server(request)
        body = await parsed_body(ScanRequest, content)
        source = await off_loop(lambda: body.workspace.opened_as(here.limits), len(content))
        found, prompt = await scans.scan(source, here.fence)
        return json_answer(await asyncio.to_thread(scan_answer, found, prompt))

    @router.post(
        "/v1/cache/lint",
        response_model=LintAnswer,
        responses=problem_answers(400, 408, 413, 415, 422),
        openapi_extra=body_of(LintRequest),
        tags=["cache"],
    )
    async def lint_cache(request: Request) -> Response:
        """What a series of raw Messages API requests does to the prompt cache: hits, causes, and faults."""
        require_json(request)
        body = await parsed_body(LintRequest, await request.body())
        return json_answer(await asyncio.to_thread(lambda: lint_answer(linted(body.requests, models, prices))))

    @router.post(
        "/v1/tokens",
        response_model=TokensResult,
        responses=problem_answers(400, 408, 413, 415, 422),
        openapi_extra=body_of(TokensRequest),
        tags=["tokens"],
    )
    async def count_tokens(request: Request) -> Response:
        """What a request of any client costs in tokens, part by part, and when it will have to be compacted."""
        require_json(request)
        body, betas, key = await request.body(), betas_of(request), request.headers.get(UPSTREAM_KEY)
        ask = await off_loop(lambda: tokens_ask(parsed(TokensRequest, body), server(request), betas, key), len(body))
        tally, notices = await tokens.count(ask)
        return json_answer(await asyncio.to_thread(tokens_answer, tally, notices))

    @router.get("/v1/models", response_model=schema.Models, tags=["service"])
    async def list_models() -> Response:
        """The model table: windows, limits and spellings this service knows."""
        rows = [_model_row(model) for model in models.rows]
        return json_answer({"models": rows, "aliases": dict(models.aliases), "default": _model_row(models.default)})

    @router.get("/healthz", response_model=schema.Health, openapi_extra={"security": []}, tags=["service"])
    async def health() -> Response:
        """Whether the process answers."""
        return json_answer({"status": "ok", "version": version, "checks": None})

    @router.get(
        "/readyz",
        response_model=schema.Health,
        responses={503: {"model": schema.Health}},
        openapi_extra={"security": []},
        tags=["service"],
    )
    async def readiness() -> Response:
        """Whether it can serve: the session store is reachable."""
        ready = await contexts.sessions.store.ready()
        status = "ok" if ready else "unavailable"
        return json_answer({"status": status, "version": version, "checks": {"store": ready}}, 200 if ready else 503)

    return router


def _model_row(model: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in schema.ModelRow.model_fields}


def answer_problems(app: FastAPI, answered: Callable[[str], object] = str) -> None:
    """Every failure in the one shape; what nobody expected is `answer_unexpected`'s.

    ``answered`` is told the type of each problem, once for a request, and not where another layer has answered it.
    """

    async def answer(request: Request, error: Exception) -> Response:
        return _answer_problem(request, error, answered)

    for kind in (Problem, HTTPException, ClientDisconnect, CallerGoneError):
        app.add_exception_handler(kind, answer)


async def answer_unexpected(request: Request, error: Exception) -> Response:
    """A fault of the service: its kind goes into the log line, and nothing of it into the answer."""
    note_fault(request.scope, error)
    return _problem_response(
        request, Internal("This is a fault of the service: its log has a line with this request id.")
    )


def _answer_problem(request: Request, error: Exception, answered: Callable[[str], object]) -> Response:
    refused = request.scope.get("state", {}).get(REFUSED)
    problem = error if isinstance(error, Problem) else refused or _as_problem(error)
    if note_problem(request.scope, problem):
        answered(problem.type)
    return _problem_response(request, problem, getattr(error, "headers", None))


def _problem_response(request: Request, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    body = problem_bytes(problem, request.scope.get("state", {}).get("request_id"))
    return JsonAnswer(body, problem.status, headers, MEDIA_TYPE)


def _as_problem(error: Exception) -> Problem:
    if isinstance(error, ClientDisconnect | CallerGoneError):
        return NotJson("The body ended before its length was reached: send it again.")
    status = error.status_code if isinstance(error, HTTPException) else None
    if status == NotFound.status:
        return NotFound("Look at /docs for the addresses this service has.")
    if status == MethodNotAllowed.status:
        return MethodNotAllowed("Look at /docs for the methods of this address.")
    return InvalidRequest(str(error))


def contract(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the models of bodies that the routes parse themselves."""
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    _, bodies = models_json_schema(
        [*((body, "validation") for body in BODIES), (schema.ProblemBody, "serialization")],
        ref_template=REFERENCE.format(model="{model}"),
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name, model in bodies["$defs"].items():
        if schemas.setdefault(name, model) != model:
            raise NameTakenError(name)
    document["components"]["schemas"] = dict(sorted(document["components"]["schemas"].items()))
    document["components"]["securitySchemes"] = SECURITY
    document["security"] = [{name: []} for name in SECURITY] + [{}]
    return document
