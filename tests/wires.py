"""HTTP written byte by byte, on connections that may be used badly."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Wire:
    """A connection, and what of it has been received but not read."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire, self.data = wire, b""
        self.sendall = wire.sendall

    def received(self) -> bytes:
        data = self.wire.recv(65_536)
        assert data
        return data

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next response: status, headers and body."""
        while b"\r\n\r\n" not in self.data:
            self.data += self.received()
        written, _, self.data = self.data.partition(b"\r\n\r\n")
        first, *lines = written.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(self.data) < length:
            self.data += self.received()
        body, self.data = self.data[:length], self.data[length:]
        return int(first.split()[1]), headers, body

    def is_closed(self) -> bool:
        return self.data == self.rest() == b""

    def rest(self) -> bytes:
        """All that comes until the other side closes the connection."""
        data, self.data = self.data, b""
        with suppress(ConnectionError):
            while more := self.wire.recv(65_536):
                data += more
        return data


@contextmanager
def connected(address: str, **options: int) -> Iterator[Wire]:
    parts = urlsplit(address)
    with socket.socket() as wire:
        for name, value in options.items():
            wire.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
        wire.settimeout(60)
        wire.connect((parts.hostname, parts.port or 0))
        yield Wire(wire)


def head(method: str = "POST", path: str = "/v1/context", length: int | None = 0, **more: str) -> bytes:
    named = {"host": "localhost", "content-type": "application/json"} | {
        k.replace("_", "-"): v for k, v in more.items()
    }
    if length is not None:
        named["content-length"] = str(length)
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def posted(body: bytes, **more: str) -> bytes:
    return head(length=len(body), **more) + body
