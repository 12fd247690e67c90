"""Where callers are not told apart: what was used longest ago makes room, as a plain list says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.stores.shelf import Shelf
from tests.stores.opening import Clock

KEYS = st.sampled_from([*"abcdefgh"])
SPACES = st.sampled_from(["", "strata:1:", "strata:1:shop\x1f"])


@dataclass(frozen=True)
class Row:
    key: str
    value: int
    size: int
    used: float


@dataclass
class Plain:
    """The least recently used first."""

    most: int
    most_bytes: int
    idle: int
    clock: Clock
    rows: list[Row] = field(default_factory=list)

    def end_idle(self) -> None:
        self.rows = [row for row in self.rows if self.clock() - row.used < self.idle]

    def take(self, key: str) -> Row | None:
        self.end_idle()
        found = next((row for row in self.rows if row.key == key), None)
        self.rows = [row for row in self.rows if row.key != key]
        return found

    def get(self, key: str) -> int | None:
        found = self.take(key)
        if found:
            self.rows.append(replace(found, used=self.clock()))
        return found.value if found else None

    def peek(self, key: str) -> int | None:
        self.end_idle()
        return next((row.value for row in self.rows if row.key == key), None)

    def put(self, key: str, value: int, size: int) -> bool:
        self.take(key)
        if size > self.most_bytes:
            return False
        self.rows.append(Row(key, value, size, self.clock()))
        while len(self.rows) > self.most or sum(row.size for row in self.rows) > self.most_bytes:
            del self.rows[0]
        return True


class Shelves(RuleBasedStateMachine):
    @initialize(space=SPACES, most=st.integers(1, 5), most_bytes=st.integers(1, 30), idle=st.integers(1, 9))
    def begin(self, space: str, most: int, most_bytes: int, idle: int) -> None:
        self.space, self.clock, self.value = space, Clock(), 0
        self.plain = Plain(most, most_bytes, idle, self.clock)
        self.shelf: Shelf[int] = Shelf(most, most_bytes, idle, self.clock)

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.shelf.get(self.space + key) == self.plain.get(key)

    @rule(key=KEYS)
    def peek(self, key: str) -> None:
        assert self.shelf.peek(self.space + key) == self.plain.peek(key)

    @rule(key=KEYS, size=st.integers(0, 35))
    def put(self, key: str, size: int) -> None:
        self.value += 1
        assert self.shelf.put(self.space + key, self.value, size) == self.plain.put(key, self.value, size)

    @rule(key=KEYS)
    def pop(self, key: str) -> None:
        found = self.plain.take(key)
        assert self.shelf.pop(self.space + key) == (found.value if found else None)

    @invariant()
    def both_hold_the_same(self) -> None:
        self.plain.end_idle()
        assert set(self.shelf) == {self.space + row.key for row in self.plain.rows}
        assert len(self.shelf) == len(self.plain.rows)
        assert self.shelf.bytes == sum(row.size for row in self.plain.rows)


Shelves.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOperationsOfOneTenant = Shelves.TestCase
