"""Exact counts where they are asked for: the API's figure instead of the local one, and a word on what failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import floor

from app.core.counting import Attempt, Counted
from app.core.facts import Json, Notice
from app.core.models import GENERATIONS, Model, ModelTable
from app.core.providers import Provider
from app.core.tally import Tally
from app.core.tokens import ATTACHED_FILE_TOKENS, attached_files
from app.counting import Counting

WHERE = "tokens.method"
UNAVAILABLE = "exact_count_unavailable"
FALLBACK = "exact_count_fallback"
FILLED = "exact_count_filled"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a count goes: ``key`` is the caller's own, ``space`` its tenant's; ``betas`` belong to the request."""

    provider: Provider
    betas: tuple[str, ...] = ()
    region: str | None = None
    key: str | None = field(default=None, repr=False)
    space: str = ""


@dataclass(frozen=True, slots=True)
class Reckoning:
    """Asks the API when a tally wants it to."""

    counting: Counting
    models: ModelTable

    async def close(self) -> None:
        """Ends what is being counted."""
        await self.counting.close()

    async def exact(self, tally: Tally, request: Json, route: Route) -> tuple[Tally, tuple[Notice, ...]]:
        """``tally`` with the API's figure for ``request``, or as it was; and what there is to say about it."""
        if not tally.asks:
            return tally, ()
        counted = await self.counting.count(
            request, route.betas, route.key, route.provider, route.region, space=route.space
        )
        found = _believed(counted, tally)
        notices = tuple(self._told(found, tally))
        if found.tokens is None or found.method is None:
            return tally, notices
        return tally.exactly(self._scaled(found, tally.basis.model), found.method), notices

    def _scaled(self, found: Counted, model: Model) -> int:
        """What a small model counted, in tokens of the request's own model."""
        tokens = found.tokens or 0
        if found.model is None or found.method != "fallback_model":
            return tokens
        other = self.models.find(found.model)
        return floor(tokens * GENERATIONS[model.tokenizer] / GENERATIONS[other.tokenizer])

    def _told(self, found: Counted, tally: Tally) -> Iterator[Notice]:
        failed = " ".join(_worded(attempt) for attempt in found.attempts)
        if found.tokens is None:
            if tally.basis.options.method == "exact" or any(one.reason != "no_key" for one in found.attempts):
                yield Notice(UNAVAILABLE, f"{failed} The tokens were estimated.", WHERE)
        elif found.attempts:
            yield Notice(FALLBACK, f"{failed} {found.model} counted instead.", WHERE)
        if found.filled:
            yield Notice(FILLED, "The API counts no such request: a user's message of one character counts too.", WHERE)


LEAST_SHARE = 8
"""A count below this part, an eighth, of the estimate is not believed."""


def _believed(found: Counted, tally: Tally) -> Counted:
    """A figure far below what the text can have is no count."""
    expected = tally.rows.total - ATTACHED_FILE_TOKENS * sum(map(attached_files, tally.messages))
    if found.tokens is None or found.tokens * LEAST_SHARE >= expected:
        return found
    message = f"{found.tokens} tokens were told for a request of about {expected:,}: this backend does not count."
    return Counted(
        None,
        None,
        (
            *found.attempts,
            Attempt("count_tokens" if found.method == "exact" else "fallback_model", "untrusted", message),
        ),
    )


def _worded(attempt: Attempt) -> str:
    return f"{attempt.level}: {attempt.message}"
