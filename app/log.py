"""Lines of JSON on standard error."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from threading import RLock
from typing import Any, Literal

import orjson

Level = Literal["debug", "info", "warning", "error", "critical"]
TOGETHER = 0.02

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")

LONGEST_TEXT = 512
"""Characters of a value."""

MOST_VALUES = 32
"""Of a value that holds others."""

UNSEEN = "\N{REPLACEMENT CHARACTER}"
CUT = "…"


class Log:
    """What is less grave than ``level`` is left out, and so is what cannot be written. ``now``: seconds since 1970.

    A line is written at once; those that follow within `TOGETHER` seconds on an event loop are one write. Whatever a
    value holds, it is a line of its own, of bounded length, and reads as it is written.
    """

    def __init__(self, level: Level, write: Callable[[bytes], object], now: Callable[[], float]) -> None:
        self._taken = frozenset(LEVELS[LEVELS.index(level) :])
        self._write = write
        self._now = now
        self._second = -1
        self._written_second = ""
        self._waiting: list[bytes] = []
        self._last = 0.0
        self._lock = RLock()

    def takes(self, level: Level) -> bool:
        return level in self._taken

    def line(self, level: Level, event: str, values: Mapping[str, Any]) -> None:
        if level in self._taken:
            now = self._now()
            row = {**_plain(values), "event": event, "level": level, "timestamp": self._timestamp(now)}
            self._put(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE), now)

    def plain(self, level: Level, event: str, fields: str) -> None:
        """As `line`, with the values as JSON has them, in less time; `event` and they need no escapes."""
        if level in self._taken:
            now = self._now()
            stamp = self._timestamp(now)
            self._put(f'{{{fields},"event":"{event}","level":"{level}","timestamp":"{stamp}"}}\n'.encode(), now)

    def _put(self, line: bytes, now: float) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.append(line)
            elif now - self._last < TOGETHER and (loop := _running()):
                self._waiting.append(line)
                loop.call_later(TOGETHER, self.flush)
            else:
                self._written(line, now)

    def flush(self) -> None:
        """Writes what waits."""
        with self._lock:
            if self._waiting:
                lines, self._waiting = self._waiting, []
                self._written(b"".join(lines), self._now())

    def _written(self, lines: bytes, now: float) -> None:
        self._last = now
        with suppress(OSError):  # a request does not fail because nobody reads the log
            self._write(lines)

    def _timestamp(self, now: float) -> str:
        second = int(now)
        if second != self._second:
            self._second = second
            self._written_second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._written_second}.{int((now - second) * 1000):03}Z"


def readable(text: str) -> str:
    """``text`` without what ends a line or turns its direction, cut where it is long."""
    cut = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + CUT
    return cut if cut.isprintable() else "".join(one if one.isprintable() else UNSEEN for one in cut)


def _plain(value: Any) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value
        case Mapping():
            return {readable(str(name)): _plain(one) for name, one in islice(value.items(), MOST_VALUES)}
        case list() | tuple():
            return [_plain(one) for one in islice(value, MOST_VALUES)]
        case _:
            return readable(str(value))


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def standard_error_log(level: Level) -> Log:
    """Past the buffers of standard error: a line that is written is there."""
    return Log(level, _standard_error(), time.time)


def _standard_error() -> Callable[[bytes], object]:
    """Nowhere, for a process that was started with standard error closed."""
    if sys.stderr is None:
        return len
    written: Any = sys.stderr.buffer
    return getattr(written, "raw", written).write  # type: ignore[no-any-return]
