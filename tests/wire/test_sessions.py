"""What a session holds, written down without its texts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from app.core.budget import Breaker
from app.core.calibration import Calibration
from app.core.candidates import MemoryFile
from app.core.late import Late
from app.core.levels import LEVELS
from app.core.memory import Memory
from app.core.previous import Turn
from app.core.remembered import Remembered
from app.core.sent import sent
from app.errors import InvalidRequest
from app.wire.parsing import parsed
from app.wire.sessions import (
    ClearAnswer,
    ClearRequest,
    Emptied,
    HeldSession,
    Standing,
    clear_answer,
    session_answer,
)

SECRET = "Never say this."
REQUEST = {"model": "m", "messages": [{"role": "user", "content": SECRET * 4}]}
FILE = MemoryFile("/p/a.json", "/p/a.json", LEVELS[0], f"{SECRET}\n", SECRET)
FULL = Remembered(
    "w",
    "2026-11-30",
    model="m",
    layout="late",
    sections={"env_info": SECRET, "language": None},
    memory=Memory((FILE,)),
    delivered=("/p/src/CLAUDE.md",),
    late=(Late(3, "attachment:/p/src/CLAUDE.md", SECRET, 2),),
    boundary="b",
    turn=Turn(sent(REQUEST, 1), 1, 2),
    calibrations={2: Calibration(1.5, 3), 1: Calibration()},
)


def written(remembered: Remembered, breaker: Breaker) -> dict[str, Any]:
    found = session_answer(Standing("s", 7, remembered, breaker, "since", "then"))
    HeldSession.model_validate_json(json.dumps(found))
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_all_that_is_held_is_told_and_nothing_of_its_texts() -> None:
    found = written(FULL, Breaker("open", 3))
    assert SECRET not in json.dumps(found)
    assert found == {
        "id": "s",
        "version": 7,
        "workspace": "w",
        "date": "2026-11-30",
        "model": "m",
        "layout": "late",
        "sections": [
            {"name": "env_info", "present": True, "tokens": 4, "sha256": digest(SECRET)},
            {"name": "language", "present": False, "tokens": 0, "sha256": None},
        ],
        "memory": {
            "count": 1,
            "files": [{"path": "/p/a.json", "type": LEVELS[0].type, "tokens": 8, "sha256": digest(SECRET)}],
        },
        "delivered": ["/p/src/CLAUDE.md"],
        "late": [{"part": "attachment:/p/src/CLAUDE.md", "at": 3, "tokens": 8}],
        "boundary": True,
        "breaker": {"state": "open", "consecutive_failures": 3, "since": "since"},
        "calibrations": [
            {"tokenizer": 1, "factor": 1.0, "samples": 0},
            {"tokenizer": 2, "factor": 1.5, "samples": 3},
        ],
        "last_request": {"model": "m", "messages": 1, "blocks": 1, "tokens": 15, "hit": None, "at": "then"},
    }


def test_what_has_not_been_is_null_or_empty() -> None:
    found = written(Remembered("w", ""), Breaker())
    assert [name for name, value in found.items() if value is None] == ["date", "model", "layout", "last_request"]
    assert [found["sections"], found["delivered"], found["late"], found["calibrations"]] == [[]] * 4
    assert (found["memory"], found["boundary"]) == ({"count": 0, "files": []}, False)


@pytest.mark.parametrize(("reason", "stays"), [("clear", False), ("compact", True)])
def test_emptying_is_answered_with_what_is_gone_and_what_stays(reason: Any, stays: bool) -> None:
    found = clear_answer(Emptied(reason, FULL, FULL.emptied(reason), Breaker("closed", 2)))
    ClearAnswer.model_validate_json(json.dumps(found))
    assert found == {
        "reason": reason,
        "emptied": {"sections": 2, "memory_files": 1, "attachments": 1, "late": 1},
        "stays": {
            "last_request": stays,
            "breaker": {"state": "closed", "consecutive_failures": 2},
            "calibrations": 2,
        },
    }


def test_a_session_without_memory_loses_none() -> None:
    bare = replace(FULL, memory=None)
    assert clear_answer(Emptied("clear", bare, bare.emptied("clear"), Breaker()))["emptied"]["memory_files"] == 0


@pytest.mark.parametrize("body", ["{}", '{"reason": "restart"}', '{"reason": "clear", "more": 1}', '["clear"]'])
def test_what_names_no_reason_is_refused(body: str) -> None:
    with pytest.raises(InvalidRequest):
        parsed(ClearRequest, body.encode())
