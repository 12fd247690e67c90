from __future__ import annotations

import asyncio
from itertools import count

import pytest

from app.core.remembered import Remembered
from app.core.tenants import name_in
from app.core.weight import weight
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.shelf import ENTRY
from app.stores.socket import Held
from tests.stores.opening import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


def store(clock: Clock, most: int = 2, idle_seconds: float = 10, most_bytes: int = 10**9) -> ProcessStore:
    return ProcessStore(most, most_bytes, idle_seconds, clock)


def remembered(workspace: str, size: int = 1) -> Remembered:
    return Remembered(workspace, "2026-11-30", {"date": "2026-11-30"}, sections={"intro": "x" * size})


def held_bytes(size: int) -> int:
    return ENTRY + weight(remembered("w", size))


def test_what_was_saved_is_there_with_the_next_version(clock: Clock) -> None:
    async def saved() -> Held:
        kept = store(clock)
        assert await kept.save("a", remembered("one"), 0)
        assert await kept.save("a", remembered("two"), 1)
        return await kept.load("a")

    assert asyncio.run(saved()) == Held(2, remembered("two"))


def test_the_session_that_was_used_longest_ago_makes_room(clock: Clock) -> None:
    async def crowded() -> list[int]:
        kept = store(clock)
        for key in ("a", "b"):
            await kept.save(key, remembered(key), 0)
        await kept.load("a")
        await kept.save("c", remembered("c"), 0)
        return [(await kept.load(key)).version > 0 for key in ("a", "b", "c")]

    assert asyncio.run(crowded()) == [True, False, True]


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
        assert kept.notices("b", remembered("w", 5_000)) == ()
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


@pytest.mark.parametrize("idle_seconds", range(1, 10))
def test_time_that_passes_within_an_operation_ends_no_session_halfway(idle_seconds: int) -> None:
    moments = count()

    async def hurried() -> list[int]:
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


def test_a_tenant_that_floods_pushes_out_no_session_of_another(clock: Clock) -> None:
    async def flooded() -> tuple[list[bool], int]:
        sessions = Sessions(store(clock, most=4), "1")
        names = [name_in("quiet", "a"), name_in("quiet/0123", "b")]
        for name in (*names, *(name_in("loud", str(at)) for at in range(50))):
            assert await sessions.save(name, remembered("w"), Held(0, None))
        return [(await sessions.peek(name)) is not None for name in names], sessions.figures().sessions

    assert asyncio.run(flooded()) == ([True, True], 4)


def test_a_session_that_finds_no_room_beside_another_tenant_begins_anew_and_is_told_so(clock: Clock) -> None:
    async def crowded() -> list[str]:
        sessions = Sessions(store(clock, most=9, most_bytes=held_bytes(9_000)), "1")
        quiet, heavy = name_in("quiet", "a"), name_in("heavy", "a")
        await sessions.save(quiet, remembered("w"), Held(0, None))
        await sessions.save(heavy, remembered("w"), Held(0, None))
        assert await sessions.save(heavy, remembered("w", 9_000), await sessions.load(heavy))
        assert await sessions.load(heavy) == Held(0, None)
        assert await sessions.peek(quiet) == remembered("w")
        return [one.code for one in sessions.notices(heavy, remembered("w", 9_000))]

    assert asyncio.run(crowded()) == ["session_not_kept"]
