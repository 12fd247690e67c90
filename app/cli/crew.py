"""Figures of all workers of a service, of those that have ended, too: each leaves its own in a folder they share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

LASTING = frozenset({"counter", "histogram", "summary"})
"""Kinds of figures that outlive the worker they were counted by."""

LEAST = frozenset({"strata_store_reachable", "process_start_time_seconds", "process_max_fds"})
"""Gauges of which the least counts; of the others it is the sum."""

MOST_ATTEMPTS = 5

_GONE = "gone"
_WORKER = "worker-"


@dataclass(frozen=True, slots=True)
class _Gone:
    """Of workers that have ended: their names, for as long as what they left may still be there, and their figures."""

    names: frozenset[str] = frozenset()
    families: tuple[Metric, ...] = ()


@dataclass(frozen=True, slots=True)
class Crew:
    """The folder that the workers share; only the one that started them makes and ends it, and buries the dead.

    A counter that was told once never goes down as long as who is asked leaves its own figures before it tells them.
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
        self._write(f"{_WORKER}{name}", [_row(family) for family in own])

    def all(self) -> list[Metric]:
        """What all tell together. Looks again when one was buried meanwhile: it would count twice, or not at all.

        Raises OSError.
        """
        for _ in range(MOST_ATTEMPTS):
            before, gone = self._stamp(), self._gone()
            found = [*gone.families, *self._living(gone.names)]
            if self._stamp() == before:
                break
        return _merged(found)

    def bury(self, name: str) -> None:
        """Keeps what lasts of a worker that has ended. Raises OSError: it is still counted as if it lived."""
        left, gone = self.folder / f"{_WORKER}{name}", self._gone()
        if name not in gone.names and left.exists():
            lasting = [family for family in self._read(left) if family.type in LASTING]
            names = [*(each for each in gone.names if (self.folder / f"{_WORKER}{each}").exists()), name]
            rows = [_row(family) for family in _merged([*gone.families, *lasting])]
            self._write(_GONE, {"names": names, "families": rows})
        for file in (left, left.with_suffix(".new")):
            file.unlink(missing_ok=True)

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
        return _Gone(frozenset(kept["names"]), tuple(map(_family, kept["families"])))

    def _stamp(self) -> tuple[int, int] | None:
        try:
            known = (self.folder / _GONE).stat()
        except FileNotFoundError:
            return None
        return known.st_ino, known.st_mtime_ns

    def _write(self, name: str, rows: Any) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(orjson.dumps(rows))
        new.replace(self.folder / name)


def _row(family: Metric) -> list[Any]:
    samples = [[sample.name, sample.labels, sample.value] for sample in family.samples]
    return [family.name, family.documentation, family.type, samples]


def _family(row: list[Any]) -> Metric:
    name, told, kind, samples = row
    family = Metric(name, told, kind)
    family.samples = [Sample(*sample) for sample in samples]
    return family


def _merged(families: Iterable[Metric]) -> list[Metric]:
    """One family of each name, one sample of each set of labels."""
    found: dict[str, Metric] = {}
    values: dict[str, dict[tuple[Any, ...], Sample]] = {}
    for family in families:
        found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        samples = values.setdefault(family.name, {})
        for sample in family.samples:
            place = (sample.name, *sorted(sample.labels.items()))
            samples[place] = _together(family, samples.get(place), sample)
    for name, family in found.items():
        family.samples = list(values[name].values())
    return list(found.values())


def _together(family: Metric, one: Sample | None, other: Sample) -> Sample:
    if one is None:
        return other
    value = min(one.value, other.value) if family.name in LEAST else one.value + other.value
    return Sample(other.name, other.labels, value)
