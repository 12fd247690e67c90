from __future__ import annotations

import ctypes
import os
import resource
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from app.errors import Overloaded
from app.workspaces import descent
from app.workspaces.descent import ByPath, Descent, OutsideError, Way, way_within
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from tests.workspaces.swapping import swapped
from tests.workspaces.trees import LIMIT, POSIX, PROGRAM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such descriptors")

IN_OPEN = 0x20
FRUITLESS = (FileNotFoundError, NotADirectoryError)
WAYS: dict[str, Callable[[Fence], Way]] = {
    "by descriptors": Descent,
    "with one folder open": lambda fence: Descent(fence, most=1),
    "without a place to reopen from": lambda fence: Descent(fence, reopening="/nonexistent"),
    "by paths": ByPath,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """``docs/deep/a.md``, ``link.md`` to it, ``fifo.md``."""
    root = tmp_path / "root"
    (root / "docs" / "deep").mkdir(parents=True)
    (root / "docs" / "deep" / "a.md").write_text("text")
    (root / "link.md").symlink_to("docs/deep/a.md")
    os.mkfifo(root / "fifo.md")
    return root


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest, root: Path) -> Iterator[Way]:
    with closing(WAYS[request.param](Fence.of([str(root)]))) as way:
        yield way


def read(opened: tuple[int, os.stat_result]) -> bytes:
    number, facts = opened
    try:
        assert facts.st_ino == os.fstat(number).st_ino
        return os.read(number, LIMIT)
    finally:
        os.close(number)


def listed(found: int | str) -> list[str]:
    with os.scandir(found) as entries:
        names = sorted(entry.name for entry in entries)
    if isinstance(found, int):
        os.close(found)
    return names


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_every_way_tells_what_stands_there(root: Path, way: Way) -> None:
    assert way.facts(f"{root}/docs/deep/a.md").st_size == 4
    assert stat.S_ISLNK(way.facts(f"{root}/link.md").st_mode)
    assert stat.S_ISDIR(way.facts("/").st_mode)
    assert way.target(f"{root}/link.md") == "docs/deep/a.md"
    assert way.may_list(f"{root}/docs")
    assert read(way.file(f"{root}/docs/deep/a.md")) == b"text"
    assert listed(way.listing(f"{root}/docs/deep")) == ["a.md"]
    assert listed(way.listing(str(root))) == ["docs", "fifo.md", "link.md"]


def test_every_way_says_what_is_not_there(root: Path, way: Way) -> None:
    for path in (f"{root}/gone.md", f"{root}/gone/a.md", f"{root}/docs/deep/a.md/b"):
        for ask in (way.facts, way.target, way.file, way.listing):
            with pytest.raises(FRUITLESS):
                ask(path)
    with pytest.raises(ValueError, match="null"):
        way.facts(f"{root}/nul\0.md")


def test_no_way_follows_a_link_at_the_end(root: Path, way: Way) -> None:
    with pytest.raises(OSError, match=r"Too many levels|not a regular file"):
        way.file(f"{root}/link.md")


def test_no_way_gives_what_lies_outside(root: Path, way: Way) -> None:
    (root.parent / "secret.md").write_text("secret")
    with pytest.raises(OutsideError):
        way.file(f"{root.parent}/secret.md")
    with pytest.raises(OutsideError):
        way.listing(str(root.parent))


def test_no_way_gives_what_a_folder_that_became_a_link_leads_to(root: Path, way: Way) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("secret")
    (root / "docs").rename(root / "away")
    (root / "docs").symlink_to("../outside")
    for ask in (way.file, way.listing):
        with pytest.raises((OutsideError, *FRUITLESS)):
            ask(f"{root}/docs/a.md")


def test_a_way_leaves_nothing_open(root: Path, way: Way) -> None:
    way.close()
    before = open_descriptors()
    way.facts(f"{root}/docs/deep/a.md")
    os.close(way.file(f"{root}/docs/deep/a.md")[0])
    for path in (f"{root}/gone.md", f"{root}/link.md/a", f"{root}/docs", str(root.parent)):
        with suppress(OSError):
            os.close(way.file(path)[0])
    way.close()
    way.close()
    assert open_descriptors() == before


def test_folders_that_nobody_closed_close_themselves(root: Path) -> None:
    before = open_descriptors()
    workspace = LocalWorkspace(Fence.of([str(root)]), POSIX, LIMIT, PROGRAM, Disk())
    assert workspace.read(f"{root}/docs/deep/a.md").data == b"text"
    assert open_descriptors() > before
    del workspace
    assert open_descriptors() == before


def test_few_folders_are_open_at_once(tmp_path: Path) -> None:
    folders = [tmp_path / str(number) / "below" for number in range(40)]
    for folder in folders:
        folder.mkdir(parents=True)
    before = open_descriptors()
    with closing(Descent(Fence.of([str(tmp_path)]), most=5)) as way:
        for folder in (*folders, *folders):
            with pytest.raises(FileNotFoundError):
                way.facts(f"{folder}/a.md")
            assert open_descriptors() <= before + 5


def test_a_folder_may_lie_deeper_than_calls_may(tmp_path: Path) -> None:
    deep = "/".join([str(tmp_path), *["d"] * 400])
    Path(deep).mkdir(parents=True)
    with closing(Descent(Fence.of([str(tmp_path)]))) as way:
        assert stat.S_ISDIR(way.facts(deep).st_mode)


def test_where_no_more_can_be_opened_that_is_said_and_nothing_is_called_missing(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    workspace = LocalWorkspace(Fence.of([str(root)]), POSIX, LIMIT, PROGRAM, Disk())
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(Overloaded):
            workspace.look(f"{root}/docs/deep/a.md")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert workspace.read(f"{root}/docs/deep/a.md").data == b"text"


def test_the_way_is_by_paths_where_there_are_no_descriptors_of_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(way_within(Fence.of([])), Descent)
    monkeypatch.setattr(descent, "CAN_DESCEND", False)
    assert isinstance(way_within(Fence.of([])), ByPath)


def test_a_folder_is_its_path_where_folders_cannot_be_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "supports_fd", set())
    way = ByPath(Fence.of([str(root)]))
    assert way.listing(f"{root}/docs") == f"{root}/docs"
    assert Disk().names(way, f"{root}/docs") == ("deep",)
    assert Disk().names(way, f"{root}/nothing") == ()
    with pytest.raises(OutsideError):
        way.listing(str(root.parent))


@contextmanager
def watched(path: Path) -> Iterator[Callable[[], bool]]:
    """What is given says whether ``path`` was opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = libc.inotify_init1(os.O_NONBLOCK)
    if number < 0 or libc.inotify_add_watch(number, bytes(path), IN_OPEN) < 0:
        pytest.skip(f"no more can be watched: {os.strerror(ctypes.get_errno())}")
    try:
        yield lambda: was_opened(number)
    finally:
        os.close(number)


def was_opened(number: int) -> bool:
    try:
        return bool(os.read(number, 4_096))
    except BlockingIOError:
        return False


def test_a_pipe_is_never_opened_however_fast_it_takes_the_place_of_a_file(root: Path) -> None:
    (root / "a.md").write_text("text")
    with watched(root / "fifo.md") as opened, swapped([(root / "a.md", root / "fifo.md")]):
        found = {tried(Descent(Fence.of([str(root)])), f"{root}/a.md") for _ in range(3_000)}
        assert not opened()
    assert found == {b"text", None}


def tried(way: Way, real: str) -> bytes | None:
    with closing(way):
        try:
            return read(way.file(real))
        except OSError:
            return None


def test_a_pipe_that_is_opened_is_seen_to_be(root: Path) -> None:
    with watched(root / "fifo.md") as opened:
        os.close(os.open(root / "fifo.md", os.O_RDONLY | os.O_NONBLOCK))
        assert opened()
