"""Where we would put cache markers of our own, the most valuable first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from app.core.blocks import HEADER_START, Block
from app.core.caller_markers import DROPPED, MOVED, Mark, Marks
from app.core.facts import CacheOptions, Json, Notice
from app.core.prefix import LOOK_BACK
from app.core.registry import ATTRIBUTION_HEADER_NAME, PREFIX_NAME
from app.core.slots import Places

ON_CHANGING = "marker_on_changing_block"

SystemBlock = Block | Json
"""A block of ours, or one of the caller's as the API takes it."""


@dataclass(frozen=True, slots=True)
class Stable:
    """What stays from turn to turn: all places before number ``until``. ``end`` is the last one worth a marker."""

    until: int
    end: int | None

    def home(self, number: int, places: Places) -> int | None:
        """Where a marker wanted at ``number`` goes. The conversation always changes: its markers stay."""
        moves = number >= self.until and places.slots[number].area == "system"
        return self.end if moves else number


def stable_prefix(places: Places, system: Sequence[SystemBlock], changing: Collection[int]) -> Stable:
    """``changing`` are the indexes of system blocks that change; what stands behind one changes with it."""
    first = min((index for index in changing if 0 <= index < len(system)), default=None)
    if first is None:
        return Stable(len(places.slots), None)
    until = next(number for number, slot in enumerate(places.slots) if slot.path[:2] == ("system", first))
    before = takewhile(lambda number: number < until, places.ends)
    ends = [number for number in before if not _is_header(number, places, system)]
    return Stable(until, ends[-1] if ends else None)


def _is_header(number: int, places: Places, system: Sequence[SystemBlock]) -> bool:
    area, index = places.slots[number].path[:2]
    if area != "system":
        return False
    block = system[int(index)]
    if isinstance(block, Block):
        return block.text.startswith(HEADER_START) or block.sections == (ATTRIBUTION_HEADER_NAME,)
    return str(block.get("text", "")).startswith(HEADER_START)


def on_changing(theirs: Marks, places: Places, stable: Stable) -> Iterator[Notice]:
    """A word on each of the caller's markers that is written on every turn and read on none."""
    place = f": it belongs on {places.at(stable.end)}." if stable.end is not None else "."
    useless = f"This block, or one before it, changes from turn to turn: its marker is never read{place}"
    for number in theirs:
        if stable.home(number, places) != number:
            yield Notice(ON_CHANGING, useless, places.at(number))


def wanted_markers(
    places: Places,
    system: Sequence[SystemBlock],
    cache: CacheOptions,
    theirs: Marks,
    stable: Stable,
    *,
    before: int,
    scoped: bool,
    spare: int | None = None,
) -> tuple[dict[int, Mark], tuple[Notice, ...]]:
    """Our markers by place, the most valuable first, and a word on each that its place does not get.

    A place that the caller has marked needs none of ours, nor does the block on which the request's own marker stands.
    ``before`` is how many of the messages the previous request had. ``scoped``: a block's global scope is sent.
    ``spare`` is a place in front of what may turn out to change, worth a marker where there is room.
    """
    system_numbers = _system(places, system, cache)
    spared = () if spare is None or not system_numbers or spare in system_numbers else (spare,)
    numbers = (*_conversation(places, theirs, before), *system_numbers, *spared)
    homes = [(number, stable.home(number, places)) for number in numbers]
    taken = {*theirs, places.last} if places.top in theirs else {*theirs}
    marks = {
        home: _mark(home, places, system, cache, scoped=scoped)
        for _, home in homes
        if home is not None and home not in taken
    }
    return marks, tuple(_moved(number, home, places) for number, home in homes if home != number)


def _mark(number: int, places: Places, system: Sequence[SystemBlock], cache: CacheOptions, *, scoped: bool) -> Mark:
    area, index = places.slots[number].path[:2]
    block = system[int(index)] if area == "system" else None
    is_global = scoped and isinstance(block, Block) and block.scope == "global"
    return Mark({"type": "ephemeral", "scope": "global"} if is_global else {"type": "ephemeral"}).lasting(cache.ttl)


def _moved(number: int, home: int | None, places: Places) -> Notice:
    why = "This block, or one before it, changes from turn to turn"
    if home is None:
        return Notice(DROPPED, f"{why}, and nothing stands before it: it gets no marker of ours.", places.at(number))
    return Notice(MOVED, f"{why}: our marker belongs on {places.at(home)}.", places.at(number))


def _conversation(places: Places, theirs: Marks, before: int) -> Iterator[int]:
    """The end, then the end of the previous request."""
    ends = [number for number in places.ends if places.slots[number].area == "messages"]
    if not ends:
        return
    yield ends[-1]
    earlier = next((number for number in reversed(ends) if int(places.slots[number].path[1]) < before), None)
    if earlier is not None and not any(_finds(earlier, number, places) for number in (ends[-1], *theirs)):
        yield earlier


def _finds(entry: int, marker: int, places: Places) -> bool:
    """Whether the API, at a marker, finds what was written at an earlier place."""
    return entry <= marker and places.rows[marker] - places.rows[entry] <= LOOK_BACK


def messages_before(messages: Sequence[Json]) -> int:
    """How many messages the previous request had, going by the roles: the last answer follows them."""
    answers = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    if not answers:
        return 0
    first = answers[-1]
    while first and messages[first - 1].get("role") == "assistant":
        first -= 1
    return first


def _system(places: Places, system: Sequence[SystemBlock], cache: CacheOptions) -> list[int]:
    """The end of the system prompt, other blocks with a scope, and the prefix last."""
    ends = [number for number in reversed(places.ends) if places.slots[number].area == "system"]
    found = [(number, system[int(places.slots[number].path[1])]) for number in ends]
    worth = [
        (number, block)
        for number, block in found
        if (block.scope is not None if isinstance(block, Block) else number == ends[0] and cache.scope != "off")
    ]
    return [number for number, _ in sorted(worth, key=lambda row: _is_prefix(row[1]))]


def _is_prefix(block: SystemBlock) -> bool:
    return isinstance(block, Block) and block.sections == (PREFIX_NAME,)
