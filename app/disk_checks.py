"""Whether what a session's answer was built from is still so: asked of the session's store and of the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.core.change_kinds import ChangeKind, by_kind, rules_folders
from app.core.footprint import Change, Footprint
from app.core.remembered import Remembered
from app.errors import SessionNotFound, SessionStoreAway
from app.looking import Looks
from app.stores.sessions import Sessions
from app.watching import Manner
from app.workspaces.fence import Fence

FAR = Manner("poll", "network_drive")

Told = tuple[tuple[ChangeKind, tuple[Change, ...]], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A session as it was last looked at.

    ``base`` is what its answer was built from, and ``told`` the same as the disk was when changes were last told;
    ``fence`` is what it was read inside of; ``unwatched`` says why there is no need or no way to watch it.
    """

    version: int
    base: Footprint
    told: Footprint
    fence: Fence
    unwatched: Manner | None

    @property
    def is_near(self) -> bool:
        return self.unwatched != FAR


class DiskChecks:
    """Asks both, the disk only for what the store still says."""

    def __init__(self, sessions: Sessions, looks: Looks) -> None:
        self._sessions = sessions
        self._looks = looks

    async def known(self, session: str) -> None:
        """Raises what `first` would."""
        await self._held(session)

    async def first(self, session: str, fence: Fence) -> Seen:
        """Raises SessionNotFound, or SessionStoreAway."""
        version, remembered = await self._held(session)
        base = remembered.footprint or Footprint()
        return Seen(version, base, base, fence, await self._unwatched(remembered))

    async def _held(self, session: str) -> tuple[int, Remembered]:
        held = await self._sessions.load(session)
        if held.remembered is None and self._sessions.alone:
            raise SessionStoreAway
        if held.remembered is None:
            raise SessionNotFound("There are events of a session after its first turn: ask for its context first.")
        return held.version, held.remembered

    async def again(self, session: str, seen: Seen) -> tuple[Told, Seen] | None:
        """What changed since ``seen``, and the session now; None when it has ended."""
        version = await self._sessions.version(session)
        if version == seen.version or (not version and self._sessions.alone):
            return await self._same(seen)
        held = await self._sessions.load(session)
        if held.remembered is None:
            return None
        if (held.remembered.footprint or Footprint()) == seen.base:
            unwatched = await self._unwatched(held.remembered)
            return await self._same(replace(seen, version=held.version, unwatched=unwatched))
        return await self._moved(seen, held.version, held.remembered)

    async def differing(self, seen: Seen) -> Told:
        """What is otherwise than when the session's answer was built."""
        found, now = await self._looks.look(seen.base, seen.fence, near=seen.is_near)
        return _kinds(found, seen.base, now)

    async def _same(self, seen: Seen) -> tuple[Told, Seen]:
        found, told = await self._looks.look(seen.told, seen.fence, near=seen.is_near)
        return _kinds(found, seen.told, told), replace(seen, told=told)

    async def _moved(self, seen: Seen, version: int, remembered: Remembered) -> tuple[Told, Seen]:
        """A turn has read anew. What was told is not told again, and what it came too early for is not lost."""
        base = remembered.footprint or Footprint()
        moved = Seen(version, base, base, seen.fence, await self._unwatched(remembered))
        before, _ = await self._looks.look(seen.told, seen.fence, near=seen.is_near)
        after, told = await self._looks.look(base, seen.fence, near=moved.is_near)
        found = {change.path: change for change in (*before, *after)}
        return _kinds(found.values(), seen.told, told), replace(moved, told=told)

    async def _unwatched(self, remembered: Remembered) -> Manner | None:
        if not remembered.begun:
            return Manner("none", "cleared")
        if remembered.footprint is None:
            return Manner("none", "commit")
        if remembered.footprint == Footprint():
            return Manner("none", "inline")
        if not await asyncio.to_thread(self._looks.is_near, remembered.footprint):
            return FAR
        return None


def _kinds(changes: Iterable[Change], before: Footprint, now: Footprint) -> Told:
    found = tuple(changes)
    return by_kind(found, rules_folders(before) | rules_folders(now)) if found else ()
