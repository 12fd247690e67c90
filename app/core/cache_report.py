"""Why a prompt cache broke: the first difference between two requests, the cause by name, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from app.core.difference import Difference, difference
from app.core.facts import Usage
from app.core.prefix import Segment, common, entries, reached, tokens_in
from app.core.sent import Sent

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
LEAST_AGREEING = 3
"""The API agrees when it read at least this part, a third, of the rough tokens that were expected."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``hit`` None: nothing could have been cached. All tokens are rough.

    ``rewritten_5m`` and ``rewritten_1h`` had been cached and are written again, by markers of that life; ``unwritten``
    had been cached and are sent again without a marker behind them.
    """

    hit: bool | None
    hit_blocks: int
    hit_tokens: int
    rewritten_5m: int
    rewritten_1h: int
    unwritten: int
    first_change: Difference | None
    cause: Cause | None
    agreed: bool | None = None

    @property
    def rewritten(self) -> int:
        """Tokens written again that had been cached."""
        return self.rewritten_5m + self.rewritten_1h


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two requests: how much they share, the entries of the first and those the second may read, and its markers."""

    before: Sent
    after: Sent
    shared: int
    entries: tuple[int, ...]
    living: tuple[int, ...]
    marks: tuple[int, ...]

    @property
    def cached(self) -> int:
        return self.entries[-1] if self.entries else 0


def compared(before: Sent, after: Sent, usage: Usage | None = None) -> Comparison:
    """What ``after`` can read of what ``before`` wrote, and why not more; ``usage`` is the API's word on ``after``.

    Where the API says that less was read, it is believed: no hit, ``agreed`` False.
    """
    pair = _paired(before, after)
    changed = difference(before, after, pair.shared) if pair.shared < pair.cached else None
    cause = _cause(pair, changed)
    whole = reached(pair.living, pair.marks)
    found = _comparison(pair, whole, changed if cause is not None else None, cause)
    word = agreed(found, usage)
    if word is not False or usage is None:
        return replace(found, agreed=word)
    read = _believed(pair, usage.cache_read_input_tokens)
    return replace(
        _comparison(pair, read, found.first_change, cause or "server_side_or_unknown"), hit=False, agreed=False
    )


def agreed(comparison: Comparison, usage: Usage | None) -> bool | None:
    """Whether the API read about what ``comparison``, made without its word, expected. None: nothing, or no word."""
    if usage is None or comparison.hit_tokens == 0:
        return None
    read = usage.cache_read_input_tokens
    return read > 0 and read * LEAST_AGREEING >= comparison.hit_tokens


def _paired(before: Sent, after: Sent) -> _Pair:
    shared = common(before.segments, after.segments)
    written = entries(before.segments, before.minimum)
    living = tuple(end for end in written if end <= shared and _lives(before, after, before.segments[end - 1]))
    lost = before.model != after.model or _scope_changed(before, after, [end for end in written if end <= shared])
    return _Pair(before, after, shared, written, () if lost else living, entries(after.segments, after.minimum))


def _comparison(pair: _Pair, whole: int, difference: Difference | None, cause: Cause | None) -> Comparison:
    tokens = tokens_in(pair.after.segments[:whole])
    again = _again(pair, whole, max(0, tokens_in(pair.before.segments[: pair.cached]) - tokens))
    return Comparison(
        hit=whole >= pair.cached if pair.cached else None,
        hit_blocks=whole,
        hit_tokens=tokens,
        rewritten_5m=again["5m"],
        rewritten_1h=again["1h"],
        unwritten=again[""],
        first_change=difference,
        cause=cause,
    )


def _again(pair: _Pair, whole: int, lost: int) -> dict[str, int]:
    """By the ttl that writes them: as many tokens behind what is read as were lost, or as there are. "": none does."""
    segments, start = pair.after.segments, whole
    again = {"5m": 0, "1h": 0, "": 0}
    for end in (*(mark for mark in pair.marks if mark > whole), len(segments)):
        ttl = "" if end not in pair.marks else "1h" if segments[end - 1].ttl == "1h" else "5m"
        taken = min(lost, tokens_in(segments[start:end]))
        again[ttl] += taken
        lost, start = lost - taken, end
    return again


def _believed(pair: _Pair, read: int) -> int:
    """The longest entry that is no longer than what the API says it read."""
    totals = (0, *accumulate(one.tokens for one in pair.after.segments))
    return max((end for end in pair.living if totals[end] <= read), default=0)


def _cause(pair: _Pair, difference: Difference | None) -> Cause | None:
    before, after = pair.before, pair.after
    if before.model != after.model:
        return "model_changed"
    if pair.cached == 0:
        return "below_minimum" if _too_short(before) else None
    changed = _changed(before, after, difference) if difference is not None else None
    if changed in _BEFORE_MESSAGES:
        return changed
    if before.effort != after.effort and before.segments[pair.cached - 1].area == "messages":
        return "effort_changed"
    return changed or _kept_bytes_cause(pair)


_BEFORE_MESSAGES: tuple[Cause, ...] = ("tools_changed", "system_changed")


def _too_short(one: Sent) -> bool:
    """Whether there would be a cached prefix if it were longer."""
    return one.left_out or any(segment.ttl for segment in one.segments)


def _kept_bytes_cause(pair: _Pair) -> Cause | None:
    """Why less is read although what was cached still stands in front."""
    if _expired(pair.before, pair.after, pair.before.segments[pair.cached - 1]):
        return "ttl_expired"
    if _scope_changed(pair.before, pair.after, pair.entries):
        return "scope_changed"
    if reached(pair.entries, pair.marks) >= pair.cached:
        return None
    return "below_minimum" if not pair.marks and _too_short(pair.after) else "markers_moved"


def _changed(before: Sent, after: Sent, difference: Difference) -> Cause:
    if difference.at.startswith("tools"):
        return "tools_changed"
    if difference.at.startswith("system") or difference.at in {before.behind, after.behind}:
        return "system_changed"
    message = int(difference.at.removeprefix("messages[").partition("]")[0])
    return "memory_changed" if message < max(before.context_messages, after.context_messages) else "messages_rewritten"


def _lives(before: Sent, after: Sent, marked: Segment) -> bool:
    effort = before.effort != after.effort and marked.area == "messages"
    return not effort and not _expired(before, after, marked)


def _scope_changed(before: Sent, after: Sent, written: Sequence[int]) -> bool:
    """Whether a marker that wrote one of these entries stands at the same place in both with another scope."""
    pairs = ((before.segments[end - 1], after.segments[end - 1]) for end in written)
    return any(new.ttl and old.scope != new.scope for old, new in pairs)


def _expired(before: Sent, after: Sent, marked: Segment) -> bool:
    """Whether the entry that ends at ``marked`` is gone, counted from the start of the request that wrote it."""
    if before.started is None or after.started is None:
        return False
    return after.started - before.started > TTL_SECONDS.get(marked.ttl or "", TTL_SECONDS["5m"])
