"""What this process keeps of disks and documents for all its requests, bounded by bytes and safe among threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

from app.core.document import Document, Faults, Parse
from app.core.weight import weight

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

OVERHEAD_BYTES = 400
"""Of a row in a cache beside what it holds."""


class Cache(Generic[Key, Value]):
    """Keeps the rows that were asked for last. ``size`` says in bytes how much a value holds."""

    def __init__(self, max_bytes: int, size: Callable[[Value], int]) -> None:
        self._max = max_bytes
        self._size = size
        self._rows: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def get(self, key: Key) -> Value | None:
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                return None
            self._rows.move_to_end(key)
            return row[0]

    def put(self, key: Key, value: Value) -> None:
        """Takes the place of what was there; what is larger than the whole cache is not kept."""
        if self._max <= 0:
            return
        size = self._size(value) + OVERHEAD_BYTES
        with self._lock:
            self._bytes -= self._rows.pop(key, (None, 0))[1]
            if size > self._max:
                return
            self._rows[key] = value, size
            self._bytes += size
            while self._bytes > self._max:
                self._bytes -= self._rows.popitem(last=False)[1][1]


class Documents:
    """Documents by the bytes of their files. Two threads that want the same one have it parsed once."""

    def __init__(self, max_bytes: int) -> None:
        self._parsed: Cache[bytes, tuple[bytes, Document | None]] = Cache(max_bytes * 3 // 4, weight)
        self._faults: Cache[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = Cache(max_bytes // 4, weight)
        self._parsing: dict[bytes, Future[Document | None]] = {}
        self._lock = Lock()

    def document(self, data: bytes, parse: Parse) -> Document | None:
        """What ``parse`` makes of ``data``, which must be the same for all callers."""
        with self._lock:
            known = self._parsed.get(data)
            if known is not None:
                return known[1]
            parsing = self._parsing.get(data)
            mine = self._parsing.setdefault(data, Future())
        return parsing.result() if parsing is not None else self._parse(data, parse, mine)

    def unreadable(self, globs: tuple[str, ...], find: Faults) -> tuple[str, ...]:
        """What ``find`` finds among ``globs``, which must be the same for all callers."""
        kept = self._faults.get(globs)
        if kept is not None:
            return kept[1]
        found = find(globs)
        self._faults.put(globs, (globs, found))
        return found

    def _parse(self, data: bytes, parse: Parse, mine: Future[Document | None]) -> Document | None:
        try:
            document = parse(data)
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            self._parsed.put(data, (data, document))
            mine.set_result(document)
            return document
        finally:
            with self._lock:
                del self._parsing[data]
