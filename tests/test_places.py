"""Places: none is lost, none is held twice, and no tenant has all of them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.places import Places

Steps = list[tuple[str, str]]


def steps(*tenants: str) -> st.SearchStrategy[Steps]:
    what = st.sampled_from(["take", "wait", "leave", "give"])
    return st.lists(st.tuples(what, st.sampled_from(tenants)), max_size=80)


async def holds(taken: Steps, most: int) -> None:
    """Plays the steps, and what must be so after each."""
    places, held = Places(most), Counter[str]()
    waiting: list[tuple[str, asyncio.Future[None]]] = []
    for step, tenant in taken:
        own = next((row for row in waiting if row[0] == tenant), None)
        if step == "take":
            free = most - held.total()
            could = held[tenant] < free if tenant else free > 0
            assert places.take(tenant) == could
            held[tenant] += could
        elif step == "wait" and not places.take(tenant):
            waiting.append((tenant, places.turn(tenant)))
        elif step == "wait":
            held[tenant] += 1
        elif step == "leave" and own:
            waiting.remove(own)
            places.leave(*own)
        elif step == "give" and held[tenant]:
            held[tenant] -= 1
            places.give_back(tenant)
        for row in [row for row in waiting if row[1].done()]:
            assert row == next(one for one in waiting if one[0] == row[0])
            waiting.remove(row)
            held[row[0]] += 1
        assert places.taken == held.total() <= most
        assert places.waiting == len(waiting)
        free = most - held.total()
        assert not any(held[name] < free if name else free > 0 for name, _ in waiting)


@given(steps("", "anna", "boris", "clara"), st.integers(1, 9))
def test_no_more_places_are_held_than_there_are_and_who_waits_could_not_have_one(taken: Steps, most: int) -> None:
    asyncio.run(holds(taken, most))


@given(steps(""), st.integers(1, 4))
def test_who_is_not_told_apart_may_have_all_places(taken: Steps, most: int) -> None:
    asyncio.run(holds(taken, most))


@given(st.integers(2, 64))
def test_however_many_a_tenant_takes_another_gets_one(most: int) -> None:
    places = Places(most)
    while places.take("greedy"):
        pass
    assert places.take("modest")


@pytest.mark.parametrize(("most", "own"), [(1, 1), (2, 1), (3, 2), (32, 16), (33, 17)])
def test_a_tenant_alone_has_half_of_them(most: int, own: int) -> None:
    places = Places(most)
    assert [places.take("one") for _ in range(most)].count(True) == own


def test_a_tenant_does_not_fill_the_queue_of_others() -> None:
    async def run() -> None:
        places = Places(1)
        places.take("one")
        while places.may_wait("one", 8):
            places.turn("one")
        assert places.waiting == 4
        assert places.may_wait("two", 8)
        while places.may_wait("", 8):
            places.turn("")
        assert places.waiting == 8

    asyncio.run(run())


def test_a_turn_that_came_and_was_not_wanted_goes_to_the_next() -> None:
    async def run() -> None:
        places = Places(1)
        places.take("one")
        first, second = places.turn("one"), places.turn("two")
        places.give_back("one")
        assert (first.done(), second.done()) == (True, False)
        places.leave("one", first)
        assert second.done()

    asyncio.run(run())
