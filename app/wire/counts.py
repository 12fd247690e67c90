"""The body and the answer of ``POST /v1/tokens``: what a request of any client costs, and the state that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, Tag

from app.core import facts
from app.core.providers import Provider
from app.wire.base import FIRST, Strict, alternative
from app.wire.messages import Message, core_message
from app.wire.requests import Server, SessionId, Tokens, given_parameters
from app.wire.schema import Compaction, TokensAnswer, Warning_

Text = Annotated[str, Tag("as:text")]
Blocks = Annotated[list[dict[str, Any]], FIRST, Tag("as:a_list_of_blocks")]


class TokensRequest(Strict):
    """A Messages API body, and how to count it: with a session, by what that has learned.

    From ``cache_control`` on, the API's fields are taken as they are: they cost no tokens.
    """

    model: Annotated[str, Field(min_length=1, max_length=512)]
    messages: Annotated[list[Message], FIRST] = []
    system: Annotated[Text | Blocks, alternative(text=str, a_list_of_blocks=list)] | None = None
    tools: Annotated[list[dict[str, Any]], FIRST] = []
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    tool_choice: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None
    max_tokens: int | None = None
    metadata: dict[str, Any] | None = None
    service_tier: str | None = None
    stop_sequences: Annotated[list[str], FIRST] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    provider: Literal["anthropic", "bedrock", "vertex", "foundry", "custom"] = "anthropic"
    region: Annotated[str, Field(max_length=64)] | None = None
    tokens: Tokens = Tokens()
    session_id: SessionId | None = None


class TokensResult(Strict):
    tokens: TokensAnswer
    compaction: Compaction
    warnings: list[Warning_]


@dataclass(frozen=True, slots=True)
class TokensAsk:
    """A request to count, in the core's words. ``upstream_key`` is the caller's own: it is used and not kept."""

    model: str
    messages: tuple[facts.Message, ...]
    system: tuple[facts.Json, ...]
    tools: tuple[facts.Json, ...]
    parameters: facts.Json
    options: facts.TokenOptions
    provider: Provider
    region: str | None = None
    betas: tuple[str, ...] = ()
    session_id: str | None = None
    upstream_key: str | None = field(default=None, repr=False)
    space: str = ""


def tokens_ask(body: TokensRequest, server: Server, betas: Sequence[str], upstream_key: str | None = None) -> TokensAsk:
    return TokensAsk(
        model=body.model,
        messages=tuple(core_message(one) for one in body.messages),
        system=_blocks(body.system),
        tools=tuple(body.tools),
        parameters=given_parameters(body),
        options=facts.TokenOptions(**body.tokens.model_dump()),
        provider=body.provider,
        region=body.region,
        betas=tuple(betas),
        session_id=server.session(body.session_id),
        space=server.space,
        upstream_key=upstream_key,
    )


def _blocks(system: str | list[dict[str, Any]] | None) -> tuple[facts.Json, ...]:
    if isinstance(system, str):
        return ({"type": "text", "text": system},) if system else ()
    return tuple(system or ())
