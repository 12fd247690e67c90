"""A run of the benchmark of speed as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from tests.bench.growth import Curve
from tests.bench.over_http import Compared
from tests.bench.peers import Memories, Proxied
from tests.bench.scaling import Scaled
from tests.bench.targets import Target
from tests.bench.usual import Usual

HEAD = (
    "answer",
    "KB",
    "clients",
    "requests/s",
    "floor",
    "ratio",
    "p50 ms",
    "floor",
    "p99 ms",
    "floor",
    "ratio",
    "CPU ms",
    "floor",
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], named: int = 1) -> str:
    """The first ``named`` columns hold words, the others figures."""
    marks = ["---"] * named + ["--:"] * (len(head) - named)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, marks, *rows))


def over_http(rows: Sequence[Compared]) -> str:
    kinds = dict.fromkeys(row.subject.name for row in rows)
    return table(HEAD, (_cells(row) for kind in kinds for row in rows if row.subject.name == kind))


def _cells(row: Compared) -> tuple[str, ...]:
    one, floor = row.subject, row.floor
    return (
        one.name,
        f"{one.size / 1000:.0f}",
        str(one.clients),
        f"{one.rate:,.0f}",
        f"{floor.rate:,.0f}",
        f"{one.of_floor or 0:.2f}",
        f"{one.p50:.2f}",
        f"{floor.p50:.2f}",
        f"{one.p99:.2f}",
        f"{floor.p99:.2f}",
        f"{one.p99_of_floor or 0:.2f}",
        f"{one.cpu:.3f}",
        f"{floor.cpu:.3f}",
    )


def ceiling(rows: Sequence[Compared]) -> str:
    """What the load client could have sent with a whole core, by size of the floor's answers."""
    sizes = sorted({row.floor.size for row in rows if row.floor.name == "floor of warm"})
    told = [f"{_sendable(rows, size):,.0f}/s at {size / 1000:.0f} KB" for size in sizes]
    return f"The load client alone could send {', '.join(told)}."


def _sendable(rows: Sequence[Compared], size: int) -> float:
    return statistics.median(row.floor.rate / row.floor.busy for row in rows if row.floor.size == size)


def starts(seconds: Sequence[float]) -> str:
    middle, worst = statistics.median(seconds), max(seconds)
    return f"From the start of a process to its first answer: {middle:.2f} s, worst {worst:.2f} s of {len(seconds)}."


def usual(rows: Sequence[Usual]) -> str:
    phases = list(rows[0].inside.phases)
    head = ("usual tree, cold", "tree read before, ms CPU", "never read", *(f"{name}, in process" for name in phases))
    return table(
        head,
        (
            (row.name, f"{row.read_before:.1f}", f"{row.never_read:.1f}", *_phases(row.inside.phases, phases))
            for row in rows
        ),
    )


def _phases(found: dict[str, float], names: Sequence[str]) -> Iterable[str]:
    return (f"{found[name]:.1f}" for name in names)


def growth(rows: Sequence[Curve]) -> str:
    head = ("cold, by", "n: ms CPU", "exponent", "ten times n, where steepest")
    return table(
        head,
        (
            (
                row.name,
                ", ".join(f"{count:,}: {cost:.1f}" for count, cost in row.points),
                f"{row.exponent:.2f}",
                f"{row.steepest:.2f} x",
            )
            for row in rows
        ),
        named=2,
    )


def scaling(rows: Sequence[Scaled]) -> str:
    head = (
        "workers",
        "warm requests/s",
        "of the first",
        "p99 ms",
        "cold requests/s",
        "of the first",
        "RSS MiB",
        "PSS MiB",
    )
    first = rows[0]
    return table(
        head,
        (
            (
                str(row.workers),
                f"{row.warm.rate:,.0f}",
                f"{row.warm.rate / first.warm.rate:.2f}",
                f"{row.warm.p99:.2f}",
                f"{row.cold.rate:,.0f}",
                f"{row.cold.rate / first.cold.rate:.2f}",
                " + ".join(f"{each.resident:.0f}" for each in row.each),
                " + ".join(f"{each.own:.0f}" for each in row.each),
            )
            for row in rows
        ),
        named=0,
    )


def memories(found: Memories) -> str:
    ours, theirs, files = found.ours, found.theirs, len(found.ours.files)
    warm = "n/a" if ours.warm_core is None else f"{ours.warm_core:,.0f}"
    rows = [
        ("Strata, gather and assemble", f"{ours.cold_core:,.0f}", "finds the files, includes and rules"),
        ("the same in a git repository", f"{found.in_git.cold_core:,.0f}", "asks git too"),
        ("Strata, from request bytes to answer bytes", warm, "warm"),
        (f"deepagents {theirs.version}, fresh state", f"{theirs.cold:,.0f}", f"reads the {files} files it is told"),
        (
            f"deepagents {theirs.version}, repeat",
            f"{theirs.repeat:,.0f}",
            f"a prompt of {theirs.characters:,} characters",
        ),
    ]
    return table(("in process", "µs", "what it does"), rows, named=3)


def proxied(found: Proxied) -> str:
    rows = [(row.name, f"{row.rate:,.0f}", f"{row.p50:.2f}", f"{row.p99:.2f}", f"{row.cpu:.2f}") for row in found.rows]
    told = f"LiteLLM {found.version} adds {found.added:.2f} ms to a call; a warm answer takes {found.ours:.2f} ms."
    return f"{table(('one client', 'requests/s', 'p50 ms', 'p99 ms', 'CPU ms'), rows)}\n\n{told}"


def judged(rows: Sequence[Target]) -> str:
    return table(
        ("target", "wanted", "found", ""),
        ((row.name, row.wanted, row.found, "met" if row.met else "missed") for row in rows),
        named=4,
    )
