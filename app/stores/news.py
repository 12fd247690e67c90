"""What callers should know of sessions that Redis holds, each of it told once."""

from __future__ import annotations

from collections.abc import Callable

from cachetools import TTLCache

from app.core.facts import Notice

TOLD = {
    "session_store_unavailable": (
        "The session store cannot be reached. This answer goes on from what this process remembers: other processes "
        "do not know of it until the store is back."
    ),
    "session_diverged": (
        "While this process could not reach the session store, another one wrote this session. It goes on from what "
        "that one wrote, without the turns that were answered here meanwhile."
    ),
    "session_unreadable": "What the session store held of this session could not be read, and was thrown away.",
}


class News:
    """Of at most ``most`` sessions, each for ``idle_seconds``."""

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float]) -> None:
        self._codes: TTLCache[str, frozenset[str]] = TTLCache(most, idle_seconds, clock)

    def note(self, key: str, code: str) -> None:
        """``code`` is one of `TOLD`."""
        self._codes[key] = self._codes.get(key, frozenset()) | {code}

    def notices(self, key: str, *, alone: bool, looks: bool) -> tuple[Notice, ...]:
        """``alone``: Redis is away; ``looks``: all of it is told again."""
        news = self._codes.get(key, frozenset()) if looks else self._codes.pop(key, frozenset())
        codes = [*(["session_store_unavailable"] if alone else []), *sorted(news)]
        return tuple(Notice(code, TOLD[code], "session_id") for code in codes)
