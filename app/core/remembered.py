"""What a session keeps between turns, so that what was sent stays the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.core.configuration import Configuration
from app.core.facts import OutputStyle
from app.core.late import Late
from app.core.memory import Memory


@dataclass(frozen=True, slots=True)
class Remembered:
    """One session's state. ``workspace`` says which workspace it belongs to; ``date`` is when it began.

    ``told_date`` is the last date the model was told; ``style`` the style that was asked for and what was found;
    ``delivered`` are real paths of attachments.
    """

    workspace: str
    date: str
    told_date: str
    configuration: Configuration | None = None
    style: tuple[str, OutputStyle | None] | None = None
    sections: Mapping[str, str | None] = field(default_factory=dict)
    memory: Memory | None = None
    delivered: tuple[str, ...] = ()
    late: tuple[Late, ...] = ()
