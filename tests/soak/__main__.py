"""A soak with faults: ``python -m tests.soak --minutes 20``.

Starts a Redis, a stand-in for the Messages API and ``strata serve --workers 2`` with small limits, lets callers of
every kind use it, good and hostile ones, and makes one fault after the other, drawn by ``--seed``. Every answer is
checked. In the end it prints a table, and ends with 1 when something was not as it must be. Linux only; needs
redis-server. A disk that is really full needs the right to mount, else the service is forbidden to write to files.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.serving import serve
from tests.soak.calling import Caller
from tests.soak.clients import Build, Editor, Gateway, Unsettled, same_bodies
from tests.soak.compacters import Compacter, Counter
from tests.soak.faults import DURABLE, Room, Trouble
from tests.soak.ground import Project, outside, project
from tests.soak.hostile import Hostile
from tests.soak.jumping import OFF
from tests.soak.ledger import Ledger
from tests.soak.report import judged, told
from tests.soak.stopping import drained
from tests.soak.watching import Service, Watch
from tests.standin.server import StandIn
from tests.stores.redis_server import RedisServer, redis_server

KEYS = {"anna": "soak-key-anna-0123456789", "boris": "soak-key-boris-9876543210"}
UPSTREAM_KEY = "sk-ant-soak-0123456789"
BODY_BYTES = 1024 * 1024
DRAINED = b"timeout graceful shutdown exceeded"
"""What is said where somebody who takes nothing outlasts a worker's drain."""

FAULT = re.compile(rb'"status":500|^Traceback|^ERROR|^Exception')
LIMITS = {
    "MAX_BODY_BYTES": BODY_BYTES,
    "MAX_REQUESTS": 8,
    "MAX_QUEUE": 16,
    "QUEUE_SECONDS": 2,
    "MAX_CONNECTIONS": 300,
    "HEAD_SECONDS": 3,
    "BODY_SECONDS": 3,
    "SEND_SECONDS": 3,
    "REQUEST_SECONDS": 6,
    "GIT_TIMEOUT_SECONDS": 3,
    "UPSTREAM_SECONDS": 2,
    "UPSTREAM_RETRIES": 1,
    "COUNT_SECONDS": 3,
    "COMPACT_SECONDS": 4,
    "REDIS_SECONDS": 0.5,
    "HEARTBEAT_SECONDS": 1,
    "MAX_SESSIONS": 2000,
    "MAX_SESSION_BYTES": 48 * 1024 * 1024,
    "MAX_WARM_BYTES": 8 * 1024 * 1024,
    "MAX_FILE_CACHE_BYTES": 8 * 1024 * 1024,
    "MAX_DOCUMENT_CACHE_BYTES": 8 * 1024 * 1024,
    "SESSION_IDLE_SECONDS": 60,
}
QUICK = LIMITS["QUEUE_SECONDS"] + LIMITS["REQUEST_SECONDS"] + 2.0
WITHIN = {
    "editor turn": QUICK + LIMITS["GIT_TIMEOUT_SECONDS"],
    "editor poll": QUICK + LIMITS["GIT_TIMEOUT_SECONDS"],
    "unsettled": QUICK + LIMITS["GIT_TIMEOUT_SECONDS"],
    "build inline": QUICK,
    "build commit": QUICK + LIMITS["GIT_TIMEOUT_SECONDS"],
    "lint": QUICK,
    "gateway turn": QUICK,
    "tokens exact": QUICK + LIMITS["COUNT_SECONDS"],
    "metrics": 2.0,
    "session deleted": 2.0,
    "compaction plan": QUICK,
    "compaction run": 2 * QUICK + LIMITS["COMPACT_SECONDS"],
    "compaction report": QUICK,
    "hostile: broken": QUICK,
    "hostile: wrong key": 2.0,
    "hostile: nowhere": 2.0,
    "hostile: flood": 2 * QUICK,
}
"""Seconds that an answer may take by the settings, without anything for the machine."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that runs."""

    ledger: Ledger
    service: Service
    watch: Watch
    redis: RedisServer
    upstream: StandIn
    room: Room
    clock: Path
    projects: tuple[Project, ...]
    victim: Project
    outside: Path


@contextmanager
def scene(seed: int) -> Iterator[Scene]:
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="strata-soak-"))).resolve()
        ledger, upstream = Ledger(seed), StandIn(reply="The sum is wrong.", minimum=20)
        room, clock = Room(base / "tmp"), base / "clock"
        clock.write_bytes(OFF.pack(0))
        stack.callback(room.close)
        redis = stack.enter_context(redis_server(*DURABLE))
        upstream_url = stack.enter_context(serve(upstream.app))
        owners = (*KEYS, *KEYS)
        (base / "ground").mkdir()
        projects = tuple(project(base / "ground" / f"p{at}", owner) for at, owner in enumerate(owners))
        victim = project(base / "ground" / "victim", next(iter(KEYS)))
        service = Service(clock, _environment(base, room, redis.url, upstream_url), "--workers", "2")
        ledger.lost_store = service.lost_store
        watch = Watch(service)
        stack.callback(_ended, service, watch)
        away = outside(base / "outside")
        yield Scene(ledger, service, watch, redis, upstream, room, clock, projects, victim, away)


def _environment(base: Path, room: Room, redis_url: str, upstream_url: str) -> dict[str, str]:
    (base / "home").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(base / "home"),
        "TMPDIR": str(room.folder),
        "ANTHROPIC_API_KEY": UPSTREAM_KEY,
        "STRATA_ROOTS": str(base / "ground"),
        "STRATA_API_KEYS": ",".join(KEYS.values()),
        "STRATA_REDIS_URL": redis_url,
        "STRATA_UPSTREAM_URL": upstream_url,
        **{f"STRATA_{name}": str(value) for name, value in LIMITS.items()},
    }


def _ended(service: Service, watch: Watch) -> None:
    watch.stop()
    if service.process.poll() is None:
        service.end(30)


def callers(stage: Scene) -> dict[str, Caller]:
    return {owner: Caller(stage.ledger, stage.service.address, key, owner, WITHIN) for owner, key in KEYS.items()}


def lives(stage: Scene, by: dict[str, Caller], seed: int) -> list[Any]:
    """Of everyone who calls."""
    anna, boris = by.values()
    draws = (drawing(f"{seed}-{number}") for number in range(100))
    own = {owner: [one for one in stage.projects if one.owner == owner] for owner in by}
    limits = {name: float(LIMITS[f"{name.upper()}_SECONDS"]) for name in ("head", "body", "send")}
    return [
        *(Editor(by[one.owner], one, next(draws), f"editor-{at}") for at, one in enumerate(stage.projects)),
        Unsettled(by[stage.victim.owner], stage.victim, next(draws)),
        *(Build(caller, same_bodies(own[owner], owner), next(draws)) for owner, caller in by.items()),
        *(Gateway(caller, next(draws), f"gateway-{owner}") for owner, caller in by.items()),
        Counter(anna, next(draws)),
        *(Compacter(caller, next(draws), f"compacter-{owner}") for owner, caller in by.items()),
        *(Hostile(boris, next(draws), KEYS["boris"], limits, BODY_BYTES) for _ in range(3)),
    ]


def drawing(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a run can be begun with its seed again


async def played(stage: Scene, minutes: float, seed: int) -> None:
    by = callers(stage)
    began = time.monotonic()
    end = began + 60 * minutes
    trouble = Trouble(
        stage.ledger,
        stage.service,
        stage.redis,
        stage.upstream,
        stage.room,
        stage.clock,
        stage.victim,
        stage.outside,
        drawing(f"{seed}-faults"),
        spares_from=began + 15 * minutes,
    )
    living = [asyncio.create_task(_lived(stage.ledger, one)) for one in lives(stage, by, seed)]
    await trouble.until(end)
    stage.ledger.say("faults are over")
    await asyncio.sleep(5)
    for one in living:
        one.cancel()
    await asyncio.gather(*living, return_exceptions=True)
    for caller in by.values():
        await caller.client.aclose()
    await asyncio.sleep(5)


async def _lived(ledger: Ledger, one: Any) -> None:
    """A fault of a caller's own is no answer of the service, and ends the whole soak's claim all the same."""
    try:
        await one.live()
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - told, so that nothing fails silently
        ledger.violate(f"{type(one).__name__} ended with {error!r}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Lets callers and faults loose on the service.")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--log", type=Path, help="where the service's log is kept")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    if shutil.which("redis-server") is None:
        parser.error("redis-server is not installed")
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # the stand-in breaks off on purpose
    with scene(arguments.seed) as stage:
        began = time.monotonic()
        asyncio.run(played(stage, arguments.minutes, arguments.seed))
        ended = time.monotonic()
        code = asyncio.run(drained(stage.ledger, stage.service, stage.watch, stage.upstream, KEYS["anna"]))
        judged(stage.ledger, stage.service, stage.watch, (began, ended), code)
        _hold_clean(stage)
        if arguments.log:
            arguments.log.write_bytes(stage.service.log)
        sys.stdout.write(told(stage, (began, ended)) + "\n")
        return 1 if stage.ledger.violations else 0


def _hold_clean(stage: Scene) -> None:
    now = sorted(one.name for one in stage.room.folder.iterdir())
    if now:
        stage.ledger.violate(f"the temporary folder holds {now[:5]}, of {len(now)}")
    log = bytes(stage.service.log)
    for line in log.splitlines():
        if DRAINED in line:
            continue
        if b'"level":"error"' in line or b'"level":"critical"' in line or FAULT.search(line):
            stage.ledger.violate(f"the log has {line.decode(errors='replace')[:700]}")
    secrets = [*KEYS.values(), UPSTREAM_KEY, "canary-", "Traceback", str(stage.projects[0].folder.parent)]
    for secret in secrets:
        if secret.encode() in log:
            at = log.index(secret.encode())
            stage.ledger.violate(
                f"the log holds {secret!r}: {log[max(0, at - 300) : at + 1500].decode(errors='replace')}"
            )


if __name__ == "__main__":
    sys.exit(main())
