"""Compactions: planned for the caller to run, run here, and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from app.attempts import Lease, SessionAttempts
from app.context import Answer, Contexts
from app.core.assembly import assemble
from app.core.compaction import outcome
from app.core.compaction_end import Failed, Plan, Ran, Reported, Told
from app.core.facts import Json, Message, Notice
from app.core.gathered import Facts
from app.core.going_on import going_on, tokens_at_boundary
from app.core.remembered import Remembered
from app.core.summary import Failure, Summary
from app.core.tally import Tally
from app.errors import AutoCompactOff, CompactingAlready, InvalidRequest, UpstreamKeyMissing
from app.metrics import Metrics
from app.summarizing import Summaries
from app.wire.compactions import CompactionAsk, CompactionReport
from app.wire.requests import Ask

Ended = tuple[Ran, Answer | None]
"""What came of a run, and the context of the new conversation; None where it failed."""

ASK_AGAIN_SECONDS = 5.0
EXACT = ("exact", "fallback_model")
OVERTAKEN = (
    "The session was emptied or compacted by others while this ran: nothing of it was kept. Ask for its context."
)
MOST_SAVES = 20
"""Times that a session is written by others before a compaction gives up."""

SUMMARY_HERE = "{summary}"


@dataclass(slots=True)
class _Running:
    """A run of a session, and how many requests wait for it."""

    asked: CompactionAsk
    task: asyncio.Task[Ended]
    waiting: int = 0

    def is_for(self, other: CompactionAsk) -> bool:
        """Whether what comes of it is what ``other`` asks for too: the same, of a conversation that may have grown."""
        length = len(self.asked.messages)
        return other.messages[:length] == self.asked.messages and _bare(other) == _bare(self.asked)


@dataclass(frozen=True, slots=True)
class Compactions:
    """Answers requests for compactions. ``running`` holds what is under way in this process, by session."""

    contexts: Contexts
    attempts: SessionAttempts
    summaries: Summaries
    metrics: Metrics
    running: dict[str, _Running] = field(default_factory=dict)

    async def plan(self, asked: CompactionAsk) -> Plan:
        """Raises the problems of a request that may not be compacted, and those of a context."""
        await self._allow(asked)
        answer = await self.contexts.answer(replace(asked.context, is_sent=False))
        request = await asyncio.to_thread(self.summaries.request, answer.assembly, asked.instructions)
        assembly = answer.assembly
        instruction = request.body["messages"][-1]["content"]
        return Plan(
            request.body,
            assembly.planned.betas,
            assembly.tally,
            sum(map(assembly.tally.basis.measure.block, instruction)),
            _hopeless(assembly.tally),
            assembly.tally.state.breaker,
            (*answer.notices, *assembly.notices, *request.notices, *_length_notices(assembly.tally, request.body)),
            going_on(Summary(SUMMARY_HERE), asked.messages, asked.messages),
        )

    async def run(self, asked: CompactionAsk) -> Ended:
        """As `plan`, and UpstreamKeyMissing. A caller who gives up ends the run that nobody else waits for."""
        if self.contexts.upstream.key_digest(asked.context.upstream_key) is None:
            raise UpstreamKeyMissing(
                "Send a key with the request as x-upstream-api-key, set ANTHROPIC_API_KEY for the service, or ask with "
                "mode plan and send the request yourself."
            )
        session = asked.context.session_id
        under_way = self.running.get(session) if session else None
        if under_way is None:
            return await self._awaited(session, self._started(asked))
        if not under_way.is_for(asked):
            _refuse_needless(asked)
            raise CompactingAlready(seconds=ASK_AGAIN_SECONDS)
        return await self._repeated(asked, await self._awaited(session, under_way), len(under_way.asked.messages))

    async def report(self, session: str, report: CompactionReport) -> Reported:
        """Raises SessionNotFound."""
        return await self.attempts.report(session, report)

    async def _allow(self, asked: CompactionAsk) -> None:
        _refuse_needless(asked)
        await self.attempts.allow(asked.context.session_id, asked.trigger)

    def _started(self, asked: CompactionAsk) -> _Running:
        running = _Running(asked, asyncio.create_task(self._counted(asked)))
        session = asked.context.session_id
        if session:
            self.running[session] = running
            running.task.add_done_callback(lambda _: self._over(session, running))
        return running

    def _over(self, session: str | None, running: _Running) -> None:
        if session and self.running.get(session) is running:
            del self.running[session]

    async def _awaited(self, session: str | None, running: _Running) -> Ended:
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if not running.waiting and not running.task.done():
                self._over(session, running)
                running.task.cancel()

    async def _counted(self, asked: CompactionAsk) -> Ended:
        try:
            ran, context = await self._ran(asked)
        except asyncio.CancelledError:
            self.metrics.compaction(asked.trigger, "aborted")
            raise
        self.metrics.compaction(asked.trigger, ran.failed.reason if ran.failed else "ok")
        return ran, context

    async def _ran(self, asked: CompactionAsk) -> Ended:
        await self._allow(asked)
        answer = await self.contexts.answer(replace(asked.context, is_sent=False))
        async with self.attempts.leased(asked.context.session_id, asked.trigger) as lease:
            told = await self._told(asked, answer)
            if not isinstance(told.found, Failed):
                return await self._settled(asked, lease, answer, told, told.found)
            breaker = await self.attempts.failed(lease, asked.trigger, answer.assembly.remember)
            return Ran(told, told.found, None, answer.assembly.tally.count.used, None, breaker), None

    async def _told(self, asked: CompactionAsk, answer: Answer) -> Told:
        assembly = answer.assembly
        why = _hopeless(assembly.tally)
        told = Told(why) if why else await self.summaries.ask(assembly, asked)
        return replace(told, notices=(*answer.notices, *assembly.notices, *told.notices))

    async def _settled(self, asked: CompactionAsk, lease: Lease, answer: Answer, told: Told, summary: Summary) -> Ended:
        """Assembles what goes on from the summary as the session's next turn will, and keeps it if it helped."""
        ask = _about(asked.context, going_on(summary, asked.messages, asked.messages, told.dropped))
        facts, fresh = await self.contexts.gathered_anew(ask)
        before = answer.assembly.tally
        facts, context = await self._gone_on(ask, facts, answer.assembly.remember.begun_anew(fresh), _scale(before))
        after = context.assembly.tally
        judged = outcome(before.count.used, after.count.used, after.line, after.count.parts)
        if isinstance(judged, Failure):
            breaker = await self.attempts.failed(lease, asked.trigger, answer.assembly.remember)
            return Ran(told, Failed.of(judged), None, before.count.used, after.count.used, breaker), None
        for _ in range(MOST_SAVES):
            held = await self.contexts.sessions.load(lease.session)
            if not lease.holds(held):
                break
            last = held.remembered or answer.assembly.remember
            attempts = last.attempts.after("ok", asked.trigger, self.contexts.known.now())
            begun = replace(last.begun_anew(fresh), attempts=attempts, replaced=None)
            assembly = replace(await asyncio.to_thread(assemble, facts, begun), tally=after)
            if await self.attempts.succeeded(lease, held, replace(assembly.remember, replaced=last.alone())):
                breaker, messages = self.attempts.breaker(attempts), facts.request.messages
                kept = replace(context, assembly=assembly)
                return Ran(told, None, messages, before.count.used, after.count.used, breaker), kept
        raise CompactingAlready(OVERTAKEN, seconds=ASK_AGAIN_SECONDS)

    async def _gone_on(self, ask: Ask, facts: Facts, begun: Remembered, scale: float) -> tuple[Facts, Answer]:
        """The first turn of the new conversation, whose summary tells what is in use behind it.

        ``scale`` is by how much the API's figures were above ours: what comes next is judged by the same measure.
        """
        assembly = await asyncio.to_thread(assemble, facts, begun)
        answer = await self.contexts.exactly(ask, self.contexts.begun_anew(ask, assembly))
        figure = tokens_at_boundary(answer.assembly.tally, scale)
        boundary, *rest = facts.request.messages
        messages = (replace(boundary, boundary_tokens=figure), *rest)
        marked = replace(facts, request=replace(facts.request, messages=messages))
        assembly = await asyncio.to_thread(assemble, marked, begun)
        told = replace(ask, request=replace(ask.request, messages=messages))
        exact = answer.assembly.tally
        tally = exact if exact.method in EXACT else assembly.tally
        context = self.contexts.begun_anew(told, replace(assembly, tally=tally))
        return marked, replace(context, notices=answer.notices)

    async def _repeated(self, asked: CompactionAsk, ended: Ended, length: int) -> Ended:
        """What came of another request's run, for a conversation that may have grown since."""
        ran, context = replace(ended[0], repeated=True), ended[1]
        if context is None or isinstance(ran.told.found, Failed) or len(asked.messages) == length:
            return ran, context
        messages = going_on(ran.told.found, asked.messages[:length], asked.messages, ran.told.dropped)
        boundary = replace(messages[0], boundary_tokens=ran.messages[0].boundary_tokens if ran.messages else None)
        grown = await self.contexts.answer(_about(asked.context, (boundary, *messages[1:])))
        told = grown.assembly.facts.request.messages
        return replace(ran, messages=told, after=grown.assembly.tally.count.used), grown


def _about(ask: Ask, messages: tuple[Message, ...]) -> Ask:
    """The same of another conversation: what the files bring that were touched can come again when they are."""
    return replace(ask, request=replace(ask.request, messages=messages, touched=()))


def _bare(asked: CompactionAsk) -> CompactionAsk:
    """All that is asked but the conversation and what was touched."""
    return replace(asked, context=_about(asked.context, ()))


def _refuse_needless(asked: CompactionAsk) -> None:
    if not asked.messages:
        errors = [{"pointer": "/messages", "message": "there is nothing to compact: send the conversation"}]
        raise InvalidRequest("/messages: there is nothing to compact: send the conversation", errors=errors)
    if asked.trigger == "automatic" and not asked.context.request.tokens.auto_compact:
        raise AutoCompactOff("The request's tokens.auto_compact turns it off: ask with trigger manual.")


def _scale(tally: Tally) -> float:
    """By how much usage was above what is counted here; never below 1, so that nothing is promised too much."""
    return 1.0 if tally.method in EXACT or tally.count.anchored_on is None else max(1.0, tally.scale)


def _length_notices(tally: Tally, body: Json) -> Iterator[Notice]:
    """A word on a request that the API would refuse."""
    used, window = tally.count.used + body["max_tokens"], max(tally.state.window, tally.basis.model.api_window)
    if used > window:
        told = (
            f"About {used:,} tokens with the answer, of {window:,}: leave out the oldest rounds, or ask with mode run."
        )
        yield Notice("summary_request_too_long", told, "messages")


def _hopeless(tally: Tally) -> Failed | None:
    why = tally.hopeless
    return Failed.of(why) if why else None
