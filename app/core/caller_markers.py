"""The caller's own cache markers, made legal. They are kept before ours, and what is changed is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.core.facts import Json, Notice
from app.core.slots import Path, Slot

MOST_MARKERS = 4

DROPPED = "marker_dropped"
MOVED = "marker_moved"
TTL_CHANGED = "marker_ttl_changed"
SCOPE_REMOVED = "marker_scope_removed"

Ttl = Literal["5m", "1h"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker as it is sent."""

    body: Json

    @property
    def ttl(self) -> Ttl:
        return "1h" if self.body.get("ttl") == "1h" else "5m"

    def lasting(self, ttl: Ttl) -> Mark:
        """The same marker with another lifetime; five minutes need no key."""
        if ttl == self.ttl:
            return self
        bare = self.without("ttl")
        return bare if ttl == "5m" else replace(bare, body={**bare.body, "ttl": ttl})

    def without(self, key: str) -> Mark:
        return replace(self, body={name: value for name, value in self.body.items() if name != key})


Marks = Mapping[int, Mark]
"""By the place's number in the order in which the API reads."""


def caller_marks(places: Sequence[Slot], *, scoped: bool) -> tuple[Marks, tuple[Notice, ...]]:
    """The caller's markers as they can be sent, and what had to be done to them.

    ``scoped``: the receiver takes a marker's ``scope``.
    """
    notices: list[Notice] = []
    marks = _within_limit(_in_legal_places(places, notices), places, notices)
    if not scoped:
        marks = _without_scope(marks, places, notices)
    return _in_order(marks, places, notices), tuple(notices)


def no_marks(places: Sequence[Slot]) -> tuple[Marks, tuple[Notice, ...]]:
    """None of the caller's markers, and a word on each that goes."""
    off = "Caching is off for this request: no marker is sent."
    return {}, tuple(Notice(DROPPED, off, slot.at) for slot in places if slot.marker is not None)


def _in_legal_places(places: Sequence[Slot], notices: list[Notice]) -> dict[int, Mark]:
    """A marker that its place does not take goes to the nearest earlier one of the same list that does."""
    marks: dict[int, Mark] = {}
    nearest: dict[Path, int] = {}
    for number, slot in enumerate(places):
        if slot.takes:
            nearest[slot.home] = number
        if slot.marker is None:
            continue
        target = nearest.get(slot.home)
        if not _is_known(slot.marker):
            notices.append(Notice(DROPPED, "The API does not know a cache marker of this kind.", slot.at))
        elif target is None or target in marks:
            notices.append(Notice(DROPPED, "No marker may stand here, and no earlier place is free.", slot.at))
        else:
            marks[target] = Mark(slot.marker)
            if target != number:
                moved = f"No marker may stand here: it was moved to {places[target].at}."
                notices.append(Notice(MOVED, moved, slot.at))
    return marks


def _is_known(marker: Any) -> bool:
    return isinstance(marker, Mapping) and marker.get("type") == "ephemeral" and marker.get("ttl", "5m") in ("5m", "1h")


def _within_limit(marks: Marks, places: Sequence[Slot], notices: list[Notice]) -> Marks:
    """What stands in messages is dropped first, the earliest first."""
    least_wanted = sorted(marks, key=lambda number: (places[number].area != "messages", number))
    dropped = sorted(least_wanted[: max(0, len(marks) - MOST_MARKERS)])
    too_many = f"The API takes {MOST_MARKERS} cache markers in all."
    notices.extend(Notice(DROPPED, too_many, places[number].at) for number in dropped)
    return {number: marks[number] for number in sorted(marks.keys() - dropped)}


def _without_scope(marks: Marks, places: Sequence[Slot], notices: list[Notice]) -> Marks:
    refused = "A marker's scope is sent only to the first-party API and only with cache.scope_on_wire."
    notices.extend(
        Notice(SCOPE_REMOVED, refused, places[number].at) for number, mark in marks.items() if "scope" in mark.body
    )
    return {number: mark.without("scope") if "scope" in mark.body else mark for number, mark in marks.items()}


def _in_order(marks: Marks, places: Sequence[Slot], notices: list[Notice]) -> Marks:
    """Of two lifetimes in conflict the later one is lowered."""
    ordered: dict[int, Mark] = {}
    for number, mark in sorted(marks.items(), key=lambda item: item[0]):
        short_before = any(earlier.ttl == "5m" for earlier in ordered.values())
        if short_before and mark.ttl == "1h":
            lowered = "A lifetime of 1h may not follow one of 5m: it was lowered to 5m."
            notices.append(Notice(TTL_CHANGED, lowered, places[number].at))
        ordered[number] = mark.lasting("5m") if short_before else mark
    return ordered
