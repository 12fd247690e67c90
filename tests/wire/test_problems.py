from __future__ import annotations

import pytest

from app import errors
from app.wire.problems import MEDIA_TYPE, problem_bytes, problem_values
from app.wire.schema import ProblemBody


@pytest.mark.parametrize("kind", errors.Problem.__subclasses__(), ids=lambda kind: kind.type)
def test_every_problem_has_the_one_shape(kind: type[errors.Problem]) -> None:
    problem = kind("Do this.", errors=[{"pointer": "/a", "message": "why"}])
    body = ProblemBody.model_validate_json(problem_bytes(problem, "id"))
    assert (body.type, body.title, body.status) == (f"urn:strata:problem:{kind.type}", kind.title, kind.status)
    assert (body.detail, body.errors[0].pointer, body.request_id) == ("Do this.", "/a", "id")


def test_a_problem_without_places_points_nowhere() -> None:
    assert problem_values(errors.NotFound("Look."), None) == {
        "type": "urn:strata:problem:not-found",
        "title": "There is nothing at this address",
        "status": 404,
        "detail": "Look.",
        "errors": [],
        "request_id": None,
    }


def test_no_two_problems_have_one_type() -> None:
    types = [kind.type for kind in errors.Problem.__subclasses__()]
    assert len(types) == len(set(types))


def test_the_media_type_is_that_of_rfc_9457() -> None:
    assert MEDIA_TYPE == "application/problem+json"
