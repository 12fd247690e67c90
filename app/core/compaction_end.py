"""What came of a compaction, in the words of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core import refusals, summary
from app.core.budget import Breaker, Outcome
from app.core.compaction import outcome
from app.core.facts import Json, Message, Notice
from app.core.remembered import Remembered
from app.core.tally import Tally
from app.core.tokens import Part

USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")

Reason = summary.Reason | refusals.Reason


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no new conversation: ``parts`` are to blame, the largest first."""

    reason: Reason
    message: str
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, failure: summary.Failure) -> Failed:
        return cls(failure.reason, failure.message, failure.parts)


@dataclass(frozen=True, slots=True)
class Told:
    """What the model answered when it was asked for a summary.

    ``dropped`` messages were left out of the last of so many ``tries``; ``usage`` is the API's, of the answer.
    """

    found: summary.Summary | Failed
    dropped: int = 0
    tries: int = 0
    usage: Mapping[str, int] | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The request for a summary, to be sent by the caller. ``instruction`` is the tokens it adds to ``tally``.

    ``then`` is the conversation that goes on from the summary, which stands for ``{summary}`` in it.
    """

    body: Json
    betas: tuple[str, ...]
    tally: Tally
    instruction: int
    hopeless: Failed | None
    breaker: Breaker
    notices: tuple[Notice, ...]
    then: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """One compaction. Tokens are those in use; ``messages`` are the new conversation, None when it failed.

    ``repeated``: another request for the same conversation brought it about.
    """

    told: Told
    failed: Failed | None
    messages: tuple[Message, ...] | None
    before: int
    after: int | None
    breaker: Breaker
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """A caller's own compaction, as it counts. ``freed`` is in tokens, None where it was not told."""

    outcome: Outcome
    failed: Failed | None
    breaker: Breaker
    freed: int | None = None


def usage_of(response: Json) -> Mapping[str, int] | None:
    """Tokens that the API reports of a response; None where it reports none."""
    usage = response.get("usage")
    return {name: _count(usage.get(name)) for name in USAGE} if isinstance(usage, Mapping) else None


def reported(remembered: Remembered, before: int, after: int) -> Failed | None:
    """Why a compaction that brought ``before`` tokens down to ``after`` did not help the session; None: it did.

    A session without a turn knows no threshold: then only what was freed counts.
    """
    threshold = after + 1 if remembered.threshold is None else remembered.threshold
    found = outcome(before, after, threshold, remembered.fixed)
    return Failed.of(found) if isinstance(found, summary.Failure) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
