"""Lines of JSON on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

import orjson

Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")


class Log:
    """Each line is one write. What is less grave than ``level`` is left out, and so is what cannot be written.

    ``now``: seconds since 1970.
    """

    def __init__(self, level: Level, write: Callable[[bytes], object], now: Callable[[], float]) -> None:
        self._taken = frozenset(LEVELS[LEVELS.index(level) :])
        self._write = write
        self._now = now
        self._second = -1
        self._written_second = ""

    def takes(self, level: Level) -> bool:
        return level in self._taken

    def line(self, level: Level, event: str, values: Mapping[str, Any]) -> None:
        if level in self._taken:
            row = {**values, "event": event, "level": level, "timestamp": self._timestamp()}
            with suppress(OSError):  # a request does not fail because nobody reads the log
                self._write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))

    def _timestamp(self) -> str:
        now = self._now()
        second = int(now)
        if second != self._second:
            self._second = second
            self._written_second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._written_second}.{int((now - second) * 1000):03}Z"


def standard_error_log(level: Level) -> Log:
    """Past the buffers of standard error: a line that is written is there."""
    return Log(level, _standard_error(), time.time)


def _standard_error() -> Callable[[bytes], object]:
    """Nowhere, for a process that was started with standard error closed."""
    if sys.stderr is None:
        return len
    written: Any = sys.stderr.buffer
    return getattr(written, "raw", written).write  # type: ignore[no-any-return]
