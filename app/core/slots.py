"""Where cache markers stand in a request, or could: every place in wire order, and a new request with some changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.core.facts import Json

Step = str | int
Path = tuple[Step, ...]
Change = Callable[[Any], Any]

MARKER = "cache_control"
UNMARKABLE_BLOCKS = ("thinking", "redacted_thinking")
DEEPEST = 8
"""Levels of blocks within blocks; the API knows fewer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A tool, a system block, a message's block or its text. ``path`` leads to it from the request's top.

    ``home`` is the list in which a marker may be moved: the tools, the system, or one message. ``closes``: it is
    the end of a message.
    """

    path: Path
    home: Path
    value: Any
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a marker: ``takes`` False where the API refuses one. ``marker`` is what the caller put there."""

    path: Path
    home: Path
    takes: bool
    marker: Any = None
    closes: bool = False

    @property
    def at(self) -> str:
        """``system[1]``; a message's end is ``messages[4]``, a place within one ``messages[4].content[1]``."""
        return spelled(self.home if self.closes else self.path)

    @property
    def area(self) -> Step:
        return self.path[0]

    @property
    def inner(self) -> bool:
        """Whether it is within a block of a message or of a list."""
        return len(self.path) > len(self.home) + 2


def pieces(request: Json) -> Iterator[Piece]:
    """The top-level pieces in the order in which the API reads them: tools, system, messages."""
    for area in ("tools", "system"):
        for index, value in enumerate(request[area]):
            yield Piece((area, index), (area,), value)
    for index, message in enumerate(request["messages"]):
        home: Path = ("messages", index)
        content = message.get("content")
        if isinstance(content, list | tuple):
            last = len(content) - 1
            yield from (Piece((*home, "content", at), home, block, at == last) for at, block in enumerate(content))
        else:
            yield Piece((*home, "content"), home, content, closes=True)


def slots(piece: Piece) -> Iterator[Slot]:
    """The places in a piece, inner ones first, because they end first. A message's bare text is one place."""
    value = piece.value
    if isinstance(value, Mapping):
        yield from _inner_slots(value, piece.path, piece.home, DEEPEST)
        yield Slot(piece.path, piece.home, _takes(value), value.get(MARKER), piece.closes)
    else:
        yield Slot(piece.path, piece.home, isinstance(value, str) and bool(value.strip()), closes=piece.closes)


@dataclass(frozen=True, slots=True)
class Places:
    """All places of a request, numbered in the order in which the API reads them.

    The last one is the request's own marker, which the API puts on the last block that takes one. ``rows`` has for each
    place the number of its piece; ``ends`` are the places behind a whole piece that takes a marker.
    """

    pieces: tuple[Piece, ...]
    slots: tuple[Slot, ...]
    rows: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def top(self) -> int:
        """The number of the request's own marker."""
        return len(self.slots) - 1

    @property
    def last(self) -> int | None:
        """Where the API puts the request's own marker; None: nothing takes one."""
        return self.ends[-1] if self.ends else None

    def at(self, number: int) -> str:
        return self.slots[number].at


def places_of(request: Json, automatic: Any = None) -> Places:
    """The places of ``{tools, system, messages}``. ``automatic`` is the request's own marker, None without one."""
    found = tuple(pieces(request))
    laid = [(row, slot) for row, piece in enumerate(found) for slot in slots(piece)]
    top = Slot((MARKER,), (MARKER,), takes=False, marker=automatic)
    return Places(
        pieces=found,
        slots=(*(slot for _, slot in laid), top),
        rows=(*(row for row, _ in laid), len(found) - 1),
        ends=tuple(number for number, (_, slot) in enumerate(laid) if slot.takes and not slot.inner),
    )


def _inner_slots(block: Json, path: Path, home: Path, depth: int) -> Iterator[Slot]:
    for step, inner in _inner(block) if depth else ():
        place = (*path, *step)
        yield from _inner_slots(inner, place, home, depth - 1)
        yield Slot(place, home, _takes(inner), inner.get(MARKER))


def _inner(block: Json) -> Iterator[tuple[Path, Json]]:
    """The blocks that a tool result or a document made of blocks holds."""
    source = block.get("source")
    inside: tuple[tuple[Path, Any], ...] = (
        (("source", "content"), source.get("content") if isinstance(source, Mapping) else None),
        (("content",), block.get("content")),
    )
    for path, content in inside:
        if isinstance(content, list | tuple):
            yield from (((*path, at), inner) for at, inner in enumerate(content) if isinstance(inner, Mapping))


def _takes(block: Json) -> bool:
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        return isinstance(text, str) and bool(text.strip())
    return kind not in UNMARKABLE_BLOCKS and not block.get("defer_loading")


def without_marker(block: Any) -> Any:
    return {key: value for key, value in block.items() if key != MARKER}


def with_marker(block: Any, marker: Json) -> Any:
    """``block`` with that marker; a message's bare text becomes a list of one block."""
    if isinstance(block, str):
        return [{"type": "text", "text": block, MARKER: dict(marker)}]
    return {**block, MARKER: dict(marker)}


def rewritten(value: Any, changes: Mapping[Path, Change]) -> Any:
    """A copy of ``value`` changed at each path, inner places first; what is not on a path is shared, not copied."""
    inner: dict[Step, dict[Path, Change]] = {}
    for path, change in changes.items():
        if path:
            inner.setdefault(path[0], {})[path[1:]] = change
    if inner and isinstance(value, Mapping):
        value = {**value, **{step: rewritten(value[str(step)], below) for step, below in inner.items()}}
    elif inner:
        value = [rewritten(item, inner[at]) if at in inner else item for at, item in enumerate(value)]
    return changes[()](value) if () in changes else value


def spelled(path: Path) -> str:
    """``messages[4].content[1]`` for ``("messages", 4, "content", 1)``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
