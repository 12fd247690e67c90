"""How full the window is, when to compact, and when to stop trying."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from app.core.facts import Notice, TokenOptions
from app.core.models import Model, Window

SUMMARY_RESERVE = 20_000
BUFFER = 13_000
BLOCKING_MARGIN = 3_000
WARNING_MARGIN = 20_000
SMALL_WINDOW = 100_000
FAILURES_TO_OPEN = 3
LOWEST_PERCENT = 1
HIGHEST_PERCENT = 100
MINUS = "\N{MINUS SIGN}"

BreakerState = Literal["closed", "open", "half_open"]
Outcome = Literal["ok", "failed", "aborted"]


@dataclass(frozen=True, slots=True)
class Breaker:
    """Stops automatic compaction after failures in a row. ``half_open``: one more attempt is allowed."""

    state: BreakerState = "closed"
    consecutive_failures: int = 0

    def after(self, outcome: Outcome) -> Breaker:
        """The breaker once an attempt has ended. What a person aborted says nothing either way."""
        if outcome == "aborted":
            return self
        if outcome == "ok":
            return Breaker()
        failures = self.consecutive_failures + 1
        opens = self.state != "closed" or failures >= FAILURES_TO_OPEN
        return Breaker("open" if opens else "closed", failures)

    def cooled(self, seconds_open: float, cool_down: float) -> Breaker:
        """The breaker ``seconds_open`` after it opened; with a ``cool_down`` of 0 seconds it never closes by itself."""
        if self.state == "open" and 0 < cool_down <= seconds_open:
            return Breaker("half_open", self.consecutive_failures)
        return self


@dataclass(frozen=True, slots=True)
class Limits:
    """Where the lines are drawn in a window, in tokens. A line counts as reached when as much is used.

    ``threshold``: automatic compaction; ``reference``: what is left is counted from here; ``unlowered``: the
    threshold before ``percent_override``.
    """

    window: int
    reserve: int
    effective: int
    buffer: int
    unlowered: int
    threshold: int
    reference: int
    warning: int
    blocking: int


@dataclass(frozen=True, slots=True)
class CompactionState:
    """Sizes in tokens, percentages whole.

    ``percent_left`` is of what may be used before compaction (of the effective window when auto compaction is off).
    ``percent_of_window`` is used, of ``window``; ``percent_of_model_window`` is used, of the window the model has when
    no override makes it another. ``turns_left`` is how many more responses there is room for at the recent pace.
    """

    window: int
    effective_window: int
    threshold: int
    percent_left: int
    percent_of_window: int
    percent_of_model_window: int
    is_above_warning: bool
    is_above_error: bool
    is_above_auto_compact: bool
    is_at_blocking_limit: bool
    should_compact: bool
    breaker: Breaker
    turns_left: int | None
    explain: tuple[str, ...]


def limits(window: int, model: Model, options: TokenOptions) -> Limits:
    """For a window of at least 1 token. In small windows every reserve shrinks, so that all lines stay positive."""
    reserve, buffer = _reserves(window, model)
    effective = window - reserve
    unlowered = max(1, effective - buffer)
    threshold = _lowered(unlowered, effective, options)
    reference = threshold if options.auto_compact else effective
    margin = BLOCKING_MARGIN if buffer > BLOCKING_MARGIN else buffer * BLOCKING_MARGIN // BUFFER
    return Limits(
        window=window,
        reserve=reserve,
        effective=effective,
        buffer=buffer,
        unlowered=unlowered,
        threshold=threshold,
        reference=reference,
        warning=_warning(reference, window),
        blocking=effective - margin,
    )


def _reserves(window: int, model: Model) -> tuple[int, int]:
    reserve = min(model.max_output, SUMMARY_RESERVE)
    if window >= SMALL_WINDOW:
        return reserve, BUFFER
    return min(reserve, window // 10), max(1, window * 65 // 1000)


def _warning(reference: int, window: int) -> int:
    """Above nothing, so that an empty conversation does not warn; in small windows not before half is used."""
    return max(reference - WARNING_MARGIN, 1 if window >= SMALL_WINDOW else (reference + 1) // 2)


def _lowered(threshold: int, effective: int, options: TokenOptions) -> int:
    percent = _percent(options)
    if percent is None:
        return threshold
    return min(threshold, max(1, int(effective * percent / 100)))


def _percent(options: TokenOptions) -> Fraction | None:
    """The override as it was written: a float's shortest decimal, so that 57.1 % is not a little less."""
    percent = options.percent_override
    if percent is None or not LOWEST_PERCENT <= percent <= HIGHEST_PERCENT:
        return None
    return Fraction(repr(float(percent)))


def compaction_state(  # noqa: PLR0917 - the last two are what a session adds
    used: int,
    window: Window,
    model: Model,
    options: TokenOptions,
    breaker: Breaker | None = None,
    pace: int | None = None,
) -> CompactionState:
    """The state of a conversation with ``used`` tokens, that grows by ``pace`` tokens with each response."""
    lines = limits(window.tokens, model, options)
    breaker = breaker or Breaker()
    turns_left = _turns_left(lines.reference - used, pace)
    over = options.auto_compact and used >= lines.threshold
    percents = _Percents(
        left=max(0, _percent_of(lines.reference - used, lines.reference)),
        of_window=_percent_of(used, lines.window),
        of_model_window=_percent_of(used, window.model_tokens or window.tokens),
    )
    return CompactionState(
        window=lines.window,
        effective_window=lines.effective,
        threshold=lines.threshold,
        percent_left=percents.left,
        percent_of_window=percents.of_window,
        percent_of_model_window=percents.of_model_window,
        is_above_warning=used >= lines.warning,
        is_above_error=used >= lines.warning,
        is_above_auto_compact=over,
        is_at_blocking_limit=used >= lines.blocking,
        should_compact=over and breaker.state != "open",
        breaker=breaker,
        turns_left=turns_left,
        explain=(
            f"{lines.window:,} window ({window.origin})",
            f"{MINUS} {lines.reserve:,} reserved for the summary → {lines.effective:,} effective",
            *_explain_threshold(lines, options),
            _explain_use(used, percents, options),
            *_explain_pace(turns_left, pace),
            *_explain_breaker(breaker),
        ),
    )


def _turns_left(room: int, pace: int | None) -> int | None:
    return max(0, room) // pace if pace else None


@dataclass(frozen=True, slots=True)
class _Percents:
    left: int
    of_window: int
    of_model_window: int


def _percent_of(share: int, whole: int) -> int:
    return (200 * share + whole) // (2 * whole)


def _explain_threshold(lines: Limits, options: TokenOptions) -> tuple[str, ...]:
    percent = None if _percent(options) is None else f"percent_override {options.percent_override:g} %"
    if not options.auto_compact:
        off = "auto compaction is off: nothing compacts by itself"
        return (off, *((f"{percent} has no effect without it",) if percent else ()))
    buffer = f"{MINUS} {lines.buffer:,} buffer → compacts at {lines.unlowered:,}"
    if lines.threshold < lines.unlowered:
        lowered = f"{options.percent_override:g} % of {lines.effective:,} by percent_override"
        return buffer, f"lowered to {lowered} → compacts at {lines.threshold:,}"
    return (buffer, *((f"{percent} of {lines.effective:,} is no less: no effect",) if percent else ()))


def _explain_use(used: int, percents: _Percents, options: TokenOptions) -> str:
    left = "before compaction" if options.auto_compact else "of the effective window"
    of_window = f"{percents.of_window} % of the window"
    if percents.of_model_window != percents.of_window:
        of_window = f"{of_window}, {percents.of_model_window} % of the model's own"
    return f"used {used:,}: {percents.left} % left {left}, {of_window}"


def _explain_pace(turns_left: int | None, pace: int | None) -> tuple[str, ...]:
    if turns_left is None:
        return ()
    responses = "1 more response" if turns_left == 1 else f"{turns_left:,} more responses"
    return (f"room for about {responses} at the recent pace of {pace:,} tokens each",)


def _explain_breaker(breaker: Breaker) -> tuple[str, ...]:
    after = f"after {breaker.consecutive_failures} failures in a row"
    if breaker.state == "closed":
        return ()
    if breaker.state == "half_open":
        return (f"breaker half open {after}: one more attempt is allowed",)
    return (f"breaker open {after}: no automatic compaction",)


def option_notices(options: TokenOptions) -> tuple[Notice, ...]:
    """What the caller asked for and does not get: numbers out of range."""
    return tuple(notice for notice in (_percent_notice(options), _window_notice(options)) if notice is not None)


def _percent_notice(options: TokenOptions) -> Notice | None:
    if options.percent_override is None or _percent(options) is not None:
        return None
    return Notice(
        "percent_override_ignored",
        f"percent_override is {options.percent_override:g}; give a percentage from {LOWEST_PERCENT} to "
        f"{HIGHEST_PERCENT}, or leave it out",
        "tokens.percent_override",
    )


def _window_notice(options: TokenOptions) -> Notice | None:
    if options.max_context_tokens is None or options.max_context_tokens > 0:
        return None
    return Notice(
        "max_context_tokens_ignored",
        f"max_context_tokens is {options.max_context_tokens}; give a positive number of tokens, or leave it out",
        "tokens.max_context_tokens",
    )
