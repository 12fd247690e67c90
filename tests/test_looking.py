"""Looking at disks on threads, together and apart."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.building import build_contexts
from app.core.footprint import FileMark, FolderMark, Footprint
from app.looking import DEEPEST, TOGETHER, Looks
from app.settings import Settings
from app.workspaces.disk import Disk
from app.workspaces.drives import Drives
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints


def running(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within_patience() -> None:
        async with asyncio.timeout(60):
            await scene()

    asyncio.run(within_patience())


def inside(root: Path) -> Fence:
    return Fence.of([str(root)])


def file(path: Path) -> Footprint:
    """Of a file that was not there when it was looked for."""
    return Footprint(files=(FileMark(str(path), None, settled=False, sha256=None, problem="not_found"),))


class Faulty(Footprints):
    """Fails for files that are named so, and waits for ``go`` with others that are."""

    __slots__ = ("asked", "go")

    def renewed(self, footprint: Footprint, fence: Fence) -> Footprint | None:
        name = Path(footprint.files[0].path).name
        if name == "fault":
            raise ZeroDivisionError
        if name == "far":
            self.asked.release()
            self.go.wait()
        return Footprints.renewed(self, footprint, fence)


def faulty(footprints: Footprints) -> Faulty:
    made = Faulty(footprints.max_file_bytes, footprints.disk)
    object.__setattr__(made, "asked", threading.Semaphore(0))
    object.__setattr__(made, "go", threading.Event())
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def footprints(root: Path) -> Footprints:
    return build_contexts(Settings(roots=(root,))).footprints


def test_equal_footprints_come_back_as_one_object(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        looks = Looks(footprints)
        (root / "a.md").write_text("New.")
        asked = (looks.look(file(root / "a.md"), inside(root), near=True) for _ in range(TOGETHER))
        looked = await asyncio.gather(*asked)
        assert {tuple(change.kind for change in changes) for changes, _ in looked} == {("created",)}
        assert len({id(now) for _, now in looked}) == 1
        again = await asyncio.gather(*(looks.look(now, inside(root), near=True) for _, now in looked))
        assert {changes for changes, _ in again} == {()}

    running(scene)


def test_each_gets_what_it_asked_for_however_many_ask(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        looks = Looks(footprints)
        paths = [root / f"{number}.md" for number in range(TOGETHER * 2 + 1)]
        for path in paths[::2]:
            path.write_text("New.")
        looked = await asyncio.gather(*(looks.look(file(path), inside(root), near=True) for path in paths))
        assert [bool(changes) for changes, _ in looked] == [number % 2 == 0 for number in range(len(paths))]
        assert [now.files[0].path for _, now in looked] == [str(path) for path in paths]

    running(scene)


def test_one_that_fails_fails_alone(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        looks = Looks(faulty(footprints))
        names = ["a", "fault", "b"]
        asked = (looks.look(file(root / name), inside(root), near=True) for name in names)
        looked = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(one, ZeroDivisionError) for one in looked] == [False, True, False]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    running(scene)


def test_drives_far_away_hold_up_no_near_ones(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        slow = faulty(footprints)
        looks = Looks(slow)
        far = [asyncio.create_task(looks.look(file(root / "far"), inside(root), near=False)) for _ in range(3)]
        for _ in range(2):
            await asyncio.to_thread(slow.asked.acquire)
        (root / "a.md").write_text("New.")
        assert (await looks.look(file(root / "a.md"), inside(root), near=True))[0]
        assert not any(one.done() for one in far)
        slow.go.set()
        await asyncio.gather(*far)

    running(scene)


def test_who_does_not_wait_any_more_is_left_out(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        slow = faulty(footprints)
        looks = Looks(slow)
        gone = asyncio.create_task(looks.look(file(root / "far"), inside(root), near=True))
        await asyncio.to_thread(slow.asked.acquire)
        gone.cancel()
        slow.go.set()
        assert (await looks.look(file(root / "a.md"), inside(root), near=True))[0] == ()
        assert gone.cancelled()

    running(scene)


def test_of_what_is_nested_deeply_the_first_folders_are_told(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        private = FolderMark(str(root / ".claude"), None, settled=False, entries=(("rules", "absent"),))
        path = root / ".claude" / "rules" / "/".join("f" * (DEEPEST + 3))
        path.mkdir(parents=True)
        changes, now = await Looks(footprints).look(Footprint(folders=(private,)), inside(root), near=True)
        assert len(changes) == DEEPEST + 1
        rest, _ = await Looks(footprints).look(now, inside(root), near=True)
        assert {change.kind for change in rest} <= {"created"}

    running(scene)


def test_nothing_is_asked_where_nothing_was_read(footprints: Footprints) -> None:
    async def scene() -> None:
        nothing = Footprint()
        assert await Looks(footprints).look(nothing, inside(root), near=True) == ((), nothing)

    running(scene)


def test_what_is_near_is_told_by_the_drives(root: Path, footprints: Footprints) -> None:
    async def scene() -> None:
        (root / "a.md").write_text("New.")
        _, now = await Looks(footprints).look(file(root / "a.md"), inside(root), near=True)
        assert Looks(footprints).is_near(now)
        unknown = replace(footprints, disk=Disk(drives=Drives(str(root / "no table of mounts"))))
        assert not Looks(unknown).is_near(now)

    running(scene)
