"""The least that an answer over HTTP can cost here: an application of one function that sends bytes it was given.

As a process, ``python -m tests.bench.floor``: a line of JSON on standard input says what each path answers; the port
is printed. The server is uvicorn, with the options that ``strata serve`` gives it.
"""

from __future__ import annotations

import json
import socket
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from tests.bench.processes import SERVER_CORE, Served, environment_of, running, said

NOT_OURS = frozenset({"date", "transfer-encoding", "connection"})
"""Headers that uvicorn adds itself."""

OPTIONS: Mapping[str, Any] = {
    "log_level": "warning",
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_graceful_shutdown": 10,
    "ws": "none",
}


@dataclass(frozen=True, slots=True)
class Fixed:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def written(self) -> dict[str, Any]:
        return {"status": self.status, "headers": self.headers, "body": b64encode(self.body).decode()}


class Floor:
    """Reads the body, looks up the path, sends what stands there."""

    def __init__(self, answers: Mapping[str, Fixed]) -> None:
        self.messages = {path: _messages(answer) for path, answer in answers.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        start, body = self.messages[scope["path"]]
        await send(start)
        await send(body)


def _messages(answer: Fixed) -> tuple[dict[str, Any], dict[str, Any]]:
    headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
    start = {"type": "http.response.start", "status": answer.status, "headers": headers}
    return start, {"type": "http.response.body", "body": answer.body}


@contextmanager
def floor(answers: Mapping[str, Fixed], folder: Path) -> Iterator[Served]:
    """The floor as a process of its own, on the core of servers."""
    line = json.dumps({path: answer.written() for path, answer in answers.items()}).encode() + b"\n"
    command = [sys.executable, "-m", "tests.bench.floor"]
    with running(command, folder, place=SERVER_CORE, environment=environment_of(folder), stdin=line) as (
        process,
        words,
    ):
        yield Served(int(said(process, words, rb"port (\d+)\n")[1]), process.pid)


def main() -> None:
    given = json.loads(sys.stdin.buffer.readline())
    answers = {
        path: Fixed(one["status"], tuple(map(tuple, one["headers"])), b64decode(one["body"]))
        for path, one in given.items()
    }
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        sys.stdout.write(f"port {listening.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(Floor(answers), lifespan="off", **OPTIONS)).run(sockets=[listening])


if __name__ == "__main__":
    main()
