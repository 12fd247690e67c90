"""A request as the prompt cache sees it, small enough to be remembered, and as plain values for a store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from app.core.facts import Json
from app.core.prefix import Segment, compact, linked, segments

EFFORT_FIELDS = ("thinking", "output_config", "effort", "tool_choice")
UNSAID = (
    ("tool_choice", {"type": "auto"}),
    ("tool_choice", {"type": "auto", "disable_parallel_tool_use": False}),
    ("thinking", {"type": "disabled"}),
)
"""Fields with a value that says the same as leaving them out."""

MOST_TEXT = 128 * 1024

STORED = ("at", "area", "name", "text", "tokens", "digest", "ttl", "scope", "role", "markers")
"""Fields of a segment that a store is given; the chain follows from the digests."""

Sections = Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as the cache sees it. ``minimum`` is the shortest prefix that is cached, in rough tokens.

    ``effort`` is a digest of the options that messages are cached under. ``started`` is when it was sent, in seconds
    of any clock; ``context_messages`` is how many messages in front hold instruction files rather than conversation;
    ``sections`` names, by a block's place, the runs of its text: (name, UTF-16 units). ``left_out``: markers were
    wanted, and left out because of the minimum. ``behind`` is the place of what a layout puts behind the instructions.
    ``runs`` are digests of the sections of each block whose text is gone.
    """

    model: str
    effort: str
    segments: tuple[Segment, ...]
    minimum: int
    started: float | None = None
    context_messages: int = 0
    sections: Sections = field(default_factory=dict)
    left_out: bool = False
    behind: str | None = None
    runs: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)


def sent(request: Json, minimum: int, **more: Any) -> Sent:
    """A Messages API request as the cache sees it; ``minimum`` is in rough tokens."""
    model = request.get("model")
    name = model if isinstance(model, str) else compact(model)
    return Sent(name, _effort(request), segments(request), minimum, **more)


def _effort(request: Json) -> str:
    given = {field: request[field] for field in EFFORT_FIELDS if request.get(field) is not None}
    told = {field: value for field, value in given.items() if (field, value) not in UNSAID}
    return hashlib.sha256(compact(told, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def lightened(one: Sent, limit: int = MOST_TEXT) -> Sent:
    """The same with at most ``limit`` characters of text: in wire order, a text for which there is no room goes.

    A difference is still found, and its section named; only its text is not shown.
    """
    kept = tuple(_light(one.segments, limit))
    gone = {old.at: old.text for old, new in zip(one.segments, kept, strict=True) if old.text and new.text is None}
    if not gone:
        return one
    runs = {at: run_digests(gone[at], row) for at, row in one.sections.items() if at in gone}
    return replace(one, segments=kept, runs={**one.runs, **runs})


def _light(found: Sequence[Segment], limit: int) -> Iterator[Segment]:
    room = limit
    for one in found:
        fits = one.text is not None and len(one.text) <= room
        room -= len(one.text or "") if fits else 0
        yield one if fits else replace(one, text=None)


def run_digests(text: str, sections: Sequence[tuple[str, int]]) -> tuple[bytes, ...]:
    """A digest of each section of ``text``, and one of what stands behind the last."""
    units = text.encode("utf-16-le", "surrogatepass")
    ends = accumulate((2 * length for _, length in sections), initial=0)
    cuts = [*ends, len(units)]
    return tuple(hashlib.sha256(units[start:end]).digest() for start, end in pairwise(cuts))


def to_values(one: Sent) -> dict[str, Any]:
    """Plain JSON of it, for a store: `from_values` reads it again."""
    return {
        "model": one.model,
        "effort": one.effort,
        "minimum": one.minimum,
        "started": one.started,
        "context_messages": one.context_messages,
        "left_out": one.left_out,
        "behind": one.behind,
        "sections": {at: [list(run) for run in row] for at, row in one.sections.items()},
        "runs": {at: [digest.hex() for digest in row] for at, row in one.runs.items()},
        "segments": [_row(segment) for segment in one.segments],
    }


def _row(one: Segment) -> dict[str, Any]:
    row = {name: getattr(one, name) for name in STORED}
    return {**row, "digest": one.digest.hex()}


def from_values(values: Mapping[str, Any]) -> Sent:
    """What `to_values` was given.

    Raises:
        KeyError, TypeError, ValueError: it is not what `to_values` gives.
    """
    return Sent(
        model=values["model"],
        effort=values["effort"],
        segments=linked({**row, "digest": bytes.fromhex(row["digest"])} for row in values["segments"]),
        minimum=values["minimum"],
        started=values["started"],
        context_messages=values["context_messages"],
        sections={at: tuple((name, units) for name, units in row) for at, row in values["sections"].items()},
        left_out=values["left_out"],
        behind=values["behind"],
        runs={at: tuple(map(bytes.fromhex, row)) for at, row in values["runs"].items()},
    )
