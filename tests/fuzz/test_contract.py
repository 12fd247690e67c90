"""The written contract against the running service: every operation, with data that fits it and data that does not.

``python -m tests.fuzz contract --seconds N`` says in ``FUZZ_SECONDS`` how long each operation is tried.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import CHECKS

from app.main import create_app
from app.settings import Settings
from app.wire.schema import ProblemBody
from tests.asking import CONTRACT, inline
from tests.serving import serve

SECONDS = int(os.environ.get("FUZZ_SECONDS", "0"))
KEY = {"x-api-key": "a key of this test"}
SCHEMA = schemathesis.openapi.from_path(CONTRACT)
OPERATIONS = {f"{one.method.upper()} {one.path}": one for one in (found.ok() for found in SCHEMA.get_all_operations())}
WITH_BODIES = {name: one for name, one in OPERATIONS.items() if one.body}
OF_SESSIONS = {name: one for name, one in OPERATIONS.items() if "{session_id}" in name and "/events" not in name}
CLOSED = {name: one for name, one in OPERATIONS.items() if one.path not in {"/healthz", "/readyz"}}
METHODS = ("get", "post", "put", "patch", "delete", "options", "head", "trace")
EXAMPLES = 6
SESSION = "known"
BEYOND_SCHEMAS = CHECKS.get_by_names(["positive_data_acceptance"])
"""What one field asks of another, such as ``repository`` with ``source: git``, no schema of the contract says."""


@pytest.fixture(scope="module")
def keyed() -> Iterator[str]:
    given_settings = Settings(api_keys=tuple(KEY.values()), roots=(), home=None, anthropic_api_key=None)
    with serve(create_app(given_settings)) as address:
        yield address


@pytest.fixture(scope="module")
def client(keyed: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=keyed, headers=KEY, timeout=60, trust_env=False) as found:
        yield found


def explored(operation: APIOperation, mode: GenerationMode, check: Callable[[Case], Any], **fixed: Any) -> None:
    """Checks a few cases that are always the same; with FUZZ_SECONDS others, until so much time is over."""
    until = time.monotonic() + SECONDS
    for number in count():

        @seed(number)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode, **fixed))
        def run(case: Case) -> None:
            check(case)

        run()
        if time.monotonic() >= until:
            return


def is_held(case: Case, address: str) -> None:
    case.call_and_validate(base_url=address, headers=KEY, excluded_checks=BEYOND_SCHEMAS)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_fits_the_contract_has_an_answer_that_it_names(operation: APIOperation, keyed: str) -> None:
    explored(operation, GenerationMode.POSITIVE, lambda case: is_held(case, keyed))


@pytest.mark.parametrize("operation", WITH_BODIES.values(), ids=WITH_BODIES)
def test_what_does_not_fit_the_contract_is_refused_as_it_says(operation: APIOperation, keyed: str) -> None:
    explored(operation, GenerationMode.NEGATIVE, lambda case: is_held(case, keyed))


@pytest.mark.parametrize("operation", OF_SESSIONS.values(), ids=OF_SESSIONS)
def test_of_a_session_that_there_is_too(operation: APIOperation, keyed: str, client: httpx.Client) -> None:
    def check(case: Case) -> None:
        assert client.post("/v1/context", json=inline(session_id=SESSION)).status_code == 200
        is_held(case, keyed)

    explored(operation, GenerationMode.POSITIVE, check, path_parameters={"session_id": SESSION})


@pytest.mark.parametrize("given_key", [{}, {"x-api-key": "another"}, {"authorization": "Bearer another"}], ids=str)
@pytest.mark.parametrize("operation", CLOSED.values(), ids=CLOSED)
def test_nothing_but_health_is_told_without_a_key(
    operation: APIOperation, given_key: dict[str, str], keyed: str
) -> None:
    path = operation.path.format(session_id=SESSION)
    body = inline() if operation.body else None
    answer = httpx.request(operation.method, keyed + path, json=body, headers=given_key, trust_env=False)
    assert answer.status_code == 401
    assert ProblemBody.model_validate_json(answer.content).type == "urn:strata:problem:key-missing"


@pytest.mark.parametrize("path", sorted({one.path for one in OPERATIONS.values()}))
def test_a_method_that_an_address_does_not_take_is_refused_with_those_it_takes(path: str, client: httpx.Client) -> None:
    taken = {one.method for one in OPERATIONS.values() if one.path == path}
    for method in METHODS:
        if method in taken:
            continue
        answer = client.request(method, path.format(session_id=SESSION))
        assert answer.status_code == 405
        assert {name.strip().lower() for name in answer.headers["allow"].split(",")} <= taken
        if method != "head":
            assert ProblemBody.model_validate_json(answer.content).type == "urn:strata:problem:method-not-allowed"
