"""Cache markers for a whole request, within the rules of the API and of its provider, whatever the caller sent.

At most four over tools, system, messages and the request itself; a longer lifetime never behind a shorter one; none on
blank text or on thinking; none of ours where the model caches nothing. Nothing that was handed in is mutated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.core.blocks import Block
from app.core.caller_markers import DROPPED, MOST_MARKERS, TTL_CHANGED, Mark, Marks, Receiver, caller_marks, no_marks
from app.core.facts import CacheOptions, Json, Notice
from app.core.models import Model
from app.core.prefix import model_tokens, rough_minimum
from app.core.providers import BETA_SCOPE, Provider, ProviderRow, provider_row
from app.core.slots import Change, Path, Places, places_of, rewritten, with_marker, without_marker
from app.core.tokens import rough_block
from app.core.wanted_markers import SystemBlock, messages_before, on_changing, stable_prefix, wanted_markers

SCOPE_BETA = f"{BETA_SCOPE}2026-01-05"
BELOW_MINIMUM = "prefix_below_minimum"


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A marker. ``tokens`` is the rough size of all that stands up to its place, itself included.

    ``sent`` False: it would have been ours, but the model caches no prefix so short. ``at`` is ``cache_control`` for
    the request's own marker.
    """

    at: str
    tokens: int
    below_minimum: bool
    sent: bool = True


@dataclass(frozen=True, slots=True)
class Planned:
    """The request's parts as they are sent. ``betas`` are the values for the ``anthropic-beta`` header.

    ``automatic`` is the request's own ``cache_control``; None: it has none.
    """

    tools: tuple[Json, ...]
    system: tuple[Json, ...]
    messages: tuple[Json, ...]
    breakpoints: tuple[Breakpoint, ...]
    notices: tuple[Notice, ...]
    betas: tuple[str, ...]
    automatic: Json | None = None


def plan_markers(
    tools: Sequence[Json],
    system: Sequence[SystemBlock],
    messages: Sequence[Json],
    *,
    cache: CacheOptions,
    provider: Provider,
    model: Model,
    automatic: Json | None = None,
    before: int | None = None,
    changing: Collection[int] = frozenset(),
    changed: Collection[int] = frozenset(),
    betas: tuple[str, ...] = (),
    callers: bool = True,
    measure: Callable[[Any], int] = rough_block,
) -> Planned:
    """Put our markers beside the caller's, and make all of them legal.

    Args:
        tools: in the order in which they are sent.
        system: our blocks, of which those with a scope are marked, and the caller's, of which the last one is.
        messages: API messages, whose ``content`` is a text or a list of blocks.
        cache: when it is not enabled none of ours are added; the caller's own are still made legal.
        provider: decides about scopes, lifetimes and a marker at the top.
        model: its shortest cacheable prefix decides which of ours are left out.
        automatic: the ``cache_control`` at the top of the caller's request.
        before: how many of ``messages`` the session's previous request had; None: those in front of the last answer.
        changing: the indexes of system blocks that are known to change from turn to turn.
        changed: those that changed just now: what stands in front of them gets a marker too, if there is room.
        betas: the caller's own beta values.
        callers: whether the caller's markers are kept; if not, each that goes is told.
        measure: rough tokens of a tool, of a block, or of a message's bare text.
    """
    row = provider_row(provider)
    receiver = Receiver(row.scope and cache.scope_on_wire, row.takes_hour(model), row.top_level)
    request = {"tools": tools, "system": [_on_wire(block) for block in system], "messages": messages}
    places = places_of(request, automatic)
    stable = stable_prefix(places, system, changing)
    spare = stable_prefix(places, system, changed).end

    theirs, told = caller_marks(places, receiver) if callers else no_marks(places)
    before = messages_before(messages) if before is None else before
    wanted, moved = (
        wanted_markers(places, system, cache, theirs, stable, before=before, scoped=receiver.scope, spare=spare)
        if cache.enabled
        else ({}, ())
    )
    sizes = _sizes(places, (*theirs, *wanted), measure)
    chosen = _chosen(places, theirs, wanted, receiver, model=model, sizes=sizes)
    sent = rewritten(request, dict(_changes(places, chosen.marks)))
    return Planned(
        tools=tuple(sent["tools"]),
        system=tuple(sent["system"]),
        messages=tuple(sent["messages"]),
        breakpoints=chosen.breakpoints,
        notices=(*told, *on_changing(theirs, places, stable), *moved, *chosen.notices),
        betas=_betas(betas, chosen.marks, row),
        automatic=dict(chosen.marks[places.top].body) if places.top in chosen.marks else None,
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The markers that are sent, by place."""

    marks: Marks
    breakpoints: tuple[Breakpoint, ...]
    notices: tuple[Notice, ...]


def _chosen(
    places: Places, theirs: Marks, wanted: Marks, receiver: Receiver, *, model: Model, sizes: Mapping[int, int]
) -> Chosen:
    """Those of ours that are worth it and fit, beside the caller's."""
    worth = {number: mark for number, mark in wanted.items() if _reaches(sizes[number], model)}
    ours, given_up = _fitting(worth, theirs, places)
    ours, adjusted = _in_order(ours, theirs, places, receiver)
    marks = {**ours, **theirs}
    breakpoints = tuple(
        Breakpoint(places.at(number), sizes[number], not _reaches(sizes[number], model), number in marks)
        for number in sorted({*marks, *(wanted.keys() - worth.keys())})
    )
    return Chosen(marks, breakpoints, (*given_up, *adjusted, *_useless(breakpoints, model)))


def _on_wire(block: SystemBlock) -> Json:
    return {"type": "text", "text": block.text} if isinstance(block, Block) else block


def _sizes(places: Places, numbers: Sequence[int], measure: Callable[[Any], int]) -> dict[int, int]:
    """Rough tokens up to each of those places. A place within a piece counts with the whole piece."""
    stands = {number: places.last if number == places.top else number for number in numbers}
    rows = {number: -1 if at is None else places.rows[at] for number, at in stands.items()}
    sums = [0]
    for piece in places.pieces[: max(rows.values(), default=-1) + 1]:
        sums.append(sums[-1] + measure(piece.value))
    return {number: sums[row + 1] for number, row in rows.items()}


def _reaches(tokens: int, model: Model) -> bool:
    return tokens >= rough_minimum(model)


def _fitting(wanted: Marks, theirs: Marks, places: Places) -> tuple[Marks, tuple[Notice, ...]]:
    """As many of ours as the caller's leave room for, the most valuable first."""
    room = MOST_MARKERS - len(theirs)
    rows = list(wanted.items())
    gave_way = f"Our own marker gave way: the API takes {MOST_MARKERS} in all."
    return dict(rows[:room]), tuple(Notice(DROPPED, gave_way, places.at(number)) for number, _ in rows[room:])


def _in_order(ours: Marks, theirs: Marks, places: Places, receiver: Receiver) -> tuple[Marks, tuple[Notice, ...]]:
    """Ours with lifetimes that fit between the caller's, which stay as they are, and that the provider takes."""
    short_from = min((number for number, mark in theirs.items() if mark.ttl == "5m"), default=places.top + 1)
    long_until = max((number for number, mark in theirs.items() if mark.ttl == "1h"), default=-1)
    adjusted: dict[int, Mark] = {}
    for number, mark in ours.items():
        held = mark.lasting("5m") if number > short_from or not receiver.hour else mark
        adjusted[number] = held.lasting("1h") if number < long_until else held
    why = "to agree with the caller's" if receiver.hour else "for the provider takes no more for this model"
    return adjusted, tuple(
        Notice(TTL_CHANGED, f"Our own marker lasts {adjusted[number].ttl}, {why}.", places.at(number))
        for number in sorted(ours)
        if adjusted[number] != ours[number]
    )


def _changes(places: Places, marks: Marks) -> Iterator[tuple[Path, Change]]:
    for number, slot in enumerate(places.slots[: places.top]):
        mark = marks.get(number)
        if mark is not None and mark.body != slot.marker:
            yield slot.path, partial(with_marker, marker=mark.body)
        elif mark is None and slot.marker is not None:
            yield slot.path, without_marker


def _useless(breakpoints: Sequence[Breakpoint], model: Model) -> Iterator[Notice]:
    for point in breakpoints:
        if point.below_minimum:
            size = f"About {model_tokens(point.tokens, model)} tokens up to here"
            ours = "" if point.sent else " It gets no marker of ours."
            message = f"{size}: this model caches no prefix shorter than {model.min_cache}.{ours}"
            yield Notice(BELOW_MINIMUM, message, point.at)


def _betas(betas: tuple[str, ...], marks: Marks, row: ProviderRow) -> tuple[str, ...]:
    """The caller's without those that the provider refuses, and the one for scopes exactly when a scope is sent."""
    used = (SCOPE_BETA,) if any("scope" in mark.body for mark in marks.values()) else ()
    refused = SCOPE_BETA if row.takes_beta(SCOPE_BETA) else BETA_SCOPE
    return (*(beta for beta in betas if not beta.startswith(refused)), *used)
