"""A conversation with its front left out: before a summary of it is asked for, and once there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.core.assembly import Assembly, assemble
from app.core.attachments import Attached
from app.core.facts import Message
from app.core.gathered import Facts
from app.core.remembered import Remembered
from app.core.summary import Summary, compacted
from app.core.tally import Tally
from app.core.tool_pairs import owed_from, unanswered


def going_on(
    summary: Summary, asked: tuple[Message, ...], messages: tuple[Message, ...], missing: int = 0
) -> tuple[Message, ...]:
    """The conversation after ``summary`` of ``asked``, with which ``messages`` begin; it lacks the first ``missing``.

    What has come since stays, with the calls that it answers. Usage before the summary says nothing of what is behind.
    """
    later = messages[len(asked) :]
    owed = owed_from(asked) if later else None
    if owed is None:
        return compacted(summary, tuple(map(_unused, (*unanswered(asked), *later))), missing)
    return compacted(summary, tuple(map(_unused, (*unanswered(asked[:owed]), *messages[owed:]))), missing)


def shortened(facts: Facts, remembered: Remembered, kept: tuple[Message, ...]) -> Assembly:
    """The turn of ``facts``, which ``remembered`` has had, with only the ``kept`` of its messages.

    Late texts stay behind the last kept message that they stood behind.
    """
    before = _kept_before(facts.request.messages, kept)
    late = tuple(replace(one, at=before[min(one.at, len(before) - 1)]) for one in remembered.late)
    had = replace(facts, request=replace(facts.request, messages=kept), attached=Attached(rows=facts.attached.rows))
    return assemble(had, replace(remembered, late=late))


def tokens_at_boundary(tally: Tally, scale: float = 1.0) -> int:
    """Tokens in use right behind a summary that begins the conversation, without what stands behind it.

    ``scale`` is by how much the API's figures are above ours. Never less than a part of it would cost alone.
    """
    rows = tally.rows
    behind = sum(rows.messages[1:]) + sum(tokens for _, tokens, at in rows.late if at > 0)
    least = max([0, *(tokens for _, tokens in rows.fixed), *rows.messages[:1]])
    return max(least, round(scale * (tally.count.used - behind)))


def _unused(message: Message) -> Message:
    return replace(message, response_id=None, usage=None)


def _kept_before(messages: Sequence[Message], kept: Sequence[Message]) -> list[int]:
    """How many of ``kept`` stand before each index, the end included. ``kept`` are of ``messages``, in their order."""
    counts = [0]
    for message in messages:
        count = counts[-1]
        counts.append(count + (count < len(kept) and kept[count] is message))
    return counts
