"""The command line with a wall clock that a file sets: ``python -m tests.soak.jumping FILE serve …``.

The file holds the seconds, as a double, by which the clock is off; all processes see a change at once. Nothing but the
wall clock as Python tells it is changed, as when an administrator sets the machine's: waiting goes on as before.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

OFF = struct.Struct("d")


def set_off(file: Path, seconds: float) -> None:
    """In place: a file that took its place would be another one than those that are looked at."""
    with file.open("r+b") as opened:
        opened.write(OFF.pack(seconds))


def shifted(file: Path) -> Callable[[], float]:
    with file.open("rb") as opened:
        shown = mmap.mmap(opened.fileno(), OFF.size, prot=mmap.PROT_READ)
    real = time.time

    def now() -> float:
        return real() + float(OFF.unpack(shown)[0])

    return now


def main() -> None:
    """Before anything of the service is imported, so that whoever takes the clock takes this one."""
    now, gmtime, localtime, strftime = shifted(Path(sys.argv.pop(1))), time.gmtime, time.localtime, time.strftime

    def day(form: str, moment: Any = None) -> str:
        return strftime(form, localtime(now()) if moment is None else moment)

    time.time = now
    time.gmtime = lambda seconds=None: gmtime(now() if seconds is None else seconds)
    time.localtime = lambda seconds=None: localtime(now() if seconds is None else seconds)
    time.strftime = day
    import_module("app.cli").main()


if __name__ == "__main__":
    main()
