"""Requests about tokens, and what every answer to one is held to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import httpx

from app.wire.counts import TokensResult
from tests.asking import inline

MODEL = "claude-sonnet-4-5"
READ = {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object"}}
ESTIMATE, EXACT = {"method": "estimate"}, {"method": "exact"}


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, tokens: int | None = None, **more: Any) -> dict[str, Any]:
    """A response; ``tokens`` is what its usage tells in all."""
    told = {} if tokens is None else {"usage": {"input_tokens": tokens}}
    return {"role": "assistant", "content": content, **told, **more}


def using(tokens: int) -> list[dict[str, Any]]:
    """A conversation that uses so many tokens."""
    return [user("Go on."), assistant("Done.", tokens)]


def held(response: httpx.Response) -> dict[str, Any]:
    """The body of a good answer, whose figures agree with each other."""
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    told, state = body["tokens"], body["compaction"]
    assert sum(part["tokens"] for part in told["parts"]) == told["used"]
    assert 0 < state["threshold"] <= state["effective_window"] <= state["window"]
    assert state["is_at_blocking_limit"] is False or told["used"] > 0
    assert state["should_compact"] <= state["is_above_auto_compact"] <= (told["used"] >= state["threshold"])
    assert 0 <= state["percent_left"] <= 100
    return body


def count(client: httpx.Client, messages: list[dict[str, Any]], **body: Any) -> dict[str, Any]:
    """What ``POST /v1/tokens`` answers."""
    headers = body.pop("headers", {})
    response = client.post("/v1/tokens", json={"model": MODEL, "messages": messages} | body, headers=headers)
    found = held(response)
    TokensResult.model_validate_json(response.content)
    return found


def context(client: httpx.Client, messages: list[dict[str, Any]], **body: Any) -> dict[str, Any]:
    """What ``POST /v1/context`` answers."""
    headers = body.pop("headers", {})
    return held(client.post("/v1/context", json=inline(messages=messages, **body), headers=headers))


BOTH = (count, context)
"""The two ways to be told of tokens."""


def parts(body: dict[str, Any]) -> dict[str, int]:
    found = {part["part"]: part["tokens"] for part in body["tokens"]["parts"]}
    assert len(found) == len(body["tokens"]["parts"])
    return found


def codes(body: dict[str, Any]) -> list[str]:
    """The warnings that speak of tokens."""
    others = {"unknown_model", "prefix_below_minimum"}
    return [warning["code"] for warning in body["warnings"] if warning["code"] not in others]


@contextmanager
def stranger(address: str) -> Iterator[httpx.Client]:
    """A caller with a key of its own: what a service has learned of the upstream by other keys is not its."""
    headers = {"x-upstream-api-key": f"sk-ant-test-{uuid4().hex}"}
    with httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
        yield client
