"""Exact counts of requests: asked of an API, else of a small model's usage, and remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from cachetools import TTLCache

from app.core.counting import (
    Attempt,
    Counted,
    Level,
    Part,
    Question,
    fallback_model,
    has_thinking,
    parts_of,
    to_count,
    to_small_model,
    used_tokens,
    without,
)
from app.core.models import ModelTable
from app.core.providers import Provider
from app.core.refusals import told
from app.upstream import Upstream
from app.upstream_bodies import UpstreamFailed

KEPT = 4_096
KEPT_SECONDS = 3_600.0
MISSING_SECONDS = 60.0
"""How long a model is not asked for at a count endpoint that said it is not there."""

UNAUTHORIZED = 401

Backend = tuple[str, str]
"""A model at the upstream's address, and the digest of the key it was asked with."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The parts of a request that a backend is known to count, and those it is known to leave out."""

    counts: frozenset[Part] = frozenset()
    ignores: frozenset[Part] = frozenset()


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question to all levels. ``deadline`` is by the event loop's clock, in seconds."""

    request: Mapping[str, Any]
    betas: tuple[str, ...]
    key: str | None = field(repr=False)
    backend: Backend
    provider: Provider
    region: str | None
    space: str
    deadline: float

    def left(self) -> float:
        return self.deadline - asyncio.get_running_loop().time()


class Counting:
    """Built once, by `main`; belongs to the event loop of its first call.

    Args:
        upstream: where the questions go.
        models: whose aliases name the small models.
        seconds: for all levels of one count together.
        clock: monotonic, in seconds.
        kept: how many counts are remembered, an hour each.

    Numbers are kept by content, model, betas and key; failures are not kept. Of several askers of the same at the same
    time one asks. Whether a backend counts tools and system prompts is found out with its first count that has them.
    """

    def __init__(
        self, upstream: Upstream, models: ModelTable, seconds: float, clock: Callable[[], float], kept: int = KEPT
    ) -> None:
        self._upstream = upstream
        self._models = models
        self._seconds = seconds
        self._counts: MutableMapping[bytes, Counted] = TTLCache(kept, KEPT_SECONDS, clock)
        self._missing: MutableMapping[Backend, bool] = TTLCache(kept, MISSING_SECONDS, clock)
        self._verdicts: MutableMapping[Backend, _Verdict] = TTLCache(kept, KEPT_SECONDS, clock)
        self._flights: dict[bytes, asyncio.Task[Counted]] = {}
        self._hits = self._misses = 0

    async def count(
        self,
        request: Mapping[str, Any],
        betas: tuple[str, ...] = (),
        key: str | None = None,
        provider: Provider = "anthropic",
        region: str | None = None,
        *,
        space: str = "",
    ) -> Counted:
        """Input tokens of a Messages API body; it may lack ``max_tokens``. ``key``: the caller's own.

        What was counted in one ``space`` is not known in another.

        No failure is raised: each level that failed is told.
        """
        digest = self._upstream.key_digest(key)
        if digest is None:
            return Counted(None, None, (Attempt("count_tokens", "no_key", told("no_key")),))
        asked = _Asked(request, betas, key, (request["model"], digest), provider, region, space, self._deadline())
        place = await asyncio.to_thread(_place, asked, self._upstream.base_url)
        known = self._counts.get(place)
        self._hits, self._misses = self._hits + (known is not None), self._misses + (known is None)
        return known or await self._in_flight(place, asked)

    @property
    def lookups(self) -> tuple[int, int]:
        """How often a count was known, and how often not."""
        return self._hits, self._misses

    async def close(self) -> None:
        """Ends what is being counted. The upstream is not closed."""
        flights = tuple(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._seconds

    async def _in_flight(self, place: bytes, asked: _Asked) -> Counted:
        """A caller who gives up does not end the count, which others may wait for."""
        if place not in self._flights:
            flight = asyncio.create_task(self._counted(place, asked))
            flight.add_done_callback(lambda _: self._flights.pop(place))
            self._flights[place] = flight
        return await asyncio.shield(self._flights[place])

    async def _counted(self, place: bytes, asked: _Asked) -> Counted:
        levels: tuple[tuple[Level, _Ask], ...] = (
            ("count_tokens", self._by_endpoint),
            ("fallback_model", self._by_small_model),
        )
        attempts: list[Attempt] = []
        for level, ask in levels:
            try:
                found = replace(await ask(asked), attempts=tuple(attempts))
            except UpstreamFailed as failure:
                attempts.append(Attempt(level, failure.reason, failure.message))
                if _is_hopeless(failure):
                    break
            else:
                self._counts[place] = found
                return found
        return Counted(None, None, tuple(attempts))

    async def _by_endpoint(self, asked: _Asked) -> Counted:
        question = await asyncio.to_thread(to_count, asked.request, asked.betas)
        if asked.backend in self._missing:
            raise UpstreamFailed("not_found", told("not_found"))
        self._refuse_untrusted(asked, question)
        try:
            tokens = await self._tokens(asked, question)
        except UpstreamFailed as failure:
            if failure.reason == "not_found":
                self._missing[asked.backend] = True
            raise
        await self._judge(asked, question, tokens)
        self._refuse_untrusted(asked, question)
        return Counted(tokens, "exact", model=question.body["model"], filled=question.filled)

    async def _by_small_model(self, asked: _Asked) -> Counted:
        thinking = has_thinking(asked.request)
        model = fallback_model(asked.provider, asked.region, thinking, self._models)
        question = await asyncio.to_thread(to_small_model, asked.request, asked.betas, model)
        answer = await self._upstream.create(
            question.body, question.betas, asked.key, max_tokens=question.max_tokens, seconds=asked.left()
        )
        tokens = used_tokens(answer)
        if tokens is None:
            raise UpstreamFailed("unreadable", told("unreadable", "an answer without usage"))
        return Counted(tokens, "fallback_model", model=model, filled=question.filled)

    async def _tokens(self, asked: _Asked, question: Question) -> int:
        return await self._upstream.count_tokens(question.body, question.betas, asked.key, seconds=asked.left())

    def _verdict(self, asked: _Asked) -> _Verdict:
        return self._verdicts.get(asked.backend, _Verdict())

    def _refuse_untrusted(self, asked: _Asked, question: Question) -> None:
        ignored = self._verdict(asked).ignores.intersection(parts_of(question))
        if ignored:
            raise UpstreamFailed("untrusted", f"{told('untrusted')} Left out: {', '.join(sorted(ignored))}.")

    async def _judge(self, asked: _Asked, question: Question, tokens: int) -> None:
        """Asks again without each part that this backend is not known to count. No answer, no verdict."""
        unproven = [part for part in parts_of(question) if part not in self._verdict(asked).counts]
        fewer = await asyncio.gather(*(self._tokens_or_none(asked, without(question, part)) for part in unproven))
        judged = [(part, rest < tokens) for part, rest in zip(unproven, fewer, strict=True) if rest is not None]
        known = self._verdict(asked)
        self._verdicts[asked.backend] = _Verdict(
            known.counts.union(part for part, counted in judged if counted),
            known.ignores.union(part for part, counted in judged if not counted),
        )

    async def _tokens_or_none(self, asked: _Asked, question: Question) -> int | None:
        try:
            return await self._tokens(asked, question)
        except UpstreamFailed:
            return None


_Ask = Callable[[_Asked], Awaitable[Counted]]


def _is_hopeless(failure: UpstreamFailed) -> bool:
    """Whether no other question to this upstream can fare better."""
    return failure.reason == "unreachable" or failure.status == UNAUTHORIZED


def _place(asked: _Asked, base_url: str) -> bytes:
    """A digest of what decides the number, the key as its own digest. Key order counts: it reaches the model."""
    decides = (asked.request, asked.betas, base_url, asked.backend, asked.provider, asked.region, asked.space)
    return sha256(json.dumps(decides, separators=(",", ":"), default=dict).encode()).digest()
