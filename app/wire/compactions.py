"""Bodies and answers of compactions: planned, run, and reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from app.core.budget import Outcome
from app.core.compaction import Trigger
from app.core.compaction_end import Failed, Plan, Ran, Reason, Reported
from app.core.facts import Message, Notice
from app.core.tokens import Part
from app.wire import schema
from app.wire.answers import Values, breaker_values, tokens_values
from app.wire.base import Strict
from app.wire.messages import MOST_TOKENS
from app.wire.requests import Ask, ContextRequest, Server, SettingText, to_ask

INSTRUCTION = "summary_instruction"


class CompactionRequest(ContextRequest):
    """The body of ``POST /v1/context``, and what to do: ``plan`` the request for a summary, or ``run`` it.

    ``instructions`` are the user's, for this summary. ``automatic`` compactions stop after failures in a row.
    """

    mode: Literal["plan", "run"]
    trigger: Trigger = "manual"
    instructions: SettingText | None = None


class CompactionReport(Strict):
    """How a compaction ended that the caller ran. An ``ok`` tells the tokens in use before and after it, or neither."""

    outcome: Outcome
    trigger: Trigger = "automatic"
    tokens_before: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    tokens_after: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None

    @model_validator(mode="after")
    def _tells_both_or_neither(self) -> Self:
        if self.outcome == "ok" and (self.tokens_before is None) != (self.tokens_after is None):
            raise ValueError("send tokens_before and tokens_after together, or neither of them")
        return self

    @property
    def freed(self) -> int | None:
        """In tokens; None where it was not told."""
        if self.tokens_before is None or self.tokens_after is None:
            return None
        return max(0, self.tokens_before - self.tokens_after)


class SummaryBody(schema.MessagesRequest):
    """A whole Messages API body."""

    max_tokens: int


class CompactionFailure(Strict):
    """``parts`` are to blame: what no compaction makes smaller, the largest first."""

    reason: Reason
    message: str
    parts: list[schema.Part]


class BoundaryMeta(Strict):
    """``tokens`` in use right behind the summary; None where it is not written yet."""

    compact_boundary: Literal[True]
    tokens: int | None


class NewMessage(Strict):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]
    meta: BoundaryMeta | None = None


class PlanAnswer(Strict):
    """``tokens`` is what the request will use, its instruction included; ``hopeless`` why not to send it.

    ``then`` is the conversation to go on with: the answer's text takes the place of ``{summary}`` in its first message.
    """

    mode: Literal["plan"]
    request: SummaryBody
    headers: dict[str, str]
    tokens: schema.TokensAnswer
    hopeless: CompactionFailure | None
    then: list[NewMessage]
    breaker: schema.Breaker
    warnings: list[schema.Warning_]


class SummaryUsage(Strict):
    """The API's, of the answer with the summary."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


class RunAnswer(Strict):
    """``messages`` are the conversation from now on, ``context`` the answer for it; None where it failed.

    ``dropped`` of the caller's messages were left out of the last of ``tries`` requests, which were too long.
    ``repeated``: another request for this conversation was under way, and this is what came of it.
    """

    mode: Literal["run"]
    outcome: Literal["ok", "failed"]
    failure: CompactionFailure | None
    summary: str | None
    messages: list[NewMessage] | None
    context: schema.ContextAnswer | None
    tokens_before: int
    tokens_after: int | None
    dropped: int
    tries: int
    repeated: bool
    breaker: schema.Breaker
    usage: SummaryUsage | None
    warnings: list[schema.Warning_]


class ReportAnswer(Strict):
    """``outcome`` is how it counts: an ``ok`` that frees too little is ``failed``, and ``failure`` says why.

    ``freed`` is in tokens; None: the figures were not told, so that an ``ok`` is taken at its word.
    """

    outcome: Outcome
    failure: CompactionFailure | None
    freed: int | None
    breaker: schema.Breaker


@dataclass(frozen=True, slots=True)
class CompactionAsk:
    """A request for a compaction in the core's words."""

    context: Ask
    trigger: Trigger
    instructions: str | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.context.request.messages


def compaction_ask(
    body: CompactionRequest, server: Server, betas: Sequence[str], upstream_key: str | None = None
) -> CompactionAsk:
    return CompactionAsk(to_ask(body, server, betas, upstream_key), body.trigger, body.instructions)


def plan_answer(plan: Plan) -> Values:
    tokens = tokens_values(plan.tally)
    return {
        "mode": "plan",
        "request": plan.body,
        "headers": {"anthropic-beta": ",".join(plan.betas)} if plan.betas else {},
        "tokens": {
            **tokens,
            "used": tokens["used"] + plan.instruction,
            "parts": [*tokens["parts"], {"part": INSTRUCTION, "tokens": plan.instruction}],
        },
        "hopeless": _failure(plan.hopeless),
        "then": [_message(message) for message in plan.then],
        "breaker": breaker_values(plan.breaker),
        "warnings": _warnings(plan.notices),
    }


def run_answer(ran: Ran, context: Values | None) -> Values:
    """``context`` is the whole answer for the new conversation."""
    told = ran.told
    return {
        "mode": "run",
        "outcome": "failed" if ran.failed else "ok",
        "failure": _failure(ran.failed),
        "summary": None if isinstance(told.found, Failed) else told.found.text,
        "messages": None if ran.messages is None else [_message(message) for message in ran.messages],
        "context": context,
        "tokens_before": ran.before,
        "tokens_after": ran.after,
        "dropped": told.dropped,
        "tries": told.tries,
        "repeated": ran.repeated,
        "breaker": breaker_values(ran.breaker),
        "usage": told.usage,
        "warnings": _warnings(told.notices),
    }


def report_answer(reported: Reported) -> Values:
    return {
        "outcome": reported.outcome,
        "failure": _failure(reported.failed),
        "freed": reported.freed,
        "breaker": breaker_values(reported.breaker),
    }


def _failure(failed: Failed | None) -> Values | None:
    if failed is None:
        return None
    return {"reason": failed.reason, "message": failed.message, "parts": _parts(failed.parts)}


def _parts(parts: Iterable[Part]) -> list[Values]:
    return [{"part": part.name, "tokens": part.tokens} for part in parts]


def _warnings(notices: Iterable[Notice]) -> list[Values]:
    return [{"code": one.code, "message": one.message, "where": one.where} for one in notices]


def _message(message: Message) -> Values:
    content: Any = message.content if isinstance(message.content, str) else list(message.content)
    meta = {"meta": {"compact_boundary": True, "tokens": message.boundary_tokens}} if message.boundary else {}
    return {"role": message.role, "content": content, **meta}
