"""Requests to every address of the service that hold one word wherever a caller can put one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import httpx

from app.stores.process import ProcessStore
from app.stores.socket import Held
from tests.asking import DOCUMENTED, inline
from tests.compacting import talk

FAULT = "fault"
IDENTITY = ("-c", "user.name=n", "-c", "user.email=e@example.org")


class FailingStore(ProcessStore):
    """Fails for sessions that are named so, and says of whom and what."""

    def __init__(self, word: str) -> None:
        super().__init__(100, 1_000_000, 3600, time.monotonic)
        self._word = word

    async def load(self, key: str) -> Held:
        if FAULT in key:
            raise LookupError(f"{self._word} of {key}")
        return await super().load(key)


@contextmanager
def refusing(word: str) -> Iterator[str]:
    """A Messages API that refuses everything and quotes what it was sent. Its address."""
    answer = f'{{"type": "error", "error": {{"type": "{word}", "message": "{word}"}}}}'.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(400, word)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def workspace(folder: Path, word: str) -> Path:
    """A repository whose names, texts, branch, commit and settings are the word's."""
    project = folder / word
    (project / ".claude" / "rules").mkdir(parents=True)
    (project / "CLAUDE.md").write_text(f"{word} @{word}.md @/etc/{word}")
    (project / ".claude" / "rules" / f"{word}.md").write_text(f'---\npaths: ["{word}/[", "{word}"]\n---\n{word}')
    (project / ".claude" / "settings.json").write_text(f'{{"{word}": "{word}", ')
    for command in (
        ("init", "-q", "-b", word),
        ("add", "."),
        (*IDENTITY, "commit", "-q", "-m", word),
        ("config", f"{word}.{word}", word),
    ):
        subprocess.run(["git", *command], cwd=project, check=True, capture_output=True)
    (project / f"{word}.py").write_text(word)
    return project


def told(word: str) -> Any:
    """What a caller sends inline, the word everywhere."""
    home = f"/home/{word}"
    files = {f"{home}/p/CLAUDE.md": f"{word} @{word}.md", f"{home}/p/.claude/settings.json": f"{{{word}"}
    tool = {"name": word, "description": word, "input_schema": {"type": "object", "title": word}}
    return inline(
        files,
        workspace={"cwd": f"{home}/p", "home": home},
        session_id=word,
        tools=[tool],
        messages=[{"role": "user", "content": word}],
        touched=[{"path": f"{word}.py"}],
    )


def odd_bodies(word: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """The addresses that are posted to, and what."""
    context, local = told(word), {"source": "local", "cwd": str(folder / word), "home": str(folder / word)}
    yield "/v1/context", context
    yield "/v1/context", {**context, "model": word, "session_id": f"{word}2"}
    yield "/v1/context", {"model": "sonnet", "workspace": local, "tokens": {"method": "exact"}}
    yield "/v1/context", {**context, "session_id": f"{word}-{FAULT}"}
    yield "/v1/context", {"model": "sonnet", "workspace": {"source": "local", "cwd": f"/nowhere/{word}"}}
    git = {"source": "git", "repository": str(folder / word), "ref": word}
    yield "/v1/context", {"model": "sonnet", "workspace": git}
    yield "/v1/context", {"model": "sonnet", "workspace": {**git, "ref": f"{word}-gone"}}
    yield "/v1/context", {**context, word: word}
    yield "/v1/attachments", {name: context[name] for name in ("workspace", "session_id", "touched")}
    yield "/v1/scan", {"workspace": local}
    raw = {"model": "claude-sonnet-4-5", "messages": context["messages"], "system": word, "tools": context["tools"]}
    yield "/v1/tokens", {**raw, "tokens": {"method": "exact"}}
    yield "/v1/cache/lint", {"requests": [raw, {**raw, "system": f"{word}!"}]}
    compaction = {**context, "session_id": f"{word}3", "messages": talk()}
    yield "/v1/compactions", {**compaction, "mode": "run"}
    yield "/v1/compactions", {**compaction, "mode": "plan"}
    yield f"/v1/sessions/{quote(word)}/compactions", {"trigger": "automatic", "outcome": "failed"}
    yield f"/v1/sessions/{quote(word)}/clear", {"reason": "clear"}
    yield f"/v1/sessions/{quote(word)}/clear", {"reason": word}


def ask_everything(client: httpx.Client, word: str, folder: Path) -> set[tuple[str, int]]:
    """Status and operation of each answer, that of a path which is none included."""
    query = {word: word}
    answers = [client.post(path, params=query, json=body) for path, body in odd_bodies(word, folder)]
    answers += [
        client.post("/v1/context", content=word, headers={"content-type": f"application/{word}+json"}),
        client.post("/v1/context", content=word, headers={"content-type": word}),
        client.request("M-SEARCH", "/v1/context", params=query),
        client.get(f"/{word}", params=query),
        client.get("/v1/models", headers={"x-api-key": f"{word}-not"}),
        client.get("/v1/models", headers={"host": f"{word}.example"}),
        client.get("/v1/models", headers={"origin": f"https://{word}.example"}),
        client.post("/v1/context", content=b"x" * 200_000, headers={"content-type": "application/json"}),
    ]
    answers += [client.get(path, params=query) for path in ("/v1/models", "/healthz", "/readyz", "/docs")]
    with client.stream("GET", f"/v1/sessions/{word}/events", params=query) as listening:
        next(listening.iter_lines())
        answers.append(listening)
    answers += [client.get(f"/v1/sessions/{word}{ending}", params=query) for ending in ("", "/context")]
    answers += [client.get("/metrics", params=query), client.delete(f"/v1/sessions/{word}", params=query)]
    return {(f"{one.request.method} {_template(one.request.url.path, word)}", one.status_code) for one in answers}


def _template(path: str, word: str) -> str:
    return path.replace(f"/sessions/{word}", "/sessions/{session_id}")


def every_operation() -> set[str]:
    return {f"{method} {path}" for method, path in DOCUMENTED}
