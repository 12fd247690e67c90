"""The whole service in this process, asked without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import FastAPI

from app.main import create_app
from app.settings import Settings
from app.wire.schema import ProblemBody
from tests.asking import DOCUMENTED

JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def values(self) -> Any:
        return json.loads(self.body)


class Service:
    """``app`` on an event loop of its own. No disk is within its fence, and no upstream is asked without a key."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answered:
        return self._loop.run_until_complete(self._asked(method, path, body, headers))

    def post(self, path: str, body: bytes, **headers: str) -> Answered:
        return self.ask("POST", path, body, **JSON, **headers)

    async def _asked(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answered:
        given = {"host": "localhost", "content-length": str(len(body)), **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        waiting = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []
        gone = asyncio.Event()

        async def receive() -> Any:
            if not waiting:
                await gone.wait()
                return {"type": "http.disconnect"}
            return waiting.pop()

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        content = b"".join(one.get("body", b"") for one in sent[1:])
        return Answered(sent[0]["status"], {k.decode(): v.decode("latin-1") for k, v in sent[0]["headers"]}, content)


@cache
def service() -> Service:
    return Service(create_app(Settings(roots=(), home=None, anthropic_api_key=None, log_level="critical")))


def is_documented(method: str, path: str, answer: Answered) -> bool:
    """A status that the contract has for this operation, and a problem in the one shape."""
    documented = DOCUMENTED.get((method, path))
    if documented is not None:
        assert str(answer.status) in documented, (method, path, answer.status, answer.body[:300])
    assert answer.status < 500, answer.body
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        ProblemBody.model_validate_json(answer.body)
    assert answer.headers["x-request-id"]
    return answer.status == 200
