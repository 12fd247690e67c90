"""Watchers of roots: shared, started anew when there is more to watch, and gone when nobody follows."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.core.footprint import FolderMark, Footprint, Stamp
from app.notifying import Notifier, WatchRefusedError, open_platform
from app.watching import Follower, Manner, Watchers

PATIENCE = 60


def footprint(*folders: Path) -> Footprint:
    """Of these folders and all that is in them."""
    return Footprint(folders=tuple(mark(folder) for folder in sorted(folders)))


def mark(folder: Path) -> FolderMark:
    facts = folder.stat()
    stamp = Stamp(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    git = (".git", "directory" if (folder / ".git").exists() else "absent")
    return FolderMark(str(folder), stamp, settled=True, entries=(git,), names=())


def running(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within_patience() -> None:
        async with asyncio.timeout(PATIENCE):
            await scene()

    asyncio.run(within_patience())


class Waking:
    """Somebody who follows, and waits to be woken."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self.follower = Follower(self._woken.set)

    async def woken(self) -> None:
        await self._woken.wait()
        self._woken.clear()


@dataclass
class Platform:
    """A watch that notices what a test says, and refuses when it says so. It keeps what was asked of it."""

    refusals: list[WatchRefusedError] = field(default_factory=list)
    opened: list[tuple[str, ...]] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)

    def open(self, folders: tuple[str, ...]) -> Notifier:
        self.opened.append(folders)
        if self.refusals:
            raise self.refusals.pop(0)
        self.watches.append(Watch())
        return self.watches[-1]


class Watch:
    def __init__(self) -> None:
        self.closed = threading.Event()
        self._noticed: set[str] = set()
        self._broken = False

    def notice(self, *paths: Path) -> None:
        self._noticed |= {str(path) for path in paths}

    def fail(self) -> None:
        self._broken = True

    def watch(self, stop: threading.Event) -> frozenset[str]:
        while not stop.wait(0.005):
            if self._broken:
                raise WatchRefusedError("refused")
            if self._noticed:
                found, self._noticed = frozenset(self._noticed), set()
                return found
        return frozenset()

    def close(self) -> None:
        self.closed.set()


async def closed(watch: Watch) -> None:
    assert await asyncio.to_thread(watch.closed.wait, PATIENCE)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "a" / "sub").mkdir()
    return tmp_path.resolve() / "a"


def test_exactly_the_folders_of_the_footprint_are_watched_once_for_all(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one, other = Watchers(platform.open), Waking(), Waking()
        await asyncio.gather(*(watchers.follow(each.follower, footprint(root)) for each in (one, other)))
        assert watchers.roots == (str(root),)
        assert platform.opened == [(str(root),)]
        await asyncio.gather(one.woken(), other.woken())
        platform.watches[0].notice(root / "CLAUDE.md")
        await asyncio.gather(one.woken(), other.woken())
        watchers.close()
        await closed(platform.watches[0])

    running(scene)


def test_more_to_watch_starts_it_anew_and_all_look_after_that(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one, other = Watchers(platform.open), Waking(), Waking()
        await watchers.follow(one.follower, footprint(root))
        await one.woken()
        await watchers.follow(other.follower, footprint(root, root / "sub"))
        assert platform.opened == [(str(root),), (str(root), str(root / "sub"))]
        await closed(platform.watches[0])
        await asyncio.gather(one.woken(), other.woken())
        watchers.close()

    running(scene)


def test_less_to_watch_leaves_it_as_it_is(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one = Watchers(platform.open), Waking()
        await watchers.follow(one.follower, footprint(root, root / "sub"))
        await watchers.follow(one.follower, footprint(root))
        assert len(platform.opened) == 1
        watchers.close()

    running(scene)


def test_a_watcher_ends_with_its_last_follower(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one, other = Watchers(platform.open), Waking(), Waking()
        for each in (one, other):
            await watchers.follow(each.follower, footprint(root))
        watchers.leave(one.follower)
        assert watchers.roots == (str(root),)
        watchers.leave(other.follower)
        assert watchers.roots == ()
        await closed(platform.watches[0])

    running(scene)


def test_who_follows_another_root_has_left_the_first(root: Path, tmp_path: Path) -> None:
    platform = Platform()
    second = tmp_path.resolve() / "b"
    (second / ".git").mkdir(parents=True)

    async def scene() -> None:
        watchers, one = Watchers(platform.open), Waking()
        await watchers.follow(one.follower, footprint(root))
        await watchers.follow(one.follower, footprint(second))
        assert watchers.roots == (str(second),)
        await closed(platform.watches[0])
        watchers.close()

    running(scene)


def test_only_those_whom_a_path_concerns_are_woken(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one, other = Watchers(platform.open), Waking(), Waking()
        await watchers.follow(one.follower, footprint(root, root / "sub"))
        await watchers.follow(other.follower, footprint(root))
        await asyncio.gather(one.woken(), other.woken())
        platform.watches[-1].notice(root / "sub" / "x.md")
        await one.woken()
        platform.watches[-1].notice(root / "x.md")
        await one.woken()
        await other.woken()
        assert not other._woken.is_set()
        watchers.close()

    running(scene)


def test_a_refusal_is_told_with_its_reason_and_tried_again(root: Path) -> None:
    platform = Platform([WatchRefusedError("too_many_watches", 0.01)])

    async def scene() -> None:
        watchers, one = Watchers(platform.open), Waking()
        await watchers.follow(one.follower, footprint(root))
        assert watchers.manner(one.follower) == Manner("poll", "too_many_watches")
        await one.woken()
        while watchers.manner(one.follower) != Manner("notify"):
            await one.woken()
        watchers.close()

    running(scene)


def test_a_watch_that_breaks_later_is_told_too(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one = Watchers(platform.open), Waking()
        await watchers.follow(one.follower, footprint(root))
        await one.woken()
        platform.watches[0].fail()
        await one.woken()
        assert watchers.manner(one.follower) == Manner("poll", "refused")
        await closed(platform.watches[0])
        watchers.close()

    running(scene)


def test_a_watched_folder_that_changes_itself_is_watched_anew(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one = Watchers(platform.open), Waking()
        await watchers.follow(one.follower, footprint(root))
        platform.watches[0].notice(root)
        while len(platform.opened) < 2:
            await one.woken()
        watchers.close()

    running(scene)


def test_nothing_is_followed_after_the_end(root: Path) -> None:
    platform = Platform()

    async def scene() -> None:
        watchers, one = Watchers(platform.open), Waking()
        watchers.close()
        await watchers.follow(one.follower, footprint(root))
        assert (watchers.roots, platform.opened) == ((), [])

    running(scene)


def test_the_platform_notices_what_happens_in_the_folder(root: Path) -> None:
    notifier = open_platform((str(root),))
    (root / "CLAUDE.md").write_text("New.")
    assert notifier.watch(threading.Event()) == {str(root / "CLAUDE.md")}
    notifier.close()


def test_the_platform_stops_when_it_is_told_to(root: Path) -> None:
    notifier = open_platform((str(root),))
    stop = threading.Event()
    stop.set()
    assert notifier.watch(stop) == frozenset()
    notifier.close()
    with pytest.raises(WatchRefusedError, match="refused"):
        notifier.watch(stop)


def test_a_folder_that_is_gone_does_not_keep_others_from_being_watched(root: Path) -> None:
    (root / "sub").rmdir()
    notifier = open_platform((str(root / "sub"), str(root)))
    (root / "CLAUDE.md").write_text("New.")
    assert notifier.watch(threading.Event()) == {str(root / "CLAUDE.md")}
    notifier.close()


def test_without_the_package_nothing_is_watched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(WatchRefusedError, match="package_missing"):
        open_platform((str(root),))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError('OS file watch limit reached. about ["/p"]'), "too_many_watches"),
        (RuntimeError("Error creating recommended watcher: Too many open files (os error 24)"), "too_many_watches"),
        (OSError("input/output error"), "refused"),
    ],
)
def test_what_the_platform_says_becomes_a_word(
    error: Exception, reason: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise error

    monkeypatch.setattr(importlib.import_module("watchfiles._rust_notify"), "RustNotify", refused)
    with pytest.raises(WatchRefusedError, match=reason):
        open_platform((str(root),))
