"""What holds of the store in a process after any operations: a plain list says what it should hold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.core.remembered import Remembered
from app.core.weight import weight
from app.stores.process import ProcessStore
from app.stores.shelf import ENTRY
from app.stores.socket import Held

KEYS = st.sampled_from("abcde")
SIZES = st.sampled_from([0, 500, 2_000, 6_000, 20_000])
MOST = 3


def session(size: int) -> Remembered:
    return Remembered("w", "2026-11-30", sections={"intro": "x" * size})


def heavy(one: Remembered) -> int:
    return ENTRY + weight(one)


@dataclass(frozen=True)
class Expected:
    key: str
    held: Held
    used: int


@dataclass
class Model:
    """The sessions that should be there, the least recently used first."""

    most_bytes: int
    idle: int
    now: int = 0
    rows: list[Expected] = field(default_factory=list)

    def there(self, key: str) -> Held:
        """What is held; asking is use."""
        self.rows = [row for row in self.rows if self.now - row.used < self.idle]
        found = [row for row in self.rows if row.key == key]
        rest = [row for row in self.rows if row.key != key]
        self.rows = [*rest, *(replace(row, used=self.now) for row in found)]
        return found[0].held if found else Held(0, None)

    def write(self, key: str, held: Held) -> None:
        self.rows = [row for row in self.rows if row.key != key]
        if self.weighs([held]) <= self.most_bytes:
            self.rows.append(Expected(key, held, self.now))
        while len(self.rows) > MOST or self.weighs([row.held for row in self.rows]) > self.most_bytes:
            del self.rows[0]

    @staticmethod
    def weighs(held: list[Held]) -> int:
        return sum(heavy(one.remembered) for one in held if one.remembered)


class Stores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()

    def teardown(self) -> None:
        self.loop.close()

    @initialize(room=st.sampled_from([0, 500, 6_000, 9_000, 20_000]), idle=st.integers(1, 9))
    def begin(self, room: int, idle: int) -> None:
        self.model = Model(heavy(session(room)), idle)
        self.store = ProcessStore(MOST, self.model.most_bytes, idle, lambda: self.model.now)
        self.versions: list[int] = [0]

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.model.now += seconds

    @rule(key=KEYS)
    def load(self, key: str) -> None:
        assert self.loop.run(self.store.load(key)) == self.model.there(key)

    @rule(key=KEYS, size=SIZES)
    def go_on(self, key: str, size: int) -> None:
        before = self.model.there(key)
        assert self.loop.run(self.store.save(key, session(size), before.version))
        assert (self.store.notices(key, session(size)) != ()) == (heavy(session(size)) > self.model.most_bytes)
        self.model.write(key, Held(self.fresh_version(key, session(size)), session(size)))

    def fresh_version(self, key: str, one: Remembered) -> int:
        """That of what was just written, never given before; any where it was not kept."""
        held = self.loop.run(self.store.load(key))
        if heavy(one) > self.model.most_bytes:
            assert held == Held(0, None)
            return 0
        assert held.version not in self.versions
        self.versions.append(held.version)
        return held.version

    @precondition(lambda self: len(self.versions) > 1)
    @rule(key=KEYS, data=st.data())
    def write_over_another_version(self, key: str, data: Any) -> None:
        there = self.model.there(key).version
        other = data.draw(st.sampled_from([version for version in self.versions if version != there]))
        assert not self.loop.run(self.store.save(key, session(1), other))

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        there = self.model.there(key)
        assert self.loop.run(self.store.forget(key)) == (there.remembered is not None)
        self.model.rows = [row for row in self.model.rows if row.key != key]

    @invariant()
    def holds_no_more_than_it_may(self) -> None:
        if hasattr(self, "store"):
            assert self.store.bytes <= self.model.most_bytes
            self.model.there("none")
            assert self.store.bytes == self.model.weighs([row.held for row in self.model.rows])


Stores.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOperations = Stores.TestCase
