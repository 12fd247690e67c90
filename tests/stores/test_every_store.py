"""What holds of every store of sessions, in one process."""

from __future__ import annotations

import asyncio

import pytest

from app.stores.shelf import bytes_of
from app.stores.socket import Held, Store
from tests.stores.opening import Kind, session

HOSTILE = ["a:b", "a b", "a\r\nDEL a\r\n", "{a}", "{}", "*", "", "\x00", "\ud83d\ude00", "😀", "\udcff", "a" * 10_000]


def test_what_was_never_saved_is_not_there(kind: Kind) -> None:
    async def nothing(store: Store) -> tuple[Held, int]:
        return await store.load("a"), await store.version("a")

    assert kind.run(nothing) == (Held(0, None), 0)


def test_what_was_saved_is_there_as_the_version_that_saving_told(kind: Kind) -> None:
    async def saved(store: Store) -> None:
        first = await store.save("a", session("one"), 0)
        second = await store.save("a", session("two"), first)
        assert await store.load("a") == Held(second, session("two"))
        assert await store.version("a") == second
        assert 0 not in {first, second}
        assert first != second

    kind.run(saved)


def test_a_write_over_another_version_changes_nothing(kind: Kind) -> None:
    async def lost(store: Store) -> None:
        first = await store.save("a", session("one"), 0)
        held = Held(await store.save("a", session("two"), first), session("two"))
        for version in (0, first, held.version + 1):
            assert await store.save("a", session("late"), version) == 0
            assert await store.load("a") == held

    kind.run(lost)


def test_a_write_over_a_version_that_is_gone_changes_nothing(kind: Kind) -> None:
    async def gone(store: Store) -> tuple[int, Held]:
        return await store.save("a", session(), 3), await store.load("a")

    assert kind.run(gone) == (0, Held(0, None))


def test_of_writes_at_once_one_is_taken(kind: Kind) -> None:
    async def raced(store: Store) -> None:
        version = await store.save("a", session(), 0)
        saved = await asyncio.gather(*(store.save("a", session(str(at)), version) for at in range(20)))
        (taken,) = [at for at, written in enumerate(saved) if written]
        assert await store.load("a") == Held(saved[taken], session(str(taken)))

    kind.run(raced)


def test_no_turn_of_many_at_once_is_lost(kind: Kind) -> None:
    async def counted(store: Store) -> None:
        async def one_more() -> None:
            while True:
                held = await store.load("a")
                written = int(held.remembered.date) if held.remembered else 0
                if await store.save("a", session(str(written + 1)), held.version):
                    return

        await asyncio.gather(*(one_more() for _ in range(25)))
        assert (await store.load("a")).remembered == session("25")

    kind.run(counted)


def test_what_is_forgotten_is_not_there(kind: Kind) -> None:
    async def forgotten(store: Store) -> list[object]:
        await store.save("a", session(), 0)
        return [
            await store.forget("a"),
            await store.forget("a"),
            await store.load("a"),
            await store.version("a"),
            await store.forget("b"),
        ]

    assert kind.run(forgotten) == [True, False, Held(0, None), 0, False]


def test_a_session_can_begin_again_after_it_was_forgotten(kind: Kind) -> None:
    async def again(store: Store) -> None:
        for at in range(12):
            version = await store.save("a", session(str(at)), 0)
            assert await store.load("a") == Held(version, session(str(at)))
            assert await store.forget("a")

    kind.run(again)


def test_what_was_loaded_before_a_session_was_forgotten_is_not_taken_for_the_one_after_it(kind: Kind) -> None:
    async def forgotten(store: Store) -> None:
        await store.save("a", session("old"), 0)
        old = await store.load("a")
        await store.forget("a")
        assert await store.save("a", session("late"), old.version) == 0
        await store.save("a", session("new"), 0)
        assert await store.save("a", session("late"), old.version) == 0
        assert (await store.load("a")).remembered == session("new")

    kind.run(forgotten)


@pytest.mark.parametrize("use", ["load", "version"])
def test_an_idle_session_ends_and_one_in_use_does_not(use: str, kind: Kind) -> None:
    async def idle(store: Store) -> list[bool]:
        for key in ("used", "idle"):
            await store.save(key, session(), 0)
        kind.wait(600)
        assert await (store.load("used") if use == "load" else store.version("used"))
        kind.wait(600)
        return [(await store.load(key)).version > 0 for key in ("used", "idle")]

    assert kind.run(idle) == [True, False]


def test_a_session_heavier_than_all_may_be_is_not_kept_nor_what_it_was_and_the_others_stay(kind: Kind) -> None:
    async def too_heavy(store: Store) -> None:
        other = await store.save("a", session(), 0)
        version = await store.save("b", session(), 0)
        assert await store.save("b", session("b", 6_000), version)
        assert await store.load("b") == Held(0, None)
        assert await store.version("b") == 0
        assert await store.load("a") == Held(other, session())
        again = await store.save("b", session("again"), 0)
        assert await store.load("b") == Held(again, session("again"))

    kind.run(too_heavy, most_bytes=bytes_of(session(size=5_000)))


def test_that_a_session_is_not_kept_is_told_with_both_sizes_and_the_setting(kind: Kind) -> None:
    async def told(store: Store) -> str:
        assert store.notices("a", session(size=1)) == ()
        (notice,) = store.notices("a", session(size=3 * 1024 * 1024))
        assert (notice.code, notice.where) == ("session_not_kept", "session_id")
        return notice.message

    message = kind.run(told, most_bytes=2 * 1024 * 1024)
    assert [part in message for part in ("3.0 MiB", "2.0 MiB", "STRATA_MAX_SESSION_BYTES")] == [True] * 3


def test_sessions_of_any_names_are_kept_apart(kind: Kind) -> None:
    async def named(store: Store) -> None:
        versions = {key: await store.save(key, session(repr(key)[:50]), 0) for key in HOSTILE}
        for key, version in versions.items():
            assert await store.load(key) == Held(version, session(repr(key)[:50]))
        assert len(set(versions.values())) == len(HOSTILE)

    kind.run(named)


def test_it_can_be_reached_and_says_what_it_holds(kind: Kind) -> None:
    async def reached(store: Store) -> None:
        await store.save("a", session(size=5_000), 0)
        assert await store.ready()
        assert store.alone is False
        figures = store.figures()
        assert (figures.sessions, figures.bytes) == (1, bytes_of(session(size=5_000)))
        assert (figures.reachable, dict(figures.failures)) == (True, {})

    kind.run(reached)
