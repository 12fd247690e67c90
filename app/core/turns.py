"""A session's turns beside one another: what the last request was, what of it changed, what its usage taught."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.core.blocks import Block
from app.core.calibration import Calibration
from app.core.facts import Json, Message, Notice
from app.core.gathered import Facts
from app.core.markers import Planned
from app.core.prefix import rough_minimum, segments
from app.core.previous import Previous, Turn, previous
from app.core.prompt import Prompt
from app.core.remembered import Remembered
from app.core.sent import lightened, sent
from app.core.tally import Tally
from app.core.tokens import utf16_length

MOST_SEGMENTS = 4_000
"""Blocks of the last request that a session remembers; with more, its next request has nothing to compare with."""


def with_the_model(remembered: Remembered, messages: Sequence[Message]) -> int:
    """How many of the messages the session's last request had; 0 once the conversation was taken back."""
    before = remembered.turn.messages if remembered.turn else 0
    return before if before <= len(messages) else 0


def size_notices(turn: Turn | None) -> Iterator[Notice]:
    """A word on a request that is too large to be remembered."""
    if turn is not None and len(turn.sent.segments) > MOST_SEGMENTS:
        message = (
            f"More than {MOST_SEGMENTS:,} blocks are not remembered: the next request has nothing to compare with."
        )
        yield Notice("comparison_unavailable", message, "messages")


def changed_blocks(turn: Turn | None, model: str, tools: Sequence[Json], blocks: Sequence[Block]) -> frozenset[int]:
    """The system blocks that say something else than on the last turn, where nothing in front of them does."""
    if turn is None or turn.sent.model != model:
        return frozenset()
    texts = [{"type": "text", "text": block.text} for block in blocks]
    old, new = (
        [[one.digest for one in found if one.area == area] for area in ("tools", "system")]
        for found in (turn.sent.segments, segments({"tools": tools, "system": texts, "messages": ()}))
    )
    if old[0] != new[0] or len(old[1]) != len(new[1]):
        return frozenset()
    return frozenset(index for index, pair in enumerate(zip(old[1], new[1], strict=True)) if pair[0] != pair[1])


def turn_of(
    facts: Facts, prompt: Prompt, planned: Planned, body: Json, told: Tally, *, changed: frozenset[int]
) -> Turn | None:
    """The request as the session keeps it; None without a session."""
    if facts.started is None:
        return None
    now = sent(
        body,
        rough_minimum(facts.model),
        started=facts.started,
        context_messages=len(prompt.opening.messages()),
        sections=_named_runs(prompt),
        left_out=any(not point.sent for point in planned.breakpoints),
        behind=prompt.opening.behind if prompt.opening.back else None,
    )
    estimated = told.raw if told.factor is not None else None
    return Turn(
        now,
        len(facts.request.messages),
        len(planned.messages),
        estimated=estimated,
        tokenizer=facts.model.tokenizer,
        changed=changed,
    )


def _named_runs(prompt: Prompt) -> dict[str, tuple[tuple[str, int], ...]]:
    """The sections of each system block, the files of the instructions, the sections that follow them, by place."""
    context, back = prompt.opening.context, prompt.opening.back
    return {
        **{f"system[{index}]": block.parts for index, block in enumerate(prompt.blocks)},
        "messages[0].content[0]": tuple((piece.part, utf16_length(piece.text)) for piece in context.pieces),
        **({prompt.opening.behind: back.parts} if back else {}),
    }


def kept(turn: Turn | None, against: Previous) -> Turn | None:
    """What is remembered of it: not more than a store can hold for every session."""
    if turn is None or len(turn.sent.segments) > MOST_SEGMENTS:
        return None
    return replace(turn, sent=lightened(turn.sent), comparison=against.comparison)


def compared_with_last(facts: Facts, remembered: Remembered, turn: Turn | None) -> Previous:
    if turn is None or remembered.turn is None:
        return Previous()
    return previous(remembered.turn, turn.sent, facts.request.messages, facts.wire_model, facts.prices)


def calibrations(remembered: Remembered, messages: Sequence[Message]) -> Mapping[int, Calibration]:
    """With what the usage of the last request says of its estimate."""
    turn = remembered.turn
    usage = turn.usage(messages) if turn else None
    if turn is None or usage is None or turn.estimated is None:
        return remembered.calibrations
    before = remembered.calibrations.get(turn.tokenizer, Calibration())
    return {**remembered.calibrations, turn.tokenizer: before.learned(turn.estimated, usage.prompt)}
