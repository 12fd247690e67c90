"""Exact counts: what an API is asked, of which model, and what its answers are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from app.core.models import BETA_1M, ModelTable
from app.core.providers import BETA_SCOPE, Provider
from app.core.refusals import Reason

Body: TypeAlias = dict[str, Any]
Level = Literal["count_tokens", "fallback_model"]
Method = Literal["exact", "fallback_model"]
Part = Literal["tools", "system"]

COUNTED = ("model", "cache_control", "system", "tools", "tool_choice", "thinking", "output_config")
"""What the count endpoint takes beside the messages."""
COUNTED_WITH_BETAS = ("context_management", "mcp_servers")
ANSWERED = ("system", "tools")
"""What a request to a small model keeps beside the messages."""
PARTS: tuple[Part, ...] = ("tools", "system")
"""What some backends leave out when they count."""

INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

PLACEHOLDER: Mapping[str, Any] = {"role": "user", "content": "."}
THINKING = frozenset({"thinking", "redacted_thinking"})
THINKING_BUDGET = 1_024
MAX_TOKENS = 1
MAX_TOKENS_WITH_THINKING = 2_048
SYSTEM_MESSAGES_BETA = "mid-conversation-system"
NEEDLESS_BETAS = (BETA_1M, BETA_SCOPE, SYSTEM_MESSAGES_BETA)
"""How beta values begin that speak of what a request to a small model no longer holds."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A level that gave no number, and why. ``message`` says what to do."""

    level: Level
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Counted:
    """Input tokens of a request; None when no level could tell, so that a local estimate must do.

    ``model`` is the one that counted: for the method ``fallback_model`` its tokenizer may be another one. ``filled``:
    the number holds a user message of one character that was added, because the API takes no request without one; that
    is a few tokens too many. ``attempts`` are the levels that failed before.
    """

    tokens: int | None
    method: Method | None
    attempts: tuple[Attempt, ...] = ()
    model: str | None = None
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A body to send; ``max_tokens`` belongs to it where it is to be answered. ``filled`` as in ``Counted``."""

    body: Body
    betas: tuple[str, ...]
    max_tokens: int = MAX_TOKENS
    filled: bool = False


def to_count(request: Mapping[str, Any], betas: tuple[str, ...]) -> Question:
    """What the count endpoint is asked.

    Markers and thinking stay: of old thinking the API itself leaves out what the model does not keep, and counts so.
    """
    fields = (*COUNTED, *(COUNTED_WITH_BETAS if betas else ()))
    body = {field: request[field] for field in fields if request.get(field)}
    if "tools" not in body:
        body.pop("tool_choice", None)
    messages = [_said(message) for message in request.get("messages", ())]
    return Question(body | {"messages": messages or [dict(PLACEHOLDER)]}, betas, filled=not messages)


def without(question: Question, part: Part) -> Question:
    """The same question without a part: a number that does not fall was not a count of it."""
    dropped = {part, "tool_choice"} if part == "tools" else {part}
    return Question({field: value for field, value in question.body.items() if field not in dropped}, question.betas)


def parts_of(question: Question) -> tuple[Part, ...]:
    return tuple(part for part in PARTS if part in question.body)


def fallback_model(provider: Provider, region: str | None, has_thinking: bool, models: ModelTable) -> str:
    """The id of the small model to ask: the default Haiku, or the default Sonnet where there is no such Haiku."""
    elsewhere = (provider == "vertex" and region == "global") or (provider == "bedrock" and has_thinking)
    return models.wire_id("sonnet" if elsewhere else "haiku")


def has_thinking(request: Mapping[str, Any]) -> bool:
    return any(
        block.get("type") in THINKING
        for message in request.get("messages", ())
        for block in _blocks(message["content"])
    )


def to_small_model(request: Mapping[str, Any], betas: tuple[str, ...], model: str) -> Question:
    """What a small model is asked, so that its usage tells the number: no markers, nothing it may not take.

    Messages of the role ``system`` become reminders by the user. A conversation that ends with an answer gets a user
    message of one character, because not every model goes on with its own answer.
    """
    body: Body = {"model": model} | {field: _unmarked_all(request[field]) for field in ANSWERED if request.get(field)}
    messages = list(_turns([_unmarked_message(message) for message in request.get("messages", ())]))
    filled = not messages or messages[-1]["role"] == "assistant"
    body["messages"] = [*messages, dict(PLACEHOLDER)] if filled else messages
    kept = tuple(beta for beta in betas if not beta.startswith(NEEDLESS_BETAS))
    if not has_thinking(request):
        return Question(body, kept, MAX_TOKENS, filled)
    body["thinking"] = {"type": "enabled", "budget_tokens": THINKING_BUDGET}
    return Question(body, kept, MAX_TOKENS_WITH_THINKING, filled)


def used_tokens(message: Mapping[str, Any]) -> int | None:
    """Input tokens by an answer's usage: new, written to and read from the prompt cache. None: it tells none."""
    usage = message.get("usage")
    if not isinstance(usage, Mapping) or not is_count(usage.get("input_tokens")):
        return None
    return sum(usage[name] for name in INPUTS if is_count(usage.get(name))) or None


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _said(message: Mapping[str, Any]) -> Body:
    return {"role": message["role"], "content": message["content"]}


def _blocks(content: Any) -> list[Body]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else [*filter(_is_block, content)]


def _is_block(row: Any) -> bool:
    return isinstance(row, Mapping)


def _unmarked_all(value: Any) -> Any:
    return [_unmarked(row) if _is_block(row) else row for row in value] if isinstance(value, list | tuple) else value


def _unmarked(row: Mapping[str, Any]) -> Body:
    """A block or a tool without its marker and those of the blocks in it; a tool's input is the caller's own JSON."""
    bare = {name: value for name, value in row.items() if name != "cache_control"}
    if "content" in bare:
        bare["content"] = _unmarked_all(bare["content"])
    if isinstance(bare.get("source"), Mapping) and "content" in bare["source"]:
        bare["source"] = dict(bare["source"]) | {"content": _unmarked_all(bare["source"]["content"])}
    return bare


def _unmarked_message(message: Mapping[str, Any]) -> Body:
    return {"role": message["role"], "content": _unmarked_all(message["content"])}


def _turns(messages: Iterable[Body]) -> Iterable[Body]:
    """Without the role ``system``: its texts go behind the next user message, whose tool results must come first."""
    waiting: list[Body] = []
    for message in messages:
        if message["role"] == "system":
            waiting.extend(_reminder(block) for block in _blocks(message["content"]))
            continue
        if waiting and message["role"] == "user":
            yield {"role": "user", "content": [*_blocks(message["content"]), *waiting]}
        else:
            yield from _user(waiting)
            yield message
        waiting = []
    yield from _user(waiting)


def _reminder(block: Body) -> Body:
    return block | {"text": f"<system-reminder>\n{block.get('text', '')}\n</system-reminder>"}


def _user(blocks: Sequence[Body]) -> Iterable[Body]:
    return ({"role": "user", "content": list(blocks)},) if blocks else ()
