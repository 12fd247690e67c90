"""What compactions do to a session."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from tests.asking import ask, bare, refused
from tests.compacting import asking, compacting, run, talk
from tests.standin.server import Hold, StandIn

CLAUDE_MD = "/home/dev/p/CLAUDE.md"
RULES = {CLAUDE_MD: "Prices are in cents.", "/home/dev/p/a/CLAUDE.md": "Nested."}


@pytest.fixture(scope="module")
def serving(running_upstream: tuple[StandIn, str]) -> Iterator[httpx.Client]:
    with compacting(running_upstream[1]) as found:
        yield found


@pytest.fixture
def client(serving: httpx.Client, upstream: StandIn) -> httpx.Client:
    """A service, whose upstream is as new."""
    return serving


def context_of(body: dict[str, Any], messages: list[dict[str, Any]]) -> dict[str, Any]:
    kept = {name: value for name, value in body.items() if name not in {"mode", "trigger", "instructions"}}
    return kept | {"messages": messages}


def begun(client: httpx.Client, **more: Any) -> dict[str, Any]:
    """A session after its first turn, as a body that runs a compaction of it."""
    body: dict[str, Any] = asking(session_id=uuid4().hex, **more)
    ask(client, context_of(body, body["messages"]))
    return body


def test_the_next_turn_goes_on_from_the_runs_context_without_moving_a_byte(client: httpx.Client) -> None:
    body = begun(client)
    found = run(client, body)
    same = ask(client, context_of(body, found["messages"]))
    assert same["request"] == found["context"]["request"]
    assert (same["session"]["section_misses"], same["session"]["new"]) == (0, False)
    more = [*found["messages"], {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Next."}]
    later = ask(client, context_of(body, more))
    before, after = (bare(one["request"]["messages"]) for one in (found["context"], later))
    assert after[: len(before)] == before
    assert later["request"]["system"] == found["context"]["request"]["system"]
    assert later["user_context"] == found["context"]["user_context"]


def test_the_boundary_tells_what_the_next_turn_counts(client: httpx.Client) -> None:
    body = begun(client)
    found = run(client, body)
    after = ask(client, context_of(body, found["messages"]))["tokens"]
    assert (after["used"], after["anchored_on"]) == (found["tokens_after"], 0)


def test_memory_is_read_again_once_and_then_kept(client: httpx.Client) -> None:
    body = begun(client)
    changed = {**body["workspace"], "files": {CLAUDE_MD: "Prices are in euros."}}
    assert "cents" in ask(client, context_of(body, talk(2)) | {"workspace": changed})["user_context"]["text"]
    found = run(client, body | {"workspace": changed})
    assert "euros" in found["context"]["user_context"]["text"]
    assert found["context"]["session"]["section_hits"] == 0
    again = {**body["workspace"], "files": {CLAUDE_MD: "Prices are in pounds."}}
    later = ask(client, context_of(body, found["messages"]) | {"workspace": again})
    assert later["user_context"]["text"] == found["context"]["user_context"]["text"]


def test_attachments_are_armed_again(client: httpx.Client) -> None:
    touched = [{"path": "a/b.py"}]
    body = begun(client, files=RULES, touched=touched)
    assert ask(client, context_of(body, talk()))["memory"]["attachments"] == []
    found = run(client, body)
    assert found["context"]["memory"]["attachments"] == []
    assert "Nested." not in json.dumps(found["context"]["request"])
    again = ask(client, context_of(body, found["messages"]))
    assert [one["path"] for one in again["memory"]["attachments"]] == ["/home/dev/p/a/CLAUDE.md"]


def test_the_cache_report_says_that_the_messages_were_rewritten(client: httpx.Client) -> None:
    body = begun(client)
    found = run(client, body)
    assert found["context"]["cache"]["previous"]["cause"] == "messages_rewritten"
    asked_again = ask(client, context_of(body, found["messages"]))
    assert asked_again["cache"]["previous"]["cause"] == "messages_rewritten"


def test_a_context_that_was_sent_as_it_came_is_what_the_next_is_compared_with(client: httpx.Client) -> None:
    body = begun(client)
    answered = [*run(client, body)["messages"], {"role": "assistant", "content": "Done."}]
    previous = ask(client, context_of(body, [*answered, {"role": "user", "content": "Next."}]))["cache"]["previous"]
    assert (previous["hit"], previous["cause"]) == (True, None)


def test_a_second_compaction_begins_anew_too(client: httpx.Client) -> None:
    body = begun(client)
    first = run(client, body)
    files = {**body["workspace"], "files": {CLAUDE_MD: "Prices are in euros."}}
    second = run(client, body | {"messages": [*first["messages"][:1], *talk()], "workspace": files})
    assert "euros" in second["context"]["user_context"]["text"]
    same = ask(client, context_of(body, second["messages"]) | {"workspace": files})
    assert same["request"] == second["context"]["request"]


def test_calibration_outlives_a_compaction(client: httpx.Client) -> None:
    estimate = {"tokens": {"method": "estimate"}}
    body = begun(client, messages=talk(3), **estimate)
    usage = {"input_tokens": 40_000, "output_tokens": 3}
    more = [*talk(3), {"role": "assistant", "content": "So.", "usage": usage}, {"role": "user", "content": "Go on."}]
    learned = ask(client, context_of(body, more))["tokens"]["calibration"]
    assert learned > 1
    assert run(client, body | {"messages": more})["context"]["tokens"]["calibration"] == learned


def test_contexts_are_answered_while_a_run_waits_for_the_model(client: httpx.Client, upstream: StandIn) -> None:
    body, released = begun(client), threading.Event()
    upstream.answer_next(Hold(released))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, client, body)
        upstream.asked.wait()
        during = ask(client, context_of(body, [*talk(), {"role": "assistant", "content": "Also."}]))
        other = client.post("/v1/compactions", json=body | {"messages": talk(2)})
        released.set()
        found = running.result()
    assert during["session"]["new"] is False
    refused(other, 409, "compacting-already")
    assert int(other.headers["retry-after"]) > 0
    assert ask(client, context_of(body, found["messages"]))["request"] == found["context"]["request"]


def test_a_caller_who_goes_away_ends_the_run_and_leaves_the_session(client: httpx.Client, upstream: StandIn) -> None:
    body, released = begun(client, trigger="automatic"), threading.Event()
    before = ask(client, context_of(body, talk()))
    address = urlsplit(str(client.base_url))
    content = json.dumps(body).encode()
    headers = ("host: localhost", "content-type: application/json", f"content-length: {len(content)}")
    head = "".join(f"{line}\r\n" for line in ("POST /v1/compactions HTTP/1.1", *headers, ""))
    aborted = 'strata_compactions_total{outcome="aborted",trigger="automatic"} 1.0'
    upstream.answer_next(Hold(released))
    with socket.create_connection((address.hostname or "", address.port or 0)) as connection:
        connection.sendall(head.encode() + content)
        upstream.asked.wait()
    assert any(aborted in client.get("/metrics").text for _ in range(5_000))
    released.set()
    after = ask(client, context_of(body, talk()))
    assert (after["request"], after["compaction"]["breaker"]) == (before["request"], before["compaction"]["breaker"])
    assert run(client, body)["outcome"] == "ok"


def test_an_exact_count_is_one_of_the_new_conversation(client: httpx.Client) -> None:
    body = begun(client, tokens={"method": "exact"})
    found = run(client, body)
    assert found["context"]["tokens"]["method"] == "exact"
    assert found["messages"][0]["meta"]["tokens"] < found["tokens_after"] < found["tokens_before"]
