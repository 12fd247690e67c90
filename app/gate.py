"""How many requests are worked on at once, how many wait for their turn, and for how long either may last."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import ceil

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.callers import caller_of
from app.errors import Overloaded, Problem, TookTooLong
from app.figures import Shed
from app.guard import OPEN_PATHS, is_stream
from app.phases import phase
from app.places import Places
from app.refusing import refuse
from app.traffic import Place
from app.wire.parsing import MOST_VALUES, refuse_many_values

COMPACTIONS = "/v1/compactions"
TOKENS = "/v1/tokens"

FREE_PATHS = OPEN_PATHS | {"/metrics", "/docs", "/openapi.json"}
"""What is answered however much there is to do."""

_LASTING = {name: f"STRATA_{what}_SECONDS and more" for name, what in ((COMPACTIONS, "COMPACT"), (TOKENS, "COUNT"))}

AGAIN_SECONDS = 1.0
"""When to ask again, where nothing better is known."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    """``max_upstream_requests`` are those that may ask upstream for counts and summaries.

    ``answer_seconds``, ``compaction_seconds`` and ``count_seconds`` are the most until an answer begins, from when a
    request has its place; the time of its body does not count. ``max_values`` are of JSON, in one body.
    """

    max_requests: int
    max_queue: int
    queue_seconds: float
    max_upstream_requests: int
    answer_seconds: float
    compaction_seconds: float
    count_seconds: float
    max_values: int = MOST_VALUES


class Room:
    """The places there are, for as long as the process lives."""

    def __init__(self, limits: GateLimits) -> None:
        self.limits = limits
        self.working = Places(limits.max_requests)
        self.upstream = {path: Places(limits.max_upstream_requests) for path in (COMPACTIONS, TOKENS)}
        self.seconds = {COMPACTIONS: limits.compaction_seconds, TOKENS: limits.count_seconds}


class Gate:
    """A pure ASGI layer that turns away what there is no room for, and answers in the place of what takes too long."""

    def __init__(self, app: ASGIApp, room: Room, sheds: Callable[[Shed], object]) -> None:
        self.app, self._room, self._sheds = app, room, sheds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or path in FREE_PATHS or is_stream(scope):
            await self.app(scope, receive, send)
        else:
            early = Early(receive, self._room.limits.max_values)
            await early.whole()
            if scope["method"] == "POST" and path in self._room.upstream:
                await self._asks_upstream(early, scope, send)
            else:
                await self._works(early, scope, send)

    async def _asks_upstream(self, early: Early, scope: Scope, send: Send) -> None:
        path, tenant = scope["path"], caller_of(scope).tenant
        places = self._room.upstream[path]
        if places.take(tenant):
            place = Place(partial(places.give_back, tenant))
            await self._answer(place, self._room.seconds[path], scope, early.receive, send)
        else:
            told = "Too many requests that may ask upstream are under way (STRATA_MAX_UPSTREAM_REQUESTS)"
            await self._shed("upstream", told, scope, send)

    async def _works(self, early: Early, scope: Scope, send: Send) -> None:
        places, limits, tenant = self._room.working, self._room.limits, caller_of(scope).tenant
        waits = places.may_wait(tenant, limits.max_queue)
        if places.take(tenant) or (waits and await self._waited(places, tenant, early)):
            place = Place(partial(places.give_back, tenant))
            await self._answer(place, limits.answer_seconds, scope, early.receive, send)
        elif early.is_gone:
            await self._shed("queue_left", "The caller went away before its turn", scope, send)
        elif early.has_waited:
            told = f"No turn has come in {limits.queue_seconds:g} seconds (STRATA_QUEUE_SECONDS)"
            await self._shed("queue_time", told, scope, send)
        else:
            await self._shed("queue_full", "Too many requests wait for their turn (STRATA_MAX_QUEUE)", scope, send)

    async def _waited(self, places: Places, tenant: str, early: Early) -> bool:
        """Whether a place has come, in time and before the caller went away."""
        turn = places.turn(tenant)
        leaving = asyncio.create_task(early.gone())
        try:
            with phase("wait"):
                seconds = self._room.limits.queue_seconds
                await asyncio.wait({turn, leaving}, timeout=seconds, return_when="FIRST_COMPLETED")
        except asyncio.CancelledError:
            places.leave(tenant, turn)
            raise
        finally:
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        if not turn.done():
            places.leave(tenant, turn)
        return turn.done()

    async def _answer(self, place: Place, seconds: float, scope: Scope, receive: Receive, send: Send) -> None:
        answering = Answering(scope, receive, send, seconds, begun=place.give_back, late=self._late)
        try:
            async with answering.lasting():
                await self.app(scope, answering.receive, answering.send)
        finally:
            place.give_back()

    def _late(self) -> None:
        self._sheds("deadline")

    async def _shed(self, why: Shed, told: str, scope: Scope, send: Send) -> None:
        self._sheds(why)
        await refuse(_overloaded(told), scope, send)


class Early:
    """A request whose body is taken before it has its place, and given again where it has no more than ``most_values``.

    Whoever asks for it has TooLarge of another one.
    """

    def __init__(self, receive: Receive, most_values: int) -> None:
        self._receive, self._most_values = receive, most_values
        self._is_weighed = False
        self._taken: deque[Message] = deque()
        self.has_waited = self.is_gone = False

    async def whole(self) -> None:
        """Takes the whole body: who is slow to send it keeps no place from others."""
        with phase("read"):
            while True:
                message = await self._receive()
                self._taken.append(message)
                if not message.get("more_body"):
                    return

    async def gone(self) -> None:
        """Returns once the caller has gone away."""
        self.has_waited = True
        if self._taken[-1]["type"] != "http.disconnect":
            self._taken.append(await self._receive())
        self.is_gone = True

    async def receive(self) -> Message:
        if not self._is_weighed:
            self._is_weighed = True
            await self._weigh([message.get("body", b"") for message in self._taken])
        return self._taken.popleft() if self._taken else await self._receive()

    async def _weigh(self, parts: list[bytes]) -> None:
        if sum(map(len, parts)) > self._most_values:
            await asyncio.to_thread(lambda: refuse_many_values(b"".join(parts), self._most_values))


class Answering:
    """A request that is answered in ``seconds``, by a problem if by nothing else.

    ``begun`` is told of the first of its own answer, ``late`` of a problem. The work goes on behind that, and nobody
    sees it; after as many seconds more it is ended.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        seconds: float,
        *,
        begun: Callable[[], None],
        late: Callable[[], None],
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._seconds = self._left = seconds
        self._begun, self._late = begun, late
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._whole = self._started = self._ended = False
        self._alarm: asyncio.TimerHandle | None = None
        self._refusing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        self._run()
        try:
            yield
        except asyncio.CancelledError:
            if not self._ended or self._task is None or self._task.uncancel():
                raise
        finally:
            self._stop()
            if self._refusing is not None:
                await self._refusing

    async def receive(self) -> Message:
        if self._refusing is not None:
            return {"type": "http.disconnect"}
        if self._whole or self._started:
            return await self._receive()
        self._stop()
        try:
            message = await self._receive()
        finally:
            self._run()
        self._whole = not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        if self._refusing is not None:
            return
        if not self._started:
            self._started = True
            self._stop()
            self._begun()
        await self._send(message)

    def _run(self) -> None:
        if not self._started:
            self._until = self._loop.time() + self._left
            self._alarm = self._loop.call_at(self._until, self._ring)

    def _stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
            self._left = self._until - self._loop.time()

    def _ring(self) -> None:
        self._late()
        named = _LASTING.get(self._scope["path"], "STRATA_REQUEST_SECONDS, twice, and some")
        told = f"There was no answer in {self._seconds:g} seconds ({named})"
        problem = TookTooLong(f"{told}: ask again, or for less at once.")
        self._refusing = self._loop.create_task(refuse(problem, self._scope, self._send))
        self._alarm = self._loop.call_later(self._seconds, self._end)

    def _end(self) -> None:
        if self._task is not None:
            self._ended = self._task.cancel()


def _overloaded(told: str) -> Problem:
    return Overloaded(f"{told}: ask again in {ceil(AGAIN_SECONDS)} s.", seconds=AGAIN_SECONDS)
