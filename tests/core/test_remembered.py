from dataclasses import replace

from app.core.cache_report import compared
from app.core.footprint import Footprint
from app.core.late import Late
from app.core.previous import Turn
from app.core.remembered import LastRequest, Remembered
from app.core.sent import Sent, sent

MARKED = {"type": "text", "text": "Go. " * 2000, "cache_control": {"type": "ephemeral"}}
SENT = sent({"model": "m", "messages": [{"role": "user", "content": [MARKED]}]}, 9)
DATE_CHANGE = Late(3, "date_change", "text", subject="date", state="2026-12-01")
ATTACHMENT = Late(5, "attachment:/p/a.md", "text", real="/p/a.md")
EARLY = Late(1, "attachment:/p/b.md", "text", real="/p/b.md")
SESSION = Remembered(
    "w",
    "2026-11-30",
    {"date": "2026-11-30", "mcp": "{}"},
    model="m",
    delivered=("/p/b.md", "/p/a.md"),
    late=(EARLY, DATE_CHANGE, ATTACHMENT),
)


def test_a_new_session_remembers_nothing_but_when_and_where_it_began():
    fresh = Remembered("w", "2026-11-30")
    assert (fresh.sections, fresh.memory, fresh.configuration, fresh.style) == ({}, None, None, None)
    assert (fresh.delivered, fresh.late, fresh.begun) == ((), (), False)


def test_a_session_that_ran_on_a_model_has_begun():
    assert SESSION.begun


def test_what_the_model_knows_is_what_it_was_last_told():
    assert SESSION.known == {"date": "2026-12-01", "mcp": "{}"}


def test_a_conversation_taken_back_forgets_what_stood_behind_that_place():
    rewound = SESSION.rewound(2)
    assert rewound.late == (EARLY,)
    assert rewound.delivered == ("/p/b.md",)
    assert rewound.known == {"date": "2026-11-30", "mcp": "{}"}


def test_a_conversation_that_still_holds_all_forgets_nothing():
    assert SESSION.rewound(5) is SESSION
    assert SESSION.rewound(0) is SESSION


def test_a_session_asks_again_when_only_moments_and_stamps_differ():
    turn = Turn(Sent("m", "e", (), 0, started=1.0), 1, 2)
    before = replace(SESSION, turn=turn)
    later = replace(turn, sent=replace(turn.sent, started=9.0))
    assert replace(before, turn=later, footprint=Footprint()).asks_again(before)
    assert SESSION.asks_again(SESSION)
    assert not before.asks_again(SESSION)
    assert not before.asks_again(None)
    assert not replace(before, turn=replace(turn, messages=2)).asks_again(before)


def test_what_was_told_of_time_is_not_told_again():
    expired = compared(replace(SENT, started=0.0), replace(SENT, started=301.0))
    assert expired.cause == "ttl_expired"
    session = replace(SESSION, turn=Turn(SENT, 1, 2, comparison=expired))
    assert not session.asks_again(session)
    hit = replace(SESSION, turn=Turn(SENT, 1, 2, comparison=compared(SENT, SENT)))
    assert hit.asks_again(hit)
    assert not hit.asks_again(session)


def test_what_was_asked_last_outlives_a_conversation_and_a_compaction_that_was_not_taken_up():
    last = LastRequest(b"body", ("beta",))
    asked = replace(SESSION, request=last)
    assert asked.emptied("clear").request == asked.emptied("compact").request == last
    assert asked.begun_anew(Remembered("w", "d")).request == last
    assert replace(asked, replaced=SESSION, boundary="b").of("").request == last
