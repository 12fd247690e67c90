"""What is done to the service while it works, drawn by a seed; each fault ends, and then all must be well again."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.ground import SWAPS, Project, swapped
from tests.soak.jumping import set_off
from tests.soak.ledger import Ledger, strain
from tests.soak.watching import MEBIBYTE, Service, asked
from tests.standin.mishaps import mishaps
from tests.standin.server import StandIn
from tests.stores.redis_server import RedisServer

DURABLE = ("--appendonly", "yes")
RECOVERS_WITHIN = 15.0
ROOM = 16
"""MiB of the temporary folder, where it is a file system of its own."""

YEAR = 365 * 24 * 3600


class Room:
    """The service's temporary folder, which can be made full: by filling it, or by forbidding to write to files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}m", "strata-soak", str(folder)]
        self.is_own = (
            shutil.which("mount") is not None
            and subprocess.run(command, check=False, capture_output=True).returncode == 0
        )

    def close(self) -> None:
        if self.is_own:
            subprocess.run(["umount", str(self.folder)], check=True)

    @contextmanager
    def full(self, service: Service) -> Iterator[None]:
        if self.is_own:
            filler = self.folder / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(MEBIBYTE // 16)):
                    pass
            try:
                yield
            finally:
                filler.unlink()
            return
        limited = {worker: resource.prlimit(worker, resource.RLIMIT_FSIZE) for worker in service.workers()}
        for worker, (_, hard) in limited.items():
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, hard))
        try:
            yield
        finally:
            for worker, limits in limited.items():
                with suppress(ProcessLookupError):
                    resource.prlimit(worker, resource.RLIMIT_FSIZE, limits)


@dataclass
class Trouble:
    """``spares_from`` then on the worker that is the oldest is left alone, so that what it takes can be told."""

    ledger: Ledger
    service: Service
    redis: RedisServer
    upstream: StandIn
    room: Room
    clock: Path
    victim: Project
    outside: Path
    draw: random.Random
    spares_from: float
    waiting: list[tuple[str, Callable[[], Awaitable[None]]]] = field(default_factory=list)

    def deck(self) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """One of each fault."""
        cards = [
            ("worker killed", self.kill),
            ("worker killed", self.kill),
            ("Redis killed, started with its data", self.lose_redis),
            ("Redis killed, started empty", self.lose_all),
            ("Redis stands still", self.stop_redis),
            ("Redis flushed", self.flush),
            ("Redis is full", self.fill_redis),
            ("disk full", self.fill_disk),
            *[(f"upstream {name}", self.weather(name)) for name in mishaps()],
            *[(how, self.swap(how)) for how in SWAPS],
            ("clock a year ahead", self.jump(YEAR)),
            ("clock a year back", self.jump(-YEAR)),
        ]
        if self.lets_all_go:
            cards += [("hangup", self.hang_up)]
        return self.draw.sample(cards, len(cards))

    @property
    def lets_all_go(self) -> bool:
        return time.monotonic() < self.spares_from

    async def until(self, end: float) -> None:
        """Fault by fault; then all is well."""
        while time.monotonic() < end:
            self.waiting = self.waiting or self.deck()
            _, fault = self.waiting.pop()
            await fault()
            await self.recovered()
            await asyncio.sleep(self.draw.uniform(1.0, 3.0))

    async def recovered(self) -> None:
        """Every connection finds a worker that is ready, ten times in a row."""
        began, green = time.monotonic(), 0
        while green < 10:
            answer = await asyncio.to_thread(asked, self.service.address, "/readyz")
            green = green + 1 if answer == "200" else 0
            await asyncio.sleep(0.05)
            if time.monotonic() - began > RECOVERS_WITHIN * strain():
                self.ledger.violate(
                    f"not ready {time.monotonic() - began:.0f} s after {self.ledger.faults[-1].name}: {answer}"
                )
                return
        self.ledger.recoveries.append(time.monotonic() - began)

    async def kill(self) -> None:
        workers = self.service.workers()
        lost = self.draw.choice(workers) if self.lets_all_go else workers[-1]
        with self.ledger.during("worker", "worker killed"):
            os.kill(lost, signal.SIGKILL)
            await self._are_workers(2, without={lost})

    async def hang_up(self) -> None:
        before = set(self.service.workers())
        with self.ledger.during("worker", "hangup"):
            self.service.process.send_signal(signal.SIGHUP)
            await self._are_workers(2, without=before)

    async def _are_workers(self, number: int, without: set[int]) -> None:
        began = time.monotonic()
        while len(now := set(self.service.workers())) != number or now & without:
            await asyncio.sleep(0.05)
            if time.monotonic() - began > 60:
                self.ledger.violate(f"there are {len(now)} workers a minute later")
                return

    async def lose_redis(self) -> None:
        with self.ledger.during("redis", "Redis killed, started with its data"):
            await asyncio.to_thread(self.redis.kill)
            await asyncio.sleep(self.draw.uniform(0.2, 4.0))
            await asyncio.to_thread(self.redis.start, *DURABLE)

    async def lose_all(self) -> None:
        with self.ledger.during("redis", "Redis killed, started empty"):
            await asyncio.to_thread(self.redis.kill)
            await asyncio.sleep(self.draw.uniform(0.2, 4.0))
            shutil.rmtree(self.redis.folder / "appendonlydir")
            await asyncio.to_thread(self.redis.start, *DURABLE)

    async def stop_redis(self) -> None:
        with self.ledger.during("redis", "Redis stands still"):
            self.redis.pause()
            await asyncio.sleep(self.draw.uniform(0.5, 5.0))
            self.redis.resume()

    async def flush(self) -> None:
        with self.ledger.during("redis", "Redis flushed"):
            await asyncio.to_thread(self.redis.say, "FLUSHALL")

    async def fill_redis(self) -> None:
        with self.ledger.during("redis", "Redis is full"):
            await asyncio.to_thread(self.redis.say, "CONFIG", "SET", "maxmemory", "1")
            await asyncio.sleep(self.draw.uniform(1.0, 4.0))
            await asyncio.to_thread(self.redis.say, "CONFIG", "SET", "maxmemory", "0")

    async def fill_disk(self) -> None:
        with self.ledger.during("disk", "disk full"), self.room.full(self.service):
            await asyncio.sleep(self.draw.uniform(2.0, 5.0))

    def weather(self, name: str) -> Callable[[], Awaitable[None]]:
        async def come() -> None:
            with self.ledger.during("upstream", f"upstream {name}"):
                self.upstream.standing = mishaps()[name]
                await asyncio.sleep(self.draw.uniform(3.0, 7.0))
                self.upstream.standing = None
            self.upstream.seen.clear()
            self.upstream.cache.forget()

        return come

    def swap(self, how: str) -> Callable[[], Awaitable[None]]:
        async def go() -> None:
            with self.ledger.during("tree", how):
                end = time.monotonic() + self.draw.uniform(1.0, 4.0)
                while time.monotonic() < end:
                    with swapped(self.victim, how, self.outside):
                        await asyncio.sleep(self.draw.choice([0.0, 0.001, 0.01, 0.3]))
                    await asyncio.sleep(self.draw.choice([0.0, 0.001, 0.01]))

        return go

    def jump(self, seconds: int) -> Callable[[], Awaitable[None]]:
        async def far() -> None:
            name = "clock a year ahead" if seconds > 0 else "clock a year back"
            with self.ledger.during("clock", name):
                set_off(self.clock, seconds)
                await asyncio.sleep(self.draw.uniform(3.0, 8.0))
                set_off(self.clock, 0)

        return far
