"""What this process keeps of disks and documents for all its requests, bounded by bytes and safe among threads."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeAlias, TypeVar

from app.core.document import Document, Faults, Parse
from app.core.weight import weight

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_Place: TypeAlias = tuple[str, bytes]
_Globs: TypeAlias = tuple[str, tuple[str, ...]]

OVERHEAD_BYTES = 400
"""Of a row in a cache beside what it holds."""


class Cache(Generic[Key, Value]):
    """Keeps the rows that were asked for last. ``size`` says in bytes how much a value holds."""

    def __init__(self, max_bytes: int, size: Callable[[Value], int]) -> None:
        self._max = max_bytes
        self._size = size
        self._rows: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = 0
        self._lock = Lock()

    @property
    def held_bytes(self) -> int:
        return self._bytes

    @property
    def lookups(self) -> tuple[int, int]:
        """How often something was found, and how often not."""
        return self._hits, self._misses

    def get(self, key: Key) -> Value | None:
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                self._misses += 1
                return None
            self._hits += 1
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
    """Documents by the bytes of their files. Two threads that want the same one have it parsed once.

    What was asked for in one space is not known in another one, in no time either; all spaces share ``max_bytes``.
    """

    def __init__(self, max_bytes: int) -> None:
        self._parsed: Cache[_Place, tuple[_Place, Document | None]] = Cache(max_bytes * 3 // 4, weight)
        self._faults: Cache[_Globs, tuple[_Globs, tuple[str, ...]]] = Cache(max_bytes // 4, weight)
        self._parsing: dict[_Place, Future[Document | None]] = {}
        self._lock = Lock()

    @property
    def lookups(self) -> tuple[int, int]:
        """How often a document was found, and how often not."""
        return self._parsed.lookups

    @property
    def pattern_lookups(self) -> tuple[int, int]:
        return self._faults.lookups

    def of(self, space: str) -> SpaceDocuments:
        """What is kept for ``space``; that of "" is kept here, too."""
        return SpaceDocuments(self, space)

    def document(self, data: bytes, parse: Parse, space: str = "") -> Document | None:
        """What ``parse`` makes of ``data``, which must be the same for all callers."""
        place = space, data
        with self._lock:
            known = self._parsed.get(place)
            if known is not None:
                return known[1]
            parsing = self._parsing.get(place)
            mine = self._parsing.setdefault(place, Future())
        return parsing.result() if parsing is not None else self._parse(place, parse, mine)

    def unreadable(self, globs: tuple[str, ...], find: Faults, space: str = "") -> tuple[str, ...]:
        """What ``find`` finds among ``globs``, which must be the same for all callers."""
        place = space, globs
        kept = self._faults.get(place)
        if kept is not None:
            return kept[1]
        found = find(globs)
        self._faults.put(place, (place, found))
        return found

    def _parse(self, place: _Place, parse: Parse, mine: Future[Document | None]) -> Document | None:
        try:
            document = parse(place[1])
        except BaseException as error:
            mine.set_exception(error)
            raise
        else:
            self._parsed.put(place, (place, document))
            mine.set_result(document)
            return document
        finally:
            with self._lock:
                del self._parsing[place]


@dataclass(frozen=True, slots=True)
class SpaceDocuments:
    """The documents of one space."""

    shared: Documents
    space: str

    def document(self, data: bytes, parse: Parse) -> Document | None:
        return self.shared.document(data, parse, self.space)

    def unreadable(self, globs: tuple[str, ...], find: Faults) -> tuple[str, ...]:
        return self.shared.unreadable(globs, find, self.space)
