"""The routes of sessions: what one holds, emptying it, and its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fastapi import APIRouter, Request, Response

from app.carrying import (
    UPSTREAM_KEY,
    AsSent,
    called,
    context_sent,
    json_answer,
    off_loop,
    parsed_body,
    problem_answers,
    require_json,
)
from app.context import Contexts
from app.errors import InvalidRequest
from app.session_states import SessionStates
from app.warm import Warm
from app.wire import schema
from app.wire.requests import Server, asked_again
from app.wire.sessions import ClearAnswer, ClearRequest, HeldSession, clear_answer, session_answer

CLEAR_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ClearRequest.model_json_schema()}}}
}


def session_routes(
    states: SessionStates,
    contexts: Contexts,
    warm: Warm,
    *,
    server: Callable[[Request], Server],
    ended: Callable[[str], None],
) -> APIRouter:
    """A part of the contract's routes, over what `main` has built. ``ended`` is told of a session that was emptied."""
    router = APIRouter(responses=problem_answers(401, 403, 421, 429, 500, 503), route_class=AsSent, tags=["sessions"])

    @router.get("/v1/sessions/{session_id}", response_model=HeldSession, responses=problem_answers(404, 422, 503))
    async def tell_session(session_id: str, request: Request) -> Response:
        """What the session holds: names, sizes and digests, no texts."""
        return json_answer(session_answer(await states.standing(called(session_id, request))))

    @router.get(
        "/v1/sessions/{session_id}/context",
        response_model=schema.ContextAnswer,
        responses={
            304: {"description": "It is what If-None-Match names", "content": {}},
            **problem_answers(404, 422, 503),
        },
    )
    async def tell_context(session_id: str, request: Request) -> Response:
        """What the session last asked for, assembled as it would be now. The session stays as it is."""
        last = await states.last_request(called(session_id, request))
        key = request.headers.get(UPSTREAM_KEY)
        ask = await off_loop(lambda: asked_again(last, server(request), key), len(last.body))
        return await context_sent(request, await contexts.look(replace(ask, is_sent=False)), warm)

    @router.delete(
        "/v1/sessions/{session_id}",
        status_code=204,
        response_class=Response,
        responses={204: {"description": "It is gone", "content": {}}, **problem_answers(404, 422, 503)},
    )
    async def delete_session(session_id: str, request: Request) -> Response:
        """Forgets the session: its next turn begins a new one. What is not there any more is a problem."""
        name = called(session_id, request)
        await states.forget(name)
        ended(name)
        return Response(status_code=204)

    @router.post(
        "/v1/sessions/{session_id}/clear",
        response_model=ClearAnswer,
        responses=problem_answers(400, 404, 408, 413, 415, 422, 503),
        openapi_extra=CLEAR_BODY,
    )
    async def clear_session(session_id: str, request: Request) -> Response:
        """Empties sections, memory and settings, so that the next turn reads them; attachments can come again."""
        content = await request.body()
        if not content:
            raise InvalidRequest('The body is missing: send {"reason": "clear"} or {"reason": "compact"}.')
        require_json(request)
        body = await parsed_body(ClearRequest, content)
        name = called(session_id, request)
        emptied = await states.empty(name, body.reason)
        ended(name)
        return json_answer(clear_answer(emptied))

    return router
