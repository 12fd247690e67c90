"""Problems on the wire: RFC 9457."""

from __future__ import annotations

from typing import Any

import orjson

from app.errors import Problem

MEDIA_TYPE = "application/problem+json"
TYPES = "urn:strata:problem:"


def problem_values(problem: Problem, request_id: str | None) -> dict[str, Any]:
    return {
        "type": TYPES + problem.type,
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "errors": problem.errors,
        "request_id": request_id,
    }


def problem_bytes(problem: Problem, request_id: str | None) -> bytes:
    return orjson.dumps(problem_values(problem, request_id))
