"""The contract's address and the page that shows it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx

from app.documentation import Documentation
from tests.asking import CONTRACT


def test_the_page_names_the_contract(service: httpx.Client) -> None:
    page = service.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "url: '/openapi.json'" in page.text
    assert "<title>Strata - Swagger UI</title>" in page.text


def test_the_contract_is_sent_as_json_and_compressed(service: httpx.Client) -> None:
    answer = service.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < CONTRACT.stat().st_size


def test_a_head_of_the_contract_has_no_body(service: httpx.Client) -> None:
    answer = service.head("/openapi.json")
    assert (answer.status_code, answer.content) == (200, b"")


def test_it_is_written_once_off_the_loop_when_it_is_first_asked_for() -> None:
    writers: list[str] = []

    def write() -> dict[str, Any]:
        writers.append(threading.current_thread().name)
        return {"openapi": "3.1.0"}

    async def ask_often() -> list[bytes]:
        documentation = Documentation(write)
        assert writers == []
        answers = await asyncio.gather(*(documentation.contract(None) for _ in range(9)))
        return [bytes(answer.body) for answer in (*answers, await documentation.contract(None))]

    assert asyncio.run(ask_often()) == [b'{"openapi":"3.1.0"}'] * 10
    assert len(writers) == 1
    assert writers != [threading.main_thread().name]


def test_a_caller_who_leaves_takes_the_contract_from_nobody() -> None:
    gate = threading.Event()

    def write() -> dict[str, Any]:
        gate.wait(60)
        return {}

    async def leave_and_ask() -> bytes:
        documentation = Documentation(write)
        leaving = asyncio.create_task(documentation.contract(None))
        await asyncio.sleep(0)
        leaving.cancel()
        staying = asyncio.create_task(documentation.contract(None))
        await asyncio.sleep(0)
        gate.set()
        return bytes((await staying).body)

    assert asyncio.run(leave_and_ask()) == b"{}"
