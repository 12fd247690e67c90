from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from app.stores.batches import Batches


@dataclass
class Asked:
    batches: list[tuple[str, ...]] = field(default_factory=list)
    error: Exception | None = None
    waits: asyncio.Event | None = None
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, keys: tuple[str, ...]) -> Mapping[str, str]:
        self.batches.append(keys)
        self.came.set()
        if self.waits:
            await self.waits.wait()
        if self.error:
            raise self.error
        return {key: key.upper() for key in keys}


def test_questions_of_one_turn_travel_together_each_key_once() -> None:
    async def asked() -> tuple[list[str], list[tuple[str, ...]]]:
        ask = Asked()
        batches = Batches(ask)
        found = await asyncio.gather(*(batches.get(key) for key in "abab"))
        found.append(await batches.get("c"))
        return found, ask.batches

    assert asyncio.run(asked()) == (["A", "B", "A", "B", "C"], [("a", "b"), ("c",)])


def test_what_fails_fails_for_all_who_asked_and_not_for_those_after_them() -> None:
    async def failed() -> tuple[list[object], str]:
        ask = Asked(error=LookupError("no"))
        batches = Batches(ask)
        found = await asyncio.gather(*(batches.get(key) for key in "ab"), return_exceptions=True)
        ask.error = None
        return [type(one) for one in found], await batches.get("a")

    assert asyncio.run(failed()) == ([LookupError, LookupError], "A")


def test_who_goes_away_takes_nothing_from_the_others() -> None:
    async def gone() -> str:
        ask = Asked(waits=asyncio.Event())
        batches = Batches(ask)
        leaving, staying = (asyncio.create_task(batches.get("a")) for _ in range(2))
        await ask.came.wait()
        leaving.cancel()
        await asyncio.sleep(0)
        assert ask.waits
        ask.waits.set()
        return await staying

    assert asyncio.run(gone()) == "A"


def test_closing_ends_what_is_waited_for() -> None:
    async def closed() -> None:
        ask = Asked(waits=asyncio.Event())
        batches = Batches(ask)
        waiting = asyncio.create_task(batches.get("a"))
        await ask.came.wait()
        await batches.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(closed())
