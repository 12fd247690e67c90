"""The API's messages: the user context, what follows it, and the conversation with late texts at their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.blocks import Block
from app.core.facts import Json, Message, Notice
from app.core.key_order import ordered
from app.core.late import Late, behind_results, places
from app.core.message import UserContext


@dataclass(frozen=True, slots=True)
class Opening:
    """What stands in front of the conversation. ``back`` is what the late layout keeps out of the system prompt.

    ``of_system``: the back is a message of the role ``system``; else it is a block of the user context's message.
    """

    context: UserContext
    back: Block | None = None
    of_system: bool = False

    @property
    def behind(self) -> str:
        """Where the back stands in the request's messages."""
        return "messages[1].content[0]" if self.of_system else f"messages[0].content[{int(bool(self.context.text))}]"

    def messages(self) -> list[Json]:
        """None, one or two messages."""
        back = [self.back.text] if self.back else []
        first = [*([self.context.text] if self.context.text else []), *([] if self.of_system else back)]
        found = [texts_message("user", first)] if first else []
        return [*found, texts_message("system", back)] if back and self.of_system else found


def conversation(opening: Opening, messages: Sequence[Message], late: Sequence[Late], *, of_system: bool) -> list[Json]:
    """All messages, in the order in which they are sent.

    ``of_system``: the receiver takes messages of the role ``system``; else the caller's become reminders of the user.
    """
    found = opening.messages()
    there = _joining(messages, late, of_system=of_system)
    for index, message in enumerate(messages):
        if index in there:
            found.append({"role": "user", "content": there[index]})
        if of_system or message.role != "system":
            found.append(_api_message(message))
    if len(messages) in there:
        found.append({"role": "user", "content": there[len(messages)]})
    return found


def _joining(messages: Sequence[Message], late: Sequence[Late], *, of_system: bool) -> dict[int, list[Json]]:
    """Blocks that join the conversation, by the number of messages they stand behind."""
    found: dict[int, list[Json]] = {}
    for index, message in enumerate(messages):
        if message.role == "system" and not of_system:
            found.setdefault(behind_results(index, messages), []).extend(_reminders(message))
    for index, texts in places(messages, late).items():
        found.setdefault(index, []).extend({"type": "text", "text": text} for text in texts)
    return found


def _reminders(message: Message) -> Iterator[Json]:
    content = message.content
    for block in ({"type": "text", "text": content},) if isinstance(content, str) else content:
        text = block.get("text")
        yield {**block, "text": f"<system-reminder>\n{text}\n</system-reminder>"} if isinstance(text, str) else block


def system_notices(messages: Sequence[Message], *, of_system: bool) -> Iterator[Notice]:
    """A word on each of the caller's messages of the role ``system`` that is sent as the user's."""
    for index, message in enumerate(messages):
        if message.role == "system" and not of_system:
            told = (
                "This model or provider takes no messages of the role system: it was sent as a reminder of the user's."
            )
            yield Notice("system_message_as_reminder", told, f"messages[{index}]")


def empty_notices(messages: Sequence[Message]) -> Iterator[Notice]:
    """A word on each of the caller's messages that the API refuses for saying nothing."""
    for index, message in enumerate(messages):
        content = message.content
        blank = [block for block in ([] if isinstance(content, str) else content) if _is_blank(block)]
        if blank or not (content.strip() if isinstance(content, str) else content):
            yield Notice("empty_text", "The API takes no empty text: leave it out.", f"messages[{index}]")


def texts_message(role: str, texts: Sequence[str]) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


def _is_blank(block: Json) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _api_message(message: Message) -> Json:
    content: Any = message.content if isinstance(message.content, str) else [ordered(one) for one in message.content]
    return {"role": message.role, "content": content}
