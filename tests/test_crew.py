"""Figures of all workers, those that have ended included."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from app.cli.crew import Crew
from app.cli.working import Figures
from app.metrics import Metrics, StoreFigures
from tests.starting import served
from tests.waiting import soon


class Worker:
    """What a worker has of its figures, without a process of its own."""

    def __init__(self, crew: Crew | None, name: str) -> None:
        self.name = name
        self.metrics = Metrics(CollectorRegistry())
        self.figures = Figures(self.metrics, crew, name)

    def told(self) -> dict[tuple[str, ...], float]:
        return read(asyncio.run(self.metrics.told()))

    def leave(self) -> None:
        asyncio.run(self.figures.leave())


def read(written: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(written.decode())
        for sample in family.samples
    }


@pytest.fixture
def crew() -> Iterator[Crew]:
    begun = Crew.begin()
    assert begun is not None
    yield begun
    begun.end()


def test_counters_and_histograms_of_all_add_up(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    for worker, times in ((one, 2), (other, 3)):
        for _ in range(times):
            worker.metrics.shed("queue_full")
            worker.metrics.breaker("closed", "open")
        worker.leave()
    for worker in (one, other):
        told = worker.told()
        assert told["strata_sheds_total", "queue_full"] == 5
        assert told["strata_breaker_transitions_total", "open"] == 5
        assert told["strata_workers",] == 2
        assert told["strata_metrics_complete",] == 1


def test_gauges_add_up_but_a_store_that_one_cannot_reach_is_not_reached(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    one.metrics.store(lambda: StoreFigures(sessions=2, reachable=True))
    other.metrics.store(lambda: StoreFigures(sessions=3, reachable=False))
    other.leave()
    told = one.told()
    assert told["strata_sessions",] == 5
    assert told["strata_store_reachable",] == 0


def test_of_a_worker_that_has_ended_counters_stay_and_gauges_go(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.metrics.listeners(7)
    other.leave()
    assert one.told()["strata_event_listeners",] == 7
    crew.bury("1")
    told = one.told()
    assert told["strata_sheds_total", "bodies"] == 1
    assert told["strata_event_listeners",] == 0
    assert told["strata_workers",] == 1


def test_nobody_is_buried_twice_nor_who_left_nothing(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.leave()
    for name in ("1", "1", "2"):
        crew.bury(name)
    assert one.told()["strata_sheds_total", "bodies"] == 1


def test_many_renewals_leave_two_files(crew: Crew) -> None:
    for number in range(50):
        worker = Worker(crew, str(number))
        worker.metrics.shed("bodies")
        worker.leave()
        crew.bury(worker.name)
    last = Worker(crew, "50")
    assert last.told()["strata_sheds_total", "bodies"] == 50
    assert sorted(file.name for file in crew.folder.iterdir()) == ["gone", "worker-50"]


def test_what_a_worker_was_writing_when_it_was_killed_is_no_figure(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.leave()
    (crew.folder / "worker-1.new").write_bytes(b'[["strata')
    assert one.told()["strata_sheds_total", "bodies"] == 1
    crew.bury("1")
    assert one.told()["strata_sheds_total", "bodies"] == 1
    assert not (crew.folder / "worker-1.new").exists()


def test_one_that_is_left_behind_by_a_burial_that_was_cut_short_counts_once(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.leave()
    left = (crew.folder / "worker-1").read_bytes()
    crew.bury("1")
    (crew.folder / "worker-1").write_bytes(left)
    assert one.told()["strata_sheds_total", "bodies"] == 1
    crew.bury("1")
    assert not (crew.folder / "worker-1").exists()


def test_figures_are_told_whole_while_others_are_buried(crew: Crew) -> None:
    for number in range(60):
        worker = Worker(crew, str(number))
        worker.metrics.shed("bodies")
        worker.leave()
    asked, ended = Worker(crew, "asked"), threading.Event()

    def bury() -> None:
        for number in range(60):
            crew.bury(str(number))
        ended.set()

    thread = threading.Thread(target=bury)
    thread.start()
    seen = {asked.told()["strata_sheds_total", "bodies"]}
    while not ended.is_set():
        seen.add(asked.told()["strata_sheds_total", "bodies"])
    thread.join()
    assert seen == {60}


def test_figures_of_before_are_not_written_over_later_ones(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    early = one.figures._own()
    one.metrics.shed("bodies")
    one.leave()
    one.figures._leave(*early)
    assert other.told()["strata_sheds_total", "bodies"] == 1


def test_without_a_folder_each_tells_its_own_and_that_it_does() -> None:
    one = Worker(None, "0")
    one.metrics.shed("bodies")
    one.leave()
    told = one.told()
    assert told["strata_sheds_total", "bodies"] == 1
    assert told["strata_metrics_complete",] == 0


def test_a_folder_that_cannot_be_written_to_is_none(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.leave()
    one.metrics.shed("connections")
    (crew.folder / "worker-0.new").mkdir()  # as good as a full disk, for root too
    told = one.told()
    assert told["strata_sheds_total", "connections"] == 1
    assert told["strata_sheds_total", "bodies"] == 0
    assert told["strata_metrics_complete",] == 0
    (crew.folder / "worker-0.new").rmdir()
    told = one.told()
    assert told["strata_sheds_total", "bodies"] == 1
    assert told["strata_metrics_complete",] == 1


def test_a_process_of_its_own_is_complete_by_itself() -> None:
    metrics = Metrics(CollectorRegistry())
    assert read(asyncio.run(metrics.told())).keys() == read(metrics.written()).keys()
    assert read(metrics.written())["strata_metrics_complete",] == 1


def test_where_there_is_no_disk_there_is_no_crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    assert Crew.begin() is None


def test_nobody_else_may_look_into_the_folder(crew: Crew) -> None:
    assert crew.folder.stat().st_mode & 0o077 == 0
    assert crew.folder.stat().st_uid == os.getuid()


def test_a_folder_that_is_removed_is_made_again_for_nobody_else_and_all_are_told_of_there(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    for worker in (one, other):
        worker.metrics.shed("bodies")
        worker.leave()
    shutil.rmtree(crew.folder)
    told = one.told()
    assert (told["strata_sheds_total", "bodies"], told["strata_metrics_complete",]) == (1, 1)
    assert stat.S_IMODE(crew.folder.stat().st_mode) == 0o700
    other.leave()
    assert one.told()["strata_sheds_total", "bodies"] == 2


def test_one_that_ends_while_the_folder_is_away_is_no_hindrance_to_those_that_end_later(crew: Crew) -> None:
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.leave()
    shutil.rmtree(crew.folder)
    crew.bury("2")
    other.leave()
    crew.bury("1")
    assert one.told()["strata_sheds_total", "bodies"] == 1


def of_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def lead_away(folder: Path) -> None:
    target = folder.with_name(f"{folder.name}-target")
    target.mkdir(mode=0o700)
    folder.symlink_to(target)


def lead_nowhere(folder: Path) -> None:
    folder.symlink_to(folder.with_name(f"{folder.name}-target"))


def of_another(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")


@pytest.mark.parametrize(
    "taken", [of_all, lead_away, lead_nowhere, Path.touch, pytest.param(of_another, marks=as_root)]
)
def test_what_another_put_in_the_place_of_the_folder_is_neither_written_nor_believed(
    taken: Callable[[Path], None], tmp_path: Path
) -> None:
    crew = Crew(tmp_path / "figures")
    one, other = Worker(crew, "0"), Worker(crew, "1")
    other.metrics.shed("bodies")
    other.leave()
    left = (crew.folder / "worker-1").read_bytes()
    shutil.rmtree(crew.folder)
    taken(crew.folder)
    if crew.folder.is_dir():
        (crew.folder / "worker-1").write_bytes(left)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    one.metrics.shed("connections")
    told = one.told()
    assert (told["strata_sheds_total", "connections"], told["strata_sheds_total", "bodies"]) == (1, 0)
    assert told["strata_metrics_complete",] == 0
    with pytest.raises(OSError, match=r"^\[Errno"):
        crew.bury("1")
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_once_the_crew_has_ended_its_folder_is_not_made_again() -> None:
    crew = Crew.begin()
    assert crew is not None
    one = Worker(crew, "0")
    one.leave()
    one.figures.end()
    one.metrics.shed("bodies")
    one.leave()
    told = one.told()
    assert (told["strata_sheds_total", "bodies"], told["strata_metrics_complete",]) == (1, 0)
    assert not crew.folder.exists()


def test_of_workers_that_run_git_the_least_confined_is_told(crew: Crew) -> None:
    one, other, without = (Worker(crew, name) for name in "012")
    one.metrics.git(lambda: True)
    other.metrics.git(lambda: False)
    without.metrics.git(lambda: None)
    without.leave()
    assert one.told()["strata_git_confined",] == 1
    other.leave()
    assert one.told()["strata_git_confined",] == 0


def figures_of(address: str) -> dict[tuple[str, ...], float]:
    return read(httpx.get(f"{address}/metrics", timeout=60, trust_env=False).content)


def test_workers_that_run_find_each_other_again_once_their_folder_was_removed(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    with served(tmp_path, "--workers", "2", TMPDIR=str(tmp_path / "temporary")) as (address, process):
        soon(lambda: figures_of(address)["strata_workers",] == 2)
        (folder,) = (file.parent for file in tmp_path.glob("temporary/strata-*/worker-0"))
        shutil.rmtree(folder)
        soon(lambda: {file.name for file in folder.glob("worker-?")} == {"worker-0", "worker-1"})
        now = figures_of(address)
        assert (now["strata_workers",], now["strata_metrics_complete",]) == (2, 1)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        process.terminate()
        process.communicate(timeout=60)
    assert not folder.exists()


STEPS = st.lists(st.tuples(st.sampled_from(["count", "ask", "leave", "kill"]), st.integers(0, 2)), max_size=40)


@settings(max_examples=40)
@given(STEPS)
def test_a_counter_that_was_told_never_goes_down_and_misses_nothing_that_was_left(
    steps: list[tuple[str, int]],
) -> None:
    crew = Crew.begin()
    assert crew is not None
    names = iter(map(str, range(100)))
    workers = [Worker(crew, next(names)) for _ in range(3)]
    counted, left = [0, 0, 0], [0, 0, 0]
    kept = told = 0.0
    for step, at in steps:
        match step:
            case "count":
                workers[at].metrics.shed("bodies")
                counted[at] += 1
            case "ask":
                now = workers[at].told()["strata_sheds_total", "bodies"]
                left[at] = counted[at]
                assert told <= now == kept + sum(left)
                told = now
            case "leave":
                workers[at].leave()
                left[at] = counted[at]
            case "kill":  # what it counted since it left its figures was told to nobody
                kept += left[at]
                crew.bury(workers[at].name)
                workers[at], counted[at], left[at] = Worker(crew, next(names)), 0, 0
    assert workers[0].told()["strata_sheds_total", "bodies"] >= told
    crew.end()
