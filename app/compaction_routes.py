"""The routes of compactions, and of the figures about them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from starlette.responses import PlainTextResponse

from app.carrying import (
    UPSTREAM_KEY,
    AsSent,
    betas_of,
    body_of,
    called,
    context_values,
    json_answer,
    off_loop,
    parsed_body,
    problem_answers,
    require_json,
)
from app.compacting import Compactions
from app.metrics import MEDIA_TYPE, Metrics
from app.presence import while_present
from app.wire.compactions import (
    CompactionReport,
    CompactionRequest,
    PlanAnswer,
    ReportAnswer,
    RunAnswer,
    compaction_ask,
    plan_answer,
    report_answer,
    run_answer,
)
from app.wire.requests import Server


def compaction_routes(compactions: Compactions, metrics: Metrics, *, server: Callable[[Request], Server]) -> APIRouter:
    """A part of the contract's routes, over what `main` has built."""
    router = APIRouter(responses=problem_answers(401, 403, 421, 429, 500, 503), route_class=AsSent)

    @router.post(
        "/v1/compactions",
        response_model=PlanAnswer | RunAnswer,
        responses=problem_answers(400, 404, 408, 409, 413, 415, 422, 424, 503),
        openapi_extra=body_of(CompactionRequest),
        tags=["compaction"],
    )
    async def compact(request: Request) -> Response:
        """The request for a summary of the conversation, or what came of it: the conversation that goes on."""
        require_json(request)
        content, betas, key = await request.body(), betas_of(request), request.headers.get(UPSTREAM_KEY)
        body = await parsed_body(CompactionRequest, content)
        ask = await off_loop(lambda: compaction_ask(body, server(request), betas, key), len(content))
        if body.mode == "plan":
            return json_answer(await asyncio.to_thread(plan_answer, await compactions.plan(ask)))
        ran, context = await while_present(request, compactions.run(ask))
        return json_answer(
            await asyncio.to_thread(lambda: run_answer(ran, context_values(context) if context else None))
        )

    @router.post(
        "/v1/sessions/{session_id}/compactions",
        response_model=ReportAnswer,
        responses=problem_answers(400, 404, 408, 413, 415, 422, 503),
        openapi_extra=body_of(CompactionReport),
        tags=["compaction"],
    )
    async def report_compaction(session_id: str, request: Request) -> Response:
        """How a compaction ended that the caller ran: three automatic failures in a row open the breaker."""
        require_json(request)
        report = await parsed_body(CompactionReport, await request.body())
        return json_answer(report_answer(await compactions.report(called(session_id, request), report)))

    @router.get("/metrics", response_class=PlainTextResponse, tags=["service"])
    async def tell_metrics() -> Response:
        """Figures of the service for Prometheus: of all its workers."""
        return Response(await metrics.told(), media_type=MEDIA_TYPE)

    return router
