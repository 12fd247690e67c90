"""One tenant cannot push out what another one holds within its share."""

from __future__ import annotations

from collections import Counter

import pytest

from app.core.tenants import name_in
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.shares import Holding, Holdings, tenant_of
from app.stores.shelf import Shelf, bytes_of
from tests.stores.opening import Clock, session

HUGE = 10**9


def key_of(tenant: str, name: object) -> str:
    return Sessions(ProcessStore(1, 1, 1, Clock()), "1.2.3")._key(name_in(tenant, str(name)))


def shelf(most: int = 10**6, most_bytes: int = HUGE, clock: Clock | None = None) -> Shelf[int]:
    return Shelf(most, most_bytes, 100, clock or Clock())


def put(kept: Shelf[int], tenant: str, *names: object, size: int = 1) -> list[bool]:
    return [kept.put(key_of(tenant, name), size, size) for name in names]


def names(kept: Shelf[int], tenant: str) -> set[str]:
    return {key.rpartition("\x1f")[2].rpartition(":")[2] for key in kept if tenant_of(key) == tenant}


@pytest.mark.parametrize(
    ("space", "name", "tenant"),
    [
        ("", "s", ""),
        ("", "a:b/c", ""),
        ("", "shop\x1fs", ""),
        ("", "strata:1:shop\x1fs", ""),
        ("shop", "s", "shop"),
        ("shop", "a:b/c\x1fd", "shop"),
        ("shop/0123456789abcdef", "s", "shop"),
        ("a.b-c_d", "s", "a.b-c_d"),
    ],
)
def test_a_session_counts_for_the_tenant_of_its_caller_however_it_is_named(space: str, name: str, tenant: str) -> None:
    assert tenant_of(key_of(space, name)) == tenant


def test_a_flood_of_sessions_takes_the_room_of_the_one_who_makes_it() -> None:
    kept = shelf(most=10)
    put(kept, "quiet", *range(5))
    put(kept, "loud", *range(1_000))
    assert (names(kept, "quiet"), len(names(kept, "loud"))) == (set("01234"), 5)


def test_a_flood_of_heavy_sessions_takes_the_room_of_the_one_who_makes_it() -> None:
    kept = shelf(most_bytes=100)
    put(kept, "quiet", *range(5), size=10)
    put(kept, "loud", *range(1_000), size=17)
    assert (names(kept, "quiet"), names(kept, "loud")) == (set("01234"), {"998", "999"})


def test_a_flood_of_keys_with_other_roots_is_one_tenants() -> None:
    kept = shelf(most=4)
    put(kept, "quiet", 1, 2)
    for at in range(100):
        put(kept, f"loud/{at:016x}", at)
    assert (names(kept, "quiet"), names(kept, "loud")) == ({"1", "2"}, {"98", "99"})


def test_a_tenant_that_comes_gets_room_from_the_one_that_holds_most() -> None:
    kept = shelf(most=9)
    put(kept, "some", *range(3))
    put(kept, "most", *range(6))
    put(kept, "new", *range(9))
    assert [names(kept, one) for one in ("some", "most", "new")] == [set("012"), set("345"), set("678")]


def test_who_holds_many_light_sessions_loses_none_to_the_weight_of_others() -> None:
    kept = shelf(most_bytes=100)
    put(kept, "many", *range(30))
    put(kept, "heavy", *range(8), size=30)
    assert (len(names(kept, "many")), names(kept, "heavy")) == (30, set("67"))


def test_who_holds_few_heavy_sessions_loses_none_to_the_number_of_others() -> None:
    kept = shelf(most=8)
    put(kept, "heavy", *range(3), size=1_000)
    put(kept, "many", *range(50))
    assert (names(kept, "heavy"), len(names(kept, "many"))) == (set("012"), 5)


def test_what_a_tenant_used_longest_ago_goes_first() -> None:
    kept = shelf(most=4)
    put(kept, "quiet", 1)
    put(kept, "loud", *"abc")
    kept.get(key_of("loud", "a"))
    put(kept, "loud", "d")
    assert (names(kept, "quiet"), names(kept, "loud")) == ({"1"}, set("acd"))


def test_of_tenants_that_hold_as_much_the_one_whose_oldest_was_used_longest_ago_makes_room() -> None:
    kept = shelf(most=4)
    put(kept, "one", 1, 2)
    put(kept, "two", 1, 2)
    kept.get(key_of("one", 1))
    kept.get(key_of("one", 2))
    put(kept, "new", 1)
    assert (names(kept, "one"), names(kept, "two")) == ({"1", "2"}, {"2"})


def test_a_tenant_that_would_hold_as_much_as_the_fullest_makes_room_itself() -> None:
    kept = shelf(most=5)
    put(kept, "one", 1, 2, 3)
    put(kept, "two", 1, 2, 3)
    assert (names(kept, "one"), names(kept, "two")) == (set("123"), set("23"))


def test_a_heavy_session_takes_from_the_fullest_only_until_another_holds_as_much() -> None:
    kept = shelf(most_bytes=100)
    put(kept, "one", *range(5), size=10)
    put(kept, "two", *range(5), size=10)
    assert put(kept, "new", "heavy", size=23) == [True]
    assert (names(kept, "one"), names(kept, "two")) == (set("234"), set("1234"))


def test_sessions_that_are_written_again_and_again_count_once() -> None:
    kept = shelf(most_bytes=100)
    for _ in range(50):
        put(kept, "steady", 1, 2, size=10)
    put(kept, "most", *range(8), size=10)
    put(kept, "new", 1, size=10)
    assert (names(kept, "steady"), names(kept, "most")) == ({"1", "2"}, set("1234567"))


def test_tenants_are_not_compared_anew_for_each_session_that_goes() -> None:
    held, measured = Holdings(), Counter[str]()

    def counted(holding: Holding) -> int:
        measured["times"] += 1
        return holding.bytes

    for at in range(100):
        held.add(f"t{at}", "1", 1)
    for at in range(1_000):
        held.add("loud", str(at), 1)
    going = held.first_to_go(counted, "new", 1)
    for at in range(900):
        assert next(going) == str(at)
        held.remove("loud", str(at), 1)
    assert measured["times"] < 900 + 3 * len(held)


def test_where_there_are_more_tenants_than_room_each_that_comes_gets_some() -> None:
    kept = shelf(most=3)
    for at in range(10):
        assert put(kept, f"t{at}", 1) == [True]
    assert {tenant_of(key) for key in kept} == {"t7", "t8", "t9"}


def test_a_session_takes_what_others_hold_beyond_their_share_and_no_more() -> None:
    kept = shelf(most_bytes=90)
    put(kept, "within", 1, 2, size=10)
    put(kept, "beyond", *range(7), size=10)
    assert put(kept, "new", "too heavy", size=41) == [False]
    assert (len(names(kept, "within")), len(names(kept, "beyond"))) == (2, 7)
    assert put(kept, "new", "as heavy as may be", size=40) == [True]
    assert (len(names(kept, "within")), len(names(kept, "beyond"))) == (2, 3)


def test_a_session_that_finds_no_room_beside_others_takes_none_of_its_own_tenant_but_what_it_was() -> None:
    kept = shelf(most_bytes=100)
    put(kept, "quiet", *range(3), size=10)
    put(kept, "heavy", "grows", *range(3), size=10)
    assert put(kept, "heavy", "grows", size=71) == [False]
    assert (names(kept, "quiet"), names(kept, "heavy")) == (set("012"), set("012"))


def test_room_that_idle_sessions_held_is_there_for_others() -> None:
    clock = Clock()
    kept = shelf(most_bytes=100, clock=clock)
    put(kept, "idle", *range(3), size=10)
    clock.seconds = 100
    assert put(kept, "heavy", 1, size=100) == [True]
    assert (names(kept, "idle"), kept.bytes) == (set(), 100)


def test_a_look_that_is_no_use_leaves_the_session_as_old_as_it_was() -> None:
    clock = Clock()
    kept = shelf(most=2, clock=clock)
    put(kept, "t", 1, 2)
    assert kept.peek(key_of("t", 1)) == 1
    put(kept, "t", 3)
    assert names(kept, "t") == {"2", "3"}
    clock.seconds = 60
    assert kept.peek(key_of("t", 2)) == 1
    clock.seconds = 100
    assert len(kept) == 0


def test_a_session_that_found_no_room_beside_others_is_told_so_without_what_they_hold() -> None:
    one, all_of_it = bytes_of(session(size=5_000)), bytes_of(session(size=9_000))
    kept = shelf(most_bytes=all_of_it)
    put(kept, "quiet", 1, size=all_of_it // 2)
    assert put(kept, "heavy", 1, size=one) == [False]
    (notice,) = kept.notices(key_of("heavy", 1), session(size=5_000))
    assert (notice.code, notice.where) == ("session_not_kept", "session_id")
    assert "beside the sessions of others" in notice.message
    assert "STRATA_MAX_SESSION_BYTES" in notice.message
    assert notice.message.count("MiB") == 1
    assert kept.notices(key_of("heavy", 1), session(size=5_000), elsewhere=True) == ()
    assert kept.notices(key_of("heavy", 1), session(size=1)) == ()


def test_a_session_that_is_kept_is_told_nothing_however_full_it_is() -> None:
    size = bytes_of(session(size=5_000))
    kept = shelf(most_bytes=2 * size)
    put(kept, "one", 1, size=size)
    put(kept, "two", 1, size=size)
    assert kept.notices(key_of("two", 1), session(size=5_000)) == ()
