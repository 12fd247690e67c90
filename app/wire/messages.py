"""Messages of a conversation: the API's, and what a caller may say beside them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Tag, field_validator

from app.core import facts
from app.wire.base import FIRST, Strict, alternative

MOST_TOKENS = 10**12
"""Of any figure of tokens that a caller tells."""

Unread = Annotated[Any, AfterValidator(lambda _: None)]
"""What stands in a response and is of no use here: taken, whatever it is, and dropped."""


class Usage(BaseModel):
    """The API's usage of one response; figures this service does not know are left aside."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    input_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    cache_creation_input_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    cache_read_input_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    output_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None


class MessageMeta(Strict):
    """``compact_boundary``: the conversation was compacted here; usage before it does not count.

    ``tokens``: how many were in use right behind it, as the compaction told.
    """

    compact_boundary: bool = False
    tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None


class Message(Strict):
    """A Messages API message, or a whole response of it, of its betas too.

    ``id`` is the response's id. It, ``usage``, ``meta`` and the other fields of a response do not reach the model.
    """

    role: Literal["user", "assistant", "system"]
    content: Annotated[
        Annotated[str, Tag("as:text")] | Annotated[list[dict[str, Any]], FIRST, Tag("as:a_list_of_blocks")],
        alternative(text=str, a_list_of_blocks=list),
    ]
    id: str | None = None
    usage: Usage | None = None
    type: Literal["message"] | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Unread = None
    container: Unread = None
    diagnostics: Unread = None
    context_management: Unread = None
    input_transformations: Unread = None
    meta: (
        Annotated[
            Annotated[bool, Tag("as:true_or_false")] | Annotated[MessageMeta, Tag("as:an_object")],
            alternative(true_or_false=bool, an_object=dict),
        ]
        | None
    ) = None

    @field_validator("content")
    @classmethod
    def _has_types(cls, value: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
        if isinstance(value, list) and any(not isinstance(block.get("type"), str) for block in value):
            raise ValueError("every content block needs a type, such as text")
        return value


def core_message(message: Message) -> facts.Message:
    usage = message.usage
    return facts.Message(
        role=message.role,
        content=message.content if isinstance(message.content, str) else tuple(message.content),
        response_id=message.id,
        usage=facts.Usage(**{key: value or 0 for key, value in usage.model_dump().items()}) if usage else None,
        boundary=isinstance(message.meta, MessageMeta) and message.meta.compact_boundary,
        boundary_tokens=message.meta.tokens if isinstance(message.meta, MessageMeta) else None,
    )
