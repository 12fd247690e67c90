"""What a soak came to: what must hold in the end, and the table."""

from __future__ import annotations

import os
import statistics
from typing import Any

from tests.soak.ledger import Ledger, strain
from tests.soak.watching import Plateau, Sample, Service, Watch, plateau

MOST_GAP_SECONDS = 5.0
SETTLED_AFTER_SECONDS = 15 * 60
"""A shorter run says nothing of memory: sessions have not begun to end, and caches are not full."""

MOST_FILES = 400
MOST_THREADS = 64
Span = tuple[float, float]


def judged(ledger: Ledger, service: Service, watch: Watch, span: Span, code: int | None) -> None:
    if code != 0:
        ledger.violate(f"SIGTERM ended it with {code}")
    if watch.worst_gap > MOST_GAP_SECONDS * strain():
        at = watch.worst_gap_at - ledger.started
        ledger.violate(f"/healthz was not green for {watch.worst_gap:.1f} s until {at:.1f} s")
    if watch.oldest() and max(one.files for one in watch.all()) > MOST_FILES:
        ledger.violate(f"a worker had {max(one.files for one in watch.all())} files open")
    if max(one.threads for one in watch.all()) > MOST_THREADS:
        ledger.violate(f"a worker had {max(one.threads for one in watch.all())} threads")
    found = plateau(watch.oldest(), *span)
    if found is not None and not found.holds and span[1] - span[0] >= SETTLED_AFTER_SECONDS:
        ledger.violate(f"memory grows: {found.third:.1f} MiB in the third quarter, {found.last:.1f} in the last")


def told(stage: Any, span: Span) -> str:
    ledger: Ledger = stage.ledger
    watch: Watch = stage.watch
    minutes = (span[1] - span[0]) / 60
    requests = sum(sum(row.values()) for kind, row in ledger.outcomes.items() if kind != "event told")
    oldest = watch.oldest()
    files, threads = [one.files for one in watch.all()], [one.threads for one in watch.all()]
    rows = [
        ("minutes, seed", f"{minutes:.1f}, {ledger.seed}"),
        ("requests", f"{requests:,}"),
        ("faults", f"{len(ledger.faults)}: {ledger.row_of_faults()}"),
        ("back to ready after a fault", f"at most {max(ledger.recoveries, default=0):.1f} s"),
        ("longest time without a green `/healthz`", f"{watch.worst_gap:.2f} s; {len(watch.failed)} looks failed"),
        ("memory of a worker (PSS): first, peak, last", _memory(watch)),
        ("of the one that lived longest: third quarter, last quarter", _plateau(plateau(oldest, *span))),
        ("of the same, each twelfth of its life", _twelfths(oldest)),
        ("open files of a worker: most; threads", f"{max(files)}; {max(threads)}"),
        ("programs run by a worker at once, most", f"{max(one.children for one in watch.all())}"),
        ("workers seen", f"{len(watch.samples)}"),
        ("load of the machine, of so many cores", f"{os.getloadavg()[2]:.1f}, {os.cpu_count()}"),
        ("disk full by", "a file system of its own" if stage.room.is_own else "a limit on files"),
        ("violations", str(len(ledger.violations))),
    ]
    table = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join([*table, "", *ledger.rows_of_requests(), "", *ledger.violations])


def _memory(watch: Watch) -> str:
    oldest, memory = watch.oldest(), [one.memory for one in watch.all()]
    return f"{oldest[0].memory:.0f}, {max(memory):.0f}, {oldest[-1].memory:.0f} MiB"


def _twelfths(samples: list[Sample]) -> str:
    size = max(1, len(samples) // 12)
    parts = (samples[at : at + size] for at in range(0, len(samples) - size + 1, size))
    return ", ".join(f"{statistics.median(one.memory for one in part):.0f}" for part in parts) + " MiB"


def _plateau(found: Plateau | None) -> str:
    if found is None:
        return "no worker lived so long"
    return f"{found.third:.1f}, {found.last:.1f} MiB (at most {found.most:.2f} × and {found.beside:.0f} MiB more)"
