"""Looking at disks on threads: what is near is looked at together, what is far away where it holds up nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from app.core.change_kinds import rules_folders
from app.core.footprint import Change, Footprint
from app.core.grown import grown
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints

TOGETHER = 64
"""Footprints for one hand-over to a thread."""

FAR_AT_ONCE = 2
"""Threads that may wait for drives of other machines."""

DEEPEST = 32
"""Folders within folders that come to stand at once and are told one by one."""

Looked = tuple[tuple[Change, ...], Footprint]
"""What changed, and the footprint as of now."""


@dataclass(frozen=True, slots=True)
class _Due:
    footprint: Footprint
    fence: Fence
    looked: asyncio.Future[Looked]


class Looks:
    """Compares footprints with disks, never on the event loop."""

    def __init__(self, footprints: Footprints) -> None:
        self._footprints = footprints
        self._far = asyncio.Semaphore(FAR_AT_ONCE)
        self._due: list[_Due] = []
        self._looking: asyncio.Task[None] | None = None

    def is_near(self, footprint: Footprint) -> bool:
        """Whether all of it is on drives of this machine. It is asked on a thread."""
        return self._footprints.is_local(footprint)

    async def look(self, footprint: Footprint, fence: Fence, *, near: bool) -> Looked:
        """Near footprints that are the same object, or become equal, are looked at once for all who ask meanwhile."""
        if footprint == Footprint():
            return (), footprint
        if not near:
            async with self._far:
                return await asyncio.to_thread(self._one, footprint, fence)
        due = _Due(footprint, fence, asyncio.get_running_loop().create_future())
        self._due.append(due)
        if self._looking is None:
            self._looking = asyncio.create_task(self._together())
        return await due.looked

    async def _together(self) -> None:
        while self._due:
            due, self._due = self._due[:TOGETHER], self._due[TOGETHER:]
            await self._answer(due)
        self._looking = None

    async def _answer(self, due: Sequence[_Due]) -> None:
        """Where one of them fails, each is looked at alone, so that it fails alone."""
        looking = asyncio.create_task(asyncio.to_thread(self._all, [(one.footprint, one.fence) for one in due]))
        await asyncio.wait({looking})
        failure = looking.exception()
        if failure is not None and len(due) > 1:
            for one in due:
                await self._answer((one,))
            return
        for number, one in enumerate(due):
            if one.looked.done():
                continue
            if failure is None:
                one.looked.set_result(looking.result()[number])
            else:
                one.looked.set_exception(failure)

    def _all(self, footprints: Sequence[tuple[Footprint, Fence]]) -> list[Looked]:
        """Equal ones come back as one object, so that they are looked at once from then on."""
        looked: dict[tuple[int, Fence], Looked] = {}
        alike: dict[tuple[int, int], Footprint] = {}
        for footprint, fence in footprints:
            if (id(footprint), fence) not in looked:
                found, now = self._one(footprint, fence)
                kept = alike.setdefault((len(now.files), len(now.folders)), now)
                looked[id(footprint), fence] = found, kept if kept == now else now
        return [looked[id(footprint), fence] for footprint, fence in footprints]

    def _one(self, footprint: Footprint, fence: Fence) -> Looked:
        """Also at what came to stand in folders that were not there, as far as a session would look there."""
        same = self._footprints.renewed(footprint, fence)  # looks only at what stamps do not prove
        if same is not None:
            return (), same
        found, now = self._footprints.changes(footprint, fence)
        told = {change.path: change for change in found}
        for _ in range(DEEPEST):
            wider = grown(now, found, rules_folders(now)) if found else now
            if wider is now:
                break
            more, now = self._footprints.changes(wider, fence)
            found = tuple(change for change in more if change.path not in told)
            told.update((change.path, change) for change in found)
        return tuple(told.values()), now
