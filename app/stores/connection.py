"""Calls of Redis that end in time, and what it is called when one fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from redis import exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.stores.scripts import Script

T = TypeVar("T")
Words = tuple[Any, ...]
Row = Any
"""An answer of Redis, or its refusal."""

PROBE = "strata:reached"
MOST_CONNECTIONS = 32
SLICES = 5
BYTES_PER_SECOND = 8 * 1024 * 1024
"""What a large session's way is given beside the deadline."""

KINDS = (
    (faults.AuthenticationError, "refused"),
    (faults.AuthorizationError, "refused"),
    (faults.NoPermissionError, "refused"),
    (faults.BusyLoadingError, "loading"),
    (faults.OutOfMemoryError, "full"),
    (faults.ReadOnlyError, "read_only"),
    (faults.MaxConnectionsError, "slow"),
    (faults.TimeoutError, "slow"),
    (TimeoutError, "slow"),
    (faults.ConnectionError, "gone"),
    (OSError, "gone"),
)
"""What a failure is called, by the first that fits; ``odd`` is any other answer of a server."""


class UnreachableError(Exception):
    """Redis does not do what it is asked. ``kind`` is a word of `KINDS`."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Call:
    """A script that may run twice with what it is ``given`` and do no more than once."""

    script: Script
    keys: tuple[bytes, ...]
    given: tuple[bytes | str | int, ...]

    @property
    def words(self) -> Words:
        return "EVALSHA", self.script.sha, len(self.keys), *self.keys, *self.given


class Connection:
    """Every call ends within ``seconds``, and a time for large values, or raises UnreachableError."""

    def __init__(self, url: str, seconds: float) -> None:
        self._seconds = seconds
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=MOST_CONNECTIONS,
            timeout=None,
            protocol=2,
            socket_timeout=None,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 1),
        )
        self._redis = Redis.from_pool(pool)
        self.failures: Counter[str] = Counter()

    async def ask(self, *calls: Call, aside: Sequence[Call] = (), size: int = 0) -> list[Row]:
        """The answers, first to what is called ``aside``: None where that was refused. ``size`` of all in bytes."""
        rows = await self._within(self._asked([*aside, *calls]), size)
        for row in rows[len(aside) :]:
            if isinstance(row, Exception):
                raise self._failed(row) from row
        return [self._heeded(row) for row in rows]

    async def probe(self, *, anew: bool) -> None:
        """Whether it takes writes. ``anew``: over a new connection, since another server may have its name by now."""
        if anew:
            await self._within(self._redis.connection_pool.disconnect(inuse_connections=False))
        await self._within(self._redis.set(PROBE, 1, px=1000))

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)

    async def _asked(self, calls: Sequence[Call]) -> list[Row]:
        """What Redis was not told yet it is told, and then asked again."""
        rows = await self._sent([call.words for call in calls])
        unknown = [at for at, row in enumerate(rows) if isinstance(row, faults.NoScriptError)]
        if unknown:
            texts = {calls[at].script.text for at in unknown}
            await self._sent([("SCRIPT LOAD", text) for text in texts])
            again = await self._sent([calls[at].words for at in unknown])
            for at, row in zip(unknown, again, strict=True):
                rows[at] = row
        return rows

    async def _sent(self, commands: Sequence[Words]) -> list[Row]:
        if len(commands) == 1:
            return [await self._told(commands[0])]
        async with self._redis.pipeline(transaction=False) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            return await pipe.execute(raise_on_error=False)

    async def _told(self, words: Words) -> Row:
        redis: Any = self._redis
        try:
            return await redis.execute_command(*words)
        except faults.ResponseError as error:
            return error

    async def _within(self, call: Awaitable[T], size: int = 0) -> T:
        """Waits in slices, so that a loop which stood still takes no more than one of them from the answer's time."""
        task = asyncio.ensure_future(call)
        try:
            for _ in range(SLICES):
                done, _ = await asyncio.wait({task}, timeout=(self._seconds + size / BYTES_PER_SECOND) / SLICES)
                if done:
                    return task.result()
            raise TimeoutError("no answer in time")
        except (faults.RedisError, OSError) as error:
            raise self._failed(error) from error
        finally:
            if not task.done():
                task.add_done_callback(_heard)
                task.cancel()

    def _heeded(self, row: Row) -> Row:
        if isinstance(row, Exception):
            self._failed(row)
            return None
        return row

    def _failed(self, error: Exception) -> UnreachableError:
        """A connection that is refused on its way says so in its cause."""
        cause = error.__cause__ if type(error) is faults.ConnectionError and error.__cause__ else error
        kind = next((kind for type_, kind in KINDS if isinstance(cause, type_)), "odd")
        self.failures[kind] += 1
        return UnreachableError(kind, type(cause).__name__)


def _heard(task: asyncio.Future[Any]) -> None:
    """What a call that nobody waits for any more ends with."""
    if not task.cancelled():
        task.exception()
