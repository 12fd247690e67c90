"""The five steps of an answer: open, gather, recall, assemble, remember."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from app.core.assembly import Assembly, asked, assemble
from app.core.attachments import Attached
from app.core.facts import Client, Notice
from app.core.gathered import Facts
from app.core.late import is_prompt
from app.core.memory import Memory
from app.core.remembered import Remembered
from app.core.sections import SESSION_GUIDANCE, SYSTEM_CONTEXT, uses_default_prompt
from app.core.tools import tool_names
from app.errors import InvalidRequest, WorkspaceNotFound
from app.gather import Known, Wanted, gather, gather_attachments
from app.reckoning import Reckoning, Route
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.upstream import Upstream
from app.wire.requests import Ask
from app.workspaces.inline import TreeConflictError
from app.workspaces.opening import CommitSource, Ground, InlineSource, Opened, Source, open_workspace
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
    assembly: Assembly
    session: Session
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class AttachmentsAnswer:
    memory: Memory
    attached: Attached
    session: Session
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Contexts:
    """Answers requests for contexts and attachments."""

    ground: Ground
    known: Known
    sessions: Sessions
    reckoning: Reckoning
    upstream: Upstream
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def close(self) -> None:
        """Once, when nothing is asked any more."""
        await self.reckoning.close()
        await self.upstream.close()

    async def answer(self, ask: Ask) -> Answer:
        """Raises the problems of opening a workspace."""
        async with self._opened(ask) as (settled, workspace):
            answer = await self._turn(settled, workspace)
        return await self.exactly(ask, answer)

    async def exactly(self, ask: Ask, answer: Answer) -> Answer:
        """The answer with the API's own count, where it is asked for."""
        assembly = answer.assembly
        route = Route(ask.request.provider, assembly.planned.betas, ask.region, ask.upstream_key)
        tally, notices = await self.reckoning.exact(assembly.tally, assembly.request, route)
        return replace(answer, assembly=replace(assembly, tally=tally), notices=(*answer.notices, *notices))

    async def gathered_anew(self, ask: Ask) -> tuple[Facts, Remembered]:
        """The facts of a conversation that begins, and a session that has had none. Nothing is kept."""
        async with self._opened(ask) as (settled, workspace):
            fresh = _fresh(_identity(settled), settled)
            facts = await gather(workspace, settled.request, self.known, _wanted(settled, fresh))
        return replace(facts, started=self.known.now() if ask.session_id else None), fresh

    def begun_anew(self, ask: Ask, assembly: Assembly) -> Answer:
        """The answer that a conversation begins with in a session that goes on."""
        return _answered(ask, Held(1, assembly.remember), assembly, moved=False)

    async def attachments(self, ask: Ask) -> AttachmentsAnswer:
        """What the touched files bring and this session has not had; the caller puts it into the conversation."""
        async with self._opened(ask) as (settled, workspace):
            return await self._touch(settled, workspace)

    @asynccontextmanager
    async def _opened(self, ask: Ask) -> AsyncIterator[tuple[Ask, Workspace]]:
        opened = await asyncio.to_thread(open_source, ask.source, self.ground)
        try:
            client = await asyncio.to_thread(_settled, ask.request.client, opened)
            yield replace(ask, request=replace(ask.request, client=client)), opened.workspace
        finally:
            await asyncio.to_thread(opened.workspace.close)

    async def _turn(self, ask: Ask, workspace: Workspace) -> Answer:
        """Recall, gather, assemble, remember; again when another process wrote the session first."""
        identity = _identity(ask)
        async with self._alone(ask):
            return await self._turn_of(ask, workspace, identity)

    @asynccontextmanager
    async def _alone(self, ask: Ask) -> AsyncIterator[None]:
        """Turns of one session follow each other: the next ones find what the first has gathered."""
        turn = self.turns.setdefault(ask.session_id, asyncio.Lock()) if ask.session_id else asyncio.Lock()
        async with turn:
            yield

    async def _turn_of(self, ask: Ask, workspace: Workspace, identity: str) -> Answer:
        while True:
            held, recalled, moved = await self._recalled(ask, identity)
            remembered = recalled.resumed(ask.request.messages)
            facts = await gather(workspace, ask.request, self.known, _wanted(ask, remembered))
            started = self.known.now() if ask.session_id else None
            assembly = await asyncio.to_thread(assemble, replace(facts, started=started), remembered)
            kept = _kept(ask, assembly)
            kept = kept if ask.is_sent else replace(kept, turn=remembered.turn)
            if await self.sessions.save(ask.session_id, kept, held):
                answer = _answered(ask, held, assembly, moved=moved)
                return replace(answer, notices=(*answer.notices, *self.sessions.notices(ask.session_id, kept)))

    async def _touch(self, ask: Ask, workspace: Workspace) -> AttachmentsAnswer:
        identity = _identity(ask)
        async with self._alone(ask):
            return await self._touch_of(ask, workspace, identity)

    async def _touch_of(self, ask: Ask, workspace: Workspace, identity: str) -> AttachmentsAnswer:
        while True:
            held, remembered, moved = await self._recalled(ask, identity)
            found = await gather_attachments(workspace, ask.request, self.known, _wanted(ask, remembered))
            memory, attached = found
            delivered = (*remembered.delivered, *(file.real for file in attached.files))
            kept = replace(remembered, delivered=delivered)
            if await self.sessions.save(ask.session_id, kept, held):
                session = Session(ask.session_id, held.remembered is None or moved, 0, 0)
                notices = (*_moved_notices(moved=moved), *self.sessions.notices(ask.session_id, kept))
                return AttachmentsAnswer(memory, attached, session, notices)

    async def _recalled(self, ask: Ask, identity: str) -> tuple[Held, Remembered, bool]:
        """What the store holds, what of it counts for this workspace, and whether it was another's."""
        held = await self.sessions.load(ask.session_id)
        stored = held.remembered and held.remembered.of(_boundary(ask))
        moved = stored is not None and stored.workspace != identity
        fresh = _fresh(identity, ask)
        remembered = fresh if stored is None or moved else stored
        if stored is not None and not moved and _is_compacted(ask, stored):
            remembered = stored.begun_anew(fresh)
        if not remembered.date:
            remembered = replace(remembered.begun_anew(fresh), delivered=remembered.delivered)
        return held, remembered.rewound(len(ask.request.messages)), moved


def open_source(source: Source, ground: Ground) -> Opened:
    """Opens a request's workspace; the problems point into the request."""
    try:
        return open_workspace(source, ground)
    except TreeConflictError as error:
        errors = [{"pointer": "/workspace/files", "message": str(error)}]
        raise InvalidRequest(f"/workspace/files: {error}", errors=errors) from error
    except (InvalidRequest, WorkspaceNotFound) as problem:
        pointer = "/workspace" if isinstance(source, CommitSource) else "/workspace/cwd"
        problem.errors.append({"pointer": pointer, "message": problem.detail})
        raise


def _settled(client: Client, opened: Opened) -> Client:
    """The client with every folder's links resolved, as far as the workspace knows them."""
    look, paths = opened.workspace.look, opened.workspace.paths

    def real(path: str | None) -> str | None:
        return look(path).real if path else None

    return replace(
        client,
        cwd=opened.cwd,
        home=real(client.home),
        config_dir=real(client.config_dir),
        managed_dir=real(client.managed_dir),
        additional_directories=tuple(
            look(paths.join(opened.cwd, folder)).real for folder in client.additional_directories
        ),
    )


def _identity(ask: Ask) -> str:
    """Which workspace a session belongs to: nobody else's text may continue it."""
    client, source = ask.request.client, ask.source
    named = [type(source).__name__, client.cwd, client.home, client.config_dir, getattr(source, "repository", None)]
    return hashlib.sha256(repr(named).encode("utf-8", "surrogatepass")).hexdigest()


def _fresh(identity: str, ask: Ask) -> Remembered:
    date = ask.request.date
    return Remembered(identity, date, {"date": date}, files=_files_digest(ask), boundary=_boundary(ask))


def _boundary(ask: Ask) -> str:
    """Which compaction the conversation goes on from: after another one memory is read again. Empty: none."""
    last = next((message for message in reversed(ask.request.messages) if message.boundary), None)
    return hashlib.sha256(repr(last.content).encode("utf-8", "surrogatepass")).hexdigest() if last else ""


def _is_compacted(ask: Ask, remembered: Remembered) -> bool:
    return _boundary(ask) not in {"", remembered.boundary}


def _files_digest(ask: Ask) -> str:
    """Of the files that came with the request; empty without any."""
    files = sorted((path, repr(file)) for path, file in ask.source.files.items())
    return hashlib.sha256(repr(files).encode("utf-8", "surrogatepass")).hexdigest() if files else ""


def _wanted(ask: Ask, remembered: Remembered) -> Wanted:
    keeps = ask.freshness == "session" and remembered.asked in {"", asked(ask.request)}
    return Wanted(
        git=uses_default_prompt(ask.request.prompt) and _looks_at_git(ask, remembered),
        configuration=remembered.configuration if remembered.asked in {"", asked(ask.request)} else None,
        style=remembered.style,
        memory=remembered.memory if keeps else None,
        delivered=remembered.delivered,
        skills=SESSION_GUIDANCE not in remembered.sections or remembered.tools != tool_names(ask.request.tools),
    )


def _looks_at_git(ask: Ask, remembered: Remembered) -> bool:
    """Once a session, whenever the caller says what it knows, and when the user speaks in a session that validates."""
    if SYSTEM_CONTEXT.name not in remembered.sections or isinstance(ask.source, InlineSource):
        return True
    return ask.freshness != "session" and is_prompt(ask.request.messages)


def _kept(ask: Ask, assembly: Assembly) -> Remembered:
    remember = assembly.remember
    return remember if ask.freshness == "session" else replace(remember, files=_files_digest(ask))


def _answered(ask: Ask, held: Held, assembly: Assembly, *, moved: bool) -> Answer:
    cached = [element for element in assembly.prompt.elements if element.kind == "cached"]
    hits = sum(1 for element in cached if element.origin == "remembered")
    notices = [*_moved_notices(moved=moved), *_kept_notices(ask, held, moved=moved)]
    if ask.request.provider != "anthropic" and ask.request.model != assembly.facts.wire_model:
        message = f"The alias was sent as {assembly.facts.wire_model}: give the id that this provider uses."
        notices.append(Notice("alias_for_provider", message, "model"))
    session = Session(ask.session_id, held.remembered is None or moved, hits, len(cached) - hits)
    return Answer(assembly, session, tuple(notices))


def _moved_notices(*, moved: bool) -> tuple[Notice, ...]:
    if not moved:
        return ()
    message = "This session belonged to another workspace: it was started again. Use one session for one workspace."
    return (Notice("session_workspace_changed", message, "session_id"),)


def _kept_notices(ask: Ask, held: Held, *, moved: bool) -> tuple[Notice, ...]:
    """A word when the files sent are not those that the session's memory was read from."""
    before = held.remembered
    begun = before is not None and before.begun
    renewed = moved or ask.freshness != "session" or not begun or (before is not None and _is_compacted(ask, before))
    if renewed or before is None or before.files == _files_digest(ask):
        return ()
    message = (
        "The files sent differ from those of the session's first turn, whose memory is kept: use freshness validate."
    )
    return (Notice("session_memory_kept", message, "workspace.files"),)
