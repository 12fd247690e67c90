"""What a request is to the prompt cache: segments in the order in which the API reads them, and where two differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.core.facts import Json
from app.core.slots import MARKER, Piece, pieces, rewritten, slots, spelled, without_marker
from app.core.tokens import rough_block, rough_tool

LOOK_BACK = 20
"""Positions before a marker within which the API finds an earlier entry."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A tool, a system block, or a message's block. ``text`` is what the model is given of it, without markers.

    ``role`` is a message's; ``ttl`` that of the last marker on it or in it, None without one; ``markers`` is how many
    those are; ``tokens`` are rough.
    """

    at: str
    area: str
    name: str
    text: str
    tokens: int
    ttl: str | None = None
    scope: str | None = None
    role: str | None = None
    markers: int = 0

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.area}\0{self.role}\0{self.text}".encode("utf-8", "replace")).hexdigest()


def segments(request: Json) -> tuple[Segment, ...]:
    """The segments of a Messages API request; a system prompt or a content that is a text counts as one block.

    A marker of the request itself stands on its last segment. Tools or a system prompt of another shape are left out.
    """
    system = request.get("system")
    blocks = ({"type": "text", "text": system},) if isinstance(system, str) and system else _listed(system)
    whole = {"tools": _listed(request.get("tools")), "system": blocks, "messages": tuple(request["messages"])}
    found = tuple(_segment(piece, whole) for piece in pieces(whole))
    own = _marker([request.get(MARKER)])
    return (*found[:-1], replace(found[-1], **own)) if found and own["markers"] else found


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _segment(piece: Piece, whole: Json) -> Segment:
    area, at = str(piece.path[0]), spelled(piece.path)
    return Segment(
        at=at,
        area=area,
        name=_name(piece.value, area, at),
        text=_text(piece),
        tokens=rough_tool(piece.value) if area == "tools" else rough_block(piece.value),
        role=_worded(whole["messages"][int(piece.path[1])].get("role")) if area == "messages" else None,
        **_marker([slot.marker for slot in slots(piece)]),
    )


def common(before: Sequence[Segment], after: Sequence[Segment]) -> int:
    """How many segments both begin with."""
    count = 0
    for old, new in zip(before, after, strict=False):
        if (old.area, old.role, old.text) != (new.area, new.role, new.text):
            break
        count += 1
    return count


def hit_length(before: Sequence[Segment], after: Sequence[Segment], minimum: int) -> int:
    """How many segments of ``after`` the API can read from what it wrote for ``before``; 0: none.

    An entry ends at each marker of ``before`` whose prefix has ``minimum`` tokens; a marker of ``after`` finds the
    nearest one within LOOK_BACK positions before it.
    """
    shared = common(before, after)
    entries = [end for end in _marked(before, minimum) if end <= shared]
    reached = [end for end in entries if any(end <= mark <= end + LOOK_BACK for mark in _marked(after, minimum))]
    return max(reached, default=0)


def _marked(found: Sequence[Segment], minimum: int) -> list[int]:
    ends, tokens = [], 0
    for index, segment in enumerate(found):
        tokens += segment.tokens
        if segment.ttl is not None and tokens >= minimum:
            ends.append(index + 1)
    return ends


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


def _text(piece: Piece) -> str:
    value = piece.value
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        depth = len(piece.path)
        value = rewritten(value, {slot.path[depth:]: without_marker for slot in slots(piece)})
        if value.get("type") == "text" and set(value) == {"type", "text"} and isinstance(value["text"], str):
            return str(value["text"])
    return compact(value)


def compact(value: Any) -> str:
    """``value`` as JSON without spaces; where it is too deep for that, a text that is equal for equal values."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)
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
