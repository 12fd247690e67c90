"""The user-context message, attachments, and late messages: what reaches the model beside the conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.candidates import MemoryFile
from app.core.tokens import bytes_per_token, spread, utf16_length

OPENING = "This context was gathered before the conversation began. Use it while you work on what the user asks."
CLOSING = "Not all of this context need matter to the task at hand. Do not answer it or mention it unless it does."
INSTRUCTIONS = (
    "Instructions of the user and of this code base follow. They take precedence over your default behaviour: "
    "follow them exactly as they are written."
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of the user-context text that belongs to one part: a memory file's path, or the text around them."""

    part: str
    text: str
    units_per_token: int = 4


@dataclass(frozen=True, slots=True)
class UserContext:
    """``entries`` by key, in order; ``pieces`` add up to ``text``. Empty text: no message."""

    entries: Mapping[str, str]
    pieces: tuple[Piece, ...] = ()

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def tokens(self) -> tuple[tuple[str, int], ...]:
        """Rough tokens of each part; together they are the rounded count of the text."""
        counts = spread([(utf16_length(piece.text), piece.units_per_token) for piece in self.pieces])
        found: dict[str, int] = {}
        for piece, count in zip(self.pieces, counts, strict=True):
            found[piece.part] = found.get(piece.part, 0) + count
        return tuple(found.items())


_ENDING = re.compile(r"<\s*/\s*system-reminder(?=[\s>])", re.IGNORECASE)
"""However a model may read it."""


def user_context(files: Sequence[MemoryFile], date: str | None) -> UserContext:
    """The first message: memory files under ``claudeMd``, then ``currentDate``; nothing when there is neither."""
    entries: dict[str, list[Piece]] = {}
    if files:
        entries["claudeMd"] = _claude_md(files)
    if date:
        entries["currentDate"] = [Piece("user_context", f"Today's date is {date}.")]
    if not entries:
        return UserContext({})
    pieces = [Piece("user_context", f"<system-reminder>\n{OPENING}\n")]
    for key, value in entries.items():
        pieces.extend([Piece("user_context", f"\n# {key}\n"), *value, Piece("user_context", "\n")])
    pieces.append(Piece("user_context", f"\n{CLOSING}\n</system-reminder>"))
    return UserContext(
        {key: "".join(piece.text for piece in value) for key, value in entries.items()},
        tuple(pieces),
    )


def _claude_md(files: Sequence[MemoryFile]) -> list[Piece]:
    pieces = [Piece("user_context", INSTRUCTIONS)]
    for file in files:
        text = f"\n\nContents of {file.path} ({file.level.label}):\n\n{file.content.strip()}"
        pieces.append(Piece(f"memory:{file.path}", text, bytes_per_token(file.path)))
    return pieces


def inert(text: str) -> str:
    """``text`` that cannot end the reminder in which it stands."""
    return _ENDING.sub(lambda found: found[0].replace("<", "<\\", 1), text)


def attachment_text(file: MemoryFile) -> str:
    return f"<system-reminder>\nContents of {file.path}:\n\n{file.content}\n</system-reminder>"
