"""Sessions that are listened to: each is looked at on a hint and every few seconds, and its changes are told."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from app.core.interest import shape
from app.core.tenants import name_shown, tenant_in
from app.disk_checks import DiskChecks, Seen
from app.errors import SessionNotFound, TooManyListeners
from app.events import RETRY_MILLISECONDS, Event, Listener, Log, told_change
from app.metrics import Metrics
from app.watching import NOTIFIED, Follower, Manner, Watchers
from app.workspaces.fence import Fence

KEPT_LOGS = 256
"""Sessions nobody listens to any more whose last events are kept, for readers that come back."""

MISSED = "What came after this id is not known any more: ask for the context again. What differs now follows."
ENDED = "The session was deleted, or idle too long: its next turn begins a new one."
UNWATCHED = Manner("none")
SLOW = "slow_reader"
CROWDED = "made_room"


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Seconds: between looks where the platform watches and where it does not; how long a burst is gathered."""

    watched: float = 5.0
    polled: float = 1.0
    burst: float = 0.1


@dataclass(frozen=True, slots=True)
class Seats:
    """Listeners at once, in this process and of one session."""

    most: int = 1_000
    most_of_one: int = 16


class Hub:
    """All sessions that are listened to in this process. ``now`` is the moment in ISO 8601, UTC."""

    def __init__(
        self,
        checks: DiskChecks,
        watchers: Watchers,
        metrics: Metrics,
        *,
        now: Callable[[], str],
        rhythm: Rhythm = Rhythm(),
        room: Seats = Seats(),
    ) -> None:
        self.checks, self.watchers, self.metrics, self.now, self.rhythm = checks, watchers, metrics, now, rhythm
        self._room = room
        self._followed: OrderedDict[str, Followed] = OrderedDict()
        self._closed = False

    @property
    def listeners(self) -> int:
        return sum(len(followed.listeners) for followed in self._followed.values())

    async def listen(self, session: str, fence: Fence, last: str | None = None) -> Listener:
        """A reader that goes on after the event ``last``, or learns what differs now. It must leave in the end.

        ``fence`` is what the session's answer was read inside of.

        Raises SessionNotFound, SessionStoreAway and TooManyListeners.
        """
        listener = Listener(session)
        if self.listeners >= self._room.most and not self._closed:
            await self.checks.known(session)
        if self._closed:
            listener.begin(())
            listener.end(closing("shutting_down"))
            return listener
        self._admit(session)
        followed = self._followed.setdefault(session, Followed(session, fence, self))
        followed.listeners.add(listener)
        self.metrics.listeners(self.listeners)
        with ExitStack() as on_failure:
            on_failure.callback(self.leave, listener)
            await followed.join(listener, last)
            on_failure.pop_all()
        return listener

    def leave(self, listener: Listener) -> None:
        followed = self._followed.get(listener.session)
        if followed is not None and listener in followed.listeners:
            followed.listeners.discard(listener)
            self._rest(followed)
        self.metrics.listeners(self.listeners)

    def look(self, session: str) -> None:
        """Something happened to the session: it is looked at without waiting for the next time."""
        followed = self._followed.get(session)
        if followed is not None:
            followed.hint()

    def ended(self, followed: Followed) -> None:
        if self._followed.get(followed.session) is followed:
            del self._followed[followed.session]

    def close(self) -> None:
        """Ends all streams, and takes no more."""
        self._closed = True
        for followed in tuple(self._followed.values()):
            followed.end(closing("shutting_down"))
        self.watchers.close()

    async def close_when(self, stopping: asyncio.Event) -> None:
        """Ends all streams as soon as it is known that the server is to end: it waits for them before all else."""
        await stopping.wait()
        self.close()

    def _admit(self, session: str) -> None:
        followed = self._followed.get(session)
        if followed is not None and len(followed.listeners) >= self._room.most_of_one:
            self.metrics.shed("listeners")
            raise TooManyListeners(
                f"{self._room.most_of_one} listen to this session already (STRATA_MAX_SESSION_LISTENERS): close one."
            )
        if self.listeners >= self._room.most and not self._has_made_room(tenant_in(session)):
            self.metrics.shed("listeners")
            raise TooManyListeners(f"{self._room.most} listen here already (STRATA_MAX_LISTENERS): come back later.")

    def _has_made_room(self, comer: str) -> bool:
        """A tenant that has fewer streams than another by more than one takes the place of one of those."""
        streams = Counter(tenant_in(one.session) for one in self._followed.values() for _ in one.listeners)
        most = most_of(streams.elements())
        if streams[most] <= streams[comer] + 1:
            return False
        followed = next(one for one in self._followed.values() if one.listeners and tenant_in(one.session) == most)
        followed.drop(next(iter(followed.listeners)), CROWDED)
        return True

    def _rest(self, followed: Followed) -> None:
        """Nothing is looked at for a session without listeners; its last events stay for a while."""
        if followed.listeners:
            return
        followed.stop()
        if not followed.is_begun:
            self.ended(followed)
            return
        self._followed.move_to_end(followed.session)
        resting = [one for one in self._followed.values() if not one.listeners]
        if len(resting) > KEPT_LOGS:
            most = most_of(tenant_in(one.session) for one in resting)
            self.ended(next(one for one in resting if tenant_in(one.session) == most))


class Followed:
    """One session with its readers. It is looked at by one at a time."""

    def __init__(self, session: str, fence: Fence, hub: Hub) -> None:
        self.session, self._fence = session, fence
        self._shown = name_shown(session)
        self.listeners: set[Listener] = set()
        self._hub = hub
        self._log = Log()
        self._seen: Seen | None = None
        self._manner: Manner | None = None
        self._follower = Follower(self.hint)
        self._hinted = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._watched: object = None
        self._is_over = False

    @property
    def is_begun(self) -> bool:
        return self._seen is not None

    def hint(self) -> None:
        self._hinted.set()

    async def join(self, listener: Listener, last: str | None) -> None:
        """Raises SessionNotFound."""
        async with self._lock:
            seen = await self._current()
            again = self._log.since(last) if last else None
            state = again if again is not None else await self._state(seen, missed=bool(last))
            listener.begin((self._watching().sent(None if state else self._log.last, RETRY_MILLISECONDS), *state))
            if self._task is None and not self._is_over:
                self._task = asyncio.create_task(self._follow())
                self._task.add_done_callback(self._stopped)

    def end(self, event: Event) -> None:
        """The last event for all."""
        self._is_over = True
        self.stop()
        for listener in tuple(self.listeners):
            listener.end(event)
        self._hub.ended(self)

    def drop(self, listener: Listener, reason: str) -> None:
        listener.end(Event("dropped", {"session": self._shown, "reason": reason}), at_once=True)
        self._hub.metrics.dropped(reason)
        self._hub.leave(listener)

    def stop(self) -> None:
        self._hub.watchers.leave(self._follower)
        if self._task is not None:
            self._task.cancel()
        self._task = self._manner = self._watched = None

    async def _current(self) -> Seen:
        if self._seen is None:
            self._seen = await self._hub.checks.first(self.session, self._fence)
            await self._watch(self._seen)
        else:
            await self._look()
        return self._seen

    async def _state(self, seen: Seen, *, missed: bool) -> tuple[bytes, ...]:
        """What differs now; only the last of it says where to go on, so that a reader who is cut off gets it again."""
        differing = await self._hub.checks.differing(seen)
        events = [told_change(self._shown, kind, changes, self._hub.now()) for kind, changes in differing]
        if missed:
            events.insert(0, Event("missed", {"session": self._shown, "reason": MISSED}))
        return (*(event.sent() for event in events[:-1]), *(event.sent(self._log.last) for event in events[-1:]))

    async def _follow(self) -> None:
        while True:
            await self._due()
            async with self._lock:
                await self._look()

    async def _due(self) -> None:
        seconds = self._hub.rhythm.watched if self._manner == NOTIFIED else self._hub.rhythm.polled
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hinted.wait()
                await asyncio.sleep(self._hub.rhythm.burst)
        self._hinted.clear()

    async def _look(self) -> None:
        """Raises SessionNotFound once the session has ended."""
        if self._seen is None or self._is_over:
            raise SessionNotFound(ENDED)
        looked = await self._hub.checks.again(self.session, self._seen)
        if looked is None:
            self.end(Event("session_ended", {"session": self._shown, "reason": ENDED}))
            raise SessionNotFound(ENDED)
        told, self._seen = looked
        for kind, changes in told:
            self._tell(told_change(self._shown, kind, changes, self._hub.now()))
        await self._watch(self._seen)

    async def _watch(self, seen: Seen) -> None:
        """Has the platform watch what is looked at, and says so when that is in another manner than before."""
        if seen.unwatched is not None:
            self._hub.watchers.leave(self._follower)
            self._watched = None
        elif (looks := shape(seen.told)) != self._watched:
            await self._hub.watchers.follow(self._follower, seen.told)
            self._watched = looks
        before, self._manner = self._manner, seen.unwatched or self._hub.watchers.manner(self._follower)
        if self._manner != before:
            self._offer(self._watching().sent())

    def _watching(self) -> Event:
        manner = self._manner or UNWATCHED
        seconds = self._hub.rhythm.watched if manner == NOTIFIED else self._hub.rhythm.polled
        return Event(
            "watching", {"session": self._shown, "mode": manner.mode, "reason": manner.reason, "seconds": seconds}
        )

    def _tell(self, event: Event) -> None:
        self._hub.metrics.event(event.name)
        self._offer(self._log.add(event))

    def _offer(self, event: bytes) -> None:
        for listener in tuple(self.listeners):
            if not listener.offer(event):
                self.drop(listener, SLOW)

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """A look that failed as nobody expected is not kept quiet, and nobody waits for the next one."""
        if task.cancelled() or isinstance(task.exception(), SessionNotFound):
            return
        self.end(closing("fault"))
        context = {"message": "looking at a session failed", "exception": task.exception(), "task": task}
        task.get_loop().call_exception_handler(context)


def most_of(tenants: Iterable[str]) -> str:
    """The tenant that is there most often, empty where none is."""
    return next((tenant for tenant, _ in Counter(tenants).most_common(1)), "")


def closing(reason: str) -> Event:
    return Event("closing", {"reason": reason})
