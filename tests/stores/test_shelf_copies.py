"""What a process holds in front of a shared store is shared among tenants in the same way."""

from __future__ import annotations

from app.stores.copies import Copies
from app.stores.shelf import bytes_of
from tests.stores.opening import Clock, session

QUIET, LOUD = "strata:1:quiet\x1f", "strata:1:loud\x1f"
LIGHT, HEAVY = session(size=1_000), session(size=9_000)


def copies(most: int = 4, most_bytes: int = 10**6) -> Copies:
    return Copies(most, most_bytes, 100, Clock())


def test_a_flood_of_sessions_pushes_out_no_copy_of_another_tenant() -> None:
    kept = copies()
    for at in range(1, 3):
        kept.save(f"{QUIET}{at}", LIGHT, 0, at, tried=False)
    for at in range(100, 200):
        kept.save(f"{LOUD}{at}", LIGHT, 0, at, tried=False)
    assert set(kept.ahead()) == {f"{QUIET}1", f"{QUIET}2", f"{LOUD}198", f"{LOUD}199"}


def test_a_flood_of_deletions_makes_none_of_another_tenants_forgotten() -> None:
    kept = copies()
    assert kept.forget(f"{QUIET}1")
    for at in range(100):
        kept.forget(f"{LOUD}{at}")
    assert not kept.forget(f"{QUIET}1")
    assert len(kept.with_deletions()) == 4


def test_deletions_are_forgotten_when_their_time_is_over() -> None:
    clock = Clock()
    kept = Copies(4, 10**6, 100, clock)
    kept.forget("a")
    clock.seconds = 99
    assert kept.deleted("a")
    clock.seconds = 100
    assert not kept.deleted("a")


def test_a_session_that_grew_too_heavy_beside_others_does_not_come_back_as_it_was() -> None:
    kept = copies(most_bytes=bytes_of(HEAVY) + bytes_of(LIGHT) - 1)
    kept.save(f"{QUIET}1", LIGHT, 0, 1, tried=False)
    kept.save(f"{LOUD}1", LIGHT, 0, 2, tried=False)
    before = kept.get(f"{LOUD}1")
    assert before is not None
    assert kept.save(f"{LOUD}1", HEAVY, 2, 3, tried=False)
    assert kept.get(f"{LOUD}1") is None
    assert kept.deleted(f"{LOUD}1") == (before.head.lineage,)
    assert kept.held(f"{QUIET}1").remembered == LIGHT


def test_what_only_this_process_has_no_room_for_is_told_where_the_shared_store_did_not_take_it() -> None:
    kept = copies(most_bytes=bytes_of(HEAVY) + bytes_of(LIGHT) - 1)
    kept.save(f"{QUIET}1", LIGHT, 0, 1, tried=False)
    assert kept.notices(f"{LOUD}1", HEAVY) == ()
    assert [one.code for one in kept.notices(f"{LOUD}1", HEAVY, elsewhere=False)] == ["session_not_kept"]
