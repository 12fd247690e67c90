"""How much memory a session keeps alive, estimated from above and in little time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from app.core.footprint import FolderMark, Footprint
from app.core.prefix import Segment
from app.core.sent import Sent

ROUNDING = 16
"""Bytes that an allocator may add to an object."""

PLAIN = (str, int, float, bytes)
COLLECTIONS = (tuple, list, frozenset)
WEIGHED_WHOLE = (*PLAIN, Footprint)

SEGMENT = 400
"""Bytes of a segment with its digests and short fields, but for its text, its name and the characters of its place."""

MARK, ENTRY = 500, 80
"""Bytes of a mark of a footprint, and of an entry of one, but for the texts in them."""

NAME = 96
WIDEST = 4
"""Bytes of a name that is not the segment's place, and of each of its characters, at most."""


def weight(remembered: object) -> int:
    """Bytes of all that a session, or a part of one, refers to.

    What it holds twice counts once; what sessions share counts in each.
    """
    seen: set[int] = set()
    waiting: list[Any] = [remembered]
    total = 0
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        total += _own(one)
        waiting.extend(_inside(one))
    return total


def _own(one: Any) -> int:
    if isinstance(one, str):
        return _text(one)
    if isinstance(one, Footprint):
        return _footprint(one)
    return _sent(one) if isinstance(one, Sent) else sys.getsizeof(one) + ROUNDING


def _text(one: str) -> int:
    """A text that is not ASCII gets a second form when it is written as JSON, and keeps it."""
    written = 0 if one.isascii() else len(one.encode("utf-8", "surrogatepass"))
    return sys.getsizeof(one) + written + ROUNDING


def _sent(one: Sent) -> int:
    """Itself and its segments without their texts: there may be thousands, all alike."""
    names = sum([_names(segment) for segment in one.segments])
    own = sys.getsizeof(one) + sys.getsizeof(one.segments) + 4 * ROUNDING
    return own + SEGMENT * len(one.segments) + names


def _footprint(one: Footprint) -> int:
    """Itself and its marks: there may be hundreds in every session."""
    own = sys.getsizeof(one) + sys.getsizeof(one.files) + sys.getsizeof(one.folders) + 4 * ROUNDING
    files = sum([MARK + sys.getsizeof(mark.path) + sys.getsizeof(mark.sha256) for mark in one.files])
    return own + files + sum([_folder(mark) for mark in one.folders])


def _folder(one: FolderMark) -> int:
    entries = sum([ENTRY + sys.getsizeof(name) + sys.getsizeof(what) for name, what in one.entries])
    names = sum([ROUNDING + sys.getsizeof(name) for name in one.names or ()])
    return MARK + sys.getsizeof(one.path) + sys.getsizeof(one.entries) + sys.getsizeof(one.names) + entries + names


def _names(one: Segment) -> int:
    own = 0 if one.name is one.at else NAME + WIDEST * len(one.name)
    return len(one.at) + own


def _inside(one: Any) -> Iterable[Any]:
    if isinstance(one, WEIGHED_WHOLE):
        return ()
    if isinstance(one, COLLECTIONS):
        return one
    if isinstance(one, Sent):
        return _inside_sent(one)
    fields = getattr(type(one), "__slots__", None)
    if fields:
        return [getattr(one, name) for name in fields]
    return chain(one.keys(), one.values()) if isinstance(one, Mapping) else ()


def _inside_sent(one: Sent) -> Iterator[Any]:
    yield from (one.model, one.effort, one.behind, one.sections, one.runs)
    for segment in one.segments:
        yield segment.text
        if segment.markers:
            yield from (segment.ttl, segment.scope)
