"""What came of a request for a summary, and the conversation that goes on from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from app.core.facts import Message
from app.core.tokens import Part

Reason = Literal["empty", "refused", "cut", "tool_use", "not_a_message", "did_not_help", "fixed_parts_too_large"]

UNFINISHED: Mapping[str, str] = MappingProxyType(
    {
        "max_tokens": "The summary was cut off at max_tokens: allow more, or ask for a shorter one.",
        "model_context_window_exceeded": "The summary was cut off at the end of the window: drop the oldest rounds.",
        "stop_sequence": "The summary was cut off at a stop sequence: send the request without any.",
        "pause_turn": "The model paused before the summary was written: try again.",
    }
)

MOST_QUOTED = 300

REPLACED = (
    "The conversation up to here was too long and has been replaced by the summary below. Take up the work where the "
    "summary leaves it, without asking the user to repeat or confirm anything and without a word about the summary; "
    "what the user says after this message comes first."
)


GAP = "Of the first {count} messages it knows nothing: ask the user where something seems to be missing."


@dataclass(frozen=True, slots=True)
class Summary:
    """``text`` is trimmed and not empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a compaction came to nothing: a word for programs, a sentence for people, and the parts to blame if any."""

    reason: Reason
    message: str
    parts: tuple[Part, ...] = ()


def judged(response: Any) -> Summary | Failure:
    """The summary in a Messages API response, whatever JSON it is, or why there is none.

    A response that calls a tool holds no summary even if it holds text: that is a remark on the call.
    """
    match response:
        case {"type": "message", "content": [*blocks]}:
            return _judged(blocks, response.get("stop_reason"))
        case {"type": "error", "error": {"message": str(told)}}:
            return Failure("not_a_message", f"The model's provider answered with an error: {told[:MOST_QUOTED]}")
        case _:
            return Failure("not_a_message", "The answer is not a message of the Messages API: hand it on as it came.")


def compacted(summary: Summary, pending: Sequence[Message] = (), missing: int = 0) -> tuple[Message, ...]:
    """The conversation that goes on from ``summary``: the boundary, then ``pending`` word for word.

    ``missing`` is how many of the oldest messages the summary knows nothing of.

    ``pending`` is what the user said that was not answered yet, as `tool_pairs.unanswered` finds it.
    """
    gap = f" {GAP.format(count=f'{missing:,}')}" if missing else ""
    return Message("user", f"{REPLACED}{gap}\n\n{summary.text}", boundary=True), *pending


def is_structured(summary: Summary) -> bool:
    """Whether it has one of the headings it was asked for."""
    return any(line.startswith("#") for line in summary.text.splitlines())


def _judged(blocks: Sequence[Any], stop_reason: Any) -> Summary | Failure:
    if stop_reason == "refusal":
        return Failure("refused", "The model refused to summarise this conversation: shorten it, or clear the session.")
    if isinstance(stop_reason, str) and stop_reason in UNFINISHED:
        return Failure("cut", UNFINISHED[stop_reason])
    if stop_reason == "tool_use" or any(_kind(block) == "tool_use" for block in blocks):
        return Failure("tool_use", "The model called a tool where a summary was asked for: try again.")
    texts = [block.get("text") for block in blocks if _kind(block) == "text"]
    text = "".join(text for text in texts if isinstance(text, str)).strip()
    return Summary(text) if text else Failure("empty", "The model's answer holds no text: try again.")


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else None
