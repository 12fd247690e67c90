from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

import pytest

from app.core.remembered import Remembered
from app.core.weight import weight
from app.stores.process import ENTRY, ProcessStore
from app.stores.socket import Held


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def store(clock: Clock, most: int = 2, idle_seconds: float = 10, most_bytes: int = 10**9) -> ProcessStore:
    return ProcessStore(most, most_bytes, idle_seconds, clock)


def remembered(workspace: str, size: int = 1) -> Remembered:
    return Remembered(workspace, "2026-11-30", {"date": "2026-11-30"}, sections={"intro": "x" * size})


def held_bytes(size: int) -> int:
    return ENTRY + weight(remembered("w", size))


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


def test_the_sessions_used_longest_ago_make_room_for_a_heavy_one(clock: Clock) -> None:
    async def crowded() -> list[bool]:
        kept = store(clock, most=9, most_bytes=held_bytes(5_000) + held_bytes(1_000))
        for key in ("a", "b", "c"):
            await kept.save(key, remembered("w", 1_000), 0)
        await kept.load("a")
        await kept.save("heavy", remembered("w", 5_000), 0)
        return [(await kept.load(key)).version > 0 for key in ("a", "b", "c", "heavy")]

    assert asyncio.run(crowded()) == [True, False, False, True]


def test_a_session_that_grows_makes_others_go_and_stays_itself(clock: Clock) -> None:
    async def grown() -> list[int]:
        kept = store(clock, most=9, most_bytes=2 * held_bytes(1_000))
        for key in ("a", "b"):
            await kept.save(key, remembered("w", 1_000), 0)
        assert await kept.save("a", remembered("w", 1_001), 1)
        return [(await kept.load(key)).version for key in ("a", "b")]

    assert asyncio.run(grown()) == [3, 0]


def test_a_session_that_weighs_as_much_as_all_may_is_kept_alone(clock: Clock) -> None:
    async def exact() -> tuple[list[int], int]:
        kept = store(clock, most_bytes=held_bytes(5_000))
        await kept.save("a", remembered("w"), 0)
        await kept.save("b", remembered("w", 5_000), 0)
        assert kept.notices(remembered("w", 5_000)) == ()
        return [(await kept.load(key)).version for key in ("a", "b")], kept.bytes

    assert asyncio.run(exact()) == ([0, 2], held_bytes(5_000))


def test_a_session_heavier_than_all_may_be_is_not_kept_nor_what_it_was_and_the_others_stay(clock: Clock) -> None:
    async def too_heavy() -> list[Held]:
        kept = store(clock, most_bytes=held_bytes(5_000))
        await kept.save("a", remembered("w"), 0)
        await kept.save("b", remembered("w"), 0)
        assert await kept.save("b", remembered("w", 5_001), 2)
        return [await kept.load(key) for key in ("a", "b")]

    assert asyncio.run(too_heavy()) == [Held(1, remembered("w")), Held(0, None)]


def test_a_session_that_was_not_kept_can_begin_anew(clock: Clock) -> None:
    async def anew() -> int:
        kept = store(clock, most_bytes=held_bytes(5_000))
        assert await kept.save("a", remembered("w", 5_001), 0)
        assert await kept.save("a", remembered("w"), 0)
        return (await kept.load("a")).version

    assert asyncio.run(anew()) > 0


def test_that_a_session_is_not_kept_is_told_with_both_sizes_and_the_setting(clock: Clock) -> None:
    kept = store(clock, most_bytes=2 * 1024 * 1024)
    (notice,) = kept.notices(remembered("w", 3 * 1024 * 1024))
    assert (notice.code, notice.where) == ("session_not_kept", "session_id")
    assert [part in notice.message for part in ("3.0 MiB", "2.0 MiB", "STRATA_MAX_SESSION_BYTES")] == [True] * 3


@pytest.mark.parametrize("idle_seconds", range(1, 10))
def test_time_that_passes_within_an_operation_ends_no_session_halfway(idle_seconds: int) -> None:
    moments = count()

    async def hurried() -> list[bool]:
        kept = ProcessStore(1, 10**9, idle_seconds, lambda: next(moments))
        done = []
        for at in range(50):
            held = await kept.load("a")
            done.append(await kept.save("a", remembered("w", at), held.version))
            await kept.save("b", remembered("w"), 0)
            if at % 2:
                await kept.forget("b")
        return done

    assert all(asyncio.run(hurried()))


def test_it_can_always_be_reached(clock: Clock) -> None:
    assert asyncio.run(store(clock).ready())
