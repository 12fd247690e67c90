"""Texts that join the conversation after it began, and where: a place that stays when the conversation grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.candidates import MemoryFile
from app.core.facts import Json, Message
from app.core.message import attachment_text
from app.core.paths import paths_for
from app.core.tokens import bytes_per_token

LONGEST_PATH = 4096


@dataclass(frozen=True, slots=True)
class Late:
    """Text that joined the conversation. ``at``: the number of caller's messages it stands behind.

    ``real`` is the real path of an attachment. A text about a change names its ``subject``, and the ``state`` of it
    that the model knows from then on.
    """

    at: int
    part: str
    text: str
    units_per_token: int = 4
    real: str | None = None
    subject: str | None = None
    state: str = ""


def late_attachments(
    files: Sequence[MemoryFile], messages: Sequence[Message], cwd: str, sent: int = 0
) -> Iterator[Late]:
    """Attachments, each behind the newest result of a call that touched its file, else behind everything.

    None stands among the first ``sent`` messages: those are with the model already.
    """
    results = _results(messages, cwd) if files else {}
    paths = paths_for(cwd)
    for file in files:
        behind = results.get(paths.join(cwd, file.trigger)) if file.trigger else None
        at = end(messages) if behind is None or behind < sent else _past(behind, messages)
        yield Late(at, f"attachment:{file.path}", attachment_text(file), bytes_per_token(file.path), file.real)


def end(messages: Sequence[Message]) -> int:
    """How many messages a late one stands behind: all, but for an answer that the model is to go on with."""
    count = len(messages)
    while count and messages[count - 1].role == "assistant":
        count -= 1
    return count


def is_prompt(messages: Sequence[Message]) -> bool:
    """Whether the user speaks at the end, rather than a tool."""
    return bool(messages) and messages[-1].role == "user" and not _has_result(messages[-1])


def behind_results(index: int, messages: Sequence[Message]) -> int:
    """Where what is said at ``index`` can stand: not between a call and its results."""
    return _past(index + 1, messages) if index + 1 < len(messages) and _has_result(messages[index + 1]) else index


def places(messages: Sequence[Message], late: Sequence[Late]) -> Mapping[int, list[str]]:
    """Late texts by the number of messages they stand behind, in a conversation that may have been cut since.

    None stands before a tool's result or between the fragments of one answer.
    """
    found: dict[int, list[str]] = {}
    for one in late:
        found.setdefault(_past(min(one.at, end(messages)), messages), []).append(one.text)
    return found


def _results(messages: Sequence[Message], cwd: str) -> Mapping[str, int]:
    """Where the newest result of a call that names a path stands, by the absolute path."""
    paths = paths_for(cwd)
    calls: dict[str, list[str]] = {}
    found: dict[str, int] = {}
    for index, message in enumerate(messages):
        for block in _blocks(message, "tool_use"):
            if isinstance(block.get("id"), str) and isinstance(block.get("input"), Mapping):
                named = [one for one in block["input"].values() if isinstance(one, str) and len(one) <= LONGEST_PATH]
                calls[block["id"]] = [paths.join(cwd, one) for one in named]
        for block in _blocks(message, "tool_result"):
            answered = block.get("tool_use_id")
            for path in calls.get(answered, []) if isinstance(answered, str) else []:
                found[path] = index
    return found


def _past(index: int, messages: Sequence[Message]) -> int:
    """Behind all results of the turn, and behind an answer that came in fragments."""
    while index < len(messages) and (_has_result(messages[index]) or _goes_on(index, messages)):
        index += 1
    return index


def _has_result(message: Message) -> bool:
    return any(_blocks(message, "tool_result"))


def _goes_on(index: int, messages: Sequence[Message]) -> bool:
    return index > 0 and messages[index - 1].role == messages[index].role == "assistant"


def _blocks(message: Message, kind: str) -> Iterator[Json]:
    if not isinstance(message.content, str):
        yield from (block for block in message.content if block.get("type") == kind)
