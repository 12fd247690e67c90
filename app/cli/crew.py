"""Figures of all workers of a service, of those that have ended, too: each leaves its own in a folder they share."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from app.request_metrics import Histogram, Row

LASTING = frozenset({"counter", "histogram", "summary"})
"""Kinds of figures that outlive the worker they were counted by."""

LEAST = frozenset(
    {
        "strata_store_reachable",
        "strata_git_confined",
        "strata_keys",
        "process_start_time_seconds",
        "process_max_fds",
    }
)
"""Gauges of which the least counts; of the others it is the sum."""

MOST_ATTEMPTS = 50

_OURS_ALONE, _OTHERS = 0o700, 0o077
_GONE = "gone"
_WORKER = "worker-"


@dataclass(frozen=True, slots=True)
class _Gone:
    """Of workers that have ended: how many, their figures, and their names, while what they left may still be there."""

    number: int = 0
    names: frozenset[str] = frozenset()
    families: tuple[Metric, ...] = ()


@dataclass(frozen=True, slots=True)
class Crew:
    """The folder that the workers share; only the one that started them begins and ends it, and buries the dead.

    A counter that was told once never goes down as long as who is asked leaves its own figures before it tells them,
    and the folder stays. Whoever leaves something makes it again where it was removed: those who live leave theirs
    there, and what others had counted is lost.
    """

    folder: Path

    @classmethod
    def begin(cls) -> Crew | None:
        """None: there is no disk to write to."""
        try:
            return cls(Path(tempfile.mkdtemp(prefix="strata-")))
        except OSError:
            return None

    def end(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def leave(self, name: str, own: Iterable[Metric]) -> None:
        """Raises OSError."""
        self._stand()
        self._write(f"{_WORKER}{name}", [_row(family) for family in own])

    def all(self) -> list[Metric]:
        """What all tell together. Looks again when one was buried meanwhile: it would count twice, or not at all.

        Raises OSError.
        """
        self._look()
        for _ in range(MOST_ATTEMPTS):
            gone = self._gone()
            found = [*gone.families, *self._living(gone.names)]
            if self._gone().number == gone.number:
                return _merged(found)
        raise BlockingIOError(errno.EAGAIN, "workers end faster than they can be counted")

    def bury(self, name: str) -> None:
        """Keeps what lasts of a worker that has ended. Raises OSError: it is still counted as if it lived."""
        self._stand()
        left, gone = self.folder / f"{_WORKER}{name}", self._gone()
        if name not in gone.names and left.exists():
            lasting = [family for family in self._read(left) if family.type in LASTING]
            names = [*(each for each in gone.names if (self.folder / f"{_WORKER}{each}").exists()), name]
            rows = [_row(family) for family in _merged([*gone.families, *lasting])]
            self._write(_GONE, {"number": gone.number + 1, "names": names, "families": rows})
        for file in (left, left.with_suffix(".new")):
            file.unlink(missing_ok=True)

    def _stand(self) -> None:
        """Makes the folder again where it was removed. Raises OSError as `_look` does."""
        with suppress(FileExistsError):
            self.folder.mkdir(_OURS_ALONE)
        self._look()

    def _look(self) -> None:
        """Raises OSError: the folder is not there, or is another's."""
        if not _is_ours_alone(self.folder.lstat()):
            raise PermissionError(errno.EPERM, "the folder of figures is not this service's own any more")

    def _living(self, buried: frozenset[str]) -> Iterator[Metric]:
        for file in sorted(self.folder.glob(f"{_WORKER}*")):
            if not file.suffix and file.name.removeprefix(_WORKER) not in buried:
                with suppress(FileNotFoundError):  # buried just now, which is seen
                    yield from self._read(file)

    def _read(self, file: Path) -> list[Metric]:
        return [_family(row) for row in orjson.loads(file.read_bytes())]

    def _gone(self) -> _Gone:
        try:
            kept = orjson.loads((self.folder / _GONE).read_bytes())
        except FileNotFoundError:
            return _Gone()
        return _Gone(kept["number"], frozenset(kept["names"]), tuple(map(_family, kept["families"])))

    def _write(self, name: str, rows: Any) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(orjson.dumps(rows))
        new.replace(self.folder / name)


def _is_ours_alone(found: os.stat_result) -> bool:
    if not stat.S_ISDIR(found.st_mode):
        return False
    return not hasattr(os, "geteuid") or (found.st_uid == os.geteuid() and not found.st_mode & _OTHERS)


def _row(family: Metric) -> list[Any]:
    about = [family.name, family.documentation, family.type]
    if isinstance(family, Histogram):
        return [*about, family.labels, family.rows]
    return [*about, [[sample.name, sample.labels, sample.value] for sample in family.samples]]


def _family(row: list[Any]) -> Metric:
    name, told, kind, *rest = row
    if len(rest) > 1:
        labels, rows = rest
        return Histogram(name, told, labels, ((tuple(values), counts, seconds) for values, counts, seconds in rows))
    family = Metric(name, told, kind)
    family.samples = [Sample(*sample) for sample in rest[0]]
    return family


def _merged(families: Iterable[Metric]) -> list[Metric]:
    """One family of each name, one sample of each set of labels."""
    found: dict[str, list[Metric]] = {}
    for family in families:
        found.setdefault(family.name, []).append(family)
    return [_one(same) for same in found.values()]


def _one(same: list[Metric]) -> Metric:
    first = same[0]
    if isinstance(first, Histogram):
        return Histogram(first.name, first.documentation, first.labels, _rows(same))
    samples: dict[tuple[Any, ...], Sample] = {}
    for sample in (sample for family in same for sample in family.samples):
        place = (sample.name, *sorted(sample.labels.items()))
        samples[place] = _together(first.name, samples.get(place), sample)
    family = Metric(first.name, first.documentation, first.type)
    family.samples = list(samples.values())
    return family


def _rows(same: Iterable[Metric]) -> Iterator[Row]:
    counts: dict[tuple[str, ...], tuple[Iterable[int], float]] = {}
    for labels, more, seconds in (row for family in same if isinstance(family, Histogram) for row in family.rows):
        before, so_far = counts.get(labels, ((0,) * len(more), 0.0))
        counts[labels] = [one + other for one, other in zip(before, more, strict=True)], so_far + seconds
    yield from ((labels, tuple(each), seconds) for labels, (each, seconds) in sorted(counts.items()))


def _together(name: str, one: Sample | None, other: Sample) -> Sample:
    if one is None:
        return other
    value = min(one.value, other.value) if name in LEAST else one.value + other.value
    return Sample(other.name, other.labels, value)
