"""Waiting for what comes of itself, however long the machine takes."""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE_SECONDS = 0.02
PATIENCE_SECONDS = 60.0


class NeverCameError(AssertionError):
    """What was waited for did not come, and will not."""


def soon(comes: Callable[[], bool]) -> None:
    """Waits until ``comes`` says so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not comes():
        if time.monotonic() > end:
            raise NeverCameError
        time.sleep(PAUSE_SECONDS)
