"""What a request is to the prompt cache: segments in the order in which the API reads them, and where two differ."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any

from app.core.facts import Json
from app.core.models import GENERATIONS, Model
from app.core.slots import MARKER, Piece, Slot, pieces, rewritten, slots, spelled, without_marker
from app.core.tokens import rough, rough_block

LOOK_BACK = 20
"""Positions before a marker within which the API finds an earlier entry."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A tool, a system block, or a message's block. ``text`` is what the model is given of it, without markers.

    ``role`` is a message's; ``ttl`` that of the last marker on it or in it, None without one; ``markers`` is how many
    those are; ``tokens`` are rough. ``digest`` is a SHA-256 of area, role and text; ``chain`` one of all digests up to
    here: where two requests have one chain, they are the same up to here. ``text`` None: no longer held.
    """

    at: str
    area: str
    name: str
    text: str | None
    tokens: int
    digest: bytes
    chain: bytes = b""
    ttl: str | None = None
    scope: str | None = None
    role: str | None = None
    markers: int = 0


def segments(request: Json) -> tuple[Segment, ...]:
    """The segments of a Messages API request; a system prompt or a content that is a text counts as one block.

    A marker of the request itself stands on the last segment that takes one, unless that has its own. Tools or a
    system prompt of another shape are left out.
    """
    system = request.get("system")
    blocks = ({"type": "text", "text": system},) if isinstance(system, str) and system else _listed(system)
    whole = {"tools": _listed(request.get("tools")), "system": blocks, "messages": tuple(request["messages"])}
    laid = [(piece, tuple(slots(piece))) for piece in pieces(whole)]
    rows = [_row(piece, places, whole) for piece, places in laid]
    own = _marker([request.get(MARKER)])
    last = next((at for at in reversed(range(len(laid))) if laid[at][1][-1].takes), None)
    if own["markers"] and last is not None and rows[last]["ttl"] is None:
        rows[last] |= own
    return linked(rows)


def linked(rows: Iterable[Mapping[str, Any]]) -> tuple[Segment, ...]:
    """Segments of their fields, each with the chain of its place."""
    return tuple(_linked(rows))


def _linked(rows: Iterable[Mapping[str, Any]]) -> Iterator[Segment]:
    chain = b""
    for row in rows:
        chain = hashlib.sha256(chain + row["digest"]).digest()
        yield Segment(**row, chain=chain)


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _row(piece: Piece, places: Sequence[Slot], whole: Json) -> dict[str, Any]:
    area, at = str(piece.path[0]), spelled(piece.path)
    role = _worded(whole["messages"][int(piece.path[1])].get("role")) if area == "messages" else None
    value = _bare(piece, places)
    plain = _plain(value)
    text = compact(value) if plain is None else plain
    return {
        "at": at,
        "area": area,
        "name": _name(value, area, at),
        "text": text,
        "tokens": rough(text) if plain is not None or area == "tools" else rough_block(value),
        "digest": _digest(area, role, text, is_json=plain is None),
        "role": role,
        **_marker([place.marker for place in places]),
    }


def _bare(piece: Piece, places: Sequence[Slot]) -> Any:
    if not isinstance(piece.value, Mapping):
        return piece.value
    if len(places) == 1:
        return without_marker(piece.value) if MARKER in piece.value else piece.value
    depth = len(piece.path)
    return rewritten(piece.value, {place.path[depth:]: without_marker for place in places})


def _plain(value: Any) -> str | None:
    """The text of a block that is nothing else."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value.get("type") == "text" and len(value) == len(("type", "text")):
        text = value.get("text")
        return text if isinstance(text, str) else None
    return None


def _digest(area: str, role: str | None, text: str, *, is_json: bool) -> bytes:
    """The role's length stands before it: no two rows are written alike."""
    head = f"{area} {is_json} {'-' if role is None else len(role)} {role}"
    return hashlib.sha256((head + text).encode("utf-8", "surrogatepass")).digest()


def common(before: Sequence[Segment], after: Sequence[Segment]) -> int:
    """How many segments both begin with, found by halves: one chain stands for all before it."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[middle - 1].chain == after[middle - 1].chain:
            low = middle
        else:
            high = middle - 1
    return low


def entries(found: Sequence[Segment], minimum: int) -> tuple[int, ...]:
    """How many segments each entry covers that the API writes: one for each marker behind ``minimum`` tokens."""
    ends, tokens = [], 0
    for index, segment in enumerate(found):
        tokens += segment.tokens
        if segment.ttl is not None and tokens >= minimum:
            ends.append(index + 1)
    return tuple(ends)


def reached(written: Iterable[int], marks: Sequence[int]) -> int:
    """The longest entry that one of ``marks``, which ascend, finds within LOOK_BACK positions before it; 0: none."""
    found = 0
    for end in written:
        at = bisect_left(marks, end)
        if at < len(marks) and marks[at] <= end + LOOK_BACK:
            found = max(found, end)
    return found


def tokens_in(found: Iterable[Segment]) -> int:
    return sum(one.tokens for one in found)


def rough_minimum(model: Model) -> int:
    """The shortest prefix that ``model`` caches, in rough tokens."""
    return ceil(model.min_cache / GENERATIONS[model.tokenizer])


def model_tokens(rough_tokens: int, model: Model) -> int:
    """About how many tokens ``model`` makes of so many rough ones."""
    return floor(rough_tokens * GENERATIONS[model.tokenizer] + Fraction(1, 2))


def _marker(markers: Sequence[Any]) -> dict[str, Any]:
    given = [one for one in markers if isinstance(one, Mapping)]
    if not given:
        return {"ttl": None, "scope": None, "markers": 0}
    last = given[-1]
    return {"ttl": _worded(last.get("ttl")) or "5m", "scope": _worded(last.get("scope")), "markers": len(given)}


def _worded(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else compact(value)


def _name(value: Any, area: str, at: str) -> str:
    name = value.get("name") if isinstance(value, Mapping) else None
    return name if isinstance(name, str) and area == "tools" else at


def compact(value: Any, *, sort_keys: bool = False) -> str:
    """``value`` as JSON without spaces; where it is too deep for that, a text that is equal for equal values."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict, sort_keys=sort_keys)
    except RecursionError:
        return _deep_text(value)


def _deep_text(value: Any) -> str:
    told, waiting = [], [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mapping):
            told.append("{" + json.dumps(list(current), ensure_ascii=False))
            waiting.extend(reversed(list(current.values())))
        elif isinstance(current, list | tuple):
            told.append(f"[{len(current)}")
            waiting.extend(reversed(current))
        else:
            told.append(json.dumps(current, ensure_ascii=False))
    return "".join(told)
