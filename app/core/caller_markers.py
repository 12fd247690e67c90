"""The caller's own cache markers, made legal. They are kept before ours, and what is changed is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.core.facts import Json, Notice
from app.core.slots import Path, Places, Slot

MOST_MARKERS = 4
LIFETIMES = ("5m", "1h")
SCOPES = ("global", "org")
KEYS = frozenset({"type", "ttl", "scope"})

DROPPED = "marker_dropped"
MOVED = "marker_moved"
TTL_CHANGED = "marker_ttl_changed"
SCOPE_REMOVED = "marker_scope_removed"

UNKNOWN_KIND = "The API does not know a cache marker of this kind."
TOO_MANY = f"The API takes {MOST_MARKERS} cache markers in all."

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


@dataclass(frozen=True, slots=True)
class Receiver:
    """What the one who is sent the request takes: a marker's ``scope``, lifetimes of an hour, a marker at the top."""

    scope: bool
    hour: bool
    top_level: bool


def caller_marks(places: Places, receiver: Receiver) -> tuple[Marks, tuple[Notice, ...]]:
    """The caller's markers as they can be sent, and what had to be done to them."""
    notices: list[Notice] = []
    marks = _within_limit(_in_legal_places(places.slots[: places.top], notices), places, notices)
    marks = {**marks, **_automatic(marks, places, receiver, notices)}
    marks = _in_order(_accepted(marks, places, receiver, notices), places, notices)
    return _in_agreement(marks, places, notices), tuple(notices)


def no_marks(places: Places) -> tuple[Marks, tuple[Notice, ...]]:
    """None of the caller's markers, and a word on each that goes."""
    off = "Caching is off for this request: no marker is sent."
    return {}, tuple(Notice(DROPPED, off, slot.at) for slot in places.slots if slot.marker is not None)


def _in_legal_places(slots: Sequence[Slot], notices: list[Notice]) -> dict[int, Mark]:
    """A marker that its place does not take goes to the nearest earlier one of the same list that does."""
    marks: dict[int, Mark] = {}
    nearest: dict[Path, int] = {}
    for number, slot in enumerate(slots):
        if slot.takes:
            nearest[slot.home] = number
        if slot.marker is None:
            continue
        target = nearest.get(slot.home)
        if not _is_known(slot.marker):
            notices.append(Notice(DROPPED, UNKNOWN_KIND, slot.at))
        elif target is None or target in marks:
            notices.append(Notice(DROPPED, "No marker may stand here, and no earlier place is free.", slot.at))
        else:
            marks[target] = Mark(slot.marker)
            if target != number:
                moved = f"No marker may stand here: it was moved to {slots[target].at}."
                notices.append(Notice(MOVED, moved, slot.at))
    return marks


def _is_known(marker: Any) -> bool:
    if not isinstance(marker, Mapping) or not marker.keys() <= KEYS:
        return False
    return marker.get("type") == "ephemeral" and marker.get("ttl", "5m") in LIFETIMES


def _within_limit(marks: Marks, places: Places, notices: list[Notice]) -> Marks:
    """What stands in messages is dropped first, the earliest first, and the last marker of all never."""
    last = max(marks, default=None)
    least_wanted = sorted(marks, key=lambda at: (at == last, places.slots[at].area != "messages", at))
    dropped = sorted(least_wanted[: max(0, len(marks) - MOST_MARKERS)])
    notices.extend(Notice(DROPPED, TOO_MANY, places.at(number)) for number in dropped)
    return {number: marks[number] for number in sorted(marks.keys() - dropped)}


def _automatic(marks: Marks, places: Places, receiver: Receiver, notices: list[Notice]) -> Marks:
    """The request's own marker, at the top or, where that is not taken, on the block on which it would stand."""
    marker, at = places.slots[places.top].marker, places.at(places.top)
    target = places.top if receiver.top_level else places.last
    if marker is None:
        return {}
    refusal = _refusal(marker, target, marks)
    if target is None or refusal:
        notices.append(Notice(DROPPED, refusal, at))
        return {}
    if target != places.top:
        moved = f"This provider takes no marker for the whole request: it was moved to {places.at(target)}."
        notices.append(Notice(MOVED, moved, at))
    return {target: Mark(marker)}


def _refusal(marker: Any, target: int | None, marks: Marks) -> str:
    """Why the request's own marker cannot stand there; empty when it can."""
    if not _is_known(marker):
        return UNKNOWN_KIND
    if len(marks) == MOST_MARKERS:
        return TOO_MANY
    if target is None:
        return "No block of the request takes a marker."
    return "The last block carries a marker already." if target in marks else ""


def _accepted(marks: Marks, places: Places, receiver: Receiver, notices: list[Notice]) -> Marks:
    """Without what the receiver refuses."""
    return {
        number: _lowered(_unscoped(mark, places.at(number), receiver, notices), places.at(number), receiver, notices)
        for number, mark in marks.items()
    }


def _unscoped(mark: Mark, at: str, receiver: Receiver, notices: list[Notice]) -> Mark:
    if "scope" not in mark.body or (receiver.scope and mark.body["scope"] in SCOPES):
        return mark
    refused = "A marker's scope is sent only to the first-party API and only with cache.scope_on_wire."
    unknown = f"A marker's scope is one of {', '.join(SCOPES)}: it was left out."
    notices.append(Notice(SCOPE_REMOVED, unknown if receiver.scope else refused, at))
    return mark.without("scope")


def _lowered(mark: Mark, at: str, receiver: Receiver, notices: list[Notice]) -> Mark:
    if receiver.hour or mark.ttl == "5m":
        return mark
    refused = "The provider takes no lifetime of 1h for this model: it was lowered to 5m."
    notices.append(Notice(TTL_CHANGED, refused, at))
    return mark.lasting("5m")


def _in_order(marks: Marks, places: Places, notices: list[Notice]) -> Marks:
    """Of two lifetimes in conflict the later one is lowered."""
    ordered: dict[int, Mark] = {}
    for number, mark in sorted(marks.items(), key=lambda item: item[0]):
        short_before = any(earlier.ttl == "5m" for earlier in ordered.values())
        if short_before and mark.ttl == "1h":
            lowered = "A lifetime of 1h may not follow one of 5m: it was lowered to 5m."
            notices.append(Notice(TTL_CHANGED, lowered, places.at(number)))
        ordered[number] = mark.lasting("5m") if short_before else mark
    return ordered


def _in_agreement(marks: Marks, places: Places, notices: list[Notice]) -> Marks:
    """The request's own marker may not differ in lifetime from one on the block on which it stands."""
    stands = marks.get(places.top if places.last is None else places.last)
    if places.top not in marks or stands is None or stands.ttl == marks[places.top].ttl:
        return marks
    differs = f"The last block carries a marker of another lifetime, {stands.ttl}, which counts."
    notices.append(Notice(DROPPED, differs, places.at(places.top)))
    return {number: mark for number, mark in marks.items() if number != places.top}
