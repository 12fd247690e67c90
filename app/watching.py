"""Folders that the platform watches: hints of when to look, never proofs that something changed or did not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from app.core.footprint import Footprint
from app.core.interest import Interest, Place, interests
from app.core.paths import paths_for
from app.notifying import Open, WatchRefusedError, open_platform

Mode = Literal["notify", "poll", "none"]

SOON_SECONDS = 0.02
"""How long a start waits for more that want to be watched, so that one start does for all."""

ANEW_SECONDS = 0.5
"""From a change of a watched folder itself, whose watch may be dead since, to a new start: all have looked by then."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How changes are noticed, and why not in a better way."""

    mode: Mode
    reason: str | None = None


NOTIFIED = Manner("notify")


class Follower:
    """Somebody who is woken when it is time to look. Compared by identity."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.wake = wake


class Watchers:
    """One watcher for each root, for all who follow something in it. Everything is called on the event loop."""

    def __init__(self, opener: Open = open_platform) -> None:
        self._open = opener
        self._roots: dict[str, RootWatcher] = {}
        self._closed = False

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(sorted(self._roots))

    async def follow(self, follower: Follower, footprint: Footprint) -> None:
        """From now on ``follower`` is woken for this footprint only. Returns once that has begun, or cannot."""
        wanted = {} if self._closed else interests(footprint)
        for root in set(self._roots) - set(wanted):
            self._leave(root, follower)
        watchers = {root: self._roots.setdefault(root, RootWatcher(self._open)) for root in wanted}
        for root, watcher in watchers.items():
            watcher.follow(follower, wanted[root])
        for watcher in watchers.values():
            await watcher.settled.wait()

    def leave(self, follower: Follower) -> None:
        for root in tuple(self._roots):
            self._leave(root, follower)

    def manner(self, follower: Follower) -> Manner:
        """How ``follower`` learns of changes: by the watch only where all of its roots are watched."""
        manners = [watcher.manner for watcher in self._roots.values() if watcher.has(follower)]
        return next((manner for manner in manners if manner != NOTIFIED), NOTIFIED)

    def close(self) -> None:
        """Nothing is followed from now on."""
        self._closed = True
        for watcher in self._roots.values():
            watcher.close()
        self._roots.clear()

    def _leave(self, root: str, follower: Follower) -> None:
        watcher = self._roots[root]
        watcher.leave(follower)
        if not watcher.is_wanted:
            watcher.close()
            del self._roots[root]


class RootWatcher:
    """Watches exactly the places that its followers look at; anew whenever there are more of them."""

    def __init__(self, opener: Open) -> None:
        self.manner = Manner("poll", "starting")
        self.settled = asyncio.Event()
        self._open = opener
        self._followers: dict[Follower, Interest] = {}
        self._of_path: dict[str, set[Follower]] = {}
        self._of_listing: dict[str, set[Follower]] = {}
        self._run: Run | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self._followers)

    def has(self, follower: Follower) -> bool:
        return follower in self._followers

    def follow(self, follower: Follower, interest: Interest) -> None:
        if self._followers.get(follower) == interest and self._run is not None:
            return
        self._put(follower, interest)
        if self._run is None or not interest.places <= self._run.places:
            self._start_in(SOON_SECONDS)
        else:  # what it was not yet interested in was not told
            follower.wake()

    def leave(self, follower: Follower) -> None:
        interest = self._followers.pop(follower, None)
        if interest is None:
            return
        for index, keys in ((self._of_path, interest.paths), (self._of_listing, interest.listings)):
            for key in keys:
                index[key].discard(follower)
                if not index[key]:
                    del index[key]

    def _put(self, follower: Follower, interest: Interest) -> None:
        self.leave(follower)
        self._followers[follower] = interest
        for index, keys in ((self._of_path, interest.paths), (self._of_listing, interest.listings)):
            for key in keys:
                index.setdefault(key, set()).add(follower)

    def close(self) -> None:
        self._stop()
        self.settled.set()

    def noticed(self, run: Run, paths: frozenset[str]) -> None:
        if run is not self._run:
            return
        for follower in {follower for path in paths for follower in self._concerned(path)}:
            follower.wake()
        if not paths.isdisjoint(place.path for place in run.places):
            self._start_in(ANEW_SECONDS, unsettled=False)

    def _concerned(self, path: str) -> Iterator[Follower]:
        yield from self._of_path.get(path, ())
        yield from self._of_listing.get(paths_for(path).parent(path), ())

    def started(self, run: Run) -> None:
        """All look once: what changed before the start was not noticed."""
        if run is self._run:
            self._settle(NOTIFIED)

    def refused(self, run: Run, error: WatchRefusedError) -> None:
        if run is self._run:
            self._settle(Manner("poll", error.reason))
            self._start_in(error.seconds, unsettled=False)

    def _settle(self, manner: Manner) -> None:
        self.manner = manner
        self.settled.set()
        for follower in self._followers:
            follower.wake()

    def _start_in(self, seconds: float, *, unsettled: bool = True) -> None:
        """The earlier of two starts counts."""
        loop = asyncio.get_running_loop()
        if unsettled:
            self.settled.clear()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + seconds:
                return
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self._start)

    def _start(self) -> None:
        self._stop()
        places = frozenset(place for one in self._followers.values() for place in one.places)
        self._run = Run(self, places)
        self._run.start(self._open)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._run is not None:
            self._run.stop.set()
        self._timer = self._run = None


class Run:
    """One start of a watcher, on a thread of its own that ends soon after ``stop`` is set."""

    def __init__(self, watcher: RootWatcher, places: frozenset[Place]) -> None:
        self.places = places
        self.stop = threading.Event()
        self._watcher = watcher
        self._loop = asyncio.get_running_loop()

    def start(self, opener: Open) -> None:
        threading.Thread(target=self._watch, args=(opener,), name="watching", daemon=True).start()

    def _watch(self, opener: Open) -> None:
        try:
            notifier = opener(tuple(sorted({place.path for place in self.places})))
        except WatchRefusedError as error:
            self._tell(self._watcher.refused, error)
            return
        try:
            self._tell(self._watcher.started)
            while not self.stop.is_set():
                self._tell(self._watcher.noticed, notifier.watch(self.stop))
        except WatchRefusedError as error:
            self._tell(self._watcher.refused, error)
        finally:
            notifier.close()

    def _tell(self, told: Callable[..., None], *more: Any) -> None:
        """Nobody is told once it was stopped: the loop may have ended."""
        if not self.stop.is_set():
            self._loop.call_soon_threadsafe(told, self, *more)
