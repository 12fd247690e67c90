"""What a deletion leaves in Redis, also of what Redis does not know."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.stores.redis import PROBE_SECONDS, RedisStore
from app.stores.socket import Held
from tests.asking import ask, inline, refused
from tests.stores.opening import Kind, closing, session
from tests.stores.redis_server import RedisServer
from tests.stores.test_redis_http import FILES, OTHERS, services


async def turn(store: RedisStore, date: str) -> Held:
    while True:
        held = await store.load("a")
        version = await store.save("a", session(date), held.version)
        if version:
            return Held(version, session(date))


def field(redis: RedisServer, name: str) -> bytes:
    return redis.say("HGET", "a", name)


def test_what_redis_lost_does_not_come_back_once_a_process_that_never_saw_it_was_told_to_delete_it(
    redis: RedisServer,
) -> None:
    async def deleted() -> None:
        kind = Kind(redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            await turn(one, "1")
            redis.say("FLUSHALL")
            assert not await other.forget("a")
            assert await one.load("a") == Held(0, None)
            assert await other.load("a") == Held(0, None)
            assert one.figures().written_back == 0

    asyncio.run(deleted())


def test_a_session_that_begins_after_such_a_deletion_stays_and_outlives_that_redis_is_emptied(
    redis: RedisServer,
) -> None:
    async def begun() -> None:
        kind = Kind(redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            for at in range(3):
                assert await one.forget("a") is (at > 0)
                held = await turn(other, str(at))
                assert await one.load("a") == held
            redis.say("FLUSHALL")
            assert await one.load("a") == held == await other.load("a")

    asyncio.run(begun())


def test_what_only_this_process_had_before_such_a_deletion_goes_on(own_redis: RedisServer) -> None:
    """Nobody else could have meant it: it was never in Redis."""

    async def alone() -> None:
        kind = Kind(own_redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            own_redis.say("CONFIG", "SET", "min-replicas-to-write", "1")
            held = await turn(one, "alone")
            own_redis.say("CONFIG", "SET", "min-replicas-to-write", "0")
            assert not await other.forget("a")
            kind.clock.seconds += PROBE_SECONDS
            assert await one.ready()
            assert await other.load("a") == held

    asyncio.run(alone())


@pytest.mark.parametrize("before", ["nothing", "a mark", "a mark of any"])
def test_deleting_what_is_not_there_says_so_however_often_and_leaves_one_mark(before: str, redis: RedisServer) -> None:
    async def deleted() -> None:
        async with closing(Kind(redis).store()) as store:
            if before == "a mark":
                await turn(store, "1")
                assert await store.forget("a")
            if before == "a mark of any":
                assert not await store.forget("a")
            marks = []
            for _ in range(3):
                assert not await store.forget("a")
                marks.append((field(redis, "version"), field(redis, "lineage"), field(redis, "by")))
            assert len(set(marks)) == 1
            assert marks[0][0] == b"$1\r\n0\r\n"
            assert (marks[0][1] == b"$1\r\n*\r\n") == (before != "a mark")
            assert await store.load("a") == Held(0, None)
            assert (await store.version("a"), store.notices("a", session()), store.alone) == (0, (), False)

    asyncio.run(deleted())


def test_the_mark_lives_as_long_as_a_session(redis: RedisServer) -> None:
    async def deleted() -> int:
        async with closing(Kind(redis).store(idle_seconds=1000)) as store:
            await store.forget("a")
            return int(redis.say("PTTL", "a")[1:])

    assert 900_000 < asyncio.run(deleted()) <= 1_000_000


def test_a_deletion_of_nothing_whose_answer_is_lost_was_none(redis: RedisServer) -> None:
    """As when its connection is cut, and it is asked again with the same token."""

    async def again() -> list[Any]:
        async with closing(Kind(redis).store()) as store:
            return [await store._hashes.delete("a", ("*",), "", 7) for _ in range(2)]

    assert asyncio.run(again()) == ["", ""]


def test_over_http_it_stays_a_404_and_the_session_is_gone_everywhere(redis: RedisServer) -> None:
    with services(redis) as (one, other):
        ask(one, inline(FILES, session_id="s"))
        redis.say("FLUSHALL")
        for _ in range(2):
            refused(other.delete("/v1/sessions/s"), 404, "session-not-found")
        refused(one.get("/v1/sessions/s"), 404, "session-not-found")
        answer = ask(one, inline(OTHERS, session_id="s"))
        assert answer["session"]["new"]
        assert "Use spaces." in answer["user_context"]["text"]
        assert ask(other, inline(FILES, session_id="s"))["session"]["new"] is False
