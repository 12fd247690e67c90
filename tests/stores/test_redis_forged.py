"""Values in Redis that somebody else wrote: in another's place, without end, or of no session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import shake_128

import pytest

from app.core.remembered import Remembered
from app.core.tenants import APART
from app.stores.copies import ABSENT, Head, lineage_of
from app.stores.hashes import AT_ONCE, Found
from app.stores.redis import RedisStore
from app.stores.socket import Held
from tests.stores.opening import Kind, closing, session
from tests.stores.redis_server import RedisServer

OWN, OTHERS = f"strata:1:a{APART}s", f"strata:1:b{APART}s"
MIB = 1024 * 1024


async def turn(store: RedisStore, key: str, date: str, size: int = 1) -> Held:
    while True:
        held = await store.load(key)
        version = await store.save(key, session(date, size), held.version)
        if version:
            return Held(version, session(date, size))


def codes(store: RedisStore, key: str = OWN) -> list[str]:
    return [notice.code for notice in store.notices(key, session())]


@pytest.mark.parametrize("target", [OTHERS, f"strata:2:a{APART}s", f"strata:1:a{APART}t", f"strata:1:a{APART}s "])
@pytest.mark.parametrize("size", [1, MIB])
def test_a_session_whose_bytes_are_copied_to_another_key_is_none_there(
    target: str, size: int, redis: RedisServer
) -> None:
    async def copied() -> None:
        kind = Kind(redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            held = await turn(one, OWN, "own", size)
            assert redis.say("COPY", OWN, target, "REPLACE") == b":1\r\n"
            assert await other.load(target) == Held(0, None)
            assert codes(other, target) == ["session_unreadable"]
            assert redis.say("EXISTS", target) == b":0\r\n"
            assert await other.load(OWN) == held

    asyncio.run(copied())


def test_a_session_in_anothers_place_gives_way_to_the_copy_of_who_has_one(redis: RedisServer) -> None:
    async def copied() -> None:
        kind = Kind(redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            await turn(one, OWN, "own")
            held = await turn(one, OTHERS, "theirs")
            redis.say("COPY", OWN, OTHERS, "REPLACE")
            assert await one.load(OTHERS) == held
            assert await other.load(OTHERS) == held

    asyncio.run(copied())


def filled(redis: RedisServer, key: str, name: str, size: int) -> None:
    """A field of so many bytes, made where it stands."""
    script = "return redis.call('HSET', KEYS[1], ARGV[1], string.rep('7', ARGV[2]))"
    assert redis.say("EVAL", script, "1", key, name, str(size)) in {b":0\r\n", b":1\r\n"}


def output(redis: RedisServer) -> int:
    """Bytes that Redis has sent."""
    found = re.search(rb"total_net_output_bytes:([0-9]+)", redis.say("INFO", "stats"))
    assert found
    return int(found[1])


@pytest.mark.parametrize("name", ["body", "version", "lineage", "count", "by"])
def test_a_field_without_end_is_not_read_and_costs_no_time(name: str, own_redis: RedisServer) -> None:
    kind = Kind(own_redis)

    async def huge() -> None:
        async with (
            closing(kind.shared(own_redis.url, seconds=1.0)) as one,
            closing(kind.shared(own_redis.url, seconds=1.0)) as other,
        ):
            await turn(one, OWN, "own")
            filled(own_redis, OWN, name, 16 * MIB)
            before = output(own_redis)
            held = await other.load(OWN)
            latest = await turn(other, OWN, "later")
            assert await one.load(OWN) == latest
            assert output(own_redis) - before < MIB
            assert [store.alone for store in (one, other)] == [False, False]
            assert (held.remembered, codes(other)) == (
                (session("own"), []) if name == "by" else (None, ["session_unreadable"])
            )

    asyncio.run(huge())


@pytest.mark.parametrize("name", ["body", "version", "lineage", "count", "by"])
def test_a_session_with_a_field_without_end_can_be_deleted(name: str, own_redis: RedisServer) -> None:
    async def huge() -> None:
        kind = Kind(own_redis)
        async with closing(kind.shared(own_redis.url)) as one, closing(kind.shared(own_redis.url)) as other:
            await turn(one, OWN, "own")
            filled(own_redis, OWN, name, 16 * MIB)
            before = output(own_redis)
            await other.forget(OWN)
            assert output(own_redis) - before < MIB
            assert await other.load(OWN) == Held(0, None)
            assert not other.alone

    asyncio.run(huge())


@pytest.mark.parametrize("other", ["SET", "LPUSH"])
def test_a_huge_value_of_another_type_is_not_read(other: str, own_redis: RedisServer) -> None:
    async def huge() -> None:
        async with closing(Kind(own_redis).shared(own_redis.url)) as store:
            script = f"return redis.call('{other}', KEYS[1], string.rep('7', ARGV[1]))"
            own_redis.say("EVAL", script, "1", OWN, str(16 * MIB))
            assert await store.load(OWN) == Held(0, None)
            held = await turn(store, OWN, "1")
            assert await store.load(OWN) == held
            assert (store.alone, codes(store)) == (False, ["session_unreadable"])

    asyncio.run(huge())


def test_what_the_hash_says_of_its_size_gives_no_one_more_time(own_redis: RedisServer) -> None:
    """A Redis that stands still is waited for no longer."""

    async def still() -> None:
        async with asyncio.timeout(60), closing(Kind(own_redis).shared(own_redis.url, seconds=0.5)) as store:
            await turn(store, OWN, "1")
            own_redis.say("HSET", OWN, "version", "7", "size", "9" * 18)
            own_redis.pause()
            assert (await store.load(OWN)).remembered == session("1")
            own_redis.resume()
            assert store.alone

    asyncio.run(still())


def long_session(characters: int) -> Remembered:
    """Of a text that does not become much less when it is packed."""
    drawn = shake_128(b"1").digest(2 * characters)
    text = "".join(chr(0x4E00 + (high * 256 + low) % 0x5100) for high, low in zip(drawn[::2], drawn[1::2], strict=True))
    return replace(session(), sections={"intro": text})


def test_a_long_session_is_read_whole(redis: RedisServer) -> None:
    async def long() -> None:
        kind = Kind(redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            version = await one.save(OWN, long_session(400_000), 0)
            assert int(redis.say("HSTRLEN", OWN, "body")[1:]) > AT_ONCE
            assert await other.load(OWN) == Held(version, long_session(400_000))

    asyncio.run(long())


def test_a_session_that_grows_while_it_is_read_is_not_taken_for_one_that_cannot_be_read(redis: RedisServer) -> None:
    async def grown() -> None:
        async with closing(Kind(redis).store()) as store:
            version = await store.save(OWN, long_session(200_000), 0)
            grown = store._records.written(OWN, long_session(400_000))

            def meanwhile(beginning: bytes, size: int) -> bool:
                redis.say("HSET", OWN, "body", grown)
                return size < len(grown)

            assert await store._hashes.body(OWN, meanwhile) == (Found(ABSENT), None)
            assert await store._hashes.body(OWN, lambda *_: True) == (
                Found(Head(version, lineage_of(version), 1), str(version).encode()),
                grown,
            )

    asyncio.run(grown())


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "of another shape": lambda record: record.replace(record.split()[1], b"0" * 16, 1),
    "of another key": lambda record: record.replace(record.split()[2], b"0" * 32, 1),
    "without a frame": lambda record: record[: record.index(b"\n") + 1],
    "of no known size": lambda record: record[: record.index(b"\n") + 1] + b"(\xb5/\xfd\x00X",
    "of a size beyond all": lambda record: record[: record.index(b"\n") + 1] + b"(\xb5/\xfd\xe4" + b"\xff" * 9,
}


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("forged", FORGED)
def test_a_record_that_begins_as_none_is_thrown_away(forged: str, long: bool, redis: RedisServer) -> None:
    async def thrown() -> None:
        kind = Kind(redis)
        async with closing(kind.store()) as one, closing(kind.store()) as other:
            await turn(one, OWN, "1")
            body = FORGED[forged](one._records.written(OWN, session("1"))) + b"x" * (MIB if long else 0)
            redis.say("HSET", OWN, "version", "7", "body", body)
            before = output(redis)
            assert await other.load(OWN) == Held(0, None)
            assert output(redis) - before < MIB // 2
            assert (codes(other), other.alone) == (["session_unreadable"], False)
            assert redis.say("EXISTS", OWN) == b":0\r\n"

    asyncio.run(thrown())
