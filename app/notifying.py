"""Folders that the platform watches, where it does."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

GATHER_MILLISECONDS = 50
STEP_MILLISECONDS = 25
RETRY_SECONDS = 60.0


class WatchRefusedError(Exception):
    """The platform does not watch these folders. ``reason`` is one word of this service; it may do later."""

    def __init__(self, reason: str, seconds: float = RETRY_SECONDS) -> None:
        super().__init__(reason)
        self.reason = reason
        self.seconds = seconds


class Notifier(Protocol):
    """Folders that are watched, without what lies in folders below them."""

    def watch(self, stop: threading.Event) -> frozenset[str]:
        """Waits for changes: their paths. Empty once ``stop`` is set. Raises WatchRefusedError."""

    def close(self) -> None: ...


Open = Callable[[tuple[str, ...]], Notifier]
"""Watches folders, until it is closed. Raises WatchRefusedError."""


class PlatformNotifier:
    """The platform's own watch, by the package watchfiles."""

    def __init__(self, rust: Any) -> None:
        self._rust = rust

    def watch(self, stop: threading.Event) -> frozenset[str]:
        try:
            found = self._rust.watch(GATHER_MILLISECONDS, STEP_MILLISECONDS, 0, stop)
        except (OSError, RuntimeError) as error:
            raise WatchRefusedError("refused") from error
        return frozenset() if isinstance(found, str) else frozenset(path for _, path in found)

    def close(self) -> None:
        self._rust.close()


def open_platform(folders: tuple[str, ...]) -> Notifier:
    """Folders that are gone or may not be read are left out. Raises WatchRefusedError, also without the package."""
    try:
        rust = importlib.import_module("watchfiles._rust_notify").RustNotify
        return PlatformNotifier(rust(list(folders), False, False, 0, False, True))
    except ImportError as error:
        raise WatchRefusedError("package_missing") from error
    except (OSError, RuntimeError) as error:
        raise WatchRefusedError(_word(str(error))) from error


def _word(message: str) -> str:
    is_limit = "watch limit reached" in message or "Too many open files" in message
    return "too_many_watches" if is_limit else "refused"
