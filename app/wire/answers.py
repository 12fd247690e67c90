"""The core's words in, JSON out: plain values in the contract's order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import orjson

from app.core.assembly import Assembly
from app.core.attachments import Attached
from app.core.bill import section_tokens
from app.core.blocks import Block
from app.core.budget import Breaker, CompactionState
from app.core.candidates import MemoryFile
from app.core.difference import Difference
from app.core.facts import Notice
from app.core.memory import Memory
from app.core.message import attachment_text
from app.core.previous import Previous
from app.core.registry import BOUNDARY_NAME, Element
from app.core.report import Row
from app.core.tally import Tally
from app.core.tokens import bytes_per_token, rough

Values = dict[str, Any]

_WIDEST_NUMBER = 63
"""Bits of a whole number that orjson writes, whatever the sign."""


def context_answer(assembly: Assembly, session: Values, notices: Sequence[Notice]) -> Values:
    """The body of a context answer. ``digest`` covers what reaches the model: ``request`` and ``headers``."""
    request = assembly.request
    headers = {"anthropic-beta": ",".join(assembly.planned.betas)} if assembly.planned.betas else {}
    return {
        "request": request,
        "headers": headers,
        "system_blocks": [_block(block) for block in assembly.prompt.blocks],
        "sections": _sections(assembly),
        "user_context": {
            "entries": dict(assembly.prompt.opening.context.entries),
            "text": assembly.prompt.opening.context.text,
        },
        "memory": _memory(assembly),
        "tokens": tokens_values(assembly.tally),
        "compaction": compaction_values(assembly.tally.state),
        "cache": _cache(assembly),
        "session": session,
        "warnings": [_notice(notice) for notice in (*notices, *assembly.notices)],
        "digest": _sha256(to_bytes([request, headers])),
    }


def attachments_answer(
    attached: Attached, memory: Memory, session: Values, notices: Sequence[Notice], *, raw: bool
) -> Values:
    """The body of an attachments answer: what is new, and what became of everything considered."""
    return {
        "attachments": [_attachment(file, raw=raw) for file in attached.files],
        "report": [_row(row) for row in attached.rows],
        "session": {"id": session["id"], "new": session["new"]},
        "warnings": [_notice(notice) for notice in (*notices, *memory.notices)],
    }


def tokens_answer(tally: Tally, notices: Sequence[Notice]) -> Values:
    """The body of a tokens answer."""
    return {
        "tokens": tokens_values(tally),
        "compaction": compaction_values(tally.state),
        "warnings": [_notice(notice) for notice in notices],
    }


def to_bytes(values: Any) -> bytes:
    """JSON in UTF-8. Characters that UTF-8 cannot hold become U+FFFD; whole numbers may have any size."""
    try:
        return orjson.dumps(values)
    except TypeError:
        return orjson.dumps(_encodable(values))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    if isinstance(value, int) and value.bit_length() > _WIDEST_NUMBER:
        return orjson.Fragment(str(value).encode())
    return [_encodable(one) for one in value] if isinstance(value, list | tuple) else value


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _text_sha256(text: str) -> str:
    return _sha256(text.encode("utf-8", "replace"))


def _block(block: Block) -> Values:
    return {
        "text": block.text,
        "cache_scope": block.scope,
        "sections": list(block.sections),
        "tokens": rough(block.text),
        "sha256": _text_sha256(block.text),
    }


def _sections(assembly: Assembly) -> list[Values]:
    back = assembly.prompt.opening.back
    placed = {
        name: place
        for place, blocks in (("system", assembly.prompt.blocks), ("message", (back,) if back else ()))
        for block in blocks
        for name, _ in block.parts
    }
    counted = section_tokens(assembly.tally.rows)
    return [
        _section(element, placed.get(element.name), counted.get(element.name, 0))
        for element in assembly.prompt.elements
        if element.name != BOUNDARY_NAME
    ]


def _section(element: Element, place: str | None, tokens: int) -> Values:
    return {
        "name": element.name,
        "kind": element.kind,
        "reason": element.reason,
        "origin": element.origin,
        "present": place is not None,
        "place": place,
        "tokens": tokens,
        "sha256": _text_sha256(element.text) if element.text and place else None,
    }


def _memory(assembly: Assembly) -> Values:
    raw = assembly.facts.request.memory.include_raw
    counted = dict(assembly.tally.rows.fixed)
    return {
        "files": [_file(file, counted.get(f"memory:{file.path}", 0), raw=raw) for file in assembly.facts.memory.files],
        "attachments": [_attachment(file, raw=raw) for file in assembly.facts.attached.files],
        "report": [_row(row) for row in assembly.rows],
    }


def _file(file: MemoryFile, tokens: int, *, raw: bool) -> Values:
    content = file.content.strip()
    return {
        "path": file.path,
        "type": file.level.type,
        "label": file.level.label,
        "content": content,
        **({"raw_content": file.raw} if raw else {}),
        "parent": file.parent,
        "globs": list(file.globs) or None,
        "content_differs_from_disk": file.differs,
        "depth": file.depth,
        "tokens": tokens,
        "sha256": _text_sha256(content),
    }


def _attachment(file: MemoryFile, *, raw: bool) -> Values:
    text = attachment_text(file)
    reason = "include" if file.parent else "conditional_rule" if file.globs else "nested"
    return {
        "path": file.path,
        "type": file.level.type,
        "content": file.content,
        **({"raw_content": file.raw} if raw else {}),
        "trigger": file.trigger,
        "reason": reason,
        "globs": list(file.globs) or None,
        "parent": file.parent,
        "text": text,
        "tokens": rough(text, bytes_per_token(file.path)),
        "sha256": _text_sha256(file.content),
    }


def _row(row: Row) -> Values:
    return {
        "path": row.path,
        "verdict": row.verdict,
        "reason": row.reason,
        "parent": row.parent,
        "line": row.line,
        "tried": row.tried,
        "hint": row.hint,
    }


def _notice(notice: Notice) -> Values:
    return {"code": notice.code, "message": notice.message, "where": notice.where}


def tokens_values(tally: Tally) -> Values:
    return {
        "used": tally.count.used,
        "method": tally.method,
        "parts": [{"part": part.name, "tokens": part.tokens} for part in tally.count.parts],
        "anchored_on": tally.count.anchored_on,
        "calibration": tally.factor,
    }


def compaction_values(state: CompactionState) -> Values:
    return {
        "window": state.window,
        "effective_window": state.effective_window,
        "threshold": state.threshold,
        "percent_left": state.percent_left,
        "percent_of_window": state.percent_of_window,
        "percent_of_model_window": state.percent_of_model_window,
        "is_above_warning": state.is_above_warning,
        "is_above_error": state.is_above_error,
        "is_above_auto_compact": state.is_above_auto_compact,
        "is_at_blocking_limit": state.is_at_blocking_limit,
        "should_compact": state.should_compact,
        "breaker": breaker_values(state.breaker),
        "turns_left": state.turns_left,
        "explain": list(state.explain),
    }


def breaker_values(breaker: Breaker) -> Values:
    return {"state": breaker.state, "consecutive_failures": breaker.consecutive_failures}


def _cache(assembly: Assembly) -> Values:
    prefix = {key: value for key, value in assembly.request.items() if key in {"tools", "system"}}
    return {
        "mode": assembly.prompt.mode,
        "breakpoints": [
            {"at": one.at, "tokens": one.tokens, "below_minimum": one.below_minimum, "sent": one.sent}
            for one in assembly.planned.breakpoints
        ],
        "prefix_sha256": _sha256(to_bytes(prefix)),
        "previous": _previous(assembly.previous),
    }


def _previous(previous: Previous) -> Values:
    compared, cost = previous.comparison, previous.cost
    return {
        "hit": compared.hit if compared else None,
        "first_change": _first_change(compared.first_change) if compared and compared.first_change else None,
        "cause": previous.cause,
        "hit_blocks": compared.hit_blocks if compared else 0,
        "hit_tokens": compared.hit_tokens if compared else 0,
        "rewritten_tokens": compared.rewritten if compared else 0,
        "unwritten_tokens": compared.unwritten if compared else 0,
        "cost": {"amount": cost.amount, "currency": cost.currency} if cost else None,
        "agreed": previous.agreed,
        "read_tokens": previous.read_tokens,
    }


def _first_change(change: Difference) -> Values:
    return {
        "block": change.block,
        "at": change.at,
        "section": change.section,
        "offset": change.offset,
        "before": change.before,
        "after": change.after,
    }
