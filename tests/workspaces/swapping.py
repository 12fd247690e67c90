"""An attacker in a process of its own: ``python -m tests.workspaces.swapping A B [C D …]``.

Exchanges what stands at A with what stands at B, then C with D, and so on, as fast as it can, until it is ended.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = -100  # the folder that a relative path begins at
EXCHANGE = 2


@contextmanager
def swapped(pairs: Sequence[tuple[Path, Path]]) -> Iterator[None]:
    """While each two of ``pairs`` are exchanged, one after the other and from the start again."""
    given = [str(path) for pair in pairs for path in pair]
    command = [sys.executable, "-m", __name__, *given]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as attacker:
        try:
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == b"swapping\n"
            yield
            assert attacker.poll() is None, "the attacker gave up"
        finally:
            attacker.kill()


def exchange() -> Callable[[Path, Path], object]:
    """In one step where the system has it, so that something stands there at every moment; else in three."""
    try:
        exchanged = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return in_steps
    return lambda one, other: exchanged(HERE, bytes(one), HERE, bytes(other), EXCHANGE) and in_steps(one, other)


def in_steps(one: Path, other: Path) -> None:
    one.rename(aside := one.with_name("aside"))
    other.rename(one)
    aside.rename(other)


def main() -> None:
    given = [Path(path) for path in sys.argv[1:]]
    pairs = list(zip(given[::2], given[1::2], strict=True))
    swap = exchange()
    sys.stdout.write("swapping\n")
    sys.stdout.flush()
    while True:
        for one, other in pairs:
            swap(one, other)


if __name__ == "__main__":
    main()
