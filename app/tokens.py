"""Counts a request that some client has put together itself."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.bill import tool_rows
from app.core.budget import option_notices
from app.core.calibration import Calibration
from app.core.facts import Json, Notice
from app.core.models import window
from app.core.remembered import Remembered
from app.core.tally import Basis, Tally, tally
from app.core.tokens import Rows
from app.gather import Known, model_notices
from app.reckoning import Reckoning, Route
from app.stores.sessions import Sessions
from app.wire.counts import TokensAsk


@dataclass(frozen=True, slots=True)
class Tokens:
    """Answers what a raw request costs. ``cool_down`` as in `app.core.gathered.Facts`."""

    known: Known
    sessions: Sessions
    reckoning: Reckoning

    async def count(self, ask: TokensAsk) -> tuple[Tally, tuple[Notice, ...]]:
        """The tally, and what there is to say about it."""
        remembered = await self.sessions.peek(ask.session_id)
        basis = self._basis(ask, remembered)
        measure = basis.measure
        raw = Rows(
            fixed=(
                *((f"system[{index}]", measure.block(block)) for index, block in enumerate(ask.system)),
                *tool_rows(measure, ask.tools),
            ),
            messages=tuple(measure.message(message) for message in basis.counted(ask.messages)),
        )
        found, notices = await self.reckoning.exact(
            tally(basis, raw, ask.messages),
            self._body(ask),
            Route(ask.provider, ask.betas, ask.region, ask.upstream_key, ask.space),
        )
        unknown = model_notices(ask.model, basis.model, self.known.models)
        return found, (*unknown, *option_notices(ask.options), *notices)

    def _basis(self, ask: TokensAsk, remembered: Remembered | None) -> Basis:
        model = self.known.models.find(ask.model)
        size = window(model, ask.options, self.known.window_override, ask.betas)
        if remembered is None:
            return Basis(model, ask.options, size)
        attempts = remembered.attempts.at(self.known.now(), self.known.cool_down)
        calibration = remembered.calibrations.get(model.tokenizer, Calibration())
        return Basis(model, ask.options, size, attempts.breaker, calibration)

    def _body(self, ask: TokensAsk) -> Json:
        return {
            "model": self.known.models.wire_id(ask.model),
            **ask.parameters,
            **({"system": list(ask.system)} if ask.system else {}),
            **({"tools": list(ask.tools)} if ask.tools else {}),
            "messages": [{"role": one.role, "content": _content(one.content)} for one in ask.messages],
        }


def _content(content: str | tuple[Json, ...]) -> str | list[Json]:
    return content if isinstance(content, str) else list(content)
