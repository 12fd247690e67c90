"""What a session keeps when its conversation goes on from a summary."""

from dataclasses import replace

from app.core.budget import Breaker
from app.core.calibration import Calibration
from app.core.compaction import Attempts
from app.core.late import Late
from app.core.remembered import Remembered
from tests.core.assembling import REQUEST, assembled, fresh
from tests.core.assembling import conversation as turns


def turn(*texts):
    return assembled(started=1.0, request=replace(REQUEST, messages=turns(*texts))).remember.turn


OLD, NEW = turn("one", "two", "three"), turn("summary")
SESSION = replace(
    fresh(),
    model="m",
    sections={"env_info": "x"},
    delivered=("/p/a.md",),
    late=(Late(1, "part", "text"),),
    turn=OLD,
    attempts=Attempts(Breaker("closed", 2)),
    calibrations={1: Calibration(1.5, 3)},
    compacting_until=9.0,
)


def test_what_was_learned_attempted_and_sent_outlives_a_conversation_and_nothing_else():
    begun = SESSION.begun_anew(Remembered("workspace", "2026-12-01", {"date": "2026-12-01"}))
    assert begun == Remembered(
        "workspace",
        "2026-12-01",
        {"date": "2026-12-01"},
        turn=OLD,
        attempts=SESSION.attempts,
        calibrations=SESSION.calibrations,
        compacting_until=9.0,
    )


def test_the_request_of_a_compactions_answer_counts_once_it_was_answered():
    session = replace(SESSION, turn=NEW, replaced=replace(SESSION, turn=OLD))
    assert session.resumed(turns("summary", "answer", "next")) == replace(session, replaced=None)
    assert session.resumed(turns("summary")) == replace(session, turn=OLD, replaced=None)
    assert replace(session, turn=None).resumed(turns("summary", "answer")).turn == OLD
    assert SESSION.resumed(()) is SESSION


def test_a_session_knows_where_compaction_begins_and_the_largest_parts_that_stay():
    found = assembled(request=replace(REQUEST, tools=tuple({"name": f"t{number}"} for number in range(40))))
    assert found.remember.threshold == found.tally.state.threshold
    assert len(found.remember.fixed) == 20
    sizes = [part.tokens for part in found.remember.fixed]
    assert sizes == sorted(sizes, reverse=True)


def test_a_conversation_that_goes_on_as_if_it_was_never_compacted_has_its_session_again():
    old = replace(SESSION, turn=OLD, delivered=("/p/a.md",))
    anew = replace(SESSION, turn=NEW, boundary="b", replaced=old, attempts=Attempts(Breaker("open", 3), 5.0))
    assert anew.of("b") is anew
    assert anew.of("") == replace(old, attempts=anew.attempts)
    assert old.of("anything") is old
    assert anew.alone() == replace(anew, replaced=None)
