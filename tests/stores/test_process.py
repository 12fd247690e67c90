from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from app.core.remembered import Remembered
from app.stores.process import ProcessStore
from app.stores.socket import Held


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def store(clock: Clock, most: int = 2, idle_seconds: float = 10) -> ProcessStore:
    return ProcessStore(most, idle_seconds, clock)


def remembered(workspace: str) -> Remembered:
    return Remembered(workspace, "2026-11-30", "2026-11-30")


def test_what_was_never_saved_is_version_0(clock: Clock) -> None:
    assert asyncio.run(store(clock).load("a")) == Held(0, None)


def test_what_was_saved_is_there_with_the_next_version(clock: Clock) -> None:
    async def saved() -> Held:
        kept = store(clock)
        assert await kept.save("a", remembered("one"), 0)
        assert await kept.save("a", remembered("two"), 1)
        return await kept.load("a")

    assert asyncio.run(saved()) == Held(2, remembered("two"))


@pytest.mark.parametrize("version", [0, 2])
def test_a_write_over_another_version_changes_nothing(version: int, clock: Clock) -> None:
    async def lost() -> Held:
        kept = store(clock)
        assert await kept.save("a", remembered("one"), 0)
        assert not await kept.save("a", remembered("late"), version)
        return await kept.load("a")

    assert asyncio.run(lost()) == Held(1, remembered("one"))


def test_a_first_write_over_a_version_that_is_gone_changes_nothing(clock: Clock) -> None:
    async def gone() -> Held:
        kept = store(clock)
        assert not await kept.save("a", remembered("one"), 3)
        return await kept.load("a")

    assert asyncio.run(gone()) == Held(0, None)


def test_what_is_forgotten_is_not_there(clock: Clock) -> None:
    async def forgotten() -> list[object]:
        kept = store(clock)
        await kept.save("a", remembered("one"), 0)
        return [await kept.forget("a"), await kept.forget("a"), await kept.load("a")]

    assert asyncio.run(forgotten()) == [True, False, Held(0, None)]


def test_an_idle_session_ends_and_one_in_use_does_not(clock: Clock) -> None:
    async def idle() -> list[int]:
        kept = store(clock)
        await kept.save("used", remembered("one"), 0)
        await kept.save("idle", remembered("two"), 0)
        clock.seconds = 9
        await kept.load("used")
        clock.seconds = 18
        return [(await kept.load(key)).version for key in ("used", "idle")]

    assert asyncio.run(idle()) == [1, 0]


def test_the_session_that_was_used_longest_ago_makes_room(clock: Clock) -> None:
    async def crowded() -> list[int]:
        kept = store(clock)
        for key in ("a", "b"):
            await kept.save(key, remembered(key), 0)
        await kept.load("a")
        await kept.save("c", remembered("c"), 0)
        return [(await kept.load(key)).version > 0 for key in ("a", "b", "c")]

    assert asyncio.run(crowded()) == [True, False, True]


def test_what_was_loaded_before_a_session_was_forgotten_is_not_taken_for_the_one_after_it(clock: Clock) -> None:
    async def forgotten() -> bool:
        kept = store(clock)
        await kept.save("a", remembered("old"), 0)
        old = await kept.load("a")
        await kept.forget("a")
        await kept.save("a", remembered("new"), 0)
        return await kept.save("a", remembered("late"), old.version)

    assert asyncio.run(forgotten()) is False


def test_it_can_always_be_reached(clock: Clock) -> None:
    assert asyncio.run(store(clock).ready())
