"""UTF-16 units, in which the client counts characters."""

from __future__ import annotations

from app.core.tokens import utf16_length


def first_units(text: str, limit: int) -> str:
    """The longest start of ``text`` that has at most ``limit`` UTF-16 units; a surrogate pair is never split."""
    if utf16_length(text) <= limit:
        return text
    return text.encode("utf-16-le", "surrogatepass")[: 2 * max(limit, 0)].decode("utf-16-le", "ignore")
