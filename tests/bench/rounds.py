"""Requests per second and times of answers, side by side: short rounds in turn, of which the medians count."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.bench.load import Job, Load
from tests.bench.processes import Driver, Served, cpu

FLOOR = "floor"


class RefusedError(RuntimeError):
    """The server answered with another status than the one that is measured."""


@dataclass(frozen=True, slots=True)
class Pace:
    """``rounds`` of ``seconds`` each."""

    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked of a server. ``floor`` names the subject of the same rounds that it is compared with.

    ``numbered``: each request is sent once, with a number of its own in place of the mark. ``size`` is told instead of
    the size of what came, where nothing comes.
    """

    name: str
    served: Served
    requests: tuple[bytes, ...]
    floor: str | None = None
    status: int = 200
    numbered: bool = False
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians over rounds. Times in milliseconds, ``size`` of a body in bytes.

    ``busy`` is the client's share of a core, in the round where it was largest.
    ``of_floor`` and ``p99_of_floor`` are ratios to the floor's requests per second and p99 in the same round.
    """

    name: str
    size: int
    clients: int
    rate: float
    p50: float
    p99: float
    cpu: float
    busy: float
    of_floor: float | None = None
    p99_of_floor: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    load: Load
    cpu: float


def measured(driver: Driver, subjects: Sequence[Subject], clients: int, pace: Pace) -> list[Figures]:
    """All subjects in turn, and that again for every round; a round before them is thrown away."""
    numbers = itertools.count(step=10_000_000)
    for subject in subjects:
        one_round(driver, subject, clients, pace.seconds, next(numbers))
    found: dict[str, list[Round]] = {subject.name: [] for subject in subjects}
    for _ in range(pace.rounds):
        for subject in subjects:
            found[subject.name].append(one_round(driver, subject, clients, pace.seconds, next(numbers)))
    return [_figures(subject, clients, found) for subject in subjects]


def one_round(driver: Driver, subject: Subject, clients: int, seconds: float, number: int) -> Round:
    """Raises RefusedError."""
    number_from = number if subject.numbered else None
    before = cpu(subject.served.pid)
    load = driver.run(Job(subject.served.port, subject.requests, clients, seconds, number_from=number_from))
    spent = cpu(subject.served.pid) - before
    if set(load.statuses) != {str(subject.status)}:
        raise RefusedError(f"{subject.name}: statuses {load.statuses}, where {subject.status} was expected")
    return Round(load, spent / load.count)


def _figures(subject: Subject, clients: int, found: dict[str, list[Round]]) -> Figures:
    rounds = found[subject.name]
    beside = found.get(subject.floor or "", [])
    loads = [one.load for one in rounds]
    return Figures(
        subject.name,
        subject.size or loads[-1].length,
        clients,
        statistics.median(load.rate for load in loads),
        1000 * statistics.median(load.p50 for load in loads),
        1000 * statistics.median(load.p99 for load in loads),
        1000 * statistics.median(one.cpu for one in rounds),
        max(load.busy for load in loads),
        _ratio((one.load.rate / other.load.rate for one, other in zip(rounds, beside, strict=False))),
        _ratio((one.load.p99 / other.load.p99 for one, other in zip(rounds, beside, strict=False))),
    )


def _ratio(ratios: Iterator[float]) -> float | None:
    each = list(ratios)
    return statistics.median(each) if each else None
