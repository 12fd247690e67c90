"""Cache markers for a whole request, within the API's rules whatever the caller sent.

At most four over tools, system and messages; a longer lifetime never behind a shorter one; none on blank text or on
thinking. Nothing that was handed in is mutated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from app.core.blocks import Block, Provider
from app.core.caller_markers import DROPPED, MOST_MARKERS, TTL_CHANGED, Mark, Marks, Ttl, caller_marks, no_marks
from app.core.facts import CacheOptions, Json, Notice
from app.core.registry import PREFIX_NAME
from app.core.slots import Change, Path, Piece, Slot, pieces, rewritten, slots, with_marker, without_marker
from app.core.tokens import rough_block

SCOPE_BETA = "prompt-caching-scope-2026-01-05"
BELOW_MINIMUM = "prefix_below_minimum"


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A marker of the answer. ``tokens`` is the rough size of all that stands up to its place, itself included."""

    at: str
    tokens: int
    below_minimum: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """The request's parts as they are sent. ``betas`` are the values for the ``anthropic-beta`` header."""

    tools: tuple[Json, ...]
    system: tuple[Json, ...]
    messages: tuple[Json, ...]
    breakpoints: tuple[Breakpoint, ...]
    notices: tuple[Notice, ...]
    betas: tuple[str, ...]


def plan_markers(
    tools: Sequence[Json],
    system: Sequence[Block],
    messages: Sequence[Json],
    *,
    cache: CacheOptions,
    provider: Provider,
    min_cache: int,
    betas: tuple[str, ...] = (),
    callers: bool = True,
    measure: Callable[[Any], int] = rough_block,
) -> Planned:
    """Put our markers beside the caller's, and make all of them legal.

    Args:
        tools: in the order in which they are sent.
        system: our blocks; those with a scope are marked.
        messages: API messages, whose ``content`` is a text or a list of blocks.
        cache: when it is not enabled none of ours are added; the caller's own are still made legal.
        provider: only the first-party API is sent a ``scope``.
        min_cache: the shortest prefix, in tokens, that the model caches.
        betas: the caller's own beta values.
        callers: whether the caller's markers are kept; if not, each that goes is told.
        measure: tokens of a tool, of a block, or of a message's bare text.
    """
    scoped = cache.scope_on_wire and provider == "anthropic"
    texts = tuple({"type": "text", "text": block.text} for block in system)
    request = {"tools": tools, "system": texts, "messages": messages}
    laid = tuple((piece, slot) for piece in pieces(request) for slot in slots(piece))
    places = tuple(slot for _, slot in laid)

    theirs, told = caller_marks(places, scoped=scoped) if callers else no_marks(places)
    wanted = tuple(_wanted(places, system, cache, scoped=scoped)) if cache.enabled else ()
    ours, given_up = _fitting(wanted, theirs, places)
    ours, adjusted = _in_order(ours, theirs, places)
    marks = {**ours, **theirs}

    sent = rewritten(request, dict(_changes(places, marks)))
    breakpoints = tuple(_breakpoints(laid, marks, min_cache, measure))
    return Planned(
        tools=tuple(sent["tools"]),
        system=tuple(sent["system"]),
        messages=tuple(sent["messages"]),
        breakpoints=breakpoints,
        notices=(*told, *given_up, *adjusted, *_useless(breakpoints, min_cache)),
        betas=_betas(betas, marks),
    )


def _wanted(
    places: Sequence[Slot], system: Sequence[Block], cache: CacheOptions, *, scoped: bool
) -> Iterator[tuple[int, Mark]]:
    """Ours, the most valuable first: the end of the conversation, the system's blocks, and the prefix last."""
    end = next((number for number in reversed(range(len(places))) if _may_end(places[number])), None)
    if end is not None:
        yield end, _mark(cache.ttl)
    numbers = (number for number, slot in enumerate(places) if slot.area == "system")
    marked = [(number, block) for number, block in zip(numbers, system, strict=True) if block.scope is not None]
    for number, block in sorted(marked, key=lambda row: row[1].sections == (PREFIX_NAME,)):
        yield number, _mark(cache.ttl, is_global=scoped and block.scope == "global")


def _may_end(slot: Slot) -> bool:
    return slot.area == "messages" and slot.takes and not slot.inner


def _mark(ttl: Ttl, *, is_global: bool = False) -> Mark:
    body = {"type": "ephemeral", "scope": "global"} if is_global else {"type": "ephemeral"}
    return Mark(body).lasting(ttl)


def _fitting(
    wanted: Sequence[tuple[int, Mark]], theirs: Marks, places: Sequence[Slot]
) -> tuple[Marks, tuple[Notice, ...]]:
    """As many of ours as the caller's leave room for; where the caller has marked a place, it is marked."""
    needed = [(number, mark) for number, mark in wanted if number not in theirs]
    room = MOST_MARKERS - len(theirs)
    gave_way = f"Our own marker gave way to the caller's: the API takes {MOST_MARKERS} in all."
    return dict(needed[:room]), tuple(Notice(DROPPED, gave_way, places[number].at) for number, _ in needed[room:])


def _in_order(ours: Marks, theirs: Marks, places: Sequence[Slot]) -> tuple[Marks, tuple[Notice, ...]]:
    """Ours with lifetimes that fit between the caller's, which stay as they are."""
    short_from = min((number for number, mark in theirs.items() if mark.ttl == "5m"), default=len(places))
    long_until = max((number for number, mark in theirs.items() if mark.ttl == "1h"), default=-1)
    adjusted: dict[int, Mark] = {}
    for number, mark in ours.items():
        held = mark.lasting("5m") if number > short_from else mark
        adjusted[number] = held.lasting("1h") if number < long_until else held
    return adjusted, tuple(
        Notice(TTL_CHANGED, f"Our own marker lasts {mark.ttl}, to agree with the caller's.", places[number].at)
        for number, mark in sorted(adjusted.items(), key=lambda item: item[0])
        if mark != ours[number]
    )


def _changes(places: Sequence[Slot], marks: Marks) -> Iterator[tuple[Path, Change]]:
    for number, slot in enumerate(places):
        mark = marks.get(number)
        if mark is not None and mark.body != slot.marker:
            yield slot.path, partial(with_marker, marker=mark.body)
        elif mark is None and slot.marker is not None:
            yield slot.path, without_marker


def _breakpoints(
    laid: Sequence[tuple[Piece, Slot]], marks: Marks, min_cache: int, measure: Callable[[Any], int]
) -> Iterator[Breakpoint]:
    """In wire order. A place within a piece counts with the whole piece."""
    numbered = enumerate(laid)
    last = max(marks, default=-1)
    total = 0
    for _, group in groupby(numbered, key=lambda row: row[1][0].path):
        rows = list(group)
        if rows[0][0] > last:
            return
        total += measure(rows[0][1][0].value)
        for number, (_, slot) in rows:
            if number in marks:
                yield Breakpoint(slot.at, total, total < min_cache)


def _useless(breakpoints: Sequence[Breakpoint], min_cache: int) -> Iterator[Notice]:
    for point in breakpoints:
        if point.below_minimum:
            message = f"About {point.tokens} tokens up to here: this model caches no prefix shorter than {min_cache}."
            yield Notice(BELOW_MINIMUM, message, point.at)


def _betas(betas: tuple[str, ...], marks: Marks) -> tuple[str, ...]:
    """The caller's, with the one for scopes exactly when a scope is sent."""
    used = (SCOPE_BETA,) if any("scope" in mark.body for mark in marks.values()) else ()
    return (*(beta for beta in betas if beta != SCOPE_BETA), *used)
