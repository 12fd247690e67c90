"""What stays of a session when its conversation is over, or goes on from a summary."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.budget import Breaker
from app.core.calibration import Calibration
from app.core.compaction import Attempts
from app.core.late import Late
from app.core.memory import Memory
from app.core.previous import Turn
from app.core.remembered import Emptying, Remembered
from app.core.sent import sent
from app.core.tokens import Part

TURN = Turn(sent({"model": "m", "messages": [{"role": "user", "content": "a"}]}, 1), 1, 1)
SESSION = Remembered(
    "w",
    "2026-11-30",
    {"date": "2026-11-30"},
    model="m",
    style=("poet", None),
    sections={"env_info": "x"},
    memory=Memory(),
    delivered=("/p/a.md",),
    late=(Late(1, "part", "text"),),
    files="f",
    boundary="b",
    asked="a",
    tools=frozenset({"Read"}),
    layout="late",
    turn=TURN,
    replaced=replace(TURN, messages=2),
    attempts=Attempts(Breaker("open", 3), 5.0),
    calibrations={1: Calibration(1.5, 3)},
    compacting_until=9.0,
    threshold=7,
    fixed=(Part("system:intro", 3),),
)
ANEW = Remembered("w", "", attempts=SESSION.attempts, calibrations=SESSION.calibrations)


def test_a_conversation_that_is_over_leaves_what_was_learned_and_attempted():
    assert SESSION.emptied("clear") == ANEW


def test_one_that_goes_on_also_leaves_its_last_request_and_what_a_compaction_is_judged_by():
    stays = {name: getattr(SESSION, name) for name in ("turn", "replaced", "threshold", "fixed")}
    assert SESSION.emptied("compact") == replace(ANEW, **stays)


@pytest.mark.parametrize("reason", ["clear", "compact"])
def test_what_is_empty_stays_so(reason: Emptying):
    assert SESSION.emptied(reason).emptied(reason) == SESSION.emptied(reason)


def test_clearing_what_was_compacted_leaves_no_more_than_clearing_alone():
    assert SESSION.emptied("compact").emptied("clear") == SESSION.emptied("clear")
