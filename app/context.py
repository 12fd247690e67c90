"""The five steps of an answer: open, gather, recall, assemble, remember."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from app.core.assembly import Assembly, assemble
from app.core.attachments import Attached
from app.core.facts import Notice
from app.core.footprint import Footprint
from app.core.gathered import Facts
from app.core.memory import Memory
from app.core.models import untagged
from app.core.remembered import Remembered
from app.core.tenants import name_shown
from app.gather import Known, Wanted, gather, gather_attachments
from app.opened import opened_for
from app.phases import phase
from app.recall import (
    Recalled,
    Repeats,
    footing,
    fresh,
    git_notices,
    identity_of,
    kept_notices,
    left,
    may_keep,
    moved_notices,
    recalled,
    repeats,
    wanted,
)
from app.reckoning import Reckoning, Route
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.upstream import Upstream
from app.wire.requests import Ask
from app.workspaces.caches import Documents
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints
from app.workspaces.opening import CommitSource, Ground
from app.workspaces.socket import Workspace


@dataclass(frozen=True, slots=True)
class Session:
    """What became of the session in one answer. ``id`` None: there is none, and nothing is kept."""

    id: str | None
    new: bool
    section_hits: int
    section_misses: int


@dataclass(frozen=True, slots=True)
class Answer:
    """``repeats`` None: the same request may have another answer at any time."""

    assembly: Assembly
    session: Session
    notices: tuple[Notice, ...] = ()
    repeats: Repeats | None = None


@dataclass(frozen=True, slots=True)
class AttachmentsAnswer:
    memory: Memory
    attached: Attached
    session: Session
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn before it is written: from ``before`` the session comes to ``left``; ``footing`` is what it stands on."""

    recalled: Recalled
    before: Remembered
    needed: Wanted
    assembly: Assembly
    left: Remembered
    footing: Footprint | None

    def answer(self, ask: Ask, fence: Fence, version: int, *, alone: bool, lasts: bool) -> Answer:
        """``version`` is the session's, from now on. ``lasts``: the next turn finds the session as this one did."""
        answer = _answered(ask, self.recalled, self.assembly)
        told = git_notices(ask, self.assembly, looked=self.needed.git)
        answer = replace(answer, notices=(*answer.notices, *told))
        stands = repeats(ask, self.assembly, looked_at_git=self.needed.git)
        if self.footing is None or not stands or (ask.session_id is not None and not version):
            return answer
        again = Repeats(
            self.footing,
            fence,
            ask.session_id,
            version,
            alone,
            lasts,
            sent=ask.is_sent,
            fixed=self.needed.memory is not None and ask.freshness == "session",
            started=self.left.started,
            moment=self.assembly.facts.started,
        )
        return replace(answer, repeats=again)


@dataclass(frozen=True, slots=True)
class Contexts:
    """Answers requests for contexts and attachments."""

    ground: Ground
    known: Known
    sessions: Sessions
    footprints: Footprints
    reckoning: Reckoning
    upstream: Upstream
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def close(self) -> None:
        """Once, when nothing is asked any more."""
        await self.reckoning.close()
        await self.upstream.close()
        await self.sessions.close()

    async def answer(self, ask: Ask) -> Answer:
        """Raises the problems of opening a workspace."""
        async with self._opened(ask) as (settled, workspace):
            answer = await self._turn(settled, workspace)
        return await self.exactly(ask, answer)

    async def exactly(self, ask: Ask, answer: Answer) -> Answer:
        """The answer with the API's own count, where it is asked for."""
        assembly = answer.assembly
        route = Route(ask.request.provider, assembly.planned.betas, ask.region, ask.upstream_key, ask.space)
        with phase("count"):
            tally, notices = await self.reckoning.exact(assembly.tally, assembly.request, route)
        return replace(answer, assembly=replace(assembly, tally=tally), notices=(*answer.notices, *notices))

    async def look(self, ask: Ask) -> Answer:
        """What a turn would be answered with now. The session is not written."""
        async with self._opened(ask) as (settled, workspace), self._alone(ask):
            answer = await self._seen(settled, workspace)
        return await self.exactly(ask, answer)

    async def gathered_anew(self, ask: Ask) -> tuple[Facts, Remembered]:
        """The facts of a conversation that begins, and a session that has had none. Nothing is kept."""
        async with self._opened(ask) as (settled, workspace):
            begun = fresh(identity_of(settled), settled)
            with phase("gather"):
                facts = await gather(workspace, settled.request, self._known(ask), wanted(settled, begun, keeps=False))
        started = self.known.now() if ask.session_id else None
        return replace(facts, started=started), replace(begun, footprint=workspace.footprint())

    def begun_anew(self, ask: Ask, assembly: Assembly) -> Answer:
        """The answer that a conversation begins with in a session that goes on."""
        return _answered(ask, Recalled(Held(1, assembly.remember), assembly.remember, moved=False), assembly)

    async def attachments(self, ask: Ask) -> AttachmentsAnswer:
        """What the touched files bring and this session has not had; the caller puts it into the conversation."""
        async with self._opened(ask) as (settled, workspace):
            return await self._touch(settled, workspace)

    @asynccontextmanager
    async def _opened(self, ask: Ask) -> AsyncIterator[tuple[Ask, Workspace]]:
        ground = replace(self.ground, fence=self._fence(ask))
        with phase("open"):
            client, opened = await asyncio.to_thread(opened_for, ask, ground)
        try:
            yield replace(ask, request=replace(ask.request, client=client)), opened.workspace
        finally:
            if isinstance(ask.source, CommitSource):  # it waits for its processes
                await asyncio.to_thread(opened.workspace.close)
            else:
                opened.workspace.close()

    def _fence(self, ask: Ask) -> Fence:
        return ask.fence or self.ground.fence

    def _known(self, ask: Ask) -> Known:
        """What another tenant had parsed takes this one as long as if nobody had."""
        documents = self.known.documents
        if isinstance(documents, Documents) and ask.space:
            return replace(self.known, documents=documents.of(ask.space))
        return self.known

    async def _turn(self, ask: Ask, workspace: Workspace) -> Answer:
        """Recall, gather, assemble, remember; again when another process wrote the session first."""
        async with self._alone(ask):
            while True:
                turn = await self._assembled(ask, workspace)
                with phase("remember"):
                    version = await self.sessions.save(ask.session_id, turn.left, turn.recalled.held)
                if version:
                    lasts = ask.session_id is None or turn.left.asks_again(turn.recalled.held.remembered)
                    answer = turn.answer(ask, self._fence(ask), version, alone=self._is_alone(ask), lasts=lasts)
                    told = self.sessions.notices(ask.session_id, turn.left)
                    return replace(answer, notices=(*answer.notices, *told))

    async def _seen(self, ask: Ask, workspace: Workspace) -> Answer:
        turn = await self._assembled(ask, workspace)
        held = turn.recalled.held
        current = held.remembered is not None and held.remembered.request == ask.sent_as
        version = held.version if current else 0
        answer = turn.answer(ask, self._fence(ask), version, alone=self._is_alone(ask), lasts=True)
        told = self.sessions.notices(ask.session_id, turn.left, looks=True)
        return replace(answer, notices=(*answer.notices, *told))

    def _is_alone(self, ask: Ask) -> bool:
        return ask.session_id is not None and self.sessions.alone

    @asynccontextmanager
    async def _alone(self, ask: Ask) -> AsyncIterator[None]:
        """Turns of one session follow each other: the next ones find what the first has gathered."""
        turn = self.turns.setdefault(ask.session_id, asyncio.Lock()) if ask.session_id else asyncio.Lock()
        async with turn:
            yield

    async def _assembled(self, ask: Ask, workspace: Workspace) -> _Turn:
        found = await self._recalled(ask)
        remembered, keeps = await self._kept(ask, found.remembered.resumed(ask.request.messages))
        needed = wanted(ask, remembered, keeps=keeps)
        with phase("gather"):
            facts = await gather(workspace, ask.request, self._known(ask), needed)
        facts = replace(facts, started=self.known.now() if ask.session_id else None)
        with phase("assemble"):
            assembly, read = await asyncio.to_thread(lambda: (assemble(facts, remembered), workspace.footprint()))
        after = left(ask, remembered, assembly, read, keeps=keeps)
        return _Turn(found, remembered, needed, assembly, after, footing(ask, after, read, keeps=keeps))

    async def _kept(self, ask: Ask, remembered: Remembered) -> tuple[Remembered, bool]:
        """The session, and whether the memory that it has read is what there is to read."""
        if not may_keep(ask, remembered):
            return remembered, False
        if ask.freshness == "session":
            return remembered, True
        with phase("recall"):
            footprint = await self.renewed(remembered.footprint, self._fence(ask))
        return replace(remembered, footprint=footprint), footprint is not None

    async def renewed(self, footprint: Footprint | None, fence: Fence) -> Footprint | None:
        """None: what was read has changed, or that cannot be told. Else the footprint to go on with."""
        if footprint is None:
            return None
        if self.footprints.is_quick(footprint):
            return self.footprints.renewed(footprint, fence)
        return await asyncio.to_thread(self.footprints.renewed, footprint, fence)

    async def _touch(self, ask: Ask, workspace: Workspace) -> AttachmentsAnswer:
        async with self._alone(ask):
            while True:
                answer = await self._touch_of(ask, workspace)
                if answer is not None:
                    return answer

    async def _touch_of(self, ask: Ask, workspace: Workspace) -> AttachmentsAnswer | None:
        found = await self._recalled(ask)
        remembered, keeps = await self._kept(ask, found.remembered)
        needed = wanted(ask, remembered, keeps=keeps)
        with phase("gather"):
            memory, attached = await gather_attachments(workspace, ask.request, self._known(ask), needed)
        delivered = (*found.remembered.delivered, *(file.real for file in attached.files))
        kept = replace(remembered, footprint=found.remembered.footprint, delivered=delivered)
        with phase("remember"):
            saved = await self.sessions.save(ask.session_id, kept, found.held)
        if not saved:
            return None
        notices = (*moved_notices(moved=found.moved), *self.sessions.notices(ask.session_id, kept))
        return AttachmentsAnswer(memory, attached, _session(ask, found, 0, 0), notices)

    async def _recalled(self, ask: Ask) -> Recalled:
        with phase("recall"):
            return recalled(ask, await self.sessions.load(ask.session_id), identity_of(ask))


def _answered(ask: Ask, found: Recalled, assembly: Assembly) -> Answer:
    cached = [element for element in assembly.prompt.elements if element.kind == "cached"]
    hits = sum(1 for element in cached if element.origin == "remembered")
    notices = [*moved_notices(moved=found.moved), *kept_notices(ask, found.held, moved=found.moved)]
    if ask.request.provider != "anthropic" and untagged(ask.request.model) != assembly.facts.wire_model:
        message = f"The alias was sent as {assembly.facts.wire_model}: give the id that this provider uses."
        notices.append(Notice("alias_for_provider", message, "model"))
    return Answer(assembly, _session(ask, found, hits, len(cached) - hits), tuple(notices))


def _session(ask: Ask, found: Recalled, hits: int, misses: int) -> Session:
    return Session(name_shown(ask.session_id) if ask.session_id else None, found.is_new, hits, misses)
