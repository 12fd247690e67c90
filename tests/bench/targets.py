"""What the service is held to, and whether one run of the benchmark met it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.bench.growth import Curve
from tests.bench.over_http import Compared
from tests.bench.peers import Memories, Proxied
from tests.bench.usual import Usual

BUSIEST = 0.9
"""Of a core: a load client beyond that could be what is measured."""

COLD_MILLISECONDS = 15.0
START_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Floors:
    """For one kind of answer: the least share of the floor's requests per second, and the most of its p99."""

    name: str
    rate: float
    p99: float | None = None


FLOORS = (
    Floors("warm", 0.8, 1.3),
    Floors("warm, zstd", 0.8, 1.3),
    Floors("warm GET", 0.8, 1.3),
    Floors("304", 0.8, 1.3),
    Floors("validated", 0.5),
    Floors("validated, in git", 0.5),
)


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    wanted: str
    found: str
    met: bool


@dataclass(frozen=True, slots=True)
class Run:
    """What was measured; a part that was left out is empty or None. ``starts`` in seconds."""

    compared: Sequence[Compared] = ()
    starts: Sequence[float] = ()
    curves: Sequence[Curve] = ()
    usual: Sequence[Usual] = ()
    memories: Memories | None = None
    proxied: Proxied | None = None


def targets(run: Run) -> list[Target]:
    return [*_of_floors(run), *_of_starts(run), *_of_usual(run), *_of_growth(run), *_of_peers(run), *_of_client(run)]


def _of_floors(run: Run) -> Iterator[Target]:
    for floors in FLOORS if run.compared else ():
        rows = [row for row in run.compared if row.subject.name == floors.name]
        if not rows:
            yield Target(
                floors.name, f"at least {floors.rate} x the floor", "not measured: there are no such answers", met=False
            )
            continue
        yield _extreme(rows, f"{floors.name}: requests per second", "of_floor", floors.rate, min)
        if floors.p99 is not None:
            yield _extreme(rows, f"{floors.name}: p99", "p99_of_floor", floors.p99, max)


def _extreme(
    rows: Sequence[Compared], name: str, field: str, bound: float, worst_of: Callable[..., Compared]
) -> Target:
    """The row that is furthest from what is wanted decides."""

    def ratio(row: Compared) -> float:
        found: float = getattr(row.subject, field)
        return found

    worst = worst_of(rows, key=ratio)
    least = worst_of is min
    met = ratio(worst) >= bound if least else ratio(worst) <= bound
    within = sum(ratio(row) >= bound if least else ratio(row) <= bound for row in rows)
    where = f"{worst.subject.size / 1000:.0f} KB, {worst.subject.clients} clients"
    wanted = f"{'at least' if least else 'at most'} {bound} x the floor"
    return Target(name, wanted, f"{ratio(worst):.2f} x ({where}); {within} of {len(rows)} rows", met)


def _of_starts(run: Run) -> Iterator[Target]:
    if run.starts:
        middle = sorted(run.starts)[len(run.starts) // 2]
        yield Target(
            "process to first answer", f"under {START_SECONDS:.0f} s", f"{middle:.2f} s", middle < START_SECONDS
        )


def _of_usual(run: Run) -> Iterator[Target]:
    for one in run.usual:
        found = f"{one.read_before:.1f} ms; {one.never_read:.1f} ms in a tree never read"
        met = one.read_before <= COLD_MILLISECONDS
        yield Target(f"cold, usual tree, {one.name}", f"at most {COLD_MILLISECONDS:.0f} ms of CPU", found, met)


def _of_growth(run: Run) -> Iterator[Target]:
    for one in run.curves:
        if one.cap is not None and len(one.points) > 1:
            found = f"{one.steepest:.2f} x where steepest; n^{one.exponent:.2f} on the whole"
            yield Target(
                f"ten times the {one.name}", f"at most {one.cap:g} x the cold time", found, one.steepest <= one.cap
            )


def _of_peers(run: Run) -> Iterator[Target]:
    if run.proxied is not None:
        added, ours = run.proxied.added, run.proxied.ours
        found = f"{ours:.2f} ms against {added:.2f} ms: 1/{added / ours:.0f}"
        yield Target("warm answer over HTTP", "at most 1/10 of what LiteLLM's proxy adds", found, ours <= added / 10)
    if run.memories is not None:
        yield from _of_memories(run.memories)


def _of_memories(found: Memories) -> Iterator[Target]:
    warm, cold, theirs = found.ours.warm_core, found.ours.cold_core, found.theirs
    told = "not measured: the layer did not answer by itself"
    if warm is not None:
        told = f"{warm:.0f} µs against {theirs.repeat:.0f} µs: {warm / theirs.repeat:.2f} x"
    met = warm is not None and warm <= theirs.repeat / 5
    yield Target("warm core", "at most 1/5 of deepagents' repeat", told, met)
    ratio = f"{cold / theirs.cold:.1f} x ({found.in_git.cold_core / theirs.cold:.1f} x with git)"
    told = f"{cold:,.0f} µs against {theirs.cold:,.0f} µs: {ratio}"
    yield Target("cold core", "at most deepagents' cold", told, cold <= theirs.cold)


def _of_client(run: Run) -> Iterator[Target]:
    if run.compared:
        busiest = max(max(row.floor.busy, row.subject.busy) for row in run.compared)
        yield Target(
            "the load client is not the limit", f"under {BUSIEST:.0%} of a core", f"{busiest:.0%}", busiest < BUSIEST
        )
