"""Asks the model for a summary, with a shorter conversation when the whole is too long for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.core.assembly import Assembly
from app.core.compaction_end import Failed, Told, usage_of
from app.core.facts import Message, Notice
from app.core.going_on import shortened
from app.core.measures import Estimated
from app.core.rounds import overflow, without_oldest
from app.core.summary import Failure, Summary, is_structured, judged
from app.core.summary_request import SummaryRequest, summary_request
from app.core.tally import Tally
from app.upstream import Upstream
from app.upstream_bodies import UpstreamFailed
from app.wire.compactions import CompactionAsk

MOST_SHORTENINGS = 5

LEAST_ROOM = 1_000
"""Tokens that a summary is always given: what does not fit then is for the API to say."""

MARGIN_PERCENT = 10
"""How much more than it is over a request is made shorter by."""


@dataclass(frozen=True, slots=True)
class Summaries:
    """Asks for summaries over ``upstream``, in one time limit for all tries together."""

    upstream: Upstream

    def request(self, assembly: Assembly, instructions: str | None, missing: int = 0) -> SummaryRequest:
        """``missing``: how many of the oldest messages ``assembly`` lacks."""
        room, most = _room(assembly.tally)
        return summary_request(
            assembly.request,
            assembly.facts.prose,
            instructions=instructions,
            max_output=room,
            most_summary=most,
            missing=missing,
        )

    async def ask(self, assembly: Assembly, asked: CompactionAsk) -> Told:
        """The summary of what ``assembly`` would send, or why there is none."""
        end = asyncio.get_running_loop().time() + self.upstream.create_seconds
        now = assembly
        for tries in range(1, MOST_SHORTENINGS + 2):
            request = await asyncio.to_thread(self.request, now, asked.instructions, _dropped(assembly, now))
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


def _room(tally: Tally) -> tuple[int, int]:
    """Tokens that the answer may have: all that is left of the model's own window, and for the summary the reserve."""
    basis, state = tally.basis, tally.state
    size = state.window if basis.window.model_tokens is not None else max(state.window, basis.model.api_window)
    left = max(LEAST_ROOM, size - tally.count.used)
    return min(basis.model.max_output, left), max(LEAST_ROOM, state.window - state.effective_window)


def _told(answer: Any, tries: int, dropped: int, request: SummaryRequest) -> Told:
    found = judged(answer)
    ended = Failed.of(found) if isinstance(found, Failure) else found
    return Told(ended, dropped, tries, usage_of(answer), (*request.notices, *_form_notices(found)))


def _form_notices(found: Summary | Failure) -> Iterator[Notice]:
    if isinstance(found, Summary) and not is_structured(found):
        told = "The summary has none of the headings it was asked for: read it before the work goes on from it."
        yield Notice("summary_unstructured", told, "summary")


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
