"""A Redis that is slow, gone, full, read-only, or back without what it had: with the real one."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from app.stores.redis import PROBE_SECONDS, RedisStore
from app.stores.socket import Held
from tests.stores.opening import Kind, closing, session
from tests.stores.redis_server import RedisServer, redis_server

SECONDS = 0.2


@pytest.fixture
def shared(own_redis: RedisServer) -> Kind:
    return Kind(own_redis)


@asynccontextmanager
async def two(kind: Kind, seconds: float = 2.0) -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    assert kind.server
    async with (
        closing(kind.shared(kind.server.url, seconds=seconds)) as one,
        closing(kind.shared(kind.server.url, seconds=seconds)) as other,
    ):
        yield one, other


async def back(kind: Kind, *stores: RedisStore) -> None:
    """Once a second has passed, which is when Redis is asked again."""
    for store in stores:
        kind.clock.seconds += PROBE_SECONDS
        assert await store.ready()
        assert not store.alone


def codes(store: RedisStore, key: str = "a") -> list[str]:
    return [notice.code for notice in store.notices(key, session())]


async def turn(store: RedisStore, date: str, key: str = "a") -> Held:
    """As a request does it."""
    while True:
        held = await store.load(key)
        version = await store.save(key, session(date), held.version)
        if version:
            return Held(version, session(date))


FAULTS: dict[str, tuple[Callable[[RedisServer], object], Callable[[RedisServer], object], str]] = {
    "slow": (RedisServer.pause, RedisServer.resume, "slow"),
    "gone": (RedisServer.kill, RedisServer.start, "gone"),
    "full": (
        lambda redis: redis.say("CONFIG", "SET", "maxmemory", "1"),
        lambda redis: redis.say("CONFIG", "SET", "maxmemory", "0"),
        "full",
    ),
    "a replica": (
        lambda redis: redis.say("REPLICAOF", "127.0.0.1", "1"),
        lambda redis: redis.say("REPLICAOF", "NO", "ONE"),
        "read_only",
    ),
    "locked": (
        lambda redis: redis.say_all(("CONFIG", "SET", "requirepass", "p"), ("CLIENT", "KILL", "TYPE", "normal")),
        lambda redis: redis.say_all(("AUTH", "p"), ("CONFIG", "SET", "requirepass", "")),
        "refused",
    ),
    "short of replicas": (
        lambda redis: redis.say("CONFIG", "SET", "min-replicas-to-write", "1"),
        lambda redis: redis.say("CONFIG", "SET", "min-replicas-to-write", "0"),
        "odd",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_turn_goes_on_from_this_process_and_says_so_and_is_there_for_others_afterwards(
    fault: str, shared: Kind, own_redis: RedisServer
) -> None:
    begin, end, kind = FAULTS[fault]

    async def failed() -> None:
        async with two(shared, SECONDS) as (one, other):
            first = await turn(one, "1")
            begin(own_redis)
            second = await turn(one, "2")
            assert await one.load("a") == second
            assert await one.version("a") == second.version != first.version
            assert (one.alone, codes(one), await one.ready()) == (True, ["session_store_unavailable"], False)
            assert dict(one.figures().failures) == {kind: 1}
            assert not one.figures().reachable
            third = await turn(one, "3")
            end(own_redis)
            await back(shared, one)
            assert await other.load("a") == third == await one.load("a")
            assert (codes(one), codes(other)) == ([], [])
            assert one.figures().written_back == 1
            assert one.figures().reachable

    asyncio.run(failed())
    assert shared.lines.events == ["session_store_lost", "session_store_back"]
    assert shared.lines.rows[0][1]["kind"] == kind


def test_a_redis_that_was_never_there_is_waited_for_behind_the_answers(shared: Kind, own_redis: RedisServer) -> None:
    async def begun() -> None:
        own_redis.kill()
        async with two(shared) as (one, other):
            held = await turn(one, "1")
            assert one.alone
            own_redis.start()
            async with asyncio.timeout(60):
                while not one.figures().written_back:  # noqa: ASYNC110 - it asks by itself, and tells nobody
                    await asyncio.sleep(0.05)
            assert await other.load("a") == held

    asyncio.run(begun())


@pytest.mark.parametrize("call", ["load", "version", "save", "forget", "ready"])
def test_whichever_call_fails_first_the_store_goes_on_from_its_memory(
    call: str, shared: Kind, own_redis: RedisServer
) -> None:
    async def failed() -> object:
        async with two(shared) as (one, _):
            held = await turn(one, "1")
            own_redis.kill()
            calls = {
                "load": one.load("a"),
                "version": one.version("a"),
                "save": one.save("a", session("2"), held.version + 1),
                "forget": one.forget("a"),
                "ready": one.ready(),
            }
            said = await calls.pop(call)
            for other in calls.values():
                other.close()
            assert one.alone
            return said == {"load": held, "version": held.version, "save": 0, "forget": True, "ready": False}[call]

    assert asyncio.run(failed()) is True


def test_one_call_waits_for_a_slow_redis_and_the_next_ones_do_not(shared: Kind, own_redis: RedisServer) -> None:
    async def slow() -> None:
        async with two(shared, SECONDS) as (one, _):
            await turn(one, "1")
            own_redis.pause()
            for at in range(200):
                await turn(one, str(at))
            assert one.figures().failures == {"slow": 1}
            own_redis.resume()

    asyncio.run(slow())


@pytest.mark.parametrize("how", ["empty", "older"])
def test_a_redis_that_comes_back_without_the_last_turns_does_not_take_them_away(
    how: str, shared: Kind, own_redis: RedisServer
) -> None:
    async def restarted() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            if how == "older":
                own_redis.keep()
            await turn(one, "2")
            third = await turn(one, "3")
            own_redis.kill()
            own_redis.start()
            assert await one.load("a") == third
            assert await other.load("a") == third
            assert (codes(one), codes(other)) == ([], [])
            assert one.figures().written_back == 1

    asyncio.run(restarted())


def test_the_latest_copy_wins_whoever_is_asked_first(shared: Kind, own_redis: RedisServer) -> None:
    async def restarted() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            await other.load("a")
            last = await turn(one, "2")
            own_redis.say("FLUSHALL")
            assert (await other.load("a")).remembered == session("1")
            assert await one.load("a") == last == await other.load("a")

    asyncio.run(restarted())


def test_what_another_process_wrote_while_this_one_was_alone_wins_and_is_told_once(
    shared: Kind, own_redis: RedisServer
) -> None:
    async def diverged() -> None:
        async with two(shared, SECONDS) as (one, other):
            await turn(one, "1")
            own_redis.pause()
            for at in range(3):
                await turn(one, f"alone {at}")
            own_redis.resume()
            theirs = await turn(other, "theirs")
            await back(shared, one)
            assert await one.load("a") == theirs == await other.load("a")
            assert [codes(one), codes(one), codes(other)] == [["session_diverged"], [], []]
            assert (one.figures().diverged, one.figures().written_back) == (1, 0)

    asyncio.run(diverged())


def test_of_two_that_went_on_alone_one_is_kept_and_the_other_told(shared: Kind, own_redis: RedisServer) -> None:
    async def diverged() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            own_redis.kill()
            mine = await turn(one, "mine")
            await turn(other, "yours")
            own_redis.start()
            await back(shared, one, other)
            assert await one.load("a") == mine == await other.load("a")
            assert (codes(one), codes(other)) == ([], ["session_diverged"])

    asyncio.run(diverged())


@pytest.mark.parametrize("keeps", [True, False])
def test_what_was_deleted_while_redis_was_away_does_not_come_back(
    keeps: bool, shared: Kind, own_redis: RedisServer
) -> None:
    async def deleted() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            await turn(other, "2")
            if keeps:
                own_redis.keep()
            own_redis.kill()
            assert await one.forget("a")
            assert (await one.load("a"), await one.forget("a")) == (Held(0, None), False)
            own_redis.start()
            await back(shared, one)
            assert (await other.load("a"), await one.load("a")) == (Held(0, None), Held(0, None))

    asyncio.run(deleted())


def test_what_this_process_does_not_know_is_deleted_too_while_redis_is_away(
    shared: Kind, own_redis: RedisServer
) -> None:
    async def deleted() -> None:
        async with two(shared, SECONDS) as (one, other):
            await turn(other, "1")
            own_redis.pause()
            assert await one.forget("a")
            new = await turn(one, "new")
            own_redis.resume()
            await back(shared, one)
            assert await one.load("a") == new == await other.load("a")

    asyncio.run(deleted())


def test_what_began_after_something_unknown_was_deleted_stays(shared: Kind, own_redis: RedisServer) -> None:
    async def begun() -> None:
        async with two(shared) as (one, other):
            own_redis.kill()
            assert await one.forget("a")
            own_redis.start()
            await back(shared, one)
            held = await turn(one, "1")
            own_redis.kill()
            held = await turn(one, "2")
            own_redis.start()
            await back(shared, one)
            assert await one.load("a") == held == await other.load("a")

    asyncio.run(begun())


def test_what_was_deleted_does_not_come_back_with_an_older_state_of_redis(shared: Kind, own_redis: RedisServer) -> None:
    async def deleted() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            own_redis.keep()
            assert await one.forget("a")
            own_redis.kill()
            own_redis.start()
            assert await one.load("a") == Held(0, None) == await other.load("a")

    asyncio.run(deleted())


def test_what_began_after_a_deletion_outlives_that_redis_lost_both(shared: Kind, own_redis: RedisServer) -> None:
    async def deleted() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            await one.forget("a")
            await turn(one, "2")
            own_redis.say("FLUSHALL")
            own_redis.say("CONFIG", "SET", "min-replicas-to-write", "1")
            latest = await turn(one, "3")
            assert one.alone
            own_redis.say("CONFIG", "SET", "min-replicas-to-write", "0")
            await back(shared, one)
            assert await one.load("a") == latest == await other.load("a")

    asyncio.run(deleted())


def test_a_copy_of_what_another_process_deleted_is_not_taken_for_something_redis_lost(redis: RedisServer) -> None:
    async def deleted() -> None:
        async with two(Kind(redis)) as (one, other):
            await turn(one, "1")
            await other.load("a")
            assert await one.forget("a")
            assert await other.load("a") == Held(0, None)
            assert await other.version("a") == 0
            new = await turn(other, "new")
            assert await one.load("a") == new

    asyncio.run(deleted())


def test_deleting_what_redis_lost_deletes_it_for_others_that_hold_it(redis: RedisServer) -> None:
    async def deleted() -> None:
        async with two(Kind(redis)) as (one, other):
            await turn(one, "1")
            await other.load("a")
            redis.say("FLUSHALL")
            assert await one.forget("a")
            assert await other.load("a") == Held(0, None)

    asyncio.run(deleted())


def test_a_deletion_is_possible_when_redis_is_full(shared: Kind, own_redis: RedisServer) -> None:
    async def deleted() -> None:
        async with two(shared) as (one, other):
            await turn(one, "1")
            own_redis.say("CONFIG", "SET", "maxmemory", "1")
            assert await one.forget("a")
            assert not one.alone
            assert await other.load("a") == Held(0, None)

    asyncio.run(deleted())


def test_scripts_that_redis_forgot_are_told_again(redis: RedisServer) -> None:
    async def flushed() -> None:
        async with two(Kind(redis)) as (one, other):
            await turn(one, "1")
            redis.say("SCRIPT", "FLUSH")
            second = await turn(one, "2")
            assert await other.load("a") == second
            redis.say("SCRIPT", "FLUSH")
            assert await one.forget("a")
            assert not one.alone

    asyncio.run(flushed())


GARBAGE: list[list[str | bytes]] = [
    ["SET", "a", "x"],
    ["LPUSH", "a", "x"],
    ["HSET", "a", "version", "x", "lineage", "a", "count", "1", "body", "x"],
    ["HSET", "a", "version", "007", "lineage", "a", "count", "1", "body", "x"],
    ["HSET", "a", "version", "9" * 50, "lineage", "a", "count", "1", "body", "x"],
    ["HSET", "a", "version", "7", "lineage", "a", "count", "9" * 14, "body", "x"],
    ["HSET", "a", "version", "7", "lineage", "a", "count", "1", "body", b"\x00\xff"],
    ["HSET", "a", "version", "7", "lineage", "a", "count", "1"],
    ["HSET", "a", "version", "7"],
    ["HSET", "a", "version", "7", "lineage", " ", "count", "1", "body", "x"],
    ["HSET", "a", "lineage", "a"],
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_what_cannot_be_read_counts_as_not_there_and_is_told(garbage: list[str | bytes], redis: RedisServer) -> None:
    kind = Kind(redis)

    async def unread() -> None:
        async with two(kind) as (one, other):
            redis.say(*garbage)
            assert await one.load("a") == Held(0, None)
            version = await one.save("a", session("1"), 0)
            assert codes(one) == ["session_unreadable"]
            assert await other.load("a") == Held(version, session("1"))
            assert (codes(one), one.alone, one.figures().unreadable) == ([], False, 1)

    asyncio.run(unread())
    assert kind.lines.events == ["session_unreadable"]


def test_a_count_that_somebody_raised_ends_no_session(redis: RedisServer) -> None:
    async def raised() -> None:
        async with two(Kind(redis)) as (one, other):
            await turn(one, "1")
            for count in ("9" * 14, "9" * 18):
                redis.say("HSET", "a", "count", count)
                latest = await turn(one, count)
                assert await other.load("a") == latest

    asyncio.run(raised())


def test_what_somebody_broke_goes_on_from_the_copy_of_this_process(redis: RedisServer) -> None:
    async def broken() -> None:
        async with two(Kind(redis)) as (one, other):
            held = await turn(one, "1")
            redis.say("HSET", "a", "version", "9", "body", "x")
            assert await other.load("a") == Held(0, None)
            assert await one.load("a") == held
            assert await other.load("a") == held

    asyncio.run(broken())


def test_what_becomes_unreadable_goes_on_from_the_copy_too(redis: RedisServer) -> None:
    async def broken() -> None:
        async with closing(Kind(redis).shared(redis.url)) as store:
            held = await turn(store, "1")
            await store.load("a")
            redis.say("DEL", "a")
            redis.say("SET", "a", "x")
            assert await store.version("a") == 0
            assert await store.load("a") == held
            assert await store.version("a") == held.version
            assert codes(store) == ["session_unreadable"]

    asyncio.run(broken())


def test_a_hash_without_anything_of_ours_is_written_over(redis: RedisServer) -> None:
    async def other_fields() -> None:
        async with two(Kind(redis)) as (one, _):
            redis.say("HSET", "a", "something", "else")
            held = await turn(one, "1")
            assert await one.load("a") == held

    asyncio.run(other_fields())


def test_time_to_live_is_the_idle_time_and_renewed_by_use_now_and_then(redis: RedisServer) -> None:
    kind = Kind(redis)

    def left() -> int:
        return int(redis.say("PTTL", "a")[1:])

    async def lived() -> None:
        async with closing(kind.store(idle_seconds=1000)) as store:
            await store.save("a", session(), 0)
            assert 900_000 < left() <= 1_000_000
            for use in (store.load, store.version):
                kind.clock.seconds += 100
                redis.say("PEXPIRE", "a", "5000")
                await use("a")
                assert 900_000 < left() <= 1_000_000
                redis.say("PEXPIRE", "a", "5000")
                await use("a")
                assert left() <= 5_000
            await store.forget("a")
            assert 900_000 < left() <= 1_000_000

    asyncio.run(lived())


def test_a_time_to_live_beyond_what_redis_can_count_is_cut(redis: RedisServer) -> None:
    async def long() -> Held:
        async with closing(Kind(redis).store(idle_seconds=1e300)) as store:
            await store.save("a", session(), 0)
            assert not store.alone
            return await store.load("a")

    assert asyncio.run(long()).remembered == session()


def test_with_a_wrong_password_the_service_goes_on_and_the_log_does_not_tell_it() -> None:
    with redis_server("--requirepass", "right") as server:
        kind = Kind(server)

        async def refused() -> None:
            store = kind.shared(f"{server.url}?password=wr0ng")
            async with closing(store):
                held = await turn(store, "1")
                assert await store.load("a") == held
                assert dict(store.figures().failures) == {"refused": 1}

        asyncio.run(refused())
        assert kind.lines.events == ["session_store_lost"]
        assert "wr0ng" not in str(kind.lines.rows)


ANSWERS = [
    (b"-LOADING Redis is loading the dataset in memory\r\n", "loading"),
    (b"-NOPERM this user has no permissions\r\n", "refused"),
    (b"-NOAUTH Authentication required.\r\n", "refused"),
    (b"-WRONGPASS invalid username-password pair\r\n", "refused"),
    (b"-MASTERDOWN Link with MASTER is down\r\n", "odd"),
    (b"-MOVED 1 127.0.0.1:1\r\n", "odd"),
    (b"-MISCONF Redis is configured to save RDB snapshots\r\n", "odd"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "odd"),
]


@pytest.mark.parametrize(("answer", "failure"), ANSWERS, ids=lambda one: one if isinstance(one, str) else "")
def test_whatever_else_answers_the_service_goes_on(answer: bytes, failure: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sent := await reader.read(65536):
            writer.write(answer * len(re.findall(rb"^\*[0-9]+\r\n", sent, re.MULTILINE)))
        writer.close()

    async def odd() -> None:
        serving = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = serving.sockets[0].getsockname()[1]
        async with serving, closing(Kind(None).shared(f"redis://127.0.0.1:{port}")) as store:
            held = await turn(store, "1")
            assert await store.load("a") == held
            assert store.alone
            assert dict(store.figures().failures) == {failure: 1}

    asyncio.run(odd())


def test_a_loop_that_stood_still_does_not_make_redis_slow(redis: RedisServer) -> None:
    async def still() -> None:
        async with closing(Kind(redis).shared(redis.url, seconds=1.0)) as store:
            held = await turn(store, "1")
            loading = asyncio.create_task(store.load("a"))
            await asyncio.sleep(0)
            time.sleep(1.5)  # noqa: ASYNC251 - the loop stands still
            assert await loading == held
            assert not store.alone

    asyncio.run(still())


def test_requests_that_are_given_up_leave_nothing_behind_for_the_next_ones(redis: RedisServer) -> None:
    async def given_up() -> None:
        async with closing(Kind(redis).shared(redis.url)) as store, closing(Kind(redis).shared(redis.url)) as other:
            for at in range(150):
                kept = await turn(other, str(at), str(at))
                tasks = [asyncio.create_task(store.load(str(at))), asyncio.create_task(turn(store, "x", f"x{at}"))]
                for _ in range(at % 15):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert await store.load(str(at)) == kept
            assert not store.alone

    asyncio.run(given_up())


def test_closing_ends_what_is_asked_in_the_background(own_redis: RedisServer, shared: Kind) -> None:
    async def closed() -> set[str]:
        async with two(shared, SECONDS) as (one, _):
            own_redis.kill()
            await turn(one, "1")
        return {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]

    assert asyncio.run(closed()) == set()
