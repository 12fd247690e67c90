"""Everything that this process says on standard error: text for people at a terminal, else a line of JSON each."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import typer

from app.log import Level, Log, standard_error_log
from app.telemetry import fault_of

NAMED_PLAINLY = frozenset({"strata", "uvicorn", "uvicorn.error", "uvicorn.access"})
"""Loggers whose handlers, if there are any, go."""

PLAIN = frozenset(
    {
        "Invalid HTTP request received.",
        "Unsupported upgrade request.",
        "Exception in ASGI application\n",
        "Application startup failed. Exiting.",
        "Application shutdown failed. Exiting.",
        "ASGI callable returned without starting response.",
        "ASGI callable returned without completing response.",
        "Cancel %s running task(s), timeout graceful shutdown exceeded",
    }
)
"""Messages that hold nothing of a caller's."""

_LEVELS: tuple[tuple[int, Level], ...] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
)


class Speech:
    """What the command itself says. ``people``: somebody reads it at a terminal."""

    def __init__(self, log: Log, *, people: bool) -> None:
        self._log = log
        self._people = people

    def say(
        self, level: Level, event: str, text: str, values: Mapping[str, Any] | None = None, *, line: str | None = None
    ) -> None:
        """``text`` is for people. A line has ``values``, and ``line`` in its place where the text names too much."""
        if self._people:
            typer.echo(text, err=True)
        else:
            first = (line or text).partition("\n")[0].removeprefix("strata: ")
            self._log.line(level, event, {"message": first, **(values or {})})


def speech() -> Speech:
    """Whatever the level of the log: that a service begins is always told."""
    people = sys.stderr is not None and sys.stderr.isatty()
    return Speech(standard_error_log("debug"), people=people)


def tell_of_end(said: Speech) -> None:
    said.say("info", "stopped", "strata: stopped")


class Records(logging.Handler):
    """Lines of what libraries log: where it was said and of which error, with their words only for those who debug."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        told: dict[str, Any] = {"logger": record.name, "at": f"{record.module}:{record.lineno}"}
        if record.exc_info and record.exc_info[1] is not None:
            told |= fault_of(record.exc_info[1]) | self._words_of(record.exc_info[1])
        if record.msg in PLAIN or self._log.takes("debug"):
            told["message"] = record.getMessage().strip()
        self._log.line(_level(record.levelno), "library", told)
        self._log.flush()  # nobody does it once the event loop has ended

    def _words_of(self, error: BaseException) -> dict[str, str]:
        return {"words": str(error)} if self._log.takes("debug") else {}


def _level(number: int) -> Level:
    return next((level for least, level in _LEVELS if number >= least), "debug")


def record_everything(log: Log) -> None:
    """From now on: what libraries log or warn of, and errors that nobody takes, in any thread of this process."""
    root = logging.getLogger()
    root.handlers[:] = [Records(log)]
    root.setLevel(logging.WARNING)
    for name in NAMED_PLAINLY:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.captureWarnings(capture=True)
    tell = _untaken(log)
    sys.excepthook = tell
    sys.unraisablehook = lambda told: tell(told.exc_type, told.exc_value, told.exc_traceback)
    threading.excepthook = lambda told: tell(told.exc_type, told.exc_value, told.exc_traceback)


def _untaken(
    log: Log,
) -> Callable[[type[BaseException], BaseException | None, TracebackType | None], None]:
    def tell(kind: type[BaseException], error: BaseException | None, _: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt | SystemExit):
            log.line("critical", "fault", fault_of(error) if error is not None else {"error": kind.__name__})
            log.flush()

    return tell


class Faults:
    """Ends the process with ``code`` on an error that nobody takes, once it has been told as `record_everything` does.

    For processes whose starter would print it otherwise.
    """

    def __init__(self, log: Log, code: int) -> None:
        self._tell = _untaken(log)
        self._code = code

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, SystemExit | KeyboardInterrupt):
            self._tell(kind, error, at)
            sys.exit(self._code)
