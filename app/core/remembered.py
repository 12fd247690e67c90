"""What a session keeps between turns, so that what was sent stays the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from app.core.calibration import Calibration
from app.core.compaction import Attempts
from app.core.configuration import Configuration
from app.core.facts import Message, OutputStyle
from app.core.footprint import Footprint
from app.core.late import Late
from app.core.memory import Memory
from app.core.previous import Turn
from app.core.tokens import Part

Emptying = Literal["clear", "compact"]
"""Why a session is emptied: its conversation is over, or goes on from a summary."""


@dataclass(frozen=True, slots=True)
class LastRequest:
    """A session's last request as it was sent: its body, compressed with zstd, and the beta values beside it."""

    body: bytes = field(repr=False)
    betas: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """One session's state. ``workspace`` says which workspace it belongs to.

    ``date`` is when it began, empty before its first turn; ``model`` is the id that was sent last, empty before it;
    ``told`` is what its first messages say of what may change, by subject; ``style`` the style that was asked for and
    what was found; ``delivered`` are real paths of attachments; ``files`` is a digest of the files that came with the
    turn on which memory was read, ``footprint`` is what it was read from on a disk, None where that cannot be told;
    ``boundary`` is a digest of the last compaction's summary.

    Of the last turn: ``request`` is what the caller sent, ``asked`` are its memory options, ``tools`` the names of its
    tools, ``layout`` its layout and ``turn`` its request as the prompt cache sees it. ``attempts`` are those to
    compact; ``calibrations`` are what usage said of estimates, by generation of tokenizer.

    Of compaction: ``replaced`` is the session before one, until it is known whether its answer was taken up;
    ``compacting_until`` is until when one may be under way, by the clock that all processes share; ``threshold`` and
    ``fixed`` are where it began on the last turn, in tokens, and the largest parts that it makes no smaller.
    """

    workspace: str
    date: str
    told: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    configuration: Configuration | None = None
    style: tuple[str, OutputStyle | None] | None = None
    sections: Mapping[str, str | None] = field(default_factory=dict)
    memory: Memory | None = None
    delivered: tuple[str, ...] = ()
    late: tuple[Late, ...] = ()
    files: str = ""
    footprint: Footprint | None = None
    boundary: str = ""
    request: LastRequest | None = None
    asked: str = ""
    tools: frozenset[str] | None = None
    layout: str = ""
    turn: Turn | None = None
    replaced: Remembered | None = None
    attempts: Attempts = field(default_factory=Attempts)
    calibrations: Mapping[int, Calibration] = field(default_factory=dict)
    compacting_until: float | None = None
    threshold: int | None = None
    fixed: tuple[Part, ...] = ()

    @property
    def begun(self) -> bool:
        """Whether the session has had a turn."""
        return self.model != ""

    @property
    def known(self) -> Mapping[str, str]:
        """What the model was last told of each subject."""
        return {**self.told, **{one.subject: one.state for one in self.late if one.subject is not None}}

    def begun_anew(self, fresh: Remembered) -> Remembered:
        """``fresh`` with what outlives a conversation: what was learned, attempted and last sent."""
        return replace(
            fresh,
            request=self.request,
            turn=self.turn,
            replaced=self.replaced,
            attempts=self.attempts,
            calibrations=self.calibrations,
            compacting_until=self.compacting_until,
        )

    def emptied(self, reason: Emptying) -> Remembered:
        """Before a first turn again: everything is read anew, and a compaction that is under way keeps nothing.

        What was learned and attempted stays; with ``compact`` also the request that was last sent, and what a
        compaction is judged by.
        """
        anew = replace(self.begun_anew(Remembered(self.workspace, "")), compacting_until=None)
        if reason == "clear":
            return replace(anew, turn=None, replaced=None)
        return replace(anew, threshold=self.threshold, fixed=self.fixed)

    @property
    def started(self) -> float | None:
        """When its last turn was sent."""
        return self.turn.sent.started if self.turn else None

    def repeated(self, now: float) -> Remembered:
        """Once its last turn was sent again."""
        if self.turn is None:
            return self
        return replace(self, turn=replace(self.turn, sent=replace(self.turn.sent, started=now)))

    def asks_again(self, before: Remembered | None) -> bool:
        """Whether the next turn that asks the same finds what this one found: ``before``, the session a turn ago.

        Moments and stamps may differ: neither is in an answer. What was told of time is told once.
        """
        told = self.turn.comparison if self.turn else None
        timely = told is not None and told.cause == "ttl_expired"
        return before is not None and not timely and _lasting(self) == _lasting(before)

    def alone(self) -> Remembered:
        """Without what it replaced."""
        return replace(self, replaced=None)

    def of(self, boundary: str) -> Remembered:
        """The session that goes on from ``boundary``: the one before a compaction whose answer was not taken up."""
        if self.replaced is None or boundary == self.boundary:
            return self
        return replace(
            self.replaced,
            request=self.request,
            attempts=self.attempts,
            calibrations=self.calibrations,
            compacting_until=self.compacting_until,
        )

    def resumed(self, messages: Sequence[Message]) -> Remembered:
        """With the request that was last sent: that of a compaction's answer only if ``messages`` answer it."""
        if self.replaced is None:
            return self
        behind = messages[self.turn.messages :] if self.turn else ()
        answered = bool(behind) and behind[0].role == "assistant"
        return replace(self, turn=self.turn if answered else self.replaced.turn, replaced=None)

    def rewound(self, messages: int) -> Remembered:
        """The session once the conversation was taken back to so many messages: what stood behind them is gone."""
        gone = [one for one in self.late if messages and one.at > messages]
        if not gone:
            return self
        return replace(
            self,
            late=tuple(one for one in self.late if one not in gone),
            delivered=tuple(real for real in self.delivered if real not in {one.real for one in gone}),
        )


def _lasting(one: Remembered) -> Remembered:
    """Without what differs from turn to turn although nothing changed."""
    turn = one.turn and replace(one.turn, sent=replace(one.turn.sent, started=None))
    return replace(one, turn=turn, footprint=None)
