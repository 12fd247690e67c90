"""A Redis of the tests' own, on a unix socket in a folder of its own."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

STARTS_WITHIN = 30.0


class RedisServer:
    """Started anew with `start` it holds what `keep` wrote to its disk, or nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self, *options: str) -> None:
        place = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder)]
        log = ["--logfile", str(self.folder / "log"), "--save", ""]
        self.process = subprocess.Popen(["redis-server", *place, *log, *options])
        until = time.monotonic() + STARTS_WITHIN
        while not self._answers():
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            said = self.say("PING")
        except OSError:
            return False
        return said.startswith((b"+PONG", b"-NOAUTH"))

    def say(self, *words: str | bytes) -> bytes:
        """A command, and the beginning of what is answered, in the protocol's own words."""
        return self.say_all(words)

    def say_all(self, *commands: Sequence[str | bytes]) -> bytes:
        """Over one connection."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talking:
            talking.connect(str(self.socket))
            for words in commands:
                talking.sendall(_written(words))
                said = talking.recv(65536)
            return said

    def keep(self) -> None:
        """What it holds now is what it holds when it is started again."""
        assert self.say("SAVE") == b"+OK\r\n"

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
        self.process = None
        self.socket.unlink(missing_ok=True)

    def _signal(self, number: int) -> None:
        if self.process:
            self.process.send_signal(number)


def _written(words: Sequence[str | bytes]) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


@contextmanager
def redis_server(*options: str) -> Iterator[RedisServer]:
    folder = Path(tempfile.mkdtemp(prefix="strata-"))  # a socket's path is short
    server = RedisServer(folder)
    try:
        server.start(*options)
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
