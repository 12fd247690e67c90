"""One worker and two, which share their sessions through a Redis; and what they weigh."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.load import MARK
from tests.bench.over_http import prime
from tests.bench.processes import Driver, Memory, Served, family, memory, redis, strata
from tests.bench.rounds import Figures, Pace, Subject, measured
from tests.bench.trees import body, posted, sized

SIZE = 100_000
CLIENTS = 8


@dataclass(frozen=True, slots=True)
class Scaled:
    """``workers`` processes; ``each`` is what each of them weighs, the one that watches over them first."""

    workers: int
    warm: Figures
    cold: Figures
    each: tuple[Memory, ...]


def scaled(root: Path, driver: Driver, pace: Pace, workers: Sequence[int] = (1, 2)) -> list[Scaled]:
    """Empty without a redis-server. Nothing is pinned: the client needs a part of the cores too."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, redis(Path(folder)) as address:
        return [] if address is None else [with_workers(root, driver, pace, count, address) for count in workers]


def with_workers(root: Path, driver: Driver, pace: Pace, count: int, store: str) -> Scaled:
    settings = {"STRATA_REDIS_URL": store}
    with strata(root, "--workers", str(count), settings=settings, place=None) as served:
        warm, cold = subjects(root, served, count)
        prime(driver, served, warm.requests, times=4 * count)
        first, second = measured(driver, (warm, cold), CLIENTS, pace)
        return Scaled(count, first, second, tuple(map(memory, processes_of(served))))


def subjects(root: Path, served: Served, count: int) -> tuple[Subject, Subject]:
    tree = sized(root / "scaling", SIZE)
    warm = tuple(posted(body(tree, f"shared-{count}-{number}")) for number in range(CLIENTS))
    cold = (posted(body(tree, f"{count}-workers-{MARK.decode()}")),)
    return Subject("warm", served, warm), Subject("cold", served, cold, numbered=True)


def processes_of(served: Served) -> list[int]:
    """Programs that a worker runs for a moment, and the tracker of multiprocessing, are left out."""
    return [pid for pid in family(served.pid) if b"resource_tracker" not in _command(pid)]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
