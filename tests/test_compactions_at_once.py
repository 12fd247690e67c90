"""Several compactions of a session at once, in one process and in two."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from app.building import build_contexts, compactions
from app.compacting import Compactions
from app.context import Contexts
from app.core.remembered import Remembered
from app.errors import CompactingAlready
from app.metrics import Metrics
from app.settings import Settings
from app.wire.compactions import CompactionAsk, CompactionRequest, compaction_ask
from app.wire.requests import Server
from tests.asking import bare
from tests.compacting import KEY, LONG, Watch, asking, talk, timed
from tests.passing import Passing
from tests.standin.server import Failure, Hold, StandIn

SERVER = Server("linux", None, "2026-11-30")


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


@dataclass
class Contested(Passing):
    """A store in which another process writes once between each of the next loads and saves."""

    contests: int = 0

    async def save(self, key: str, remembered: Remembered, version: int) -> int:
        if self.contests:
            self.contests -= 1
            held = await self.store.load(key)
            assert held.remembered is not None
            await self.store.save(key, replace(held.remembered, files="another's"), held.version)
        return await self.store.save(key, remembered, version)


@pytest.mark.parametrize(("reply", "failures"), [("Understood.", 0), (LONG * 18, 1)])
def test_a_session_that_another_writes_meanwhile_still_ends_its_compaction(
    reply: str, failures: int, upstream: StandIn, upstream_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    async def contested() -> None:
        _, contexts = built(upstream_url)
        store = Contested(contexts.sessions.store)
        contexts = replace(contexts, sessions=replace(contexts.sessions, store=store))
        running = compactions(contexts, Metrics(CollectorRegistry()))
        same = asked(asking(session_id="s", trigger="automatic"), talk())
        await contexts.answer(same.context)
        monkeypatch.setattr(upstream, "reply", reply)
        upstream.answer_next(Hold(released))
        store.contests = 2
        run_ = asyncio.create_task(running.run(same))
        await asyncio.to_thread(upstream.asked.wait)
        store.contests = 1
        released.set()
        ran, _ = await run_
        kept = await contexts.sessions.peek("s")
        assert kept is not None
        assert (ran.failed is None, kept.compacting_until) == (failures == 0, None)
        assert kept.attempts.breaker.consecutive_failures == failures
        assert store.contests == 0
        await contexts.close()

    asyncio.run(contested())


@pytest.mark.parametrize(("reply", "helped"), [("Understood.", True), (LONG * 18, False)])
def test_a_session_that_was_deleted_meanwhile_stays_deleted_and_the_answer_is_given(
    reply: str, helped: bool, upstream: StandIn, upstream_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(upstream, "reply", reply)
    upstream.answer_next(Hold(released))

    async def deleted() -> None:
        running, contexts = built(upstream_url)
        same = asked(asking(session_id="s", trigger="automatic"), talk())
        task = asyncio.create_task(running.run(same))
        await asyncio.to_thread(upstream.asked.wait)
        assert await contexts.sessions.forget("s")
        released.set()
        ran, context = await task
        assert (ran.failed is None, context is not None) == (helped, helped)
        assert await contexts.sessions.peek("s") is None
        assert ran.breaker.consecutive_failures == (0 if helped else 1)
        await contexts.close()

    asyncio.run(deleted())
