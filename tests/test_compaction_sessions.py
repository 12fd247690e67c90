"""What compactions do to a session, and several of them at once."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from prometheus_client import CollectorRegistry

from app.compacting import Compactions
from app.context import Contexts
from app.core.remembered import Remembered
from app.errors import CompactingAlready
from app.main import build_contexts, compactions
from app.metrics import Metrics
from app.settings import Settings
from app.stores.socket import Held, Store
from app.wire.compactions import CompactionAsk, CompactionRequest, compaction_ask
from app.wire.requests import Server
from tests.asking import ask, bare, refused
from tests.compacting import KEY, Watch, asking, compacting, run, talk, timed
from tests.standin.server import Failure, Hold, StandIn

SERVER = Server("linux", None, "2026-11-30")
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


def built(url: str, **changed: Any) -> tuple[Compactions, Contexts]:
    contexts = replace(build_contexts(Settings(upstream_url=url, anthropic_api_key=KEY, upstream_retries=0)), **changed)
    return compactions(contexts, Metrics(CollectorRegistry())), contexts


def asked(body: dict[str, Any], messages: list[dict[str, Any]]) -> CompactionAsk:
    written = json.dumps(body | {"messages": messages})
    return compaction_ask(CompactionRequest.model_validate_json(written), SERVER, ())


MORE = [{"role": "assistant", "content": "In the meantime."}, {"role": "user", "content": "Go on."}]


@pytest.mark.parametrize("more", [[], MORE])
def test_a_second_run_of_the_same_conversation_waits_for_the_first(
    more: list[Any], upstream: StandIn, upstream_url: str
) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))

    async def both() -> None:
        running, contexts = built(upstream_url)
        body = asking(session_id="s")
        first = asyncio.create_task(running.run(asked(body, talk())))
        await asyncio.to_thread(upstream.asked.wait)
        second = asyncio.create_task(running.run(asked(body, [*talk(), *more])))
        await asyncio.sleep(0)
        assert running.running["s"].waiting == 2
        released.set()
        (ran, context), (again, grown) = await asyncio.gather(first, second)
        assert (ran.repeated, again.repeated, len(upstream.seen), running.running) == (False, True, 1, {})
        assert again.messages is not None
        assert [one.content for one in again.messages[1:]] == ["And now?", *(one["content"] for one in more)]
        assert context is not None
        assert grown is not None
        front = context.assembly.request["messages"]
        assert bare(grown.assembly.request["messages"])[: len(front)] == bare(front)
        await contexts.close()

    asyncio.run(both())


def test_a_run_that_failed_failed_for_all_who_waited(upstream: StandIn, upstream_url: str) -> None:
    async def both() -> None:
        running, contexts = built(upstream_url)
        upstream.answer_next(Failure(529))
        same = asked(asking(session_id="s", trigger="automatic"), talk())
        ended = await asyncio.gather(running.run(same), running.run(same))
        assert [ran.failed.reason for ran, _ in ended if ran.failed] == ["overloaded"] * 2
        assert [ran.breaker.consecutive_failures for ran, _ in ended] == [1, 1]
        await contexts.close()

    asyncio.run(both())


def test_the_run_goes_on_for_those_who_still_wait(upstream: StandIn, upstream_url: str) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))

    async def one_leaves() -> None:
        running, contexts = built(upstream_url)
        same = asked(asking(session_id="s"), talk())
        first, second = (asyncio.create_task(running.run(same)) for _ in range(2))
        await asyncio.to_thread(upstream.asked.wait)
        first.cancel()
        await asyncio.wait({first})
        released.set()
        assert (await second)[0].failed is None
        assert first.cancelled()
        await contexts.close()

    asyncio.run(one_leaves())


def test_another_process_does_not_compact_what_one_is_compacting(upstream: StandIn, upstream_url: str) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))

    async def two_processes() -> None:
        one, contexts = built(upstream_url)
        other, others = built(upstream_url, sessions=contexts.sessions)
        same = asked(asking(session_id="s"), talk())
        first = asyncio.create_task(one.run(same))
        await asyncio.to_thread(upstream.asked.wait)
        with pytest.raises(CompactingAlready):
            await other.run(same)
        released.set()
        assert (await first)[0].failed is None
        assert (await other.run(same))[0].failed is None
        await contexts.close()
        await others.close()

    asyncio.run(two_processes())


def test_a_lease_that_ran_out_holds_nobody_back_and_its_run_keeps_nothing(upstream: StandIn, upstream_url: str) -> None:
    released, watch = threading.Event(), Watch()
    upstream.answer_next(Hold(released))

    async def one_is_late() -> None:
        one, contexts = built(upstream_url)
        contexts = timed(watch)(contexts)
        one, other = (compactions(contexts, Metrics(CollectorRegistry())) for _ in range(2))
        same = asked(asking(session_id="s"), talk())
        late = asyncio.create_task(one.run(same))
        await asyncio.to_thread(upstream.asked.wait)
        watch.seconds += 3_600
        assert (await other.run(same))[0].failed is None
        kept = await contexts.sessions.peek("s")
        released.set()
        with pytest.raises(CompactingAlready):
            await late
        assert await contexts.sessions.peek("s") == kept
        await contexts.close()

    asyncio.run(one_is_late())


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


@dataclass
class Contested:
    """A store in which another process writes once between each of the next loads and saves."""

    store: Store
    contests: int = 0

    async def load(self, key: str) -> Held:
        return await self.store.load(key)

    async def save(self, key: str, remembered: Remembered, version: int) -> bool:
        if self.contests:
            self.contests -= 1
            held = await self.store.load(key)
            assert held.remembered is not None
            await self.store.save(key, replace(held.remembered, files="another's"), held.version)
        return await self.store.save(key, remembered, version)

    async def forget(self, key: str) -> bool:
        return await self.store.forget(key)

    async def ready(self) -> bool:
        return await self.store.ready()


@pytest.mark.parametrize("status", [None, 529])
def test_a_session_that_another_writes_meanwhile_still_ends_its_compaction(
    status: int | None, upstream: StandIn, upstream_url: str
) -> None:
    released = threading.Event()

    async def contested() -> None:
        _, contexts = built(upstream_url)
        store = Contested(contexts.sessions.store)
        contexts = replace(contexts, sessions=replace(contexts.sessions, store=store))
        running = compactions(contexts, Metrics(CollectorRegistry()))
        same = asked(asking(session_id="s", trigger="automatic"), talk())
        await contexts.answer(same.context)
        upstream.answer_next(Hold(released) if status is None else Failure(status))
        store.contests = 2
        run_ = asyncio.create_task(running.run(same))
        await asyncio.to_thread(upstream.asked.wait)
        store.contests = 1
        released.set()
        ran, _ = await run_
        kept = await contexts.sessions.peek("s")
        assert kept is not None
        assert (ran.failed is None, kept.compacting_until) == (status is None, None)
        assert kept.attempts.breaker.consecutive_failures == (0 if status is None else 1)
        assert store.contests == 0
        await contexts.close()

    asyncio.run(contested())


def test_a_session_that_is_gone_when_the_summary_comes_begins_with_it(upstream: StandIn, upstream_url: str) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))

    async def forgotten() -> None:
        running, contexts = built(upstream_url)
        same = asked(asking(session_id="s"), talk())
        task = asyncio.create_task(running.run(same))
        await asyncio.to_thread(upstream.asked.wait)
        assert await contexts.sessions.store.forget(f"strata:{contexts.sessions.version}:s")
        released.set()
        ran, context = await task
        kept = await contexts.sessions.peek("s")
        assert (ran.failed, context is None, kept is None) == (None, False, False)
        await contexts.close()

    asyncio.run(forgotten())


def test_an_exact_count_is_one_of_the_new_conversation(client: httpx.Client) -> None:
    body = begun(client, tokens={"method": "exact"})
    found = run(client, body)
    assert found["context"]["tokens"]["method"] == "exact"
    assert found["messages"][0]["meta"]["tokens"] < found["tokens_after"] < found["tokens_before"]
