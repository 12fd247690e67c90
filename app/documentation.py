"""The contract as JSON, and the page that shows it: written when they are first asked for."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response

from app.carrying import JsonAnswer
from app.errors import Problem
from app.page.contract import contract_page, load_style, policy

CONTRACT = "/openapi.json"
PAGE = "/docs"


@dataclass(frozen=True, slots=True)
class Written:
    """``policy`` is what a browser may do with ``page``."""

    contract: bytes
    page: bytes
    policy: str

    @classmethod
    def of(cls, contract: dict[str, Any]) -> Written:
        style = load_style()
        plain = json.dumps(contract, ensure_ascii=False, separators=(",", ":")).encode()
        problems = [(kind.status, kind.type, kind.title) for kind in Problem.__subclasses__()]
        return cls(plain, contract_page(contract, problems, style).encode(), policy(style))


class PageAnswer(JsonAnswer):
    """A page, sent as JSON answers are."""

    media_type = "text/html"


class Documentation:
    """Writing takes long, so it is done on a worker thread, once, however many ask for it."""

    def __init__(self, write: Callable[[], dict[str, Any]]) -> None:
        self._write = write
        self._writing: asyncio.Future[Written] | None = None

    async def contract(self, _: Request) -> Response:
        written = await self._written()
        return JsonAnswer(written.contract, headers={"etag": _tag(written.contract)})

    async def page(self, _: Request) -> Response:
        written = await self._written()
        headers = {
            "etag": _tag(written.page),
            "content-security-policy": written.policy,
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "referrer-policy": "no-referrer",
            "x-frame-options": "DENY",
        }
        return PageAnswer(written.page, headers=headers)

    async def _written(self) -> Written:
        if self._writing is None:
            self._writing = asyncio.ensure_future(asyncio.to_thread(lambda: Written.of(self._write())))
        return await asyncio.shield(self._writing)


def _tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def document(app: FastAPI, documentation: Documentation) -> None:
    """Adds both addresses to ``app``, which has none of its own."""
    app.add_route(CONTRACT, documentation.contract, include_in_schema=False)
    app.add_route(PAGE, documentation.page, include_in_schema=False)
