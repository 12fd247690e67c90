from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.stores.opening import Kind
from tests.stores.redis_server import RedisServer, redis_server


@pytest.fixture(scope="session")
def running_redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def redis(running_redis: RedisServer) -> RedisServer:
    """Empty, for tests that leave it as it is."""
    running_redis.say("FLUSHALL")
    return running_redis


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """For tests that do something to it."""
    with redis_server() as server:
        yield server


@pytest.fixture(params=["process", "redis"])
def kind(request: pytest.FixtureRequest) -> Kind:
    server: Any = request.getfixturevalue("redis") if request.param == "redis" else None
    return Kind(server)
