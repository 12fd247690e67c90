"""What one turn is about: all that was asked of the caller and the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.core.attachments import Attached
from app.core.configuration import Configuration
from app.core.costs import Prices
from app.core.facts import GitFacts, Notice, OutputStyle, Request
from app.core.memory import Memory
from app.core.models import Model


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was gathered for one turn.

    ``memory_dir`` is where auto memory stands, None when it is off; ``wire_model`` the model's id as it is sent;
    ``window_override`` the service's own setting, in tokens. ``started`` is when the turn began, in seconds of the
    clock that the session's other turns had; None: there is no session to compare with. ``cool_down`` is
    how long, in seconds, an open breaker waits for one more attempt; 0: for ever.
    """

    request: Request
    model: Model
    wire_model: str
    git: GitFacts | None
    memory: Memory
    attached: Attached
    memory_dir: str | None
    prose: Mapping[str, str]
    configuration: Configuration = field(default_factory=Configuration)
    style: tuple[str, OutputStyle | None] | None = None
    window_override: int | None = None
    started: float | None = None
    prices: Prices = field(default_factory=Prices)
    cool_down: float = 0.0
    notices: tuple[Notice, ...] = ()
