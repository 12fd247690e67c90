"""A conversation cut at the user's prompts, and made shorter from its oldest end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from app.core.facts import Message
from app.core.tool_pairs import has_result, whole_before

DIVISOR_WITHOUT_FIGURES = 5
"""One round in so many goes when nobody says how much is too much."""

_FIGURE = "([0-9][0-9,]{0,14})"
_TOO_LONG = re.compile(rf"{_FIGURE} tokens > {_FIGURE}")
_NO_ROOM = re.compile(rf"{_FIGURE} \+ {_FIGURE} > {_FIGURE}")


@dataclass(frozen=True, slots=True)
class Round:
    """A prompt of the user and all that came of it. Only a conversation's first may begin with something else."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Shortened:
    """What is left of a conversation and what was dropped, each in order."""

    messages: tuple[Message, ...]
    dropped: tuple[Message, ...]


def rounds(messages: tuple[Message, ...]) -> tuple[Round, ...]:
    """The whole conversation in rounds, no call parted from its results; none for an empty one."""
    return tuple(Round(messages[each.start : each.stop]) for each in _round_ranges(messages))


def without_oldest(
    messages: tuple[Message, ...], tokens_to_free: int | None, size_of: Callable[[Message], int]
) -> Shortened | None:
    """Drop the oldest rounds until enough is freed, or all that can go; at least one step, even for 0 tokens.

    First whole rounds go, never the last; then, behind the last prompt, the oldest turns of the work on it, never the
    last; and only then summaries of earlier compactions. What is kept begins with a prompt of the user.

    Args:
        messages: the caller's conversation.
        tokens_to_free: as ``size_of`` counts; None: not known, and a fifth of the rounds goes.
        size_of: tokens of one message.

    Returns:
        None when nothing can be dropped.
    """
    steps = _steps(messages)
    if not steps.all:
        return None
    count = steps.a_share if tokens_to_free is None else _enough(steps.all, tokens_to_free, messages, size_of)
    gone = {index for step in steps.all[:count] for index in step}
    return Shortened(
        tuple(message for index, message in enumerate(messages) if index not in gone),
        tuple(message for index, message in enumerate(messages) if index in gone),
    )


def overflow(text: str) -> int | None:
    """How many tokens a request is over, by the provider's own words; None when they hold no such figures."""
    for pattern in (_TOO_LONG, _NO_ROOM):
        found = pattern.search(text)
        if found:
            *asked, most = (int(figure.replace(",", "")) for figure in found.groups())
            return sum(asked) - most if sum(asked) > most else None
    return None


@dataclass(frozen=True, slots=True)
class _Steps:
    """What may be dropped, as runs of indices, in the order in which it goes. No run is empty."""

    rounds: tuple[range, ...]
    turns: tuple[range, ...]
    summaries: tuple[range, ...]

    @property
    def all(self) -> tuple[range, ...]:
        return (*self.rounds, *self.turns, *self.summaries)

    @property
    def a_share(self) -> int:
        """A fifth, rounded up, of the first kind of which there is any."""
        return -(-len(self.rounds or self.turns or self.summaries) // DIVISOR_WITHOUT_FIGURES)


def _steps(messages: tuple[Message, ...]) -> _Steps:
    *older, last = _round_ranges(messages) or (range(0),)
    summaries = [each for each in older if messages[each.start].boundary and _is_prompt(messages[each.start])]
    bodies = (range(each.start + 1, each.stop) if each in summaries else each for each in older)
    return _Steps(
        rounds=tuple(body for body in bodies if body),
        turns=_turns(messages, last),
        summaries=tuple(range(each.start, each.start + 1) for each in summaries),
    )


def _round_ranges(messages: tuple[Message, ...]) -> tuple[range, ...]:
    whole = whole_before(messages)
    starts = [index for index in range(len(messages)) if index == 0 or (whole[index] and _begins(messages, index))]
    return _ranges(starts, len(messages))


def _begins(messages: Sequence[Message], index: int) -> bool:
    """A prompt, unless it goes on with the prompt before it; a summary is a prompt of its own."""
    before, message = messages[index - 1], messages[index]
    return _is_prompt(message) and (message.boundary or before.boundary or not _is_prompt(before))


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not has_result(message)


def _turns(messages: tuple[Message, ...], within: range) -> tuple[range, ...]:
    """All but the last of the assistant's turns in a round, each with the results that it brought."""
    if not within or not _is_prompt(messages[within.start]):
        return ()
    whole = whole_before(messages)
    starts = [
        index
        for index in within
        if whole[index] and messages[index].role == "assistant" and messages[index - 1].role != "assistant"
    ]
    return _ranges(starts, within.stop)[:-1]


def _ranges(starts: Sequence[int], end: int) -> tuple[range, ...]:
    return tuple(range(first, stop) for first, stop in pairwise((*starts, end)))


def _enough(steps: Sequence[range], wanted: int, messages: Sequence[Message], size_of: Callable[[Message], int]) -> int:
    freed = accumulate(sum(size_of(messages[index]) for index in step) for step in steps)
    return next((count for count, tokens in enumerate(freed, start=1) if tokens >= wanted), len(steps))
