"""Those who use the service as they should not: what they are told, and that they are told, or cut off, in time."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from tests.asking import inline
from tests.soak.calling import SHED, Caller
from tests.soak.ledger import margin

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
PATHS = ("/v1/context", "/v1/attachments", "/v1/scan", "/v1/cache/lint", "/v1/tokens", "/v1/compactions")
BROKEN = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"model": 1}',
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"nul",
    b'{"model": "x", "nothing": 1}',
)
REFUSED = SHED | {"not-json", "invalid-request", "too-large", "too-slow", "unsupported-media-type"}
FLOOD = 80
LARGE_FILE = "A sentence that is as good as any other. " * 20_000


class Hostile:
    """``limits`` are the seconds within which a head, a body and a reader who takes nothing are given up."""

    def __init__(self, caller: Caller, draw: random.Random, key: str, limits: dict[str, float], most: int) -> None:
        self.caller, self.draw, self.key, self.limits, self.most = caller, draw, key, limits, most
        parts = urlsplit(str(caller.client.base_url))
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.deeds: tuple[Callable[[], Awaitable[None]], ...] = (
            self.broken,
            self.huge,
            self.wrong_key,
            self.nobody,
            self.slow_head,
            self.slow_body,
            self.stopped_reader,
            self.vanishing,
            self.vanishing,
            self.vanishing,
            self.smuggling,
            self.flood,
        )

    async def live(self) -> None:
        while True:
            deed = self.draw.choice(self.deeds)
            try:
                await deed()
            except OSError as error:
                self.caller.ledger.note(f"hostile: {deed.__name__}", type(error).__name__, 0.0)
            await asyncio.sleep(self.draw.uniform(0.1, 1.0))

    async def broken(self) -> None:
        headers = {"content-type": self.draw.choice(["application/json", "application/json", "text/plain"])}
        content = self.draw.choice(BROKEN)
        got = await self.caller.call(
            "hostile: broken", "POST", self.draw.choice(PATHS), content=content, headers=headers, legal=REFUSED
        )
        if got is not None and got.status < 400:
            self.caller.wrong("hostile: broken", got, f"{got.status} for {content[:20]!r}")

    async def huge(self) -> None:
        """With its length, or without one."""
        content = json.dumps(inline({"/home/dev/p/CLAUDE.md": "x" * self.most})).encode()

        async def pieces() -> Any:
            for at in range(0, len(content), 65_536):
                yield content[at : at + 65_536]

        sent: Any = content if self.draw.random() < 0.5 else pieces()
        headers = {"content-type": "application/json"}
        kind = "hostile: huge"
        began = time.monotonic()
        try:
            response = await self.caller.client.post("/v1/context", content=sent, headers=headers)
        except OSError as error:
            self.caller.ledger.note(kind, type(error).__name__, time.monotonic() - began)
            return
        except Exception as error:  # noqa: BLE001 - httpx has many words for a server that does not read on
            self.caller.ledger.note(kind, type(error).__name__, time.monotonic() - began)
            return
        self.caller.ledger.note(kind, str(response.status_code), time.monotonic() - began)
        if response.status_code not in {413, 503, 429}:
            self.caller.ledger.violate(f"{kind}: {response.status_code}")

    async def wrong_key(self) -> None:
        headers = {"x-api-key": self.draw.choice(["", "k", self.key[:-1], self.key + "x", "k" * 300])}
        got = await self.caller.call(
            "hostile: wrong key",
            "POST",
            "/v1/context",
            json=inline(),
            headers=headers,
            legal=SHED | {"key-missing"},
        )
        if got is not None and got.problem not in SHED | {"key-missing"}:
            self.caller.wrong("hostile: wrong key", got, f"{got.status}")

    async def nobody(self) -> None:
        method, path = self.draw.choice([("GET", "/v1/nothing"), ("PUT", "/v1/context"), ("GET", "/../../etc/passwd")])
        legal = SHED | {"not-found", "method-not-allowed"}
        await self.caller.call("hostile: nowhere", method, path, legal=legal)

    async def smuggling(self) -> None:
        """Two lengths, a length that is none, a head without a host."""
        more = self.draw.choice(["content-length: 5\r\ntransfer-encoding: chunked\r\n", "content-length: -1\r\n", ""])
        head = f"POST /v1/context HTTP/1.1\r\nx-api-key: {self.key}\r\n{more}\r\n"
        status = await self._within("smuggling", head.encode(), self.limits["head"])
        if status not in {"400", "411", "421", "422", "415", "closed"}:
            self.caller.ledger.violate(f"hostile: smuggling: {status}")

    async def flood(self) -> None:
        """More at once than are worked on and may wait."""
        bodies = [inline({"/home/dev/p/CLAUDE.md": f"{self.draw.random()}"}) for _ in range(FLOOD)]
        await asyncio.gather(
            *(self.caller.call("hostile: flood", "POST", "/v1/context", json=body, legal=SHED) for body in bodies)
        )

    async def slow_head(self) -> None:
        """A head that does not end."""
        await self._within(
            "slow head", f"POST /v1/context HTTP/1.1\r\nhost: {self.host}\r\nx-a: ".encode(), self.limits["head"]
        )

    async def slow_body(self) -> None:
        """A body of which a byte comes now and then."""
        await self._within("slow body", self._head(1000) + b"{", self.limits["body"], drip=b" ")

    async def _within(self, name: str, sent: bytes, limit: float, drip: bytes = b"") -> str:
        kind, began = f"hostile: {name}", time.monotonic()
        reader, writer = await asyncio.open_connection(self.host, self.port)
        dripping = asyncio.create_task(_dripped(writer, drip)) if drip else None
        try:
            writer.write(sent)
            async with asyncio.timeout(limit + margin()):
                data = await reader.read(65_536)
        except TimeoutError:
            self.caller.ledger.violate(f"{kind}: the connection still stands after {time.monotonic() - began:.0f} s")
            data = b"HTTP/1.1 held"
        except ConnectionError:
            data = b""
        finally:
            if dripping:
                dripping.cancel()
            writer.transport.abort()
        status = data.split(b" ", 2)[1].decode() if data else "closed"
        self.caller.ledger.note(kind, status, time.monotonic() - began)
        return status

    async def stopped_reader(self) -> None:
        """Asks for much, and takes nothing of it."""
        kind, began, limit = "hostile: stopped reader", time.monotonic(), self.limits["send"]
        body = json.dumps(inline({"/home/dev/p/CLAUDE.md": LARGE_FILE}, memory={"include_raw": True})).encode()
        reader, writer = await self._narrow()
        try:
            writer.write(self._head(len(body)) + body)
            await writer.drain()
            await asyncio.sleep(0.5)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await asyncio.sleep(limit + margin())
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            taken = await reader.read(-1)
            self._hold_cut(kind, taken, time.monotonic() - began)
        except ConnectionError:
            self.caller.ledger.note(kind, "cut off", time.monotonic() - began)
        finally:
            writer.transport.abort()

    async def _narrow(self) -> tuple[Reader, Writer]:
        """A connection that takes little before it is read from."""
        wire = socket.socket()
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.setblocking(False)
        await asyncio.get_running_loop().sock_connect(wire, (self.host, self.port))
        return await asyncio.open_connection(sock=wire, limit=1024)

    def _hold_cut(self, kind: str, taken: bytes, seconds: float) -> None:
        head, _, body = taken.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        whole = len(body) >= length
        status = head.split(b" ")[1].decode() if head else "nothing"
        self.caller.ledger.note(kind, f"{status} {'whole' if whole else 'cut off'}", seconds)
        if whole and status == "200":
            self.caller.ledger.violate(f"{kind}: all {length:,} bytes were kept for it")

    async def vanishing(self) -> None:
        """Goes away before, within or behind its request, or within the answer."""
        path, body = self._request()
        whole = self._head(len(body), path) + body
        stage = self.draw.choice(["connected", "head", "body", "asked", "answer"])
        sent = {"connected": 0, "head": 20, "body": len(whole) - len(body) // 2}.get(stage, len(whole))
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(whole[:sent])
            await writer.drain()
            if stage == "answer":
                async with asyncio.timeout(30):
                    await reader.read(100)
            else:
                await asyncio.sleep(self.draw.uniform(0.0, 0.2))
        except (TimeoutError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
        self.caller.ledger.note("hostile: vanished", stage, 0.0)

    def _request(self) -> tuple[str, bytes]:
        described = inline({"/home/dev/p/CLAUDE.md": LARGE_FILE[:100_000]}, session_id=f"gone-{self.draw.randrange(9)}")
        plain = {"workspace": described["workspace"]}
        talk = {"messages": [{"role": "user", "content": "a"}]}
        bodies: dict[str, Any] = {
            "/v1/context": described,
            "/v1/attachments": plain | {"touched": [{"path": "/home/dev/p/a.py"}], "session_id": "gone-1"},
            "/v1/scan": plain,
            "/v1/cache/lint": {"requests": [{"body": {"model": "m", "max_tokens": 1, **talk}}]},
            "/v1/tokens": {"model": "m", "tokens": {"method": "exact"}, **talk},
            "/v1/compactions": described | {"mode": "run", "tokens": {"method": "exact"}, **talk},
        }
        path = self.draw.choice(PATHS)
        return path, json.dumps(bodies[path]).encode()

    def _head(self, length: int, path: str = "/v1/context") -> bytes:
        names = {"host": self.host, "x-api-key": self.key, "content-type": "application/json", "content-length": length}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in names.items())]
        return "\r\n".join([*lines, "", ""]).encode()


async def _dripped(writer: Writer, drop: bytes) -> None:
    while not writer.is_closing():
        writer.write(drop)
        await asyncio.sleep(0.5)
