"""The contract as JSON, and the page that shows it: written when they are first asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html

from app.carrying import JsonAnswer

CONTRACT = "/openapi.json"
PAGE = "/docs"


class Documentation:
    """Writing takes long, so it is done on a worker thread, once, however many ask for it."""

    def __init__(self, write: Callable[[], dict[str, Any]]) -> None:
        self._write = write
        self._writing: asyncio.Future[bytes] | None = None

    async def contract(self, _: Request) -> Response:
        if self._writing is None:
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._written))
        return JsonAnswer(await asyncio.shield(self._writing))

    def _written(self) -> bytes:
        return json.dumps(self._write(), ensure_ascii=False, separators=(",", ":")).encode()


async def page(request: Request) -> Response:
    root: str = request.scope.get("root_path", "").rstrip("/")
    return get_swagger_ui_html(openapi_url=root + CONTRACT, title=f"{request.app.title} - Swagger UI")


def document(app: FastAPI, documentation: Documentation) -> None:
    """Adds both addresses to ``app``, which has none of its own."""
    app.add_route(CONTRACT, documentation.contract, include_in_schema=False)
    app.add_route(PAGE, page, include_in_schema=False)
