"""What each tenant holds in Redis is bounded, whatever others do: with the real one."""

from __future__ import annotations

import asyncio
import re
from hashlib import shake_128

import pytest

from app.core.tenants import APART
from app.stores.bookings import AT_ONCE, ENTRY, NAMES, ROUNDS
from app.stores.redis import RedisStore
from app.stores.socket import Held
from tests.stores.booked import Books, books, dbsize, held
from tests.stores.opening import Kind, closing, session
from tests.stores.redis_server import RedisServer

BOOKS = 2
"""Keys in Redis for each tenant that holds something."""


def key(tenant: str, name: object = "s", service: str = "1") -> str:
    return f"strata:{service}:{tenant}{APART}{name}"


async def turn(store: RedisStore, name: str, date: str = "1", size: int = 1) -> Held:
    while True:
        held = await store.load(name)
        version = await store.save(name, session(date, size), held.version)
        if version:
            return Held(version, session(date, size))


def noise(at: int, size: int) -> str:
    """A text that does not become less when it is packed."""
    return "".join(chr(33 + one % 90) for one in shake_128(b"%d" % at).digest(size))


def test_a_tenant_that_floods_redis_ends_only_its_own_sessions_and_redis_stays_small(redis: RedisServer) -> None:
    async def flooded() -> None:
        kind = Kind(redis)
        async with closing(kind.store(most=20)) as one, closing(kind.store(most=20)) as other:
            kept = [await turn(other, key("b", at)) for at in range(20)]
            for at in range(200):
                await turn(one, key("a", at), size=1_000)
            assert dbsize(redis) == 40 + 2 * BOOKS
            assert one.figures().evicted == 180
            async with closing(kind.store(most=20)) as fresh:
                assert [await fresh.load(key("b", at)) for at in range(20)] == kept
                there = [(await fresh.load(key("a", at))).version > 0 for at in range(200)]
                assert there == [False] * 180 + [True] * 20

    asyncio.run(flooded())


def test_bytes_are_bounded_too(redis: RedisServer) -> None:
    async def flooded() -> None:
        kind = Kind(redis)
        most = 200_000
        async with closing(kind.store(most=1_000, most_bytes=most)) as store:
            kept = await turn(store, key("b"))
            for at in range(60):
                held = await store.load(key("a", at))
                text = noise(at, 10_000)
                await store.save(key("a", at), session(text, 1), held.version)
                assert books(redis, "a").total <= most
            assert 10 < len(books(redis, "a").rows) < 30
            assert used(redis) - empty_use < 2 * most
        async with closing(kind.store()) as fresh:
            assert await fresh.load(key("b")) == kept

    empty_use = used(redis)
    asyncio.run(flooded())


def used(redis: RedisServer) -> int:
    """Bytes of all that Redis holds, without what it takes itself."""
    said = redis.say("INFO", "memory")
    found = re.search(rb"used_memory_dataset:([0-9]+)", said)
    assert found
    return int(found[1])


def test_a_session_heavier_than_a_tenants_bound_is_alone(redis: RedisServer) -> None:
    async def heavy() -> None:
        async with closing(Kind(redis).store(most_bytes=ENTRY + NAMES * len(key("a", 1)))) as store:
            for at in range(3):
                await store.save(key("a", at), session(), 0)
            assert list(books(redis, "a").rows) == [key("a", 2)]

    asyncio.run(heavy())


def test_what_is_written_again_is_no_more_the_oldest(redis: RedisServer) -> None:
    async def again() -> list[bool]:
        async with closing(Kind(redis).store(most=3)) as store:
            for at in (0, 1, 2, 0, 3, 4):
                await turn(store, key("a", at), str(at))
        async with closing(Kind(redis).store(most=3)) as fresh:
            return [(await fresh.load(key("a", at))).version > 0 for at in range(5)]

    assert asyncio.run(again()) == [True, False, False, True, True]


def test_keys_with_any_roots_and_services_of_any_version_are_one_tenant(redis: RedisServer) -> None:
    async def one_tenant() -> None:
        async with closing(Kind(redis).store(most=2)) as store:
            for name in (key("a"), key("a/roots"), key("a", service="2"), key("a/others", service="2")):
                await turn(store, name)
            assert list(books(redis, "a").rows) == [key("a", service="2"), key("a/others", service="2")]
            assert dbsize(redis) == 2 + BOOKS

    asyncio.run(one_tenant())


def test_callers_who_are_not_told_apart_are_one_tenant(redis: RedisServer) -> None:
    async def flooded() -> None:
        async with closing(Kind(redis).store(most=5)) as store:
            for at in range(12):
                await turn(store, f"strata:1:{at}")
            assert dbsize(redis) == 5 + BOOKS

    asyncio.run(flooded())


def test_marks_of_deletions_count(redis: RedisServer) -> None:
    async def deleted() -> None:
        async with closing(Kind(redis).store(most=5)) as store:
            await turn(store, key("b"))
            for at in range(20):
                await turn(store, key("a", at))
                await store.forget(key("a", at))
                assert not await store.forget(key("a", f"never {at}"))
            assert dbsize(redis) == 5 + 1 + 2 * BOOKS
            assert store.figures().evicted == 0

    asyncio.run(deleted())


def test_what_had_to_go_comes_back_from_a_process_that_holds_it(redis: RedisServer) -> None:
    async def back() -> None:
        kind = Kind(redis)
        async with closing(kind.store(most=3)) as one, closing(kind.store(most=3)) as other:
            held = await turn(one, key("a", "kept"), "kept")
            assert await other.load(key("a", "kept")) == held
            for at in range(4):
                await turn(other, key("a", at))
            assert redis.say("EXISTS", key("a", "kept")) == b":0\r\n"
            assert await one.load(key("a", "kept")) == held
            assert await other.load(key("a", "kept")) == held
            latest = await turn(one, key("a", "kept"), "later")
            assert await other.load(key("a", "kept")) == latest
            assert (one.figures().written_back, one.notices(key("a", "kept"), session())) == (1, ())

    asyncio.run(back())


def test_a_session_whose_copy_is_older_than_what_had_to_go_goes_on_from_it(redis: RedisServer) -> None:
    async def back() -> None:
        kind = Kind(redis)
        async with closing(kind.store(most=3)) as one, closing(kind.store(most=3)) as other:
            held = await turn(one, key("a", "kept"), "1")
            await turn(other, key("a", "kept"), "2")
            for at in range(3):
                await turn(other, key("a", at))
            assert await one.load(key("a", "kept")) == held
            assert one.notices(key("a", "kept"), session()) == ()

    asyncio.run(back())


def test_a_lost_race_and_an_empty_deletion_leave_what_is_booked_as_it_is(redis: RedisServer) -> None:
    async def raced() -> None:
        async with closing(Kind(redis).store()) as store:
            held = await turn(store, key("a"), size=5_000)
            before = books(redis, "a")
            assert await store.save(key("a"), session("lost", 1), held.version + 1) == 0
            assert books(redis, "a") == before
            assert await store.forget(key("a"))
            marked = books(redis, "a")
            assert not await store.forget(key("a"))
            assert books(redis, "a") == marked
            assert before.total > marked.total == ENTRY + NAMES * len(key("a"))

    asyncio.run(raced())


ORDER, ROWS = "<order>", "<rows>"
NO_TEXT = "redis.call('ZADD', KEYS[1], 0, '\\255') return redis.call('HSET', KEYS[2], '\\255', '1 1')"
BROKEN: dict[str, list[list[str]]] = {
    "gone": [["DEL", ORDER, ROWS]],
    "an order without rows": [["DEL", ROWS]],
    "rows without an order": [["DEL", ORDER]],
    "a text": [["SET", ORDER, "x"]],
    "a list": [["DEL", ROWS], ["LPUSH", ROWS, "x"]],
    "no total": [["HDEL", ROWS, "total"]],
    "a total of words": [["HSET", ROWS, "total", "x"]],
    "a total below nothing": [["HSET", ROWS, "total", "-5"]],
    "a total that is too small": [["HSET", ROWS, "total", "1"]],
    "a total beyond counting": [["HSET", ROWS, "total", "9" * 40]],
    "a huge total": [["HSET", ROWS, "total", "9" * 15]],
    "a row more": [["HSET", ROWS, ":x", "1 1"]],
    "a rank more": [["ZADD", ORDER, "1", ":x"]],
    "a rank without end": [["ZADD", ORDER, "inf", "<first>"]],
    "a rank below all": [["ZADD", ORDER, "-inf", "<first>"]],
    "ranks below all": [["DEL", ORDER], ["ZADD", ORDER, "-inf", "<first>", "-inf", ":y", "-inf", ":z"]],
    "a rank beyond counting": [["ZADD", ORDER, "1e300", "<first>"]],
    "a row of words": [["HSET", ROWS, "<first>", "x y"]],
    "an empty row": [["HSET", ROWS, "<first>", ""]],
    "a long row": [["HSET", ROWS, "<first>", "1 " * 10_000]],
    "a cost without end": [["HSET", ROWS, "<first>", "1 inf"]],
    "a huge cost": [["HSET", ROWS, "<first>", "1 999999999999999"]],
    "a name that is no text": [["EVAL", NO_TEXT, "2", ORDER, ROWS]],
}  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN)
def test_books_that_somebody_broke_cost_no_turn_and_bound_again_what_is_written_from_then_on(
    broken: str, redis: RedisServer
) -> None:
    async def forged() -> None:
        async with closing(Kind(redis).store(most=3)) as store:
            for at in range(3):
                await turn(store, key("a", at))
            named = books(redis, "a").names | {"<first>": b":" + key("a", 0).encode()}
            for words in BROKEN[broken]:
                said = redis.say(*(named.get(word, word) for word in words))
                assert not said.startswith(b"-"), said
            for at in range(10):
                kept = await turn(store, key("a", f"new {at}"), size=100 * at)
                assert await store.load(key("a", f"new {at}")) == kept
            assert (store.alone, dict(store.figures().failures)) == (False, {})
            assert len(books(redis, "a").rows) <= 3
            assert {key("a", f"new {at}") for at in (8, 9)} <= set(held(redis))
            assert dbsize(redis) <= 3 + 3 + 1 + BOOKS

    asyncio.run(forged())


def test_books_that_name_what_is_anothers_remove_nothing_of_it(redis: RedisServer) -> None:
    async def forged() -> None:
        async with closing(Kind(redis).store(most=2)) as store:
            kept = await turn(store, key("b"))
            redis.say("HSET", "something of others", "by", "7")
            await turn(store, key("a", 0))
            names = books(redis, "a").names
            for name in (key("b"), "something of others"):
                by = kept.version if name == key("b") else 7
                redis.say("ZADD", names[ORDER], "0", b":" + name.encode())
                redis.say("HSET", names[ROWS], b":" + name.encode(), f"{by} 0")
            for at in range(1, 4):
                await turn(store, key("a", at))
            assert list(books(redis, "a").rows) == [key("a", 2), key("a", 3)]
            assert redis.say("EXISTS", "something of others", key("b")) == b":2\r\n"

    asyncio.run(forged())


def test_what_is_booked_lives_a_little_longer_than_what_it_is_of(redis: RedisServer) -> None:
    def left(name: str | bytes) -> int:
        return int(redis.say("PTTL", name)[1:])

    async def lived() -> None:
        kind = Kind(redis)
        async with closing(kind.store(idle_seconds=1000)) as store:
            await turn(store, key("a"))
            names = books(redis, "a").names.values()
            for name in names:
                assert left(key("a")) < left(name) <= 1_001_000
                redis.say("PEXPIRE", name, "5000")
            kind.clock.seconds += 100
            await store.load(key("a"))
            for name in names:
                assert 900_000 < left(key("a")) < left(name) <= 1_001_000

    asyncio.run(lived())


def test_no_more_goes_at_once_than_is_quickly_done_and_the_rest_with_the_next_writes(redis: RedisServer) -> None:
    async def fewer() -> None:
        kind = Kind(redis)
        most = AT_ONCE * ROUNDS
        async with closing(kind.store(most=2 * most)) as store:
            await asyncio.gather(*(store.save(key("a", at), session(), 0) for at in range(most + 300)))
        async with closing(kind.store(most=10)) as store:
            for left in (301, 10, 10):
                await turn(store, key("a", f"new {left}"))
                assert len(books(redis, "a").rows) == left
            assert dbsize(redis) == 10 + BOOKS

    asyncio.run(fewer())


def test_a_write_between_booking_and_removal_is_kept(redis: RedisServer) -> None:
    """As when a process stood still between the two."""

    async def between() -> None:
        async with closing(Kind(redis).store(most=2)) as store:
            for at in range(2):
                await turn(store, key("a", at))
            rows = books(redis, "a").rows
            call = store._hashes._bookings.call(key("a", 2), 77, 10)
            (going,) = await store._connection.ask(call)
            assert going == [b":" + key("a", 0).encode(), rows[key("a", 0)].partition(" ")[0].encode()]
            held = await turn(store, key("a", 0), "again")
            await store._hashes._bookings.make_room(key("a", 2), going)
            assert await store.load(key("a", 0)) == held
            assert await store.version(key("a", 1)) == 0
            assert list(books(redis, "a").rows) == [key("a", 2), key("a", 0)]

    asyncio.run(between())


def test_what_a_booking_takes_is_no_more_than_what_is_counted(redis: RedisServer) -> None:
    async def measured() -> None:
        kind = Kind(redis)
        async with closing(kind.store(most=100)) as store:
            for at in range(100):
                await turn(store, key("tenant" * 5, f"{at:032}"))
            await store.forget(key("tenant" * 5, f"{5:032}"))
            found = books(redis, "tenant" * 5)
            keys = [*found.rows, *found.names.values()]
            taken = sum(int(redis.say("MEMORY", "USAGE", one, "SAMPLES", "0")[1:]) for one in keys)
            assert found.total / 3 < taken < found.total

    asyncio.run(measured())


def test_a_full_redis_still_books_deletions(own_redis: RedisServer) -> None:
    async def full() -> Books:
        async with closing(Kind(own_redis).store(most=5)) as store:
            for at in range(5):
                await turn(store, key("a", at))
            own_redis.say("CONFIG", "SET", "maxmemory", "1")
            for at in range(5):
                assert await store.forget(key("a", at))
            for at in range(30):
                assert not await store.forget(key("a", f"never {at}"))
            assert (store.alone, dict(store.figures().failures)) == (False, {})
            assert dbsize(own_redis) == 5 + BOOKS
            return books(own_redis, "a")

    assert len(asyncio.run(full()).rows) == 5


def test_redis_that_takes_no_bookings_takes_sessions_and_says_so_in_the_figures(own_redis: RedisServer) -> None:
    own_redis.say("ACL", "SETUSER", "default", "resetkeys", "~strata:1:*", "~strata:reached")

    async def forbidden() -> None:
        async with closing(Kind(own_redis).store(most=5)) as store:
            held = await turn(store, key("a"))
            assert await store.load(key("a")) == held
            assert (store.alone, set(store.figures().failures)) == (False, {"refused"})

    asyncio.run(forbidden())
