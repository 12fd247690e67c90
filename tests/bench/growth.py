"""How the cost of a cold answer grows with a tree, and with the sessions that are held.

Cold: a new session, in a folder that this process has never seen; several copies of the tree, of which no two have a
text in common, are asked for one after another. The cost is CPU of the server's process and of what it runs.
"""

from __future__ import annotations

import importlib
import io
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from tests.bench.hostile import write
from tests.bench.load import MARK, Job
from tests.bench.processes import Driver, Served, cpu, memory, strata
from tests.bench.trees import LINE, body, committed, deep, including, posted, ruled, typical, unrelated

Build = Callable[[Path, int, str], Path]

SESSIONS = (10, 100, 1_000, 10_000)
ROOMY: Mapping[str, str] = MappingProxyType(
    {"STRATA_MAX_SESSIONS": "50000", "STRATA_MAX_SESSION_BYTES": str(8 * 1024**3)}
)
"""So that no session is forgotten while others begin."""

BATCH_SECONDS = 0.8
"""About how much CPU one point of a curve is measured over: the kernel counts that of git in hundredths of a second."""

MOST_FILES = 12_000
"""In all copies of a tree together."""

FEWEST, MOST = 3, 100
"""Copies of a tree."""


@dataclass(frozen=True, slots=True)
class Axis:
    """``cap`` is how much more a cold answer may cost for ten times as many; None: it is only told."""

    name: str
    build: Build
    counts: tuple[int, ...]
    cap: float | None = None
    files_each: int = 1


@dataclass(frozen=True, slots=True)
class Curve:
    """``points``: count and milliseconds of CPU for one cold answer."""

    name: str
    points: tuple[tuple[int, float], ...]
    cap: float | None = None

    @property
    def exponent(self) -> float:
        """The slope of the straight line that fits best where both scales are logarithmic."""
        xs, ys = zip(*((math.log(count), math.log(cost)) for count, cost in self.points), strict=True)
        middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
        spread = sum((x - middle) ** 2 for x in xs)
        return float(sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / spread)

    @property
    def steepest(self) -> float:
        """The most that the cost grew between two neighbours, as it would be for ten times as many."""
        steps = pairwise(self.points)
        return max(math.pow(last / first, 1 / math.log10(more / few)) for (few, first), (more, last) in steps)


AXES = (
    Axis("folders beside", unrelated, (20, 200, 2_000), 1.5, 2),
    Axis("folders beside, in git", committed, (20, 200, 2_000), None, 2),
    Axis("folders above", deep, (2, 8, 30)),
    Axis("rules", ruled, (3, 30, 300, 3_000), 12),
    Axis("includes", including, (6, 60, 600), 12),
)


def shortened(axis: Axis, most: int) -> Axis:
    counts = tuple(count for count in axis.counts if count <= most)
    return Axis(axis.name, axis.build, counts, axis.cap, axis.files_each)


def curves(root: Path, driver: Driver, axes: Sequence[Axis], sessions: Sequence[int]) -> list[Curve]:
    grown = [curve(root / axis.name.replace(" ", "-"), driver, axis) for axis in axes]
    return [*grown, *([held(root / "held", driver, sessions)] if sessions else [])]


def curve(root: Path, driver: Driver, axis: Axis) -> Curve:
    points = []
    for count in axis.counts:
        folder = root / str(count)
        folder.mkdir(parents=True)
        with strata(folder) as served:
            warm_up(served, driver, folder)
            points.append((count, cold_cost(served, driver, folder, axis, count)))
        shutil.rmtree(folder)
    return Curve(axis.name, tuple(points), axis.cap)


def warm_up(served: Served, driver: Driver, folder: Path) -> None:
    """Imports, pools and tables of the process are there afterwards."""
    requests = tuple(
        posted(body(typical(folder / f"warm-up{number}", f"warm-up {number}"), f"warm-up{number}"))
        for number in range(5)
    )
    driver.run(Job(served.port, requests, seconds=3600, most=len(requests), number_from=0))


def cold_cost(served: Served, driver: Driver, folder: Path, axis: Axis, count: int) -> float:
    """Milliseconds of CPU; two copies tell how many more are worth asking for."""
    first = batch(served, driver, folder / "a", axis, count=count, copies=FEWEST)
    affordable = MOST_FILES // (count * axis.files_each) - FEWEST
    copies = min(MOST, affordable, round(BATCH_SECONDS * 1000 / max(first, 1)))
    return batch(served, driver, folder / "b", axis, count=count, copies=copies) if copies > FEWEST else first


def batch(served: Served, driver: Driver, folder: Path, axis: Axis, *, count: int, copies: int) -> float:
    requests = []
    for copy in range(copies):
        mark = f"{folder.name}{copy}"
        cwd = axis.build(folder / mark, count, mark)
        requests.append(posted(body(cwd, f"{axis.name}-{mark}", memory={"walk_stop": str(folder / mark)})))
    return cost(served, driver, tuple(requests))


def cost(served: Served, driver: Driver, requests: tuple[bytes, ...]) -> float:
    """Milliseconds of CPU for each of the requests, sent once."""
    before = cpu(served.pid)
    load = driver.run(Job(served.port, requests, seconds=3600, most=len(requests), number_from=0))
    if set(load.statuses) != {"200"}:
        raise LookupError(f"statuses {load.statuses}: nothing was measured")
    return 1000 * (cpu(served.pid) - before) / load.count


def held(root: Path, driver: Driver, sessions: Sequence[int]) -> Curve:
    """The cost of a cold answer while so many sessions of other callers are held."""
    write(root / "small", "CLAUDE.md", LINE)
    fill = (posted(body(root / "small", f"held-{MARK.decode()}")),)
    points = []
    with strata(root, settings=ROOMY) as served:
        warm_up(served, driver, root)
        there = 0
        for number in sessions:
            driver.run(Job(served.port, fill, seconds=3600, most=number - there, number_from=there))
            there = number
            points.append((number, batch(served, driver, root / f"at{number}", TYPICAL, count=1, copies=MOST)))
    return Curve("sessions held", tuple(points), 1.15)


TYPICAL = Axis("typical", lambda folder, _, mark: typical(folder, mark), (1,))


def kilobytes_per_session(root: Path, driver: Driver, count: int) -> float:
    """How much more memory the process has for each session of a typical tree, in KiB."""
    fill = (posted(body(typical(root / "weighed"), f"weighed-{MARK.decode()}")),)
    with strata(root, settings=ROOMY) as served:
        driver.run(Job(served.port, fill, seconds=3600, most=200, number_from=0))
        before = memory(served.pid).resident
        driver.run(Job(served.port, fill, seconds=3600, most=count, number_from=200))
        return 1024 * (memory(served.pid).resident - before) / count


def draw(found: Sequence[Curve], path: Path) -> None:
    """Needs matplotlib. Few colours keep the file small."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(9, 5), dpi=100, layout="constrained")
    axes = figure.subplots()
    for one in found:
        axes.loglog(*zip(*one.points, strict=True), "o-", markersize=4, label=f"{one.name}: n^{one.exponent:.2f}")
    axes.set(xlabel="n", ylabel="CPU of one cold answer, ms")
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False)
    drawn = io.BytesIO()
    figure.savefig(drawn)
    path.parent.mkdir(exist_ok=True)
    importlib.import_module("PIL.Image").open(drawn).convert("RGB").quantize(32, method=2).save(path, optimize=True)
