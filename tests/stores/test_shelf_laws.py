"""What holds of a room that tenants share, after any operations."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.stores.shares import tenant_of
from app.stores.shelf import Shelf
from tests.stores.opening import Clock

TENANTS = st.sampled_from(["", "one", "two", "three"])
NAMES = st.sampled_from([*"abcde"])


def key_of(tenant: str, name: str) -> str:
    return f"strata:1:{tenant}\x1f{name}"


class Tenants(RuleBasedStateMachine):
    """``uses`` has each key that was put and not taken, with its size and its last use, the least first."""

    @initialize(most=st.integers(1, 8), most_bytes=st.integers(1, 40), idle=st.integers(2, 12))
    def begin(self, most: int, most_bytes: int, idle: int) -> None:
        self.most, self.most_bytes, self.idle, self.clock = most, most_bytes, idle, Clock()
        self.shelf: Shelf[int] = Shelf(most, most_bytes, idle, self.clock)
        self.uses: dict[str, tuple[int, float]] = {}

    def held(self) -> dict[str, int]:
        """Sizes of what is there, used longest ago first."""
        there = set(self.shelf)
        return {key: size for key, (size, _) in self.uses.items() if key in there}

    def used(self, key: str, size: int) -> None:
        self.uses.pop(key, None)
        self.uses[key] = size, self.clock()

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        before = self.held()
        self.clock.seconds += seconds
        ended = {key for key in before if self.clock() - self.uses[key][1] >= self.idle}
        assert set(before) - set(self.held()) == ended

    @rule(tenant=TENANTS, name=NAMES)
    def get(self, tenant: str, name: str) -> None:
        key = key_of(tenant, name)
        size = self.shelf.get(key)
        assert size == self.held().get(key)
        if size is not None:
            self.used(key, size)

    @rule(tenant=TENANTS, name=NAMES)
    def pop(self, tenant: str, name: str) -> None:
        before, key = self.held(), key_of(tenant, name)
        assert self.shelf.pop(key) == before.pop(key, None)
        assert self.held() == before

    @rule(tenant=TENANTS, name=NAMES, size=st.integers(0, 45))
    def put(self, tenant: str, name: str, size: int) -> None:
        key, before = key_of(tenant, name), self.held()
        before.pop(key, None)
        tenants = {tenant, *map(tenant_of, before)}
        kept = self.shelf.put(key, size, size)
        if kept:
            self.used(key, size)
        after = self.held()
        assert (key in after) == kept
        lost = [one for one in before if one not in after]
        self.only_what_was_short_and_held_most_went(before, lost, size, tenants - {tenant})
        self.the_oldest_of_each_went(before, lost)
        self.what_is_within_an_equal_share_is_kept(kept, size, len(tenants))
        assert kept or not lost

    def only_what_was_short_and_held_most_went(
        self, before: dict[str, int], lost: list[str], size: int, others: set[str]
    ) -> None:
        counts, sizes = Counter(map(tenant_of, before)), Counter[str]()
        for key, one in before.items():
            sizes[tenant_of(key)] += one
        tenants = len(others) + 1
        for other in others & set(map(tenant_of, lost)):
            over_count = len(before) + 1 > self.most and counts[other] * tenants > self.most
            over_bytes = sum(sizes.values()) + size > self.most_bytes and sizes[other] * tenants > self.most_bytes
            assert over_count or over_bytes

    @staticmethod
    def the_oldest_of_each_went(before: dict[str, int], lost: list[str]) -> None:
        for tenant in set(map(tenant_of, lost)):
            keys = [key for key in before if tenant_of(key) == tenant]
            gone = [key for key in lost if tenant_of(key) == tenant]
            assert keys[: len(gone)] == gone

    def what_is_within_an_equal_share_is_kept(self, kept: bool, size: int, tenants: int) -> None:
        assert kept or size > self.most_bytes // tenants
        assert not kept or size <= self.most_bytes

    @invariant()
    def the_bounds_hold(self) -> None:
        assert len(self.shelf) == len(self.held()) <= self.most
        assert self.shelf.bytes == sum(self.held().values()) <= self.most_bytes

    @invariant()
    def what_tenants_hold_is_what_is_there(self) -> None:
        room = 10**6
        assert self.shelf._holdings.left_for("nobody", room) == room - self.shelf.bytes

    @invariant()
    def nothing_is_left_of_tenants_that_hold_nothing(self) -> None:
        assert len(self.shelf._holdings) == len(set(map(tenant_of, self.held())))


Tenants.TestCase.settings = settings(max_examples=250, stateful_step_count=50, deadline=None)
TestAnyOperationsOfTenants = Tenants.TestCase
