"""Bodies that are read ahead of the application, and given to it once more."""

from __future__ import annotations

from starlette.types import Message, Receive


async def taken_whole(message: Message, receive: Receive, most: int) -> tuple[list[Message], bytes | None]:
    """The messages of a body that ``message`` begins, and the body; None where it has no end or passes ``most``."""
    messages, taken = [message], len(message.get("body", b""))
    while message["type"] == "http.request" and message.get("more_body") and taken <= most:
        message = await receive()
        messages.append(message)
        taken += len(message.get("body", b""))
    whole = message["type"] == "http.request" and not message.get("more_body")
    return messages, b"".join([one.get("body", b"") for one in messages]) if whole else None


def again(messages: list[Message], receive: Receive) -> Receive:
    """Gives ``messages`` once more, then what comes."""
    waiting = iter(messages)

    async def receive_again() -> Message:
        for message in waiting:
            return message
        return await receive()

    return receive_again
