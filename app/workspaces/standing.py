"""What on this server's disk must not have moved for an answer to hold."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

TICK_NANOSECONDS = 20_000_000
"""Longer than the step of the clock that stamps files: two changes within one can leave the same stamp."""

_MOST_WAITS = 10
_WAITABLE = range(1, 2 * TICK_NANOSECONDS)
_NANOSECONDS = 1_000_000_000

Stamp = tuple[int, int, int, int]
"""Device, inode, and the times of the last change of content and of state in nanoseconds."""

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """Files and folders by their paths, and the stamps they had. ``places``: device and inode, where all may write."""

    stamps: tuple[tuple[str, Stamp | None], ...] = ()
    places: tuple[tuple[str, Identity], ...] = ()

    def still(self) -> bool:
        """Whether each is what it was, and was so all the time. None of them may be there where none was."""
        moved = any(_stamp_at(path) != stamp for path, stamp in self.stamps)
        return not moved and all((_stamp_at(path) or ())[:2] == identity for path, identity in self.places)

    def identity(self, path: str) -> Identity | None:
        """Device and inode of what stood at ``path``; None when that was not noted."""
        stamp = dict(self.stamps).get(path)
        return None if stamp is None else stamp[:2]


class Watch:
    """Notes what is about to be looked at, each by the stamp it had first."""

    def __init__(self) -> None:
        self._stamps: dict[str, Stamp | None] = {}
        self._places: dict[str, Identity] = {}
        self._waits_left = _MOST_WAITS

    def standing(self) -> Standing:
        return Standing(tuple(self._stamps.items()), tuple(self._places.items()))

    def note(self, path: str) -> None:
        """What stands at ``path``, or that nothing does."""
        if path not in self._stamps:
            self._stamps[path] = None
            with suppress(OSError):
                self.noted(path)

    def note_place(self, path: str) -> None:
        """Which folder stands at ``path``, whatever is made and removed in it meanwhile."""
        stamp = _stamp_at(path)
        if stamp is not None:
            self._places[path] = stamp[:2]

    def noted(self, path: str) -> Stamp:
        """The stamp of what stands at ``path``, old enough for the next change to leave another.

        Raises OSError, also for what changes all the time.
        """
        known = self._stamps.get(path)
        if known is None:
            known = self._stamps[path] = self._settled(path)
        return known

    def _settled(self, path: str) -> Stamp:
        while True:
            stamp = stamp_of(os.lstat(path))
            left = stamp[3] + TICK_NANOSECONDS - time.time_ns()
            if left not in _WAITABLE:  # a stamp from far ahead is from before the clock was set back
                return stamp
            if self._waits_left == 0:
                raise BlockingIOError(path)
            self._waits_left -= 1
            time.sleep(left / _NANOSECONDS)


def stamp_of(facts: os.stat_result) -> Stamp:
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns


def _stamp_at(path: str) -> Stamp | None:
    try:
        return stamp_of(os.lstat(path))
    except OSError:
        return None
