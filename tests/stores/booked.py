"""What is booked of a tenant in Redis, as it stands there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis import Redis

from app.stores.bookings import MARK, _books
from tests.stores.redis_server import RedisServer


@dataclass(frozen=True)
class Books:
    """``rows`` in the order of writes: who wrote a key last, and what it costs."""

    names: Mapping[str, bytes]
    rows: Mapping[str, str]
    total: int

    @property
    def is_whole(self) -> bool:
        return self.total == sum(int(row.split()[1]) for row in self.rows.values())


def books(redis: RedisServer, tenant: str) -> Books:
    order, rows = _books(tenant)
    with client(redis) as asked:
        names, booked = asked.zrange(order, 0, -1), asked.hgetall(rows)
    total = int(booked.pop(b"total", b"0"))
    assert set(names) == set(booked)
    told = {text(name.removeprefix(MARK)): booked[name].decode() for name in names}
    return Books({"<order>": order, "<rows>": rows}, told, total)


def held(redis: RedisServer) -> dict[str, tuple[str, int]]:
    """All that is there, but what is booked: who wrote it, and the size of its body."""
    with client(redis) as asked:
        names = [
            name for name in asked.keys("*") if not name.startswith(b"strata:{held:") and name != b"strata:reached"
        ]
        return {text(name): (asked.hget(name, "by").decode(), asked.hstrlen(name, "body")) for name in names}


def dbsize(redis: RedisServer) -> int:
    with client(redis) as asked:
        return int(asked.dbsize())


def text(name: bytes) -> str:
    return name.decode("utf-8", "surrogatepass")


def client(redis: RedisServer) -> Any:
    return Redis.from_url(redis.url, protocol=2)
