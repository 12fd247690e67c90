"""The output of several processes at once, within a deadline and a size."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Output:
    """What a process wrote. ``status`` is None when it was stopped because it wrote more than the limit."""

    data: bytes
    status: int | None

    @property
    def is_cut(self) -> bool:
        return self.status is None


def collect(
    processes: Sequence[subprocess.Popen[bytes]], deadline: float, limit_bytes: int
) -> tuple[Output | None, ...]:
    """What each process wrote to its standard output; None for one that was not done by ``deadline`` (monotonic).

    No process is left running.
    """
    written = [bytearray() for _ in processes]
    ended: set[int] = set()
    with selectors.DefaultSelector() as selector:
        for number, process in enumerate(processes):
            if process.stdout is not None:
                selector.register(process.stdout, selectors.EVENT_READ, number)
        while selector.get_map() and (seconds := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(seconds):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                written[key.data] += chunk
                if not chunk or len(written[key.data]) > limit_bytes:
                    ended.add(key.data)
                    selector.unregister(key.fileobj)
    return tuple(
        _output(process, bytes(data), deadline, limit_bytes) if number in ended else _none(process)
        for number, (process, data) in enumerate(zip(processes, written, strict=True))
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it started. It may have ended already."""
    if process.returncode is None:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):  # it ended already
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _none(process: subprocess.Popen[bytes]) -> Output | None:
    stop(process)
    return None


def _output(process: subprocess.Popen[bytes], data: bytes, deadline: float, limit_bytes: int) -> Output | None:
    if len(data) > limit_bytes:
        stop(process)
        return Output(data[:limit_bytes], None)
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return _none(process)
    stop(process)
    return Output(data, status)
