"""Sessions in Redis: a hash each, written and deleted by scripts that know one key, so that a cluster takes them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cachetools import TTLCache
from redis import exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.stores.copies import Head
from app.stores.shelf import RENEWALS

T = TypeVar("T")

FIELDS = ("version", "lineage", "count")
PROBE = "strata:reached"
MOST_CONNECTIONS = 32
LONGEST_SECONDS = 10 * 365 * 24 * 3600
"""Redis takes no time to live that it cannot add to its clock."""

NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
COUNT = re.compile(rb"0|[1-9][0-9]{0,12}")
"""One more is still written without an exponent by Redis."""
LINEAGE = re.compile(rb"[0-9a-f]{1,16}|\*")
SLICES = 5
BYTES_PER_SECOND = 8 * 1024 * 1024
"""What a large session's way is given beside the deadline."""

SAVE = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local held = kind == 'hash' and redis.call('HMGET', KEYS[1], 'version', 'lineage', 'count', 'by') or {}
local version, lineage, count = held[1] or '0', ARGV[3], tonumber(ARGV[4])
if held[4] == ARGV[2] then return {held[2], held[3]} end
if version ~= ARGV[1] then return false end
if count == 0 then
    count = 1
    if version ~= '0' then lineage, count = held[2], tonumber(held[3]) + 1 end
end
local written = ARGV[5] == '' and '0' or ARGV[2]
local row = {'version', written, 'lineage', lineage, 'count', count, 'size', #ARGV[5], 'body', ARGV[5], 'by', ARGV[2]}
redis.call('HSET', KEYS[1], unpack(row))
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {lineage, tostring(count)}
"""
"""Writes if the version is still ARGV[1], and says again what it wrote when it is asked twice with one ARGV[2]."""

DELETE = """
local kind = redis.call('TYPE', KEYS[1]).ok
local held = kind == 'hash' and redis.call('HMGET', KEYS[1], 'version', 'lineage', 'by') or {}
local version, lineage = held[1] or '0', held[2] or ''
if held[3] == ARGV[1] then return lineage end
if version ~= '0' then
    if ARGV[2] ~= '*' and not string.find(ARGV[2], ' ' .. lineage .. ' ', 1, true) then return '' end
else
    if ARGV[3] == '' or ARGV[3] == lineage then return '' end
    lineage = ARGV[3]
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', '0', 'lineage', lineage, 'count', '0', 'by', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return lineage
"""
"""Leaves a mark of what was deleted, for processes that hold a copy. DEL comes first: a full Redis lets it pass."""

DISCARD = "if redis.call('HGET', KEYS[1], 'version') == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

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
class Found:
    """``head`` None: something that no one here has written. ``version`` as it stands there; ``size`` in bytes."""

    head: Head | None
    version: bytes = b""
    size: int = 0


class Hashes:
    """Every call ends within ``seconds``, and a time for large values; ``idle_seconds`` are sessions kept.

    Use renews that time, but not more often than a few times within it: ``most`` sessions are remembered for that.
    Every call raises UnreachableError.
    """

    def __init__(self, url: str, seconds: float, idle_seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._renewed: TTLCache[str, bool] = TTLCache(most, idle_seconds / RENEWALS, clock)
        self._milliseconds = max(1, int(1000 * min(idle_seconds, LONGEST_SECONDS)))
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
        self._save, self._delete, self._discard = map(self._redis.register_script, (SAVE, DELETE, DISCARD))
        self.failures: Counter[str] = Counter()

    async def find(self, keys: Sequence[str]) -> Mapping[str, Found]:
        """What is there, which from now on lives about as long as if it was written now."""
        rows = await self._within(self._looked(keys))
        return {key: _found(rows[at]) for at, key in enumerate(keys)}

    async def body(self, key: str, size: int) -> tuple[Head | None, bytes]:
        """``size`` is about that of the body."""
        row: list[Any] = await self._within(self._redis.hmget(_name(key), [*FIELDS, "body"]), size)
        return _head(row), row[3] or b""

    async def save(self, key: str, expected: int, head: Head, body: bytes) -> Head | None:
        """Writes over the version ``expected``; None: another one is there.

        A ``head`` with the count 0 goes on with lineage and count as they are there, its own lineage being for a
        session that begins. Without a body it is written that the session is no more.
        """
        given = (expected, head.version, head.lineage, head.count, body, self._milliseconds)
        row = await self._within(self._save([_name(key)], given), len(body))
        return Head(head.version, row[0].decode(), int(row[1])) if row else None

    async def delete(self, key: str, lineages: Iterable[str], otherwise: str, token: int) -> str:
        """The lineage that was there and is one of ``lineages``, or ``otherwise`` where nothing was; empty: none.

        With one ``token`` it says the same again.
        """
        named = "*" if "*" in lineages else f" {' '.join(sorted(lineages))} "
        given = (token, named, otherwise, self._milliseconds)
        return str((await self._within(self._delete([_name(key)], given))).decode())

    async def discard(self, key: str, version: bytes) -> None:
        """Deletes what cannot be read, unless something else is there by now."""
        await self._within(self._discard([_name(key)], [version]))

    async def probe(self, *, anew: bool) -> None:
        """Whether it takes writes. ``anew``: over a new connection, since another server may have its name by now."""
        if anew:
            await self._within(self._redis.connection_pool.disconnect(inuse_connections=False))
        await self._within(self._redis.set(PROBE, 1, px=1000))

    async def close(self) -> None:
        await self._redis.aclose(close_connection_pool=True)

    async def _looked(self, keys: Sequence[str]) -> list[Any]:
        """A row of fields for each key, or the error of what is no hash."""
        stale = [key for key in keys if key not in self._renewed]
        if len(keys) == 1 and not stale:
            return [await self._row(keys[0])]
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.execute_command("HMGET", _name(key), *FIELDS, "size")
            for key in stale:
                pipe.execute_command("PEXPIRE", _name(key), self._milliseconds)
            rows = await pipe.execute(raise_on_error=False)
        for row in rows:
            if isinstance(row, Exception) and not _is_of_another_type(row):
                raise row
        self._renewed.update(dict.fromkeys(stale, True))
        return rows

    async def _row(self, key: str) -> Any:
        try:
            return await self._redis.hmget(_name(key), [*FIELDS, "size"])
        except faults.ResponseError as error:
            if not _is_of_another_type(error):
                raise
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


def _name(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _is_of_another_type(error: Exception) -> bool:
    return isinstance(error, faults.ResponseError) and str(error).startswith("WRONGTYPE")


def _found(row: Any) -> Found:
    if isinstance(row, Exception):
        return Found(None)
    size = row[3] or b""
    return Found(_head(row), row[0] or b"", int(size) if NUMBER.fullmatch(size) else 0)


def _head(row: Sequence[bytes | None]) -> Head | None:
    """None: not as it is written here."""
    if not any(row[:3]):
        return Head()
    version, lineage, count = (one or b"" for one in row[:3])
    if not (NUMBER.fullmatch(version) and LINEAGE.fullmatch(lineage) and COUNT.fullmatch(count)):
        return None
    return Head(int(version), lineage.decode(), int(count))
