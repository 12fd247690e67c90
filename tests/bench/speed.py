"""How fast the service is, beside the floor and beside others: ``python -m tests.bench.speed``.

Everything is measured in one run on one machine, servers on one core and the load client on another. ``--quick`` is to
see that it works; ``--parts`` chooses. Linux only; the plot needs matplotlib (exit code 2 without it), scaling needs
redis-server, peers are installed into a cache folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench import growth, over_http, peers, scaling, tables, usual
from tests.bench.in_process import profile_of
from tests.bench.processes import Driver, driver
from tests.bench.rounds import Pace
from tests.bench.targets import Run, targets
from tests.bench.trees import repository, typical

PARTS = ("http", "start", "usual", "growth", "scaling", "peers")
PLOT = Path(__file__).with_name("plots") / "growth.png"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. ``most`` of an axis of growth; ``weighed`` sessions; ``trees`` that were never read."""

    pace: Pace
    sizes: Sequence[int] = over_http.SIZES
    clients: Sequence[int] = over_http.CLIENTS
    starts: int = 7
    most: int = 3_000
    sessions: Sequence[int] = growth.SESSIONS
    weighed: int = 1_000
    trees: int = usual.NEW_TREES


FULL = Extent(Pace(5, 1.0))
QUICK = Extent(Pace(3, 0.3), over_http.SIZES[:2], (1, 8), 2, 300, (10, 100), 100, 10)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where, with what, and how much."""

    root: Path
    driver: Driver
    extent: Extent
    peers: Path

    def part(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir()
        return folder


def over_http_part(bench: Bench, run: Run) -> tuple[Run, str]:
    extent = bench.extent
    rows = over_http.compared(bench.part("http"), bench.driver, extent.sizes, extent.clients, extent.pace)
    return replace(run, compared=rows), f"{tables.over_http(rows)}\n\n{tables.ceiling(rows)}"


def start_part(bench: Bench, run: Run) -> tuple[Run, str]:
    seconds = over_http.first_answers(bench.part("start"), bench.extent.starts)
    return replace(run, starts=seconds), tables.starts(seconds)


def usual_part(bench: Bench, run: Run) -> tuple[Run, str]:
    rows = usual.usual(bench.part("usual"), bench.driver, bench.extent.trees)
    return replace(run, usual=rows), tables.usual(rows)


def growth_part(bench: Bench, run: Run) -> tuple[Run, str]:
    axes = [growth.shortened(axis, bench.extent.most) for axis in growth.AXES]
    curves = growth.curves(bench.part("growth"), bench.driver, axes, bench.extent.sessions)
    growth.draw(curves, PLOT if bench.extent.most == FULL.most else bench.root / PLOT.name)
    return replace(run, curves=curves), tables.growth(curves)


def scaling_part(bench: Bench, run: Run) -> tuple[Run, str]:
    with driver(None) as anywhere:
        rows = scaling.scaled(bench.part("scaling"), anywhere, bench.extent.pace)
    if not rows:
        return run, "Scaling was not measured: there is no redis-server here."
    grown = growth.kilobytes_per_session(bench.part("weighed"), bench.driver, bench.extent.weighed)
    note = f"The load client takes a part of these {os.cpu_count()} cores. "
    return run, f"{tables.scaling(rows)}\n\n{note}1,000 sessions of the usual tree: {grown / 1.024:,.0f} MiB."


def peers_part(bench: Bench, run: Run) -> tuple[Run, str]:
    python, root = peers.environment(bench.peers), bench.part("peers")
    if python is None:
        return run, "Peers were not measured: pip could not install them, for the reason above."
    memories = peers.memories(root, python)
    proxied = peers.proxied(root, bench.driver, python, bench.extent.pace)
    told = f"{tables.memories(memories)}\n\n{tables.proxied(proxied)}"
    return replace(run, memories=memories, proxied=proxied), told


MEASURES = dict(
    zip(PARTS, (over_http_part, start_part, usual_part, growth_part, scaling_part, peers_part), strict=True)
)


@contextmanager
def prepared(extent: Extent, cache: Path) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder, driver() as client:
        yield Bench(Path(folder).resolve(), client, extent, cache)


def reported(bench: Bench, parts: Sequence[str]) -> Iterator[str]:
    """What each part found, as it is found, and the targets at the end."""
    run = Run()
    for name in parts:
        run, told = MEASURES[name](bench, run)
        yield told
    yield tables.judged(targets(run))


def profile() -> str:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        cwd = typical(root / "profiled")
        repository(root / "profiled")
        return profile_of(root, cwd)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.speed", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated; all by default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="short rounds and small trees, to see that it works")
    parser.add_argument("--seconds", type=float, help=f"of one round; {FULL.pace.seconds} by default")
    parser.add_argument("--profile", action="store_true", help="only: where the time of a cold answer goes")
    parser.add_argument("--peers", type=Path, default=peers.CACHE, help="the peers' environment: %(default)s")
    given = parser.parse_args()
    given.parts = given.parts.split(",")
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {unknown[0]}: the parts are {', '.join(PARTS)}")
    return given


def main() -> None:
    given = arguments()
    if given.profile:
        sys.stdout.write(profile())
        return
    if "growth" in given.parts and importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write('The plot needs matplotlib: pip install -e ".[bench]"\n')
        raise SystemExit(2)
    extent = QUICK if given.quick else FULL
    if given.seconds:
        extent = replace(extent, pace=replace(extent.pace, seconds=given.seconds))
    sys.stdout.write(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}\n")
    with prepared(extent, given.peers) as bench:
        for told in reported(bench, given.parts):
            sys.stdout.write(f"\n{told}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
