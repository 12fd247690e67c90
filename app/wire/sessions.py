"""What a session holds, for people and plugins, without a word of its texts; and what emptying it did."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from app.core.budget import Breaker
from app.core.candidates import MemoryFile
from app.core.late import Late
from app.core.prefix import tokens_in
from app.core.previous import Turn
from app.core.remembered import Emptying, Remembered
from app.core.tokens import bytes_per_token, rough
from app.wire import schema
from app.wire.answers import Values, breaker_values
from app.wire.base import Strict

CALENDAR_ENDS = 253_402_300_800.0
"""The first second of the year 10000, which no date has."""


class ClearRequest(Strict):
    """``clear``: the conversation is over. ``compact``: it goes on from a summary that the caller made."""

    reason: Emptying


class HeldSection(Strict):
    """A section as it stays for the session. Not ``present``: it is remembered that it says nothing."""

    name: str
    present: bool
    tokens: int
    sha256: str | None


class HeldFile(Strict):
    path: str
    type: schema.FileType
    tokens: int
    sha256: str


class HeldMemory(Strict):
    count: int
    files: list[HeldFile]


class HeldLate(Strict):
    """A text that joined the conversation behind the first ``at`` messages of the caller."""

    part: str
    at: int
    tokens: int


class HeldBreaker(Strict):
    """``since``: when the last failure opened it; None while it is closed."""

    state: Literal["closed", "open", "half_open"]
    consecutive_failures: int
    since: str | None


class HeldCalibration(Strict):
    """By what estimates for one generation of tokenizer are multiplied, learned from so many responses."""

    tokenizer: int
    factor: float
    samples: int


class LastRequest(Strict):
    """``messages`` are the caller's, ``blocks`` all that was sent; ``hit`` is against the request before it."""

    model: str
    messages: int
    blocks: int
    tokens: int
    hit: bool | None
    at: str | None


class HeldSession(Strict):
    """What a session holds. Tokens are rough, moments are UTC; ``version`` is another one after each write.

    ``workspace`` is a digest; ``date`` is when it began. What is None has not been, or was emptied.
    """

    id: str
    version: int
    workspace: str
    date: str | None
    model: str | None
    layout: Literal["classic", "late"] | None
    sections: list[HeldSection]
    memory: HeldMemory
    delivered: list[str]
    late: list[HeldLate]
    boundary: bool
    breaker: HeldBreaker
    calibrations: list[HeldCalibration]
    last_request: LastRequest | None


class EmptiedCounts(Strict):
    """``attachments`` can arrive again; ``late`` are texts behind the conversation that are gone."""

    sections: int
    memory_files: int
    attachments: int
    late: int


class Stays(Strict):
    """``last_request``: the next request is compared with it. ``calibrations`` is how many."""

    last_request: bool
    breaker: schema.Breaker
    calibrations: int


class ClearAnswer(Strict):
    reason: Emptying
    emptied: EmptiedCounts
    stays: Stays


@dataclass(frozen=True, slots=True)
class Standing:
    """A session as it stands now. ``since`` and ``asked_at`` are moments in ISO 8601."""

    id: str
    version: int
    remembered: Remembered
    breaker: Breaker
    since: str | None
    asked_at: str | None


@dataclass(frozen=True, slots=True)
class Emptied:
    reason: Emptying
    before: Remembered
    after: Remembered
    breaker: Breaker


def on_a_calendar(seconds: float | None) -> float | None:
    """Seconds since 1970 for which there is a date; None for any other number, which a broken record can hold."""
    return seconds if seconds is not None and 0 <= seconds < CALENDAR_ENDS else None


def session_answer(standing: Standing) -> Values:
    held = standing.remembered
    files = held.memory.files if held.memory else ()
    return {
        "id": standing.id,
        "version": standing.version,
        "workspace": held.workspace,
        "date": held.date or None,
        "model": held.model or None,
        "layout": held.layout or None,
        "sections": [_section(name, text) for name, text in held.sections.items()],
        "memory": {"count": len(files), "files": [_file(file) for file in files]},
        "delivered": list(held.delivered),
        "late": [_late(one) for one in held.late],
        "boundary": held.boundary != "",
        "breaker": {**breaker_values(standing.breaker), "since": standing.since},
        "calibrations": [
            {"tokenizer": tokenizer, "factor": found.factor, "samples": found.samples}
            for tokenizer, found in sorted(held.calibrations.items())
        ],
        "last_request": _last(held.turn, standing.asked_at) if held.turn else None,
    }


def clear_answer(emptied: Emptied) -> Values:
    before, after = emptied.before, emptied.after
    return {
        "reason": emptied.reason,
        "emptied": {
            "sections": len(before.sections),
            "memory_files": len(before.memory.files) if before.memory else 0,
            "attachments": len(before.delivered),
            "late": len(before.late),
        },
        "stays": {
            "last_request": after.turn is not None,
            "breaker": breaker_values(emptied.breaker),
            "calibrations": len(after.calibrations),
        },
    }


def _section(name: str, text: str | None) -> Values:
    return {
        "name": name,
        "present": bool(text),
        "tokens": rough(text or ""),
        "sha256": _sha256(text) if text else None,
    }


def _file(file: MemoryFile) -> Values:
    content = file.content.strip()
    return {
        "path": file.path,
        "type": file.level.type,
        "tokens": rough(content, bytes_per_token(file.path)),
        "sha256": _sha256(content),
    }


def _late(one: Late) -> Values:
    return {"part": one.part, "at": one.at, "tokens": rough(one.text, max(1, one.units_per_token))}


def _last(turn: Turn, at: str | None) -> Values:
    return {
        "model": turn.sent.model,
        "messages": turn.messages,
        "blocks": len(turn.sent.segments),
        "tokens": tokens_in(turn.sent.segments),
        "hit": turn.comparison.hit if turn.comparison else None,
        "at": at,
    }


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
