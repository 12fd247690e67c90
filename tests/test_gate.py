"""Requests that find no room, wait for their turn, or take too long."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from app.callers import ANYONE, CALLER, Caller
from app.figures import SHEDS
from app.gate import FREE_PATHS, Gate, GateLimits, Room
from app.main import create_app
from app.settings import Settings
from tests.asking import inline
from tests.listening import wait_until
from tests.serving import serve
from tests.wires import connected, posted

LONG = 3600.0
LIMITS = GateLimits(
    max_requests=1,
    max_queue=1,
    queue_seconds=LONG,
    max_upstream_requests=1,
    answer_seconds=LONG,
    compaction_seconds=LONG,
    count_seconds=LONG,
)
WHOLE: Message = {"type": "http.request", "body": b"{}", "more_body": False}
HALF: Message = {"type": "http.request", "body": b"{", "more_body": True}
GONE: Message = {"type": "http.disconnect"}


class Work:
    """An application that answers each request with its body once it is told to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.append(scope["query_string"].decode())
        body = b""
        try:
            while (message := await receive())["type"] == "http.request":
                body += message["body"]
                if not message["more_body"]:
                    break
            await self.go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
        finally:
            self.ended.append(scope["query_string"].decode())


@dataclass
class Asking:
    """A request under way. What the caller sends is ``put``, after ``sent``."""

    path: str = "/v1/context"
    method: str = "POST"
    name: str = ""
    sent: tuple[Message, ...] = (WHOLE,)
    answer: list[Message] = field(default_factory=list)
    coming: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)
    taken: int = 0
    caller: Caller = ANYONE

    async def receive(self) -> Message:
        message = await self.coming.get()
        self.taken += 1
        return message

    async def send(self, message: Message) -> None:
        self.answer.append(message)

    def start(self, gate: Gate) -> asyncio.Task[None]:
        for message in self.sent:
            self.coming.put_nowait(message)
        state = {"request_id": self.name, CALLER: self.caller}
        scope = {"type": "http", "path": self.path, "method": self.method, "headers": [], "state": state}
        return asyncio.create_task(gate({**scope, "query_string": self.name.encode()}, self.receive, self.send))

    @property
    def status(self) -> int:
        status: int = self.answer[0]["status"]
        return status

    def problem(self) -> tuple[int, str, str | None]:
        """Status, type, and when to ask again."""
        start, body = self.answer
        told, headers = json.loads(body["body"]), dict(start["headers"])
        assert told["request_id"] == self.name
        again = headers.get(b"retry-after")
        return start["status"], told["type"].rpartition(":")[2], again and again.decode()


async def settled() -> None:
    """Everything that can go on without the outside has gone on."""
    for _ in range(50):
        await asyncio.sleep(0)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)


def upstream(one: Gated) -> int:
    return sum(places.taken for places in one.room.upstream.values())


class Gated:
    """A gate before work, with what it has shed."""

    def __init__(self, limits: GateLimits, work: Any = None) -> None:
        self.work: Any = work or Work()
        self.room, self.sheds = Room(limits), []
        self.gate = Gate(self.work, self.room, self.sheds.append)


def gated(test: Callable[[Gated], Awaitable[None]], *, work: Any = None, **limits: Any) -> None:
    async def run() -> None:
        one = Gated(replace(LIMITS, **limits), work)
        await test(one)
        assert (one.room.working.taken, one.room.working.waiting, upstream(one)) == (0, 0, 0)
        assert set(one.sheds) <= set(SHEDS)

    asyncio.run(run())


# Turns


def test_who_waits_is_answered_in_the_order_of_coming() -> None:
    async def test(one: Gated) -> None:
        asked = [Asking(name=str(number)) for number in range(5)]
        tasks = [each.start(one.gate) for each in asked]
        await settled()
        assert one.work.begun == ["0"]
        assert one.room.working.waiting == 4
        one.work.go.set()
        await asyncio.gather(*tasks)
        assert one.work.begun == ["0", "1", "2", "3", "4"]
        assert [each.status for each in asked] == [200] * 5
        assert [each.answer[1]["body"] for each in asked] == [b"{}"] * 5
        assert one.sheds == []

    gated(test, max_queue=4)


def test_who_finds_the_queue_full_is_turned_away_at_once() -> None:
    async def test(one: Gated) -> None:
        asked = [Asking(name=str(number)) for number in range(3)]
        tasks = [each.start(one.gate) for each in asked]
        await tasks[2]
        assert asked[2].problem() == (503, "overloaded", "1")
        assert one.sheds == ["queue_full"]
        one.work.go.set()
        await asyncio.gather(*tasks)
        assert [each.status for each in asked[:2]] == [200, 200]

    gated(test)


def test_who_waited_too_long_is_turned_away_and_the_next_one_has_its_turn() -> None:
    async def test(one: Gated) -> None:
        first, late = Asking(name="first"), Asking(name="late")
        tasks = [first.start(one.gate), late.start(one.gate)]
        await tasks[1]
        assert late.problem() == (503, "overloaded", "1")
        assert one.sheds == ["queue_time"]
        one.work.go.set()
        await tasks[0]
        again = Asking(name="again")
        await again.start(one.gate)
        assert again.status == 200
        assert one.work.begun == ["first", "again"]

    gated(test, queue_seconds=0.01)


@pytest.mark.parametrize("sent", [(GONE,), (WHOLE, GONE)])
def test_who_goes_away_leaves_the_queue(sent: tuple[Message, ...]) -> None:
    async def test(one: Gated) -> None:
        first, gone, next_one = Asking(name="first"), Asking(name="gone", sent=sent), Asking(name="next")
        tasks = [first.start(one.gate), gone.start(one.gate)]
        await tasks[1]
        tasks.append(next_one.start(one.gate))
        one.work.go.set()
        await asyncio.gather(*tasks)
        assert one.work.begun == ["first", "next"]
        assert one.sheds == ["queue_left"]

    gated(test)


@pytest.mark.parametrize("path", ["/v1/context", "/v1/scan", "/v1/tokens", "/v1/compactions"])
def test_who_is_slow_to_send_a_body_keeps_no_place_from_others(path: str) -> None:
    async def test(one: Gated) -> None:
        slow, quick = Asking(path, name="slow", sent=(HALF,)), Asking(path, name="quick")
        tasks = [slow.start(one.gate)]
        await settled()
        one.work.go.set()
        await quick.start(one.gate)
        assert (quick.status, one.work.begun) == (200, ["quick"])
        slow.coming.put_nowait(WHOLE)
        await tasks[0]
        assert slow.answer[1]["body"] == b"{{}"

    gated(test)


def test_a_turn_that_is_cancelled_is_nobodys() -> None:
    async def test(one: Gated) -> None:
        tasks = [Asking(name=str(number)).start(one.gate) for number in range(2)]
        await settled()
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        assert one.room.working.waiting == 0
        one.work.go.set()
        await tasks[0]

    gated(test)


def test_a_turn_that_comes_as_it_is_cancelled_is_the_next_ones() -> None:
    async def test(one: Gated) -> None:
        asked = [Asking(name=str(number)) for number in range(3)]
        tasks = [each.start(one.gate) for each in asked]
        await settled()
        one.work.go.set()
        while one.room.working.waiting == 2:  # noqa: ASYNC110 - it stops at the very step
            await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert one.work.begun == ["0", "2"]
        assert [each.status for each in (asked[0], asked[2])] == [200, 200]

    gated(test, max_queue=2)


@pytest.mark.parametrize("path", ["/v1/context", "/v1/tokens", "/v1/compactions"])
def test_a_tenant_with_very_much_under_way_leaves_places_to_others(path: str) -> None:
    async def test(one: Gated) -> None:
        greedy, modest = Caller(space="anna/1"), Caller(space="boris/2")
        flood = [Asking(path, name=f"{number}", caller=greedy).start(one.gate) for number in range(20)]
        await settled()
        assert one.work.begun == ["0", "1", "2", "3"]
        own = Asking(path, name="own", caller=modest).start(one.gate)
        await settled()
        assert one.work.begun[4:] == ["own"]
        one.work.go.set()
        await asyncio.gather(*flood, own)

    gated(test, max_requests=8, max_upstream_requests=8, max_queue=100)


def test_work_that_fails_gives_its_place_back() -> None:
    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError

    async def test(one: Gated) -> None:
        for _ in range(3):
            with pytest.raises(LookupError):
                await Asking().start(one.gate)

    gated(test, work=fails)


# What passes


@pytest.mark.parametrize("path", [*sorted(FREE_PATHS), "/v1/sessions/a/events", "/v1/sessions/a%2Fb/events"])
def test_health_figures_pages_and_streams_need_no_place(path: str) -> None:
    async def test(one: Gated) -> None:
        tasks = [Asking(name=str(number)).start(one.gate) for number in range(2)]
        free = Asking(path=path, method="GET")
        tasks.append(free.start(one.gate))
        await settled()
        assert len(one.work.begun) == 2
        one.work.go.set()
        await asyncio.gather(*tasks)
        assert free.status == 200

    gated(test)


def test_what_is_no_request_passes() -> None:
    seen: list[str] = []

    async def notes(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def test(one: Gated) -> None:
        asking = Asking()
        await one.gate({"type": "lifespan"}, asking.receive, asking.send)

    gated(test, work=notes)
    assert seen == ["lifespan"]


# Upstream


@pytest.mark.parametrize("path", ["/v1/compactions", "/v1/tokens"])
def test_what_may_ask_upstream_has_places_of_its_own_and_no_queue(path: str) -> None:
    async def test(one: Gated) -> None:
        works, asks, too_many = Asking(name="works"), Asking(path, name="asks"), Asking(path, name="too many")
        tasks = [each.start(one.gate) for each in (works, asks, too_many)]
        await tasks[2]
        assert too_many.problem() == (503, "overloaded", "1")
        assert one.sheds == ["upstream"]
        assert one.work.begun == ["works", "asks"]
        one.work.go.set()
        await asyncio.gather(*tasks)
        assert (works.status, asks.status) == (200, 200)

    gated(test)


# Deadlines


@pytest.mark.parametrize(
    ("path", "limit"),
    [("/v1/context", "answer_seconds"), ("/v1/compactions", "compaction_seconds"), ("/v1/tokens", "count_seconds")],
)
def test_what_takes_too_long_is_answered_and_its_work_keeps_the_place(path: str, limit: str) -> None:
    async def test(one: Gated) -> None:
        late = Asking(path, name="late")
        task = late.start(one.gate)
        await until(lambda: len(late.answer) == 2)
        assert late.problem() == (503, "took-too-long", "1")
        assert one.sheds == ["deadline"]
        assert one.room.working.taken + upstream(one) == 1
        one.work.go.set()
        await task
        assert len(late.answer) == 2
        assert one.work.ended == ["late"]

    gated(test, **{limit: 1})


def test_work_without_an_end_is_ended() -> None:
    async def test(one: Gated) -> None:
        late = Asking(name="late")
        await late.start(one.gate)
        assert late.problem()[1] == "took-too-long"
        assert one.work.ended == ["late"]

    gated(test, answer_seconds=0.02)


def test_who_is_cancelled_from_outside_stays_cancelled() -> None:
    async def test(one: Gated) -> None:
        task = Asking(name="one").start(one.gate)
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    gated(test)


def test_the_time_of_the_body_is_the_callers() -> None:
    async def test(one: Gated) -> None:
        one.work.go.set()
        slow = Asking(name="slow", sent=(HALF,))
        task = slow.start(one.gate)
        await asyncio.sleep(1.2)
        slow.coming.put_nowait(WHOLE)
        await task
        assert slow.answer[1]["body"] == b"{{}"
        assert one.sheds == []

    gated(test, answer_seconds=1)


def test_a_reader_who_is_slow_holds_no_place() -> None:
    async def test(one: Gated) -> None:
        one.work.go.set()
        reads = asyncio.Event()
        slow = Asking(name="slow")

        async def send_slowly(message: Message) -> None:
            await reads.wait()
            slow.answer.append(message)

        slow.send = send_slowly
        task = slow.start(one.gate)
        await settled()
        quick = Asking(name="quick")
        await quick.start(one.gate)
        assert quick.status == 200
        reads.set()
        await task
        assert slow.status == 200

    gated(test)


def test_who_goes_away_while_worked_for_is_seen_to_go() -> None:
    told: list[Message] = []

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        told.extend([await receive(), await receive()])

    async def test(one: Gated) -> None:
        await Asking(sent=(WHOLE, GONE)).start(one.gate)

    gated(test, work=waits)
    assert told == [WHOLE, GONE]


def test_who_asks_whether_the_caller_is_there_is_told_that_it_was_answered() -> None:
    told: list[Message] = []
    late: list[Asking] = []

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        told.append(await receive())
        await until(lambda: len(late[0].answer) == 2)
        told.append(await receive())

    async def test(one: Gated) -> None:
        late.append(Asking(name="late"))
        await late[0].start(one.gate)
        assert late[0].problem()[1] == "took-too-long"

    gated(test, work=waits, answer_seconds=1)
    assert told == [WHOLE, GONE]


# Over HTTP


class Held:
    """The service behind a gate, and a door in between that a test opens. It waits in threads, as reading does."""

    def __init__(self, **limits: Any) -> None:
        self.service = create_app(Settings(roots=()))
        self.door = threading.Event()
        self.sheds: list[str] = []
        self.room = Room(replace(LIMITS, **limits))
        self.gate = Gate(self._behind, self.room, self.sheds.append)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.gate(scope, receive, send)

    async def _behind(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/v1/context":
            await asyncio.to_thread(self.door.wait)
        await self.service(scope, receive, send)


@contextmanager
def held(**limits: Any) -> Iterator[tuple[Held, httpx.Client, str]]:
    one = Held(**limits)
    with serve(one) as url, httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
        try:
            yield one, client, url
        finally:
            one.door.set()


def test_health_stays_green_while_nobody_else_finds_room() -> None:
    with held(max_requests=2, max_queue=3) as (one, client, url):
        answers: list[int] = []

        def ask() -> None:
            answers.append(httpx.post(f"{url}/v1/context", json=inline({}), trust_env=False, timeout=60).status_code)

        threads = [threading.Thread(target=ask) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_until(lambda: one.room.working.waiting == 3)
        for _ in range(20):
            refused = client.post("/v1/context", json=inline({}))
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["type"] == "urn:strata:problem:overloaded"
            assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
            assert client.get("/metrics").status_code == 200
        assert one.sheds == ["queue_full"] * 20
        one.door.set()
        for thread in threads:
            thread.join()
        assert answers == [200] * 5
        assert client.post("/v1/context", json=inline({})).status_code == 200
        assert one.room.working.taken == 0


def test_callers_who_vanish_while_they_wait_leave_the_queue_to_others() -> None:
    body = json.dumps(inline({})).encode()
    with held(max_queue=50) as (one, client, url):
        with connected(url) as first:
            first.sendall(posted(body))
            wait_until(lambda: one.room.working.taken == 1)
            for _ in range(20):
                with connected(url) as wire:
                    wire.sendall(posted(body))
                    wait_until(lambda: one.room.working.waiting == 1)
                wait_until(lambda: one.room.working.waiting == 0)
            one.door.set()
            assert first.answer()[0] == 200
        assert client.post("/v1/context", json=inline({})).status_code == 200
        assert one.sheds == ["queue_left"] * 20


def test_a_thread_that_goes_on_after_its_deadline_keeps_its_place() -> None:
    with held(answer_seconds=1, max_queue=0) as (one, client, _):
        late = client.post("/v1/context", json=inline({}))
        assert (late.status_code, late.json()["type"]) == (503, "urn:strata:problem:took-too-long")
        one.door.set()
        wait_until(lambda: one.room.working.taken == 0)
        assert client.post("/v1/context", json=inline({})).status_code == 200
        assert one.sheds == ["deadline"]
