from app.core.late import Late
from app.core.remembered import Remembered

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
