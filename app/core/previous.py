"""A session's request against the one before it: what the prompt cache holds, what broke it, what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.core.cache_report import Cause, Comparison, agreed, compared
from app.core.costs import Cost, Prices, cost
from app.core.facts import Message, Usage
from app.core.sent import Sent


@dataclass(frozen=True, slots=True)
class Turn:
    """What a session keeps of its last request.

    ``messages`` is how many the caller sent, ``all_messages`` how many were sent with what stands between them;
    ``comparison`` is what was foreseen of it, None on the first turn. ``estimated`` are its tokens before calibration
    for the generation ``tokenizer``, None when they were not estimated.
    ``changed`` are the system blocks that said something else than on the turn before.
    """

    sent: Sent
    messages: int
    all_messages: int
    comparison: Comparison | None = None
    estimated: int | None = None
    tokenizer: int = 1
    changed: frozenset[int] = frozenset()

    def usage(self, messages: Sequence[Message]) -> Usage | None:
        """That of the response to this request, if it follows the messages that the request had."""
        answers = messages[self.messages :]
        return answers[0].usage if answers and answers[0].role == "assistant" else None


@dataclass(frozen=True, slots=True)
class Previous:
    """``comparison`` None: there is no request before. ``agreed`` and ``read_tokens`` are about its usage."""

    comparison: Comparison | None = None
    cost: Cost | None = None
    agreed: bool | None = None
    read_tokens: int | None = None

    @property
    def cause(self) -> Cause | None:
        """Why less is read than could be; where nothing changed, what the API's word on the request before says."""
        cause = self.comparison.cause if self.comparison else None
        return cause or ("server_side_or_unknown" if self.agreed is False else None)


def _goes_on(before: Sent, now: Sent) -> bool:
    """Whether the conversation is still the one that was answered, going by where it ended."""
    end = len(before.segments)
    return end <= len(now.segments) and (not end or before.segments[end - 1].digest == now.segments[end - 1].digest)


def previous(last: Turn | None, now: Sent, messages: Sequence[Message], model: str, prices: Prices) -> Previous:
    """``now`` against the session's ``last`` request; ``model`` is the one that is paid for."""
    if last is None:
        return Previous()
    comparison = compared(last.sent, now)
    usage = last.usage(messages) if _goes_on(last.sent, now) else None
    return Previous(
        comparison,
        cost(comparison, model, prices),
        agreed(last.comparison, usage) if last.comparison else None,
        usage.cache_read_input_tokens if usage else None,
    )
