"""The layer that holds answers, in front of an application that counts what reaches it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message, Receive, Scope, Send

from app.carrying import WARM_KEY
from app.core.footprint import Footprint
from app.core.previous import Turn
from app.core.remembered import Remembered
from app.core.sent import Sent
from app.encoding import CODINGS, IDENTITY, tag_in
from app.log import Log
from app.recall import Repeats
from app.request_metrics import RequestMetrics
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.telemetry import Telling
from app.warm import Coded, Given, Warm
from app.warm_layer import WarmLayer
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints
from tests.admitting import admission
from tests.passing import Passing

CONTENT = b'{"text": "' + b"Use tabs. " * 300 + b'"}'


@dataclass
class Lonely(Passing):
    """A store that can be cut off."""

    alone: bool = False


@dataclass
class Ground:
    """All that the layer is given, with a clock and a day that stand still."""

    now: float = 0.0
    day: str = "2026-11-30"
    session: str | None = "s"
    lasts: bool = True
    sent: bool = True
    most: int = 1_000_000
    reached: list[bytes] = field(default_factory=list)
    gate: asyncio.Event | None = None
    fails: int = 0

    def __post_init__(self) -> None:
        self.store = Lonely(ProcessStore(100, 1_000_000, 3600, time.monotonic))
        self.sessions = Sessions(self.store, "v")
        footprints = Footprints(1000, Disk())
        self.warm = Warm(self.sessions, footprints, self.most, 10, clock=lambda: self.now, now=lambda: self.moment)
        self.layer = WarmLayer(
            self.inner,
            warm=self.warm,
            admission=admission(max_body_bytes=10_000),
            telling=Telling(Log("error", len, time.time), RequestMetrics(CollectorRegistry())),
            today=lambda: self.day,
        )

    async def begin(self) -> None:
        turn = Turn(Sent("m", "e", (), 0, started=self.moment), 1, 1)
        await self.sessions.save("s", Remembered("w", "d", turn=turn), await self.sessions.load("s"))

    @property
    def moment(self) -> float:
        return 1_000_000 + self.now

    async def repeats(self) -> Repeats:
        """What is told of an answer that is assembled now."""
        held = await self.sessions.load("s")
        remembered, version = held.remembered or Remembered("w", "d"), held.version
        if self.sent and held.remembered:
            remembered = remembered.repeated(self.moment)
            version = await self.sessions.save("s", remembered, held)
        kept = Repeats(Footprint(), Fence(()), self.session, version, self.store.alone, self.lasts)
        return replace(kept, sent=self.sent, started=remembered.started, moment=self.moment)

    async def inner(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.reached.append(body)
        if self.gate:
            await self.gate.wait()
        if self.fails:
            self.fails -= 1
            raise LookupError(body)
        self.warm.keep(scope["state"][WARM_KEY], CONTENT, '"digest"', await self.repeats())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": CONTENT})

    async def ask(self, *parts: bytes, path: str = "/v1/context", ends: bool = True, **headers: str) -> list[Message]:
        """What is sent for a body in ``parts``; ``ends`` False: the caller goes away behind them."""
        sent: list[Message] = []
        coming: list[Message] = [
            {"type": "http.request", "body": part, "more_body": not ends or at + 1 < len(parts)}
            for at, part in enumerate(parts or (b"",))
        ]
        waiting = iter([*coming, {"type": "http.disconnect"}])

        async def receive() -> Message:
            return next(waiting)

        async def send(message: Message) -> None:
            sent.append(message)

        method = "POST" if path == "/v1/context" else "GET"
        named = {"host": "localhost"} | headers
        rows = [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": rows}
        await self.layer(scope, receive, send)
        return sent


def on(ground: Ground, work: Callable[[Ground], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await ground.begin()
        await work(ground)

    asyncio.run(run())


def test_what_comes_again_does_not_reach_the_application() -> None:
    async def work(ground: Ground) -> None:
        for _ in range(3):
            assert (await ground.ask(b"one"))[-1]["body"] == CONTENT
        await ground.ask(b"two")
        assert ground.reached == [b"one", b"two"]

    on(Ground(), work)


def test_a_body_in_parts_is_the_same_body() -> None:
    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        await ground.ask(b"o", b"", b"ne")
        assert ground.reached == [b"one"]

    on(Ground(), work)


def test_what_belongs_to_another_day_another_header_or_another_session_is_another_request() -> None:
    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        await ground.ask(b"one", anthropic_beta="b")
        await ground.ask(b"one", content_type="text/plain")
        await ground.ask(path="/v1/sessions/s/context")
        await ground.ask(path="/v1/sessions/S/context")
        ground.day = "2026-12-01"
        await ground.ask(b"one")
        assert len(ground.reached) == 6

    on(Ground(), work)


def test_a_session_is_told_now_and_then_that_its_turn_was_repeated() -> None:
    async def work(ground: Ground) -> None:
        for now in (0, 4, 11, 12, 100, 390, 680):
            ground.now = now
            await ground.ask(b"one")
        held = (await ground.sessions.load("s")).remembered
        assert held is not None
        assert held.started == 1_000_000 + 680
        assert len(ground.reached) == 1

    on(Ground(), work)


@pytest.mark.parametrize(
    ("sent", "moments"),
    [(True, {0: 1, 290: 1, 580: 1, 900: 2, 1100: 2}), (False, {0: 1, 290: 1, 301: 2, 900: 2, 3601: 3, 90_000: 3})],
)
def test_it_is_assembled_again_when_the_prompt_cache_may_have_forgotten_more_of_the_last_turn(
    sent: bool, moments: dict[int, int]
) -> None:
    async def work(ground: Ground) -> None:
        found = {}
        for ground.now in moments:
            await ground.ask(b"one")
            found[ground.now] = len(ground.reached)
        assert found == moments

    on(Ground(sent=sent), work)


def test_a_poll_is_no_turn() -> None:
    async def work(ground: Ground) -> None:
        before = await ground.sessions.load("s")
        for now in (0, 20, 40):
            ground.now = now
            await ground.ask(path="/v1/sessions/s/context")
        assert await ground.sessions.load("s") == before
        assert len(ground.reached) == 1

    on(Ground(sent=False), work)


def test_without_a_session_an_answer_is_held_without_end() -> None:
    async def work(ground: Ground) -> None:
        for now in (0, 500, 1_000_000):
            ground.now = now
            await ground.ask(b"one")
        assert len(ground.reached) == 1

    on(Ground(session=None), work)


def test_once_the_session_was_written_it_is_assembled_again() -> None:
    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        await ground.sessions.save("s", Remembered("w", "e"), await ground.sessions.load("s"))
        await ground.ask(b"one")
        await ground.sessions.forget("s")
        await ground.ask(b"one")
        assert len(ground.reached) == 3

    on(Ground(), work)


def test_once_the_store_is_cut_off_it_is_assembled_again_since_that_is_told() -> None:
    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        for alone in (True, True, False):
            ground.store.alone = alone
            await ground.ask(b"one")
        assert len(ground.reached) == 3

    on(Ground(), work)


def test_an_answer_after_which_the_next_is_another_is_not_given_again() -> None:
    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        ground.lasts = True
        await ground.ask(b"one")
        await ground.ask(b"one")
        assert len(ground.reached) == 2

    on(Ground(lasts=False), work)


def test_what_is_too_large_is_not_held() -> None:
    async def work(ground: Ground) -> None:
        for _ in range(2):
            assert (await ground.ask(b"one"))[-1]["body"] == CONTENT
        assert len(ground.reached) == 2

    on(Ground(most=2000), work)


@pytest.mark.parametrize("fails", [0, 1, 3])
def test_one_brings_it_anew_for_all_who_wait_and_another_when_it_fails(fails: int) -> None:
    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        ground.now, ground.gate, ground.fails = 600, asyncio.Event(), fails
        waiting = [asyncio.create_task(ground.ask(b"one")) for _ in range(8)]
        await asyncio.sleep(0)
        ground.gate.set()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended].count(LookupError) == fails
        assert [one[-1]["body"] for one in ended if isinstance(one, list)] == [CONTENT] * (8 - fails)
        assert len(ground.reached) == 2 + fails

    on(Ground(), work)


def test_when_nothing_was_brought_all_who_waited_ask_at_once() -> None:
    """One after another they would wait longer than anybody is waited for, in front of every limit."""

    async def work(ground: Ground) -> None:
        await ground.ask(b"one")
        ground.now, ground.gate, ground.fails = 600, asyncio.Event(), 1
        waiting = [asyncio.create_task(ground.ask(b"one")) for _ in range(4)]
        await asyncio.sleep(0)
        ground.gate.set()
        ground.gate = asyncio.Event()
        async with asyncio.timeout(60):
            while len(ground.reached) < 5:  # noqa: ASYNC110 - what it waits for has no event
                await asyncio.sleep(0)
        ground.gate.set()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended].count(LookupError) == 1

    on(Ground(), work)


def test_a_body_that_was_not_sent_to_its_end_is_the_applications() -> None:
    async def work(ground: Ground) -> None:
        ground.fails = 1
        with pytest.raises(LookupError):
            await ground.ask(b"one", ends=False)
        assert ground.reached == [b"one"]
        await ground.ask(b"one")
        assert len(ground.reached) == 2

    on(Ground(), work)


@pytest.mark.parametrize("tag", ['"digest"', 'W/"digest"', '"x", "digest-zstd"', "*", '"digest-gzip"'])
def test_a_tag_of_what_is_held_is_enough_for_a_poll(tag: str) -> None:
    async def work(ground: Ground) -> None:
        path = "/v1/sessions/s/context"
        await ground.ask(path=path)
        start, body = await ground.ask(path=path, if_none_match=tag)
        assert (start["status"], body["body"]) == (304, b"")
        assert (await ground.ask(path=path, if_none_match='"other"'))[0]["status"] == 200
        assert (await ground.ask(b"one"))[0]["status"] == 200
        assert (await ground.ask(b"one", if_none_match=tag))[0]["status"] == 200

    on(Ground(), work)


def deep(one: object, seen: set[int]) -> int:
    """Bytes of it and of all that it refers to."""
    if id(one) in seen:
        return 0
    seen.add(id(one))
    inside: list[object] = []
    if isinstance(one, dict):
        inside = [*one.keys(), *one.values()]
    elif isinstance(one, tuple | frozenset):
        inside = [*one]
    elif hasattr(type(one), "__slots__") and not isinstance(one, str | bytes):
        inside = [getattr(one, name) for name in type(one).__slots__]
    return sys.getsizeof(one) + sum(deep(each, seen) for each in inside)


def test_what_holding_an_answer_takes_is_counted_whatever_tags_come() -> None:
    given = Given(CONTENT, f'"{"d" * 64}"', Repeats(Footprint(), Fence(()), None), 0.0, 0.0)
    for coding in (IDENTITY, *CODINGS):
        given.coded[coding] = Coded.of(given.tag, coding, CONTENT[:])
        for number in range(100):
            own = given.tag if coding == IDENTITY else tag_in(coding, given.tag)
            assert given.unchanged(frozenset({own, *(f'"{number}-{at}"' for at in range(500))})) is not None
    assert given.unchanged(frozenset({'"other"'})) is None
    assert deep((bytes(32), given.tag, given.coded, given.told_unchanged), {id(given.content)}) < given.bytes


def test_headers_that_name_very_many_tags_are_not_remembered() -> None:
    async def work(ground: Ground) -> None:
        path = "/v1/sessions/s/context"
        await ground.ask(path=path)
        before = len(ground.layer._heads)
        tags = ",".join(f'"{at}"' for at in range(100))
        assert (await ground.ask(path=path, if_none_match=f'{tags},"digest"'))[0]["status"] == 304
        assert len(ground.layer._heads) == before
        assert (await ground.ask(path=path, if_none_match='"digest"'))[0]["status"] == 304
        assert len(ground.layer._heads) == before + 1

    on(Ground(), work)
