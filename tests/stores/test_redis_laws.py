"""What holds of two processes and a Redis that refuses writes and loses all it has, in any order."""

from __future__ import annotations

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from app.core.remembered import Remembered
from app.stores.redis import RedisStore
from app.stores.socket import Held
from tests.stores.opening import Clock, Kind, session
from tests.stores.redis_server import RedisServer

KEYS = st.sampled_from("ab")
WHO = st.integers(0, 1)


class Faults(RuleBasedStateMachine):
    """``acted`` says for each session who did something to it since all agreed, and what is left of it by them."""

    server: RedisServer

    @initialize()
    def begin(self) -> None:
        self._refuse_writes("0")
        self.server.say("FLUSHALL")
        self.loop = asyncio.Runner()
        self.clock = Clock()
        self.stores = [Kind(self.server, self.clock).shared(self.server.url) for _ in range(2)]
        self.acted: dict[str, dict[int, Remembered | None]] = {"a": {}, "b": {}}
        self.agreed: dict[str, Remembered | None] = {"a": None, "b": None}
        self.dates = 0

    def teardown(self) -> None:
        self._refuse_writes("0")
        for store in self.stores:
            self.loop.run(store.close())
        self.loop.close()

    def _refuse_writes(self, replicas: str) -> None:
        self.server.say("CONFIG", "SET", "min-replicas-to-write", replicas)

    @rule(key=KEYS, who=WHO)
    def turn(self, key: str, who: int) -> None:
        self.dates += 1
        one = session(str(self.dates))
        version = self.loop.run(_turn(self.stores[who], key, one))
        assert self.loop.run(self.stores[who].load(key)) == Held(version, one)
        self.acted[key][who] = one

    @rule(key=KEYS, who=WHO)
    def forget(self, key: str, who: int) -> None:
        self.loop.run(self.stores[who].forget(key))
        assert self.loop.run(self.stores[who].load(key)) == Held(0, None)
        self.acted[key][who] = None

    @rule(key=KEYS, who=WHO)
    def look(self, key: str, who: int) -> None:
        held = self.loop.run(self.stores[who].load(key))
        mine, others = self.acted[key], 1 - who in self.acted[key]
        if not others:
            assert held.remembered == mine.get(who, self.agreed[key])

    @rule()
    def refuse(self) -> None:
        self._refuse_writes("1")

    @rule()
    def lose_everything(self) -> None:
        self._refuse_writes("0")
        self.server.say("FLUSHALL")

    @rule(key=KEYS, who=WHO, first=WHO, turns=st.integers(1, 3))
    def go_on_alone_and_come_back(self, key: str, who: int, first: int, turns: int) -> None:
        self.refuse()
        for _ in range(turns):
            self.turn(key, who)
        self.mend(first)

    @rule(first=WHO)
    def mend(self, first: int) -> None:
        """All agree; where one alone did something, on what that one did."""
        self._refuse_writes("0")
        self.clock.seconds += 2
        order = [self.stores[first], self.stores[1 - first]]
        assert [self.loop.run(store.ready()) for store in order] == [True, True]
        for key, acted in self.acted.items():
            for store in (*order, *order):
                self.loop.run(store.load(key))
            one, other = (self.loop.run(store.load(key)) for store in order)
            assert one == other
            if len(acted) < 2:
                assert one.remembered == next(iter(acted.values()), self.agreed[key])
            self.acted[key], self.agreed[key] = {}, one.remembered


async def _turn(store: RedisStore, key: str, one: Remembered) -> int:
    while True:
        version = await store.save(key, one, (await store.load(key)).version)
        if version:
            return version


def test_once_redis_is_back_all_agree_and_nothing_of_what_one_did_is_lost(own_redis: RedisServer) -> None:
    machine = type("OnThisRedis", (Faults,), {"server": own_redis})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))
