"""The body and the answer of ``POST /v1/cache/lint``: raw requests of any client, and what they do to the cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.core.cache_lint import Linted, lint
from app.core.cache_report import Comparison
from app.core.costs import Cost, Prices
from app.core.facts import Usage as CoreUsage
from app.core.models import ModelTable
from app.wire.base import FIRST, Strict
from app.wire.messages import Usage
from app.wire.schema import Cost as CostAnswer
from app.wire.schema import FirstChange

MOST_REQUESTS = 200


class RawRequest(BaseModel):
    """A Messages API body; fields that do not matter to the cache are taken as they are."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    model: str
    messages: Annotated[list[dict[str, Any]], FIRST]
    system: str | list[dict[str, Any]] | None = None
    tools: Annotated[list[dict[str, Any]], FIRST] | None = None


class SentRequest(Strict):
    """A Messages API body as it was sent. ``started`` is when, in seconds of any clock; ``usage`` what was answered."""

    body: RawRequest
    started: float | None = None
    usage: Usage | None = None


class LintRequest(Strict):
    """Two or more requests in the order in which they were sent; one is looked through by itself."""

    requests: Annotated[list[SentRequest], FIRST, Field(min_length=1, max_length=MOST_REQUESTS)]


class ComparisonRow(Strict):
    """A request beside the one before it. ``hit`` null: nothing could have been cached. Tokens are rough.

    ``rewritten_tokens`` had been cached and are written again, for five minutes or an hour; ``unwritten_tokens`` had
    been and are sent again without a marker behind them. ``cost`` is that of both; null: the model has no price.
    """

    request: int
    hit: bool | None
    hit_blocks: int
    hit_tokens: int
    rewritten_tokens: int
    rewritten_5m_tokens: int
    rewritten_1h_tokens: int
    unwritten_tokens: int
    cost: CostAnswer | None
    cause: str | None
    agreed: bool | None
    at: str | None
    first_change: FirstChange | None


class FindingRow(Strict):
    code: str
    message: str
    request: int
    at: str
    shown: str


class LintAnswer(Strict):
    comparisons: list[ComparisonRow]
    findings: list[FindingRow]


def linted(requests: Sequence[SentRequest], models: ModelTable, prices: Prices) -> Linted:
    return lint(
        [one.body.model_dump() for one in requests],
        [models.find(one.body.model) for one in requests],
        [one.started for one in requests],
        [_usage(one.usage) for one in requests],
        prices,
    )


def lint_answer(found: Linted) -> dict[str, Any]:
    return {
        "comparisons": [
            _comparison(index + 1, one, cost)
            for index, (one, cost) in enumerate(zip(found.comparisons, found.costs, strict=True))
        ],
        "findings": [
            {"code": one.code, "message": one.message, "request": one.request, "at": one.at, "shown": one.shown}
            for one in found.findings
        ],
    }


def _usage(usage: Usage | None) -> CoreUsage | None:
    return CoreUsage(**{key: value or 0 for key, value in usage.model_dump().items()}) if usage else None


def _comparison(request: int, one: Comparison, cost: Cost | None) -> dict[str, Any]:
    change = one.first_change
    return {
        "request": request,
        "hit": one.hit,
        "hit_blocks": one.hit_blocks,
        "hit_tokens": one.hit_tokens,
        "rewritten_tokens": one.rewritten,
        "rewritten_5m_tokens": one.rewritten_5m,
        "rewritten_1h_tokens": one.rewritten_1h,
        "unwritten_tokens": one.unwritten,
        "cost": {"amount": cost.amount, "currency": cost.currency} if cost else None,
        "cause": one.cause,
        "agreed": one.agreed,
        "at": change.at if change else None,
        "first_change": {
            "block": change.block,
            "at": change.at,
            "section": change.section,
            "offset": change.offset,
            "before": change.before,
            "after": change.after,
        }
        if change
        else None,
    }
