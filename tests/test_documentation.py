"""The contract's address and the page that shows it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx

from app.documentation import Documentation
from tests.asking import CONTRACT

SMALL: dict[str, Any] = {
    "info": {"title": "T", "version": "1"},
    "paths": {},
    "components": {"schemas": {"ProblemBody": {}}},
}
SMALL_AS_JSON = b'{"info":{"title":"T","version":"1"},"paths":{},"components":{"schemas":{"ProblemBody":{}}}}'


def test_the_page_is_one_piece_of_html(service: httpx.Client) -> None:
    page = service.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Strata</title>" in page.text
    assert "/v1/context" in page.text


def test_no_browser_may_do_more_with_it_than_show_it(service: httpx.Client) -> None:
    headers = service.get("/docs").headers
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_both_are_sent_compressed_and_only_when_they_changed(service: httpx.Client) -> None:
    for path in ("/docs", "/openapi.json"):
        answer = service.get(path, headers={"accept-encoding": "gzip"})
        assert answer.headers["content-encoding"] == "gzip"
        assert int(answer.headers["content-length"]) < len(answer.content) / 4
        again = service.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_the_contract_is_sent_as_json(service: httpx.Client) -> None:
    answer = service.get("/openapi.json", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) < CONTRACT.stat().st_size


def test_a_head_of_either_has_no_body(service: httpx.Client) -> None:
    for path in ("/docs", "/openapi.json"):
        answer = service.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


def test_both_are_written_once_off_the_loop_when_one_is_first_asked_for() -> None:
    writers: list[str] = []

    def write() -> dict[str, Any]:
        writers.append(threading.current_thread().name)
        return SMALL

    async def ask_often() -> list[bytes]:
        documentation = Documentation(write)
        assert writers == []
        await asyncio.gather(*(documentation.page(None) for _ in range(9)))
        answers = await asyncio.gather(*(documentation.contract(None) for _ in range(9)))
        return [bytes(answer.body) for answer in (*answers, await documentation.contract(None))]

    assert asyncio.run(ask_often()) == [SMALL_AS_JSON] * 10
    assert len(writers) == 1
    assert writers != [threading.main_thread().name]


def test_a_caller_who_leaves_takes_the_contract_from_nobody() -> None:
    gate = threading.Event()

    def write() -> dict[str, Any]:
        gate.wait(60)
        return SMALL

    async def leave_and_ask() -> bytes:
        documentation = Documentation(write)
        leaving = asyncio.create_task(documentation.contract(None))
        await asyncio.sleep(0)
        leaving.cancel()
        staying = asyncio.create_task(documentation.contract(None))
        await asyncio.sleep(0)
        gate.set()
        return bytes((await staying).body)

    assert asyncio.run(leave_and_ask()) == SMALL_AS_JSON
