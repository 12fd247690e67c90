from __future__ import annotations

from dataclasses import replace

import pytest

from app.stores.copies import ABSENT, ANY, MOST_LINEAGES, Copies, Copy, Head, judged
from app.stores.shelf import bytes_of
from app.stores.socket import Held
from tests.stores.opening import Clock, session

CLEAN = Copy(Head(50, "a", 5), session(), 1, Head(50, "a", 5))
AHEAD = Copy(Head(70, "a", 7), session(), 1, Head(50, "a", 5), frozenset({60}))
BEGUN_ALONE = Copy(Head(70, "a", 1), session(), 1, ABSENT)


@pytest.mark.parametrize(
    ("there", "here", "verdict"),
    [
        (Head(50, "a", 5), CLEAN, "same"),
        (Head(60, "a", 6), CLEAN, "theirs"),
        (Head(60, "b", 1), CLEAN, "theirs"),
        (Head(60, "a", 5), CLEAN, "diverged"),
        (Head(40, "a", 4), CLEAN, "ours"),
        (ABSENT, CLEAN, "ours"),
        (Head(0, "a", 0), CLEAN, "deleted"),
        (Head(0, "b", 0), CLEAN, "deleted"),
        (Head(0, ANY, 0), CLEAN, "deleted"),
        (Head(70, "a", 7), AHEAD, "same"),
        (Head(50, "a", 5), AHEAD, "ours"),
        (Head(60, "a", 6), AHEAD, "ours"),
        (Head(40, "a", 4), AHEAD, "ours"),
        (ABSENT, AHEAD, "ours"),
        (Head(61, "a", 6), AHEAD, "diverged"),
        (Head(51, "a", 5), AHEAD, "diverged"),
        (Head(80, "a", 8), AHEAD, "diverged"),
        (Head(80, "b", 8), AHEAD, "diverged"),
        (Head(0, "a", 0), AHEAD, "deleted"),
        (Head(0, ANY, 0), BEGUN_ALONE, "ours"),
        (Head(0, "b", 0), BEGUN_ALONE, "ours"),
        (Head(9, "b", 1), BEGUN_ALONE, "diverged"),
        (ABSENT, BEGUN_ALONE, "ours"),
    ],
)
def test_which_of_two_states_goes_on(there: Head, here: Copy, verdict: str) -> None:
    assert judged(there, here) == verdict


def test_once_what_was_ahead_is_taken_both_are_the_same() -> None:
    taken = AHEAD.taken(AHEAD.head)
    assert (taken.is_ahead, taken.tried, judged(AHEAD.head, taken)) == (False, frozenset(), "same")


def copies(most: int = 10, most_bytes: int = 10**6) -> Copies:
    return Copies(most, most_bytes, 100, Clock())


def test_a_session_goes_on_in_its_lineage_and_remembers_what_was_shared() -> None:
    kept = copies()
    kept.put("a", CLEAN)
    assert kept.save("a", session("x"), 50, 60, tried=True) == 60
    assert kept.save("a", session("y"), 60, 70, tried=False) == 70
    assert kept.get("a") == replace(AHEAD, remembered=session("y"), bytes=bytes_of(session("y")))
    assert kept.held("a") == Held(70, session("y"))
    assert kept.ahead() == ("a",)


def test_a_session_that_begins_has_a_lineage_of_its_own() -> None:
    kept = copies()
    lineages = set()
    for version in (1, 2, 300):
        assert kept.save("a", session(), 0, version, tried=False)
        copy = kept.get("a")
        assert copy is not None
        lineages.add(copy.head.lineage)
        kept.forget("a")
    assert len(lineages) == 3
    assert set(kept.deleted("a")) == lineages


def test_a_write_over_another_version_changes_nothing() -> None:
    kept = copies()
    kept.put("a", CLEAN)
    assert kept.save("a", session("x"), 40, 60, tried=False) == 0
    assert kept.get("a") == CLEAN


def test_a_session_that_grew_too_heavy_is_deleted() -> None:
    kept = copies(most_bytes=bytes_of(session(size=1_000)))
    kept.put("a", CLEAN)
    assert kept.save("a", session(size=2_000), 50, 60, tried=False) == 60
    assert (kept.held("a"), kept.deleted("a")) == (Held(0, None), ("a",))


def test_what_is_not_known_is_forgotten_once_whatever_it_may_be() -> None:
    kept = copies()
    assert [kept.forget("a"), kept.forget("a"), kept.deleted("a")] == [True, False, (ANY,)]


@pytest.mark.parametrize(("there", "left"), [("b", ("a", "b")), ("", ("a",)), ("a", ("a",)), (ANY, ("a",))])
def test_once_a_deletion_was_told_only_lineages_are_left_of_it(there: str, left: tuple[str, ...]) -> None:
    kept = copies()
    kept.delete("k", "a")
    kept.delete("k", ANY)
    kept.settle("k", there)
    assert (kept.deleted("k"), kept.with_deletions()) == (left, ("k",))


@pytest.mark.parametrize("there", ["", ANY])
def test_of_a_deletion_that_met_nothing_nothing_is_left(there: str) -> None:
    kept = copies()
    kept.forget("k")
    kept.settle("k", there)
    assert (kept.deleted("k"), kept.with_deletions()) == ((), ())


def test_the_last_deletions_of_a_session_are_remembered() -> None:
    kept = copies()
    for at in range(MOST_LINEAGES + 3):
        kept.delete("k", str(at))
    assert kept.deleted("k") == tuple(str(at) for at in range(3, MOST_LINEAGES + 3))


def test_what_the_shared_store_has_is_not_ahead() -> None:
    kept = copies()
    kept.put("a", CLEAN)
    kept.put("b", AHEAD)
    assert kept.ahead() == ("b",)
