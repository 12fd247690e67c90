"""A message that came in pieces, put together: the events of a streamed answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]
Block: TypeAlias = dict[str, Any]

GATHERED = frozenset({"content", "usage"})
"""Fields of a message that are told in events of their own."""


def message_of(events: Iterable[Any]) -> dict[str, Any] | None:
    """The message that ``events`` tell, as the API answers it unstreamed.

    None when they break off before a stop reason, or do not fit each other. What is not known is passed over: an
    event leaves the message, and a delta leaves its block, as it was.
    """
    message: dict[str, Any] = {}
    blocks: list[Block] = []
    inputs: dict[int, str] = {}
    for event in events:
        if not _took(event, message, blocks, inputs):
            return None
    if not isinstance(message.get("stop_reason"), str) or not _took_inputs(blocks, inputs):
        return None
    return message | {"content": blocks}


def _took(event: Any, message: dict[str, Any], blocks: list[Block], inputs: dict[int, str]) -> bool:
    match event:
        case {"type": "message_start", "message": {"usage": dict() as usage} as start} if not message:
            message.update(start | {"usage": dict(usage)})
        case {"type": "content_block_start", "index": int(index), "content_block": dict() as block}:
            blocks.append(dict(block))
            return index == len(blocks) - 1
        case {"type": "content_block_delta", "index": int(index), "delta": dict() as delta}:
            return 0 <= index < len(blocks) and _grew(blocks[index], delta, index, inputs)
        case {"type": "message_delta", "delta": dict() as delta} if message:
            message.update((name, value) for name, value in delta.items() if name not in GATHERED)
            message["usage"] |= _given(event.get("usage"))
        case {"type": "message_start" | "content_block_start" | "content_block_delta" | "message_delta"}:
            return False
    return isinstance(event, Mapping)


def _given(usage: Any) -> dict[str, Any]:
    """Counts of a later event stand for the earlier ones, where it has any."""
    return {name: count for name, count in usage.items() if count is not None} if isinstance(usage, Mapping) else {}


def _grew(block: Block, delta: Event, index: int, inputs: dict[int, str]) -> bool:
    match delta:
        case {"type": "input_json_delta", "partial_json": str(piece)}:
            inputs[index] = inputs.get(index, "") + piece
        case {"type": "signature_delta", "signature": str(signature)}:
            block["signature"] = signature
        case {"type": "citations_delta", "citation": citation}:
            block["citations"] = [*(block.get("citations") or []), citation]
        case {"type": "text_delta" | "thinking_delta" as kind}:
            return _longer(block, delta, kind.removesuffix("_delta"))
    return True


def _longer(block: Block, delta: Event, field: str) -> bool:
    before, piece = block.get(field), delta.get(field)
    if not isinstance(before, str) or not isinstance(piece, str):
        return False
    block[field] = before + piece
    return True


def _took_inputs(blocks: list[Block], inputs: dict[int, str]) -> bool:
    try:
        for index, written in inputs.items():
            blocks[index]["input"] = json.loads(written) if written else {}
    except (ValueError, RecursionError):
        return False
    return True
