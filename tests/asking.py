"""Requests, and what every answer to one is held to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import yaml

from app.wire.schema import ContextAnswer, ProblemBody

CWD = "/home/dev/p"
DATE = "2026-11-30"
CONTRACT = Path(__file__).parents[1] / "openapi.yaml"
DOCUMENTED = {
    (method.upper(), path): set(operation["responses"])
    for path, operations in yaml.load(CONTRACT.read_bytes(), Loader=yaml.CSafeLoader)["paths"].items()
    for method, operation in operations.items()
}


def inline(files: dict[str, Any] | None = None, *, workspace: dict[str, Any] | None = None, **more: Any) -> Any:
    """A request with the caller's own files; ``workspace`` and ``more`` say what is different."""
    described = {"source": "inline", "cwd": CWD, "home": "/home/dev", "platform": "linux", "files": files or {}}
    return {"model": "claude-sonnet-4-5", "date": DATE, "workspace": described | (workspace or {}), **more}


def local(cwd: Path, **more: Any) -> Any:
    """A request for a folder on disk, with an empty home and no managed level."""
    nowhere = str(cwd / "nowhere")
    described = {"source": "local", "cwd": str(cwd), "home": nowhere, "managed_dir": nowhere, "platform": "linux"}
    return {"model": "claude-sonnet-4-5", "date": DATE, "workspace": described, **more}


def answered(response: httpx.Response) -> dict[str, Any]:
    """The body of a good answer, which is as the contract has it."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    ContextAnswer.model_validate_json(response.content)
    body: dict[str, Any] = response.json()
    coding = response.headers.get("content-encoding")
    assert response.headers["etag"] == (f'"{body["digest"]}-{coding}"' if coding else f'"{body["digest"]}"')
    assert sum(part["tokens"] for part in body["tokens"]["parts"]) == body["tokens"]["used"]
    return body


def ask(client: httpx.Client, body: Any, **headers: str) -> dict[str, Any]:
    return answered(client.post("/v1/context", json=body, headers=headers))


def refused(response: httpx.Response, status: int, kind: str, *pointers: str) -> dict[str, Any]:
    """The problem, which has this status and type and points to these places of the body."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    ProblemBody.model_validate_json(response.content)
    problem: dict[str, Any] = response.json()
    assert problem["type"] == f"urn:strata:problem:{kind}"
    assert problem["status"] == status
    assert problem["request_id"] == response.headers["x-request-id"]
    assert [error["pointer"] for error in problem["errors"]] == list(pointers)
    assert problem["title"]
    assert problem["detail"].endswith(".") or pointers
    operation = DOCUMENTED.get((response.request.method, response.request.url.path))
    assert operation is None or str(status) in operation
    return problem


def bare(messages: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Messages without cache markers, which move, and with bare texts as blocks, which are the same to the model."""
    found = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found.append((message["role"], [{k: v for k, v in block.items() if k != "cache_control"} for block in blocks]))
    return found
