"""What happened in a soak: answers by kind, faults with their times, and everything that must not have been."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

GRACE = {"worker": 3.0, "redis": 6.0, "upstream": 6.0, "disk": 3.0, "tree": 2.0, "clock": 3.0}
"""Seconds for which what a fault of this kind did may still be seen in answers."""


MARGIN_SECONDS = 8.0
"""Beside what the settings allow, for a machine of which each core has at most `USUAL_LOAD` programs to run."""

USUAL_LOAD = 2.0


def margin() -> float:
    return MARGIN_SECONDS * strain()


def strain() -> float:
    """How much more the machine has to do than it usually has in a soak; at least 1."""
    return max(1.0, max(os.getloadavg()[:2]) / (os.cpu_count() or 1) / USUAL_LOAD)


@dataclass(slots=True)
class Fault:
    """``kind`` is one of `GRACE`; ``ended`` None: it goes on."""

    kind: str
    name: str
    began: float
    ended: float | None = None

    def touches(self, since: float, until: float) -> bool:
        ended = float("inf") if self.ended is None else self.ended + GRACE[self.kind]
        return self.began <= until and ended >= since


@dataclass
class Ledger:
    """``seed`` is what the run can be begun with again.

    ``lost_store`` are the times at which the service said that it could not reach Redis, which can be for want of a
    processor as well.
    """

    seed: int
    started: float = field(default_factory=time.monotonic)
    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    faults: list[Fault] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    lost_store: list[float] = field(default_factory=list)

    def note(self, kind: str, outcome: str, seconds: float) -> None:
        self.outcomes[kind][outcome] += 1
        self.seconds[kind].append(seconds)

    def violate(self, said: str) -> None:
        self.violations.append(self.say(f"VIOLATION (seed {self.seed}): {said}"))

    def say(self, said: str) -> str:
        line = f"{time.monotonic() - self.started:8.1f} s  {said}"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
        return line

    @contextmanager
    def during(self, kind: str, name: str) -> Iterator[Fault]:
        fault = Fault(kind, name, time.monotonic())
        self.faults.append(fault)
        self.say(f"fault: {name}")
        try:
            yield fault
        finally:
            fault.ended = time.monotonic()
            self.say(f"  over after {fault.ended - fault.began:.1f} s")

    def touched(self, kinds: set[str], since: float, until: float | None = None) -> bool:
        """Whether a fault of one of these kinds may be seen in what happened then."""
        end = time.monotonic() if until is None else until
        lost = (Fault("redis", "slow", at - 1, at) for at in self.lost_store if "redis" in kinds)
        faults = (fault for fault in self.faults if fault.kind in kinds)
        return any(fault.touches(since, end) for fault in (*faults, *lost))

    def rows_of_requests(self) -> list[str]:
        rows = ["| requests | outcomes | p50 | p99 | worst |", "|---|---|--:|--:|--:|"]
        for kind in sorted(self.outcomes):
            found = ", ".join(f"{count:,} {outcome}" for outcome, count in self.outcomes[kind].most_common())
            took = sorted(self.seconds[kind])
            last = took[min(len(took) - 1, int(len(took) * 0.99))]
            rows.append(f"| {kind} | {found} | {statistics.median(took):.3f} s | {last:.3f} s | {took[-1]:.3f} s |")
        return rows

    def row_of_faults(self) -> str:
        counted = Counter(fault.name for fault in self.faults)
        return ", ".join(f"{count} {name}" for name, count in sorted(counted.items()))
