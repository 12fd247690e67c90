"""Why a prompt cache broke: the first difference between two requests, the cause by name, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.core.facts import Json, Usage
from app.core.prefix import Segment, common, compact, hit_length, segments
from app.core.secrets import masked
from app.core.tokens import utf16_length

Cause = Literal[
    "model_changed",
    "effort_changed",
    "tools_changed",
    "system_changed",
    "memory_changed",
    "messages_rewritten",
    "ttl_expired",
    "below_minimum",
    "markers_moved",
    "scope_changed",
    "server_side_or_unknown",
]

TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}
SHOWN = 60
"""Characters shown before and after the place of a difference."""

MARGIN = 8000
"""Characters around what is shown that are searched for secrets."""

AREAS = ("tools", "system", "messages")
EFFORT_FIELDS = ("thinking", "output_config", "effort", "tool_choice")


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as the cache sees it. ``minimum`` is the shortest prefix that is cached, in tokens.

    ``started`` is when it was sent, in seconds of any clock; ``context_messages`` is how many messages in front hold
    instruction files rather than conversation; ``sections`` names the runs of each system block: (name, UTF-16 units).
    """

    model: str
    effort: str
    segments: tuple[Segment, ...]
    minimum: int
    started: float | None = None
    context_messages: int = 0
    sections: tuple[tuple[tuple[str, int], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which two requests differ. ``offset`` is in characters of the segment's text."""

    block: int
    at: str
    section: str | None
    offset: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """``hit`` None: nothing could have been cached. ``rewritten`` are tokens written again that had been cached."""

    hit: bool | None
    hit_blocks: int
    hit_tokens: int
    rewritten: int
    first_change: Difference | None
    cause: Cause | None
    agreed: bool | None = None


def sent(request: Json, minimum: int, **more: Any) -> Sent:
    """A Messages API request as the cache sees it."""
    effort = compact({field: request[field] for field in EFFORT_FIELDS if field in request})
    model = request.get("model")
    return Sent(model if isinstance(model, str) else compact(model), effort, segments(request), minimum, **more)


def compared(before: Sent, after: Sent, usage: Usage | None = None) -> Comparison:
    """What ``after`` can read of what ``before`` wrote, and why not more; ``usage`` is the API's word on ``after``.

    Where nothing changed and the API says that nothing was read, it is believed: no hit, ``agreed`` False.
    """
    cached = hit_length(before.segments, before.segments, before.minimum)
    difference = _difference(before, after)
    cause = _cause(before, after, cached, difference)
    whole = hit_length(_living(before, after), after.segments, before.minimum)
    agreed = None if usage is None or cached == 0 else (usage.cache_read_input_tokens > 0) == (whole > 0)
    if agreed is False and cause is None:
        cause, whole = "server_side_or_unknown", 0
    tokens = _tokens(after.segments[:whole])
    return Comparison(
        hit=None if cached == 0 else whole >= cached,
        hit_blocks=whole,
        hit_tokens=tokens,
        rewritten=max(0, _tokens(before.segments[:cached]) - tokens),
        first_change=difference if cause is not None else None,
        cause=cause,
        agreed=agreed,
    )


def _living(before: Sent, after: Sent) -> tuple[Segment, ...]:
    """The segments of ``before`` without the markers whose entries ``after`` cannot read, whatever its bytes."""
    lost = before.model != after.model or _scope_changed(before, after)
    effort = before.effort != after.effort
    return tuple(
        replace(one, ttl=None) if lost or (effort and one.area == "messages") or _expired(before, after, one) else one
        for one in before.segments
    )


def _cause(before: Sent, after: Sent, cached: int, difference: Difference | None) -> Cause | None:
    if before.model != after.model:
        return "model_changed"
    if cached == 0:
        return "below_minimum" if any(one.ttl for one in before.segments) else None
    changed = _changed(before, after, difference) if difference is not None and difference.block < cached else None
    if changed in _BEFORE_MESSAGES:
        return changed
    if before.effort != after.effort and before.segments[cached - 1].area == "messages":
        return "effort_changed"
    return changed or _kept_bytes_cause(before, after, cached)


_BEFORE_MESSAGES: tuple[Cause, ...] = ("tools_changed", "system_changed")


def _kept_bytes_cause(before: Sent, after: Sent, cached: int) -> Cause | None:
    """Why less is read although what was cached still stands in front."""
    if _expired(before, after, before.segments[cached - 1]):
        return "ttl_expired"
    if _scope_changed(before, after):
        return "scope_changed"
    reached = hit_length(before.segments, after.segments, before.minimum)
    return None if reached >= cached else "markers_moved"


def _changed(before: Sent, after: Sent, difference: Difference) -> Cause:
    if difference.at.startswith("tools"):
        return "tools_changed"
    if difference.at.startswith("system"):
        return "system_changed"
    message = int(difference.at.removeprefix("messages[").partition("]")[0])
    return "memory_changed" if message < max(before.context_messages, after.context_messages) else "messages_rewritten"


def _scope_changed(before: Sent, after: Sent) -> bool:
    """Whether a marker that stands at the same place in both has another scope."""
    pairs = zip(before.segments, after.segments, strict=False)
    return any(old.ttl and new.ttl and old.at == new.at and old.scope != new.scope for old, new in pairs)


def _expired(before: Sent, after: Sent, marked: Segment) -> bool:
    """Whether the entry that ends at ``marked`` is gone, counted from the start of the request that wrote it."""
    if before.started is None or after.started is None or marked.ttl is None:
        return False
    return after.started - before.started > TTL_SECONDS.get(marked.ttl, TTL_SECONDS["5m"])


def _difference(before: Sent, after: Sent) -> Difference | None:
    shared = common(before.segments, after.segments)
    if shared >= len(before.segments):
        return None
    old = before.segments[shared]
    new = after.segments[shared] if shared < len(after.segments) else old
    area = min(old.area, new.area, key=AREAS.index)
    texts = (old.text if old.area == area else "", new.text if new.area == area and new is not old else "")
    place = old if old.area == area else new
    offset = _offset(*texts)
    return Difference(
        block=shared,
        at=place.at,
        section=_section(before, after, place, utf16_length(max(texts, key=len)[:offset])),
        offset=offset,
        before=_shown(texts[0], offset),
        after=_shown(texts[1], offset),
    )


def _offset(old: str, new: str) -> int:
    """The first character that differs, found by halves: texts can be long."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[:middle] == new[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _section(before: Sent, after: Sent, place: Segment, units: int) -> str | None:
    """The tool, or the section of a system block, in which a place is; one that is only in ``after`` counts too."""
    if place.area != "system":
        return place.name if place.area == "tools" else None
    block = int(place.at.removeprefix("system[").removesuffix("]"))
    return _section_at(before, block, units) or _section_at(after, block, units)


def _section_at(one: Sent, block: int, units: int) -> str | None:
    passed = 0
    for name, length in one.sections[block] if block < len(one.sections) else ():
        passed += length
        if units < passed:
            return name
    return None


def _shown(text: str, offset: int) -> str:
    """A little of the text around the place, on one line, with a dot for each character of a secret."""
    start = max(0, offset - SHOWN // 3)
    margin = max(0, start - MARGIN)
    window = masked(text[margin : start + SHOWN + MARGIN])
    return " ".join(window[start - margin : start - margin + SHOWN].split())


def _tokens(found: Sequence[Segment]) -> int:
    return sum(one.tokens for one in found)
