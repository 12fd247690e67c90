"""What this process holds of a shared session, and which of two states of a session goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from app.core.facts import Notice
from app.core.remembered import Remembered
from app.stores.process import NOTHING
from app.stores.shelf import Shelf, bytes_of
from app.stores.socket import Held

ANY = "*"
"""Every lineage."""

MOST_LINEAGES = 8
"""How many deletions of one session are remembered."""

Verdict = Literal["same", "ours", "theirs", "diverged", "deleted"]


@dataclass(frozen=True, slots=True)
class Head:
    """Which state of a session it is. ``version`` 0: none, or a deleted one of ``lineage``.

    ``lineage`` is another one for each session that begins; ``count`` is of its writes, in any process. No clock tells
    which of two states is the later one.
    """

    version: int = 0
    lineage: str = ""
    count: int = 0


ABSENT = Head()


@dataclass(frozen=True, slots=True)
class Copy:
    """``shared`` is the state that the shared store was last known to hold of what this follows.

    ``tried`` are versions of it that were sent there, and may have been taken; ``bytes`` what keeping it takes.
    """

    head: Head
    remembered: Remembered
    bytes: int
    shared: Head
    tried: frozenset[int] = frozenset()

    @property
    def is_ahead(self) -> bool:
        """Whether the shared store may not have it."""
        return self.head != self.shared

    def taken(self, head: Head) -> Copy:
        """Now that the shared store has it, as ``head``."""
        return Copy(head, self.remembered, self.bytes, head)


def judged(there: Head, here: Copy) -> Verdict:
    """Which goes on, of what the shared store holds and what this process does.

    A store that lost writes, or all, is behind what it was known to have: then the state of this process is the later
    one. What another process wrote meanwhile wins over what was written alone.
    """
    if there.version == here.head.version:
        return "same"
    if there.version == 0:
        return "deleted" if _is_deleted(there.lineage, here) else "ours"
    if there.version == here.shared.version or there.version in here.tried:
        return "ours"
    related = there.lineage == here.head.lineage
    if related and there.count < here.shared.count:
        return "ours"
    return "diverged" if here.is_ahead or (related and there.count == here.shared.count) else "theirs"


def _is_deleted(lineage: str, here: Copy) -> bool:
    """A mark of any deletion is younger than what had been in the shared store before it."""
    return lineage == here.head.lineage or (lineage != "" and here.shared != ABSENT)


class Copies:
    """The memory of this process: copies of sessions, and the lineages that it deleted. Bounds as a `Shelf` has."""

    def __init__(self, most: int, most_bytes: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._copies: Shelf[Copy] = Shelf(most, most_bytes, idle_seconds, clock)
        self._deleted: Shelf[tuple[str, ...]] = Shelf(most, most, idle_seconds, clock)
        self.fits = self._copies.fits
        self.get = self._copies.get

    def __len__(self) -> int:
        return len(self._copies)

    @property
    def bytes(self) -> int:
        return self._copies.bytes

    def notices(self, key: str, remembered: Remembered, *, elsewhere: bool = True) -> tuple[Notice, ...]:
        """As a `Shelf`'s; ``elsewhere`` False: the shared store did not take it."""
        return self._copies.notices(key, remembered, elsewhere=elsewhere)

    def held(self, key: str) -> Held:
        copy = self._copies.get(key)
        return Held(copy.head.version, copy.remembered) if copy else NOTHING

    def put(self, key: str, copy: Copy) -> bool:
        """False: it is too heavy to be kept, as a `Shelf` has it."""
        return self._copies.put(key, copy, copy.bytes)

    def drop(self, key: str) -> None:
        self._copies.pop(key)

    def save(self, key: str, remembered: Remembered, version: int, written: int, *, tried: bool) -> int:
        """As a store's, for this process alone; ``tried``: it was sent to the shared store as ``written``."""
        before = self._copies.get(key)
        if (before.head.version if before else 0) != version:
            return 0
        copy = _following(before, remembered, written, tried=tried)
        if not self.put(key, copy) and before:
            self.delete(key, before.head.lineage)
        return written

    def forget(self, key: str) -> bool:
        """As a store's, for this process alone: what it does not know may be in the shared store, and goes too."""
        copy = self._copies.pop(key)
        known = self._deleted.peek(key) is not None
        if copy or not known:
            self.delete(key, copy.head.lineage if copy else ANY)
        return bool(copy) or not known

    def delete(self, key: str, lineage: str) -> None:
        others = [one for one in self.deleted(key) if one != lineage]
        self._deleted.put(key, (*others, lineage)[-MOST_LINEAGES:], 1)

    def deleted(self, key: str) -> tuple[str, ...]:
        """Lineages that must not come back."""
        return self._deleted.peek(key) or ()

    def beyond(self, key: str, there: Head) -> Head:
        """What the shared store holds, but for the mark of a deletion that came before what this process holds now."""
        copy = self._copies.peek(key)
        later = copy is not None and copy.head.lineage != there.lineage
        return ABSENT if later and not there.version and there.lineage in self.deleted(key) else there

    def settle(self, key: str, lineage: str) -> None:
        """Now that the shared store was told what is deleted; ``lineage`` is what was there of it, empty: nothing."""
        left = [one for one in (*self.deleted(key), lineage) if one not in {"", ANY}]
        self._deleted.pop(key)
        for one in left:
            self.delete(key, one)

    def with_deletions(self) -> tuple[str, ...]:
        return tuple(self._deleted)

    def ahead(self) -> tuple[str, ...]:
        """Keys of what the shared store may not have."""
        copies = {key: self._copies.peek(key) for key in self._copies}
        return tuple(key for key, copy in copies.items() if copy and copy.is_ahead)


def lineage_of(version: int) -> str:
    """That of a session that begins with ``version``."""
    return f"{version:x}"


def _following(before: Copy | None, remembered: Remembered, written: int, *, tried: bool) -> Copy:
    size, sent = bytes_of(remembered), frozenset({written} if tried else ())
    if before is None:
        return Copy(Head(written, lineage_of(written), 1), remembered, size, ABSENT, sent)
    head = replace(before.head, version=written, count=before.head.count + 1)
    return Copy(head, remembered, size, before.shared, before.tried | sent)
