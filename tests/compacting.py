"""Conversations to compact, services that may ask the stand-in, and what every answer to a compaction is held to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx

from app.building import build_contexts
from app.context import Contexts
from app.main import build_app
from app.settings import Settings
from app.wire.compactions import PlanAnswer, RunAnswer
from tests.asking import inline
from tests.serving import serve
from tests.standin.server import Words

KEY = "sk-ant-test-0123456789"
READ = {"name": "Read", "description": "Read a file.", "input_schema": {"type": "object"}}
LONG = "The sum is wrong where prices are halves of cents. " * 40


def talk(rounds: int = 6) -> list[dict[str, Any]]:
    """Rounds of a prompt, a call with its result, and an answer; in the end the user waits for one."""
    messages: list[dict[str, Any]] = []
    for number in range(rounds):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"path": f"a{number}"}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number} {LONG}"}
        messages += [
            {"role": "user", "content": f"Question {number}: {LONG}"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": f"Answer {number}: {LONG}"},
        ]
    return [*messages, {"role": "user", "content": "And now?"}]


def asking(mode: str = "run", **more: Any) -> Any:
    files = more.pop("files", {"/home/dev/p/CLAUDE.md": "Prices are in cents."})
    return inline(files, **({"mode": mode, "messages": talk(), "tools": [READ]} | more))


@dataclass
class Watch:
    """A clock that a test sets."""

    seconds: float = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@contextmanager
def compacting(
    url: str | None, *, key: str | None = KEY, changed: Callable[[Contexts], Contexts] = lambda same: same, **more: Any
) -> Iterator[httpx.Client]:
    """A service over the stand-in at ``url``."""
    settings = Settings(**({"upstream_url": url, "anthropic_api_key": key, "upstream_retries": 0} | more))
    contexts = changed(build_contexts(settings))
    with (
        serve(build_app(settings, contexts)) as address,
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
    ):
        yield client


def timed(watch: Watch) -> Callable[[Contexts], Contexts]:
    return lambda contexts: replace(contexts, known=replace(contexts.known, now=watch))


def run(client: httpx.Client, body: Any, **headers: str) -> dict[str, Any]:
    """The answer to a run, which is as the contract has it and holds no key."""
    response = client.post("/v1/compactions", json=body, headers=headers)
    assert response.status_code == 200, response.text
    RunAnswer.model_validate_json(response.content)
    assert KEY not in response.text
    found: dict[str, Any] = response.json()
    failed = found["outcome"] == "failed"
    assert [found[name] is None for name in ("failure", "messages", "context")] == [not failed, failed, failed]
    return found


def plan(client: httpx.Client, body: Any) -> dict[str, Any]:
    response = client.post("/v1/compactions", json=body)
    assert response.status_code == 200, response.text
    PlanAnswer.model_validate_json(response.content)
    found: dict[str, Any] = response.json()
    assert sum(part["tokens"] for part in found["tokens"]["parts"]) == found["tokens"]["used"]
    return found


def report(client: httpx.Client, session: str, outcome: str, **more: Any) -> httpx.Response:
    return client.post(f"/v1/sessions/{session}/compactions", json={"outcome": outcome} | more)


def words(*content: dict[str, Any], stop_reason: str = "end_turn") -> Words:
    """A message of the API with this content."""
    message = {"type": "message", "role": "assistant", "content": list(content), "stop_reason": stop_reason}
    return Words(json.dumps(message | {"usage": {"input_tokens": 7, "output_tokens": 3}}).encode())


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}
