"""Several processes on one Redis, each here a store of its own: one answer, whoever is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from app.core.remembered import Remembered
from app.core.tenants import APART
from app.stores.redis import RedisStore
from app.stores.shelf import bytes_of
from app.stores.socket import Held
from tests.stores.opening import Clock, Kind, closing, session
from tests.stores.redis_server import RedisServer

KEYS = st.sampled_from("abc")
WHO = st.integers(0, 1)


@asynccontextmanager
async def opened(redis: RedisServer, number: int = 2, **bounds: Any) -> AsyncIterator[list[RedisStore]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(closing(Kind(redis).shared(redis.url, **bounds))) for _ in range(number)]


async def one_more(store: RedisStore, key: str = "a") -> None:
    while True:
        held = await store.load(key)
        written = int(held.remembered.date) if held.remembered else 0
        if await store.save(key, session(str(written + 1)), held.version):
            return


def test_of_first_turns_at_once_in_several_processes_one_is_taken_and_the_others_told(redis: RedisServer) -> None:
    async def raced() -> None:
        async with opened(redis, 5) as stores:
            saved = await asyncio.gather(*(store.save("a", session(str(at)), 0) for at, store in enumerate(stores)))
            (first,) = [at for at, version in enumerate(saved) if version]
            for store in stores:
                assert await store.load("a") == Held(saved[first], session(str(first)))
            assert sum(store.figures().lost_races for store in stores) == 4

    asyncio.run(raced())


def test_no_turn_of_many_at_once_is_lost_and_none_counts_twice(redis: RedisServer) -> None:
    async def counted() -> list[Remembered | None]:
        async with opened(redis, 3) as stores:
            await asyncio.gather(*(one_more(store) for store in stores for _ in range(20)))
            return [(await store.load("a")).remembered for store in stores]

    assert asyncio.run(counted()) == [session("60")] * 3


def test_connections_that_are_cut_during_saves_cost_no_turn_and_double_none(redis: RedisServer) -> None:
    async def counted() -> Remembered | None:
        async with opened(redis, 1) as (store,):
            ended = asyncio.Event()

            async def cut() -> None:
                while not ended.is_set():
                    redis.say("CLIENT", "KILL", "TYPE", "normal")
                    await asyncio.sleep(0.001)

            cutting = asyncio.create_task(cut())
            await asyncio.gather(*(one_more(store, key) for key in "abcd" for _ in range(25)))
            ended.set()
            await cutting
            found = [(await store.load(key)).remembered for key in "abcd"]
            assert found == [session("25")] * 4
            return found[0]

    assert asyncio.run(counted()) == session("25")


@dataclass
class Cutting:
    """Stands before a Redis, and cuts the connection instead of handing on the answer to a script."""

    path: Path
    behind: Path
    cuts: int = 0
    open: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_unix_server(self._serve, str(self.path))
        try:
            yield f"unix://{self.path}"
        finally:
            server.close()
            for caller in self.open.values():
                caller.close()
            await asyncio.gather(*self.open)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self.open[task] = writer
        answers, asking = await asyncio.open_unix_connection(str(self.behind))
        with suppress(OSError):
            await self._hand_on(reader, writer, answers, asking)
        for end in (asking, writer):
            end.close()
            with suppress(OSError):
                await end.wait_closed()

    async def _hand_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        asking: asyncio.StreamWriter,
    ) -> None:
        while sent := await reader.read(65536):
            asking.write(sent)
            answer = await answers.read(65536)
            if b"EVALSHA" in sent and self.cuts and not answer.startswith(b"-NOSCRIPT"):
                self.cuts -= 1
                return
            writer.write(answer)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("cuts", [1, 2])
def test_a_save_whose_answer_is_lost_is_written_once(cuts: int, more: int, own_redis: RedisServer) -> None:
    """Once, the question is asked again; twice, the store goes on alone until it finds its own write."""

    async def cut() -> None:
        proxy = Cutting(own_redis.folder / "p", own_redis.socket)
        kind = Kind(own_redis)
        async with proxy.serving() as url, closing(kind.shared(url)) as store, opened(own_redis, 1) as (other,):
            await one_more(store)
            proxy.cuts = cuts
            await one_more(store)
            assert store.alone == (cuts == 2)
            for _ in range(more):
                await one_more(store)
            kind.clock.seconds += 5
            assert await store.ready()
            held = await store.load("a")
            assert held.remembered == session(str(2 + more))
            assert await other.load("a") == held
            assert [store.notices("a", session()), store.figures().diverged] == [(), 0]

    asyncio.run(cut())


def test_a_deletion_whose_answer_is_lost_was_one(own_redis: RedisServer) -> None:
    async def cut() -> None:
        proxy = Cutting(own_redis.folder / "p", own_redis.socket)
        async with proxy.serving() as url, closing(Kind(own_redis).shared(url)) as store:
            await one_more(store)
            proxy.cuts = 1
            assert await store.forget("a")
            assert not await store.forget("a")

    asyncio.run(cut())


def test_what_another_process_deleted_or_wrote_is_seen_at_once(redis: RedisServer) -> None:
    async def seen() -> None:
        async with opened(redis) as (one, other):
            for _ in range(3):
                await one_more(one)
                assert await other.version("a") == (await other.load("a")).version == await one.version("a")
                await one_more(other)
                assert (await one.load("a")).remembered == session("2")
                assert await other.forget("a")
                assert await one.load("a") == Held(0, None)

    asyncio.run(seen())


def test_a_session_too_heavy_for_this_process_is_gone_for_all(redis: RedisServer) -> None:
    async def heavy() -> None:
        async with opened(redis, most_bytes=bytes_of(session(size=5_000))) as (one, other):
            version = await one.save("a", session(), 0)
            await other.load("a")
            assert await one.save("a", session(size=6_000), version)
            assert await other.load("a") == Held(0, None)

    asyncio.run(heavy())


def test_copies_that_had_to_make_room_are_read_again(redis: RedisServer) -> None:
    async def crowded() -> None:
        async with opened(redis, 1, most=2) as (store,):
            keys = [f"strata:1:{tenant}{APART}s" for tenant in "abcdef"]
            for key in keys:
                await one_more(store, key)
            assert store.figures().sessions == 2
            for key in keys:
                assert (await store.load(key)).remembered == session("1")
                await one_more(store, key)
                assert (await store.load(key)).remembered == session("2")

    asyncio.run(crowded())


def test_a_large_session_travels_too(redis: RedisServer) -> None:
    async def large() -> None:
        text = "".join(chr(32 + at * 7919 % 50_000) for at in range(2_000_000)).encode("utf-8", "ignore").decode()
        one_large = Remembered("w", "d", {}, sections={"intro": text})
        async with opened(redis) as (one, other):
            version = await one.save("a", one_large, 0)
            assert await other.load("a") == Held(version, one_large)

    asyncio.run(large())


class Processes(RuleBasedStateMachine):
    """Two stores do what a dictionary does, also when Redis loses all of what both have seen."""

    server: RedisServer

    @initialize()
    def begin(self) -> None:
        self.server.say("FLUSHALL")
        self.loop = asyncio.Runner()
        self.stores = [Kind(self.server, Clock()).shared(self.server.url) for _ in range(2)]
        self.there: dict[str, Held] = {}
        self.versions = [0]
        self.dates = 0

    def teardown(self) -> None:
        for store in self.stores:
            self.loop.run(store.close())
        self.loop.close()

    def expected(self, key: str) -> Held:
        return self.there.get(key, Held(0, None))

    @rule(key=KEYS, who=WHO)
    def look(self, key: str, who: int) -> None:
        assert self.loop.run(self.stores[who].load(key)) == self.expected(key)
        assert self.loop.run(self.stores[who].version(key)) == self.expected(key).version

    @rule(key=KEYS, who=WHO)
    def go_on(self, key: str, who: int) -> None:
        self.dates += 1
        one = session(str(self.dates))
        version = self.loop.run(self.stores[who].save(key, one, self.expected(key).version))
        assert version not in self.versions
        self.versions.append(version)
        self.there[key] = Held(version, one)

    @rule(key=KEYS, who=WHO, data=st.data())
    def write_over_another_version(self, key: str, who: int, data: Any) -> None:
        version = data.draw(st.sampled_from(self.versions))
        if version != self.expected(key).version:
            assert self.loop.run(self.stores[who].save(key, session(), version)) == 0

    @rule(key=KEYS, who=WHO)
    def forget(self, key: str, who: int) -> None:
        assert self.loop.run(self.stores[who].forget(key)) == (key in self.there)
        self.there.pop(key, None)

    @rule(who=WHO)
    def lose_what_one_of_them_has_seen(self, who: int) -> None:
        for store in self.stores:
            for key in "abc":
                assert self.loop.run(store.load(key)) == self.expected(key)
        self.server.say("FLUSHALL")
        for key in "abc":
            assert self.loop.run(self.stores[who].load(key)) == self.expected(key)


def test_two_processes_hold_what_one_dictionary_would(redis: RedisServer) -> None:
    machine = type("OnThisRedis", (Processes,), {"server": redis})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None))
