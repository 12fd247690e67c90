"""Tokens in use and the state of compaction that follows, by one way of counting, for a whole request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from app.core.budget import Breaker, CompactionState, compaction_state
from app.core.calibration import Calibration
from app.core.compaction import hopeless, largest_first, named, staying
from app.core.facts import Message, TokenOptions
from app.core.measures import Estimated, Measure, Rough
from app.core.models import Model, Window
from app.core.summary import Failure
from app.core.thinking import without_old_thinking
from app.core.tokens import Count, Part, Rows, count, counted, pace

Method = Literal["rough", "estimate", "exact", "fallback_model"]

ASKS_NEAR = 3
"""With ``auto`` the API is asked when less than this part, a third, of what may be used is left."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What a count goes by. ``calibration`` is what the session learned for the model's tokenizer."""

    model: Model
    options: TokenOptions
    window: Window
    breaker: Breaker = field(default_factory=Breaker)
    calibration: Calibration = field(default_factory=Calibration)

    def counted(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages as they count for the model."""
        return without_old_thinking(messages) if self.model.drops_thinking else messages

    @property
    def measure(self) -> Measure:
        """How it is counted here; what the API is asked for is estimated until it has answered."""
        return Rough() if self.options.method == "rough" else Estimated(self.model.tokenizer)


@dataclass(frozen=True, slots=True)
class Tally:
    """``raw`` are the tokens before calibration; ``factor`` is that of the calibration, None where none was applied."""

    basis: Basis
    messages: tuple[Message, ...]
    raw: int
    rows: Rows
    count: Count
    method: Method
    state: CompactionState
    factor: float | None = None

    @property
    def asks(self) -> bool:
        """Whether the API should be asked for the exact figure: always when it was asked for, else when it is close."""
        method = self.basis.options.method
        return method == "exact" or (method == "auto" and self.state.percent_left * ASKS_NEAR < FULL)

    @property
    def line(self) -> int:
        """Tokens that a conversation must stay below: without auto compaction all that may be used."""
        return _line(self.basis, self.state)

    @property
    def scale(self) -> float:
        """By how much the tokens in use are above those of the rows, within reason."""
        return _scale(self.rows, self.count)

    @property
    def hopeless(self) -> Failure | None:
        """Why no compaction can help; None when one can. Its parts are measured as the tokens in use are."""
        return _hopeless(self.rows, self.count, self.line)

    def exactly(self, tokens: int, method: Method) -> Tally:
        """With the API's own figure."""
        found = counted(self.rows, tokens)
        return replace(self, count=found, method=method, state=_state(self.basis, self.rows, found, self.messages))


FULL = 100
MOST_SCALE = 4
NOTHING_TO_COMPACT = "the conversation is empty: what stands before it is too large for this window"
MAKE_ROOM = "make these smaller, or use a model with a larger window"


def tally(basis: Basis, raw: Rows, messages: tuple[Message, ...]) -> Tally:
    """``raw`` are rows by the measure of ``basis``, not calibrated."""
    measure = basis.measure
    estimated = measure.method == "estimate"
    rows = raw.mapped(basis.calibration.apply) if estimated else raw
    found = count(messages, rows)
    return Tally(
        basis,
        messages,
        raw.total,
        rows,
        found,
        measure.method,
        _state(basis, rows, found, messages),
        basis.calibration.factor if estimated else None,
    )


def _state(basis: Basis, rows: Rows, found: Count, messages: tuple[Message, ...]) -> CompactionState:
    state = compaction_state(
        found.used, basis.window, basis.model, basis.options, breaker=basis.breaker, pace=pace(messages)
    )
    why = _why_needless(rows, found, messages, _line(basis, state))
    return replace(state, should_compact=False, explain=(*state.explain, why)) if why else state


def _why_needless(rows: Rows, found: Count, messages: tuple[Message, ...], line: int) -> str | None:
    """Why a compaction at ``line`` would free nothing; None below it, and where it can help."""
    if found.used < line:
        return None
    if not messages:
        return f"{NOTHING_TO_COMPACT}: {named(largest_first(found.parts))}"
    why = _hopeless(rows, found, line)
    return f"compaction cannot help: {staying(why.parts)}; {MAKE_ROOM}" if why else None


def _hopeless(rows: Rows, found: Count, line: int) -> Failure | None:
    scale = _scale(rows, found)
    return hopeless((Part(part.name, round(scale * part.tokens)) for part in found.parts), line)


def _line(basis: Basis, state: CompactionState) -> int:
    return state.threshold if basis.options.auto_compact else state.effective_window


def _scale(rows: Rows, found: Count) -> float:
    """Figures of usage and of the API are those of the whole: what they are off by goes for all parts alike."""
    total = rows.total
    return max(1 / MOST_SCALE, min(found.used / total, MOST_SCALE)) if total else 1.0
