"""The client of a load, as a process of its own: jobs as lines of JSON in, what was measured as lines of JSON out.

Raw sockets and requests that were made before; of an answer it reads the status and the length. Each connection has one
request under way, and sends the next as soon as the answer is there whole.
"""

from __future__ import annotations

import itertools
import json
import re
import selectors
import socket
import sys
import time
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

MARK = b"000000000000"
"""Stands in a request where the number of the request goes, when a job numbers its requests."""

HEAD = 4096
BUFFER = 1024 * 1024
"""Bytes that are taken at a time of an answer that begins, and of the rest of one."""

PATIENCE = 60.0
"""Seconds without a byte from the server, after which it is given up."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r")
_BODILESS = frozenset({204, 304})


class BadAnswerError(RuntimeError):
    """The server closed a connection, sent an answer without a length, or sent nothing for long."""


@dataclass(frozen=True, slots=True)
class Job:
    """``requests`` are whole HTTP requests; connection ``i`` repeats the one at ``i``, from the start when there are
    fewer. With ``number_from`` they are sent in turn instead, each once more with the next number for the mark.
    It ends after ``seconds``, or once ``most`` were sent.
    """

    port: int
    requests: tuple[bytes, ...]
    clients: int = 1
    seconds: float = 1.0
    most: int | None = None
    number_from: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """Times in seconds; ``busy`` is the client's own share of a core; ``length`` is of the last body, in bytes."""

    count: int
    seconds: float
    p50: float
    p99: float
    busy: float
    length: int
    statuses: dict[str, int]

    @property
    def rate(self) -> float:
        return self.count / self.seconds


def written(job: Job) -> bytes:
    values = asdict(job) | {"requests": [b64encode(request).decode() for request in job.requests]}
    return json.dumps(values).encode() + b"\n"


def read(line: bytes) -> Job:
    values = json.loads(line)
    return Job(**values | {"requests": tuple(map(b64decode, values["requests"]))})


class Connection:
    """One request at a time. ``left`` is what is to come of the answer's body; below 0, its head is to come."""

    __slots__ = ("began", "head", "left", "length", "out", "socket", "status")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.out, self.head = memoryview(b""), b""
        self.began, self.left, self.length, self.status = 0.0, -1, 0, 0

    def begin(self, request: bytes) -> None:
        self.out, self.head, self.left = memoryview(request), b"", -1
        self.began = time.perf_counter()
        self.push()

    def push(self) -> None:
        try:
            self.out = self.out[self.socket.send(self.out) :]
        except BlockingIOError:
            return

    def pull(self, buffer: bytearray) -> bool:
        """Whether the answer is there whole."""
        try:
            if self.left < 0:
                self._read_head(buffer)
            while self.left > 0:
                self.left -= self._taken(buffer, min(self.left, BUFFER), socket.MSG_TRUNC)
        except BlockingIOError:
            return False
        return self.left == 0

    def _taken(self, buffer: bytearray, most: int, flags: int = 0) -> int:
        """How many bytes came. With MSG_TRUNC the kernel throws them away, which costs less than handing them over."""
        try:
            size = self.socket.recv_into(buffer, most, flags)
        except ConnectionError as error:
            raise BadAnswerError("the server broke a connection off") from error
        if not size:
            raise BadAnswerError("the server closed a connection")
        return size

    def _read_head(self, buffer: bytearray) -> None:
        self.head += buffer[: self._taken(buffer, HEAD)]
        end = self.head.find(b"\r\n\r\n")
        if end < 0:
            return
        head, body = self.head[: end + 2], len(self.head) - end - 4
        self.status = int(head[9:12])
        self.length = 0 if self.status in _BODILESS else _length(head)
        self.left = self.length - body


def _length(head: bytes) -> int:
    found = _LENGTH.search(head.lower())
    if found is None:
        raise BadAnswerError(f"an answer without a length: {head[:200].decode('latin-1')}")
    return int(found[1])


def numbered(requests: Sequence[bytes], first: int) -> Iterator[bytes]:
    parted = itertools.cycle([request.split(MARK) for request in requests])
    for number, parts in zip(itertools.count(first), parted, strict=False):
        yield (b"%012d" % number).join(parts)


class Client:
    """What one job sends and takes."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.connections = [Connection(job.port) for _ in range(job.clients)]
        self.selector = selectors.DefaultSelector()
        self.times = array("d")
        self.statuses: Counter[int] = Counter()
        self.buffer = bytearray(BUFFER)
        self.left = sys.maxsize if job.most is None else job.most
        self.next = self._source()

    def _source(self) -> Callable[[int], bytes]:
        requests = self.job.requests
        if self.job.number_from is None:
            return lambda place: requests[place % len(requests)]
        in_turn = numbered(requests, self.job.number_from)
        return lambda _: next(in_turn)

    def run(self) -> Load:
        """Raises BadAnswerError."""
        try:
            return self._run()
        finally:
            self.close()

    def _run(self) -> Load:
        began, worked = time.perf_counter(), time.process_time()
        self.until = began + self.job.seconds
        self.open = 0
        for place, connection in enumerate(self.connections):
            self.selector.register(connection.socket, selectors.EVENT_READ, (place, connection))
            self._begin(place, connection)
        while self.open:
            self._turn()
        ended, spent = time.perf_counter(), time.process_time() - worked
        return self._measured(ended - began, spent)

    def close(self) -> None:
        self.selector.close()
        for connection in self.connections:
            connection.socket.close()

    def _turn(self) -> None:
        events = self.selector.select(PATIENCE)
        if not events:
            raise BadAnswerError(f"nothing came for {PATIENCE:.0f} seconds")
        for key, mask in events:
            place, connection = key.data
            if mask & selectors.EVENT_WRITE:
                self._push(place, connection)
            if mask & selectors.EVENT_READ and connection.pull(self.buffer):
                self._ended(place, connection)

    def _push(self, place: int, connection: Connection) -> None:
        connection.push()
        if not connection.out:
            self.selector.modify(connection.socket, selectors.EVENT_READ, (place, connection))

    def _begin(self, place: int, connection: Connection) -> None:
        if not self.left:
            return
        self.left -= 1
        self.open += 1
        connection.begin(self.next(place))
        if connection.out:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self.selector.modify(connection.socket, both, (place, connection))

    def _ended(self, place: int, connection: Connection) -> None:
        now = time.perf_counter()
        self.times.append(now - connection.began)
        self.statuses[connection.status] += 1
        self.open -= 1
        if now < self.until:
            self._begin(place, connection)

    def _measured(self, seconds: float, spent: float) -> Load:
        times = sorted(self.times)
        last = self.connections[0].length
        statuses = {str(status): count for status, count in self.statuses.items()}
        return Load(len(times), seconds, quantile(times, 0.5), quantile(times, 0.99), spent / seconds, last, statuses)


def quantile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that at least ``part`` of all do not pass."""
    return ordered[max(0, -int(-part * len(ordered) // 1) - 1)]


def main() -> None:
    for line in sys.stdin.buffer:
        sys.stdout.write(json.dumps(asdict(Client(read(line)).run())) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
