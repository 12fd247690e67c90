from app.core.remembered import Late, Remembered


def test_a_new_session_remembers_nothing_but_when_and_where_it_began():
    fresh = Remembered("w", "2026-11-30", "2026-11-30")
    assert (fresh.sections, fresh.memory, fresh.configuration, fresh.style) == ({}, None, None, None)
    assert (fresh.delivered, fresh.late) == ((), ())


def test_sessions_with_the_same_memories_are_equal():
    late = Late(1, "date", "text")
    assert Remembered("w", "d", "d", late=(late,)) == Remembered("w", "d", "d", late=(Late(1, "date", "text", 4),))
