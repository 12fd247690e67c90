from app.core.facts import Kind
from app.core.report import NODE_REASONS, REASONS, Row, distinct


def test_every_kind_but_a_file_has_a_reason_that_is_explained():
    assert set(NODE_REASONS) == set(Kind) - {Kind.FILE}
    assert set(NODE_REASONS.values()) <= REASONS.keys()


def test_a_candidate_that_loaded_says_so_whatever_else_was_said_of_it():
    first, loaded, last = (
        Row("/a", "withheld", "condition_not_met"),
        Row("/a", "loaded"),
        Row("/a", "skipped", "already_loaded"),
    )
    assert distinct([first, loaded, last]) == (loaded,)


def test_of_what_did_not_load_the_first_word_stands():
    first, last, other = (
        Row("/a", "skipped", "excluded"),
        Row("/a", "skipped", "private_folder"),
        Row("/a", "skipped", "x", "/p", 1),
    )
    assert distinct([first, other, last]) == (first, other)


def test_what_came_with_another_file_is_not_said_to_wait():
    waits, comes = Row("/b", "withheld", "condition_not_met"), Row("/b", "loaded", None, "/z", 1)
    again = Row("/b", "skipped", "already_loaded", hint="It came with /z, which includes it.")
    assert distinct([waits, Row("/z", "loaded"), comes]) == (again, Row("/z", "loaded"), comes)


def test_another_word_on_what_came_with_another_file_stands():
    comes = Row("/b", "loaded", None, "/z", 1)
    others = (
        Row("/b", "skipped", "already_loaded"),
        Row("/c", "withheld", "condition_not_met"),
        Row("/b", "withheld", "external", "/y", 2),
    )
    assert distinct([comes, *others]) == (comes, *others)
