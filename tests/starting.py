"""The command line in processes of their own, started as a user does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[1]
STRATA = [sys.executable, "-c", "from app.cli import main; main()"]


def surroundings(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT), **more}


def strata(
    home: Path, *arguments: str | bytes, given: bytes = b"", cwd: Path = ROOT, **more: str
) -> subprocess.CompletedProcess[bytes]:
    command = [*STRATA, *arguments]
    return subprocess.run(
        command, env=surroundings(home, **more), cwd=cwd, input=given, capture_output=True, check=False, timeout=60
    )


def failed(done: subprocess.CompletedProcess[bytes], code: int, said: str) -> None:
    """It ended with that code, printed nothing, and said something, without a traceback."""
    told = done.stderr.decode(errors="replace")
    assert (done.returncode, done.stdout) == (code, b""), told
    assert said in re.sub(r"[\s│]+", " ", told)
    assert "Traceback" not in told


@contextmanager
def served(home: Path, *arguments: str, **more: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server in a process of its own, and its address."""
    command = [*STRATA, "serve", "--port", "0", *arguments]
    environment = surroundings(home, **more)
    with subprocess.Popen(
        command, bufsize=0, env=environment, cwd=home, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline().decode()
            found = re.search(r'(http://[^\s"]+:\d+)', first)
            assert found is not None, first + process.stderr.read().decode()
            address = found[1]
            with httpx.Client(trust_env=False, timeout=60) as client:
                client.get(f"{address}/healthz")
            yield address, process
        finally:
            if process.poll() is None:
                process.kill()
