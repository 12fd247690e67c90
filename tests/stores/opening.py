"""Every kind of store, opened in one way, so that one suite can ask each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from app.core.remembered import Remembered
from app.stores.process import ProcessStore
from app.stores.redis import RedisStore
from app.stores.socket import Store
from tests.stores.redis_server import RedisServer

T = TypeVar("T")


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def session(date: str = "2026-11-30", size: int = 1) -> Remembered:
    return Remembered("w", date, {"date": date}, sections={"intro": "x" * size})


@dataclass
class Lines:
    """A log that keeps what it is told."""

    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __call__(self, level: str, event: str, values: Mapping[str, Any]) -> None:
        self.rows.append((event, dict(values)))

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.rows]


@dataclass
class Kind:
    """``server`` None: the store in this process. ``clock`` is the stores' own; Redis has another."""

    server: RedisServer | None
    clock: Clock = field(default_factory=Clock)
    lines: Lines = field(default_factory=Lines)

    def store(self, *, most: int = 100, most_bytes: int = 10**8, idle_seconds: float = 1000) -> Store:
        if self.server is None:
            return ProcessStore(most, most_bytes, idle_seconds, self.clock)
        return self.shared(self.server.url, most=most, most_bytes=most_bytes, idle_seconds=idle_seconds)

    def shared(
        self,
        url: str,
        *,
        seconds: float = 2.0,
        most: int = 100,
        most_bytes: int = 10**8,
        idle_seconds: float = 1000,
    ) -> RedisStore:
        return RedisStore(
            url,
            seconds,
            most=most,
            most_bytes=most_bytes,
            idle_seconds=idle_seconds,
            clock=self.clock,
            tell=self.lines,
        )

    def wait(self, seconds: float) -> None:
        """Lets time pass, for Redis too."""
        self.clock.seconds += seconds
        if self.server is None:
            return
        self.server.say(
            "EVAL",
            "for _, key in ipairs(redis.call('KEYS', '*')) do "
            "redis.call('PEXPIRE', key, redis.call('PTTL', key) - 1000 * ARGV[1]) end return 1",
            "0",
            str(seconds),
        )

    def run(self, scenario: Callable[[Store], Awaitable[T]], **bounds: Any) -> T:
        async def opened() -> T:
            async with closing(self.store(**bounds)) as store:
                return await scenario(store)

        return asyncio.run(opened())


S = TypeVar("S", bound=Store)


@asynccontextmanager
async def closing(store: S) -> AsyncIterator[S]:
    try:
        yield store
    finally:
        await store.close()
