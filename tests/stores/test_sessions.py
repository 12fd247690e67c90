from __future__ import annotations

import asyncio

from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Held
from tests.stores.opening import Clock, session


def sessions(service: str = "1.0") -> Sessions:
    return Sessions(ProcessStore(9, 10**6, 100, Clock()), service)


def test_a_session_goes_on_from_the_version_that_saving_it_told() -> None:
    async def saved() -> None:
        kept = sessions()
        first = await kept.save("s", session("1"), Held(0, None))
        held = await kept.load("s")
        assert held == Held(first, session("1"))
        assert await kept.version("s") == first
        assert await kept.peek("s") == session("1")
        assert await kept.save("s", session("2"), held) == await kept.version("s") != first
        assert await kept.save("s", session("3"), held) == 0

    asyncio.run(saved())


def test_what_would_be_the_same_is_not_written() -> None:
    async def same() -> None:
        kept = sessions()
        version = await kept.save("s", session(), Held(0, None))
        assert await kept.save("s", session(), await kept.load("s")) == version == await kept.version("s")

    asyncio.run(same())


def test_without_a_session_nothing_is_kept_and_nothing_told() -> None:
    async def none() -> None:
        kept = sessions()
        assert await kept.save(None, session(), Held(0, None)) == 1
        assert [await kept.load(None), await kept.version(None), await kept.peek(None)] == [Held(0, None), 0, None]
        assert kept.notices(None, session(size=10**7)) == ()
        assert kept.figures().sessions == 0

    asyncio.run(none())


def test_what_a_store_tells_of_a_session_is_told() -> None:
    assert [one.code for one in sessions().notices("s", session(size=10**7))] == ["session_not_kept"]


def test_another_version_of_the_service_does_not_go_on_with_it() -> None:
    async def moved() -> None:
        kept = sessions()
        await kept.save("s", session(), Held(0, None))
        assert await Sessions(kept.store, "2.0").peek("s") is None
        assert await kept.forget("s")
        assert not await kept.forget("s")

    asyncio.run(moved())


def test_sessions_of_one_process_are_never_alone() -> None:
    async def closed() -> bool:
        kept = sessions()
        await kept.close()
        return kept.alone

    assert asyncio.run(closed()) is False
