"""Asks the model for a summary, with a shorter conversation when the whole is too long for it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from app.core.assembly import Assembly
from app.core.compaction_end import Failed, Told, usage_of
from app.core.facts import Message
from app.core.going_on import shortened
from app.core.measures import Estimated
from app.core.rounds import overflow, without_oldest
from app.core.summary import Failure, judged
from app.core.summary_request import SummaryRequest, summary_request
from app.upstream import Upstream, UpstreamFailed
from app.wire.compactions import CompactionAsk

MOST_SHORTENINGS = 5

MARGIN_PERCENT = 10
"""How much more than it is over a request is made shorter by."""


@dataclass(frozen=True, slots=True)
class Summaries:
    """Asks for summaries over ``upstream``, in one time limit for all tries together."""

    upstream: Upstream

    def request(self, assembly: Assembly, instructions: str | None) -> SummaryRequest:
        facts = assembly.facts
        return summary_request(
            assembly.request, facts.prose, instructions=instructions, max_output=facts.model.max_output
        )

    async def ask(self, assembly: Assembly, asked: CompactionAsk) -> Told:
        """The summary of what ``assembly`` would send, or why there is none."""
        end = asyncio.get_running_loop().time() + self.upstream.create_seconds
        now = assembly
        for tries in range(1, MOST_SHORTENINGS + 2):
            request = await asyncio.to_thread(self.request, now, asked.instructions)
            try:
                answer = await self._sent(request, now, asked, end)
            except UpstreamFailed as failure:
                failed = Failed(failure.reason, failure.message)
            else:
                return _told(answer, tries, _dropped(assembly, now), request)
            left = MOST_SHORTENINGS + 1 - tries
            kept = _shorter(now, failed) if failed.reason == "too_long" and left else None
            if kept is None:
                break
            now = await asyncio.to_thread(shortened, assembly.facts, assembly.remember, kept)
        return Told(failed, _dropped(assembly, now), tries, notices=request.notices)

    async def _sent(self, request: SummaryRequest, assembly: Assembly, asked: CompactionAsk, end: float) -> Any:
        return await self.upstream.create(
            request.body,
            assembly.planned.betas,
            asked.context.upstream_key,
            max_tokens=request.body["max_tokens"],
            seconds=end - asyncio.get_running_loop().time(),
        )


def _told(answer: Any, tries: int, dropped: int, request: SummaryRequest) -> Told:
    found = judged(answer)
    ended = Failed.of(found) if isinstance(found, Failure) else found
    return Told(ended, dropped, tries, usage_of(answer), request.notices)


def _dropped(whole: Assembly, now: Assembly) -> int:
    return len(whole.facts.request.messages) - len(now.facts.request.messages)


def _shorter(now: Assembly, failed: Failed) -> tuple[Message, ...] | None:
    """The messages without the oldest rounds; None when no more can go."""
    over = overflow(failed.message)
    free = None if over is None else -(-over * (100 + MARGIN_PERCENT) // 100)
    basis = now.tally.basis
    measure = Estimated(basis.model.tokenizer)
    found = without_oldest(
        now.facts.request.messages, free, lambda message: basis.calibration.apply(measure.message(message))
    )
    return None if found is None else found.messages
