"""What is booked is what is there, and no more than may be, whatever two processes do at once."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from app.core.tenants import APART
from app.stores.bookings import ENTRY, NAMES
from app.stores.redis import RedisStore
from tests.stores.booked import books, held
from tests.stores.opening import Kind, closing, session
from tests.stores.redis_server import RedisServer

MOST, MOST_BYTES = 4, 4 * ENTRY + 700
KEYS = st.sampled_from([f"strata:1:{tenant}{APART}{name}" for tenant in ("a", "a/x", "b") for name in "123"])
WHO = st.integers(0, 1)
SIZES = st.integers(0, 400)


async def turn(store: RedisStore, key: str, text: str) -> None:
    while True:
        if await store.save(key, session(text), (await store.load(key)).version):
            return


class Booking(RuleBasedStateMachine):
    server: RedisServer

    @initialize()
    def begin(self) -> None:
        self.server.say("FLUSHALL")
        self.loop = asyncio.Runner()
        self.stores = [Kind(self.server).shared(self.server.url, most=MOST, most_bytes=MOST_BYTES) for _ in range(2)]
        self.texts = 0

    def teardown(self) -> None:
        for store in self.stores:
            self.loop.run(store.close())
        self.loop.close()

    def text(self, size: int) -> str:
        """Another one each time, of about ``size`` bytes however it is packed."""
        self.texts += 1
        return "".join(chr(33 + (self.texts * 37 + at * at * 101) % 90) for at in range(size)) + str(self.texts)

    @invariant()
    def what_is_booked_is_there_and_no_more_than_may_be(self) -> None:
        there = held(self.server)
        booked = {name: row for tenant in "ab" for name, row in books(self.server, tenant).rows.items()}
        assert booked == {
            name: f"{by} {ENTRY + NAMES * len(name.encode()) + size}" for name, (by, size) in there.items()
        }
        for tenant in "ab":
            found = books(self.server, tenant)
            assert found.is_whole
            assert len(found.rows) <= MOST
            assert found.total <= MOST_BYTES or len(found.rows) == 1

    @rule(key=KEYS, who=WHO, size=SIZES)
    def go_on(self, key: str, who: int, size: int) -> None:
        self.loop.run(turn(self.stores[who], key, self.text(size)))

    @rule(keys=st.lists(KEYS, min_size=2, max_size=6), size=SIZES)
    def go_on_at_once(self, keys: list[str], size: int) -> None:
        async def turns() -> None:
            await asyncio.gather(*(turn(self.stores[at % 2], key, self.text(size)) for at, key in enumerate(keys)))

        self.loop.run(turns())

    @rule(key=KEYS, who=WHO, version=st.integers(1, 9))
    def write_over_what_is_not_there(self, key: str, who: int, version: int) -> None:
        assert self.loop.run(self.stores[who].save(key, session(), version)) == 0

    @rule(key=KEYS, who=WHO)
    def look(self, key: str, who: int) -> None:
        self.loop.run(self.stores[who].load(key))

    @rule(key=KEYS, who=WHO)
    def forget(self, key: str, who: int) -> None:
        self.loop.run(self.stores[who].forget(key))

    @rule(keys=st.lists(KEYS, min_size=1, max_size=6))
    def forget_at_once(self, keys: list[str]) -> None:
        async def forgets() -> None:
            await asyncio.gather(*(self.stores[at % 2].forget(key) for at, key in enumerate(keys)))

        self.loop.run(forgets())

    @rule(key=KEYS, who=WHO, steps=st.integers(0, 12), size=SIZES)
    def give_up_and_ask_again(self, key: str, who: int, steps: int, size: int) -> None:
        async def given_up() -> None:
            task = asyncio.create_task(turn(self.stores[who], key, self.text(size)))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await turn(self.stores[who], key, self.text(size))

        self.loop.run(given_up())

    @rule()
    def lose_everything(self) -> None:
        self.server.say("FLUSHALL")

    @rule(key=KEYS)
    def lose_one(self, key: str) -> None:
        """As when its time is over; a next write does not mind."""
        self.server.say("DEL", key)
        self.loop.run(turn(self.stores[0], key, self.text(1)))


def test_what_is_booked_is_what_is_there(redis: RedisServer) -> None:
    machine = type("OnThisRedis", (Booking,), {"server": redis})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))


def test_turns_that_are_given_up_leave_redis_no_fuller_than_it_may_be(redis: RedisServer) -> None:
    """Many are cut off in the middle of their write, and never asked again."""

    async def given_up() -> None:
        async with closing(Kind(redis).shared(redis.url, most=MOST)) as store:
            for at in range(300):
                task = asyncio.create_task(turn(store, f"strata:1:a{APART}{at}", str(at)))
                for _ in range(at % 40):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            for at in range(MOST):
                await turn(store, f"strata:1:a{APART}last {at}", str(at))
            assert not store.alone
            assert sorted(held(redis)) == [f"strata:1:a{APART}last {at}" for at in range(MOST)]

    asyncio.run(given_up())
