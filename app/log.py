"""Lines of JSON on standard error."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
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


def _parts(lines: bytes) -> Iterator[bytes]:
    """As many whole lines together as a pipe takes at once; a line that alone is longer is cut."""
    while len(lines) > select.PIPE_BUF:
        end = lines.rfind(b"\n", 0, select.PIPE_BUF) + 1
        yield lines[:end] if end else lines[: select.PIPE_BUF - 1] + b"\n"
        lines = lines[end or lines.find(b"\n") + 1 or len(lines) :]
    if lines:
        yield lines


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
    raw = getattr(written, "raw", written)
    try:
        descriptor = raw.fileno()
        return Pipe.at(descriptor) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else raw.write
    except (OSError, AttributeError):  # no file of the system, or no way to open it again
        return raw.write  # type: ignore[no-any-return]


class Pipe:
    """A pipe that somebody reads, or not: what finds no room in it is left out, so that nobody waits for a reader.

    Once there is room again, a line says how many were lost.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.lost = 0

    @classmethod
    def at(cls, descriptor: int) -> Pipe:
        """The pipe behind ``descriptor``, opened for this process alone, so that others write to it as before.

        Raises OSError where the system cannot do that.
        """
        return cls(os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))

    def __call__(self, lines: bytes) -> None:
        for part in _parts(lines):
            if not (self._has_told() and self._written(part)):
                self.lost += part.count(b"\n")

    def _has_told(self) -> bool:
        """Whether what was lost is told, if anything was."""
        told = b'{"lines":%d,"event":"lines_lost","level":"warning"}\n' % self.lost
        if self.lost and not self._written(told):
            return False
        self.lost = 0
        return True

    def _written(self, lines: bytes) -> bool:
        """All of them or none: what is no longer than PIPE_BUF is never torn."""
        try:
            os.write(self._descriptor, lines)
        except BlockingIOError:
            return False
        return True
