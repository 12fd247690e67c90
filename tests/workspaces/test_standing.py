"""What must not have moved: whatever changed since it was noted is seen, also when it was put back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from app.workspaces import standing as module
from app.workspaces.standing import TICK_NANOSECONDS, Standing, Watch, stamp_of


def noted(*paths: Path) -> Standing:
    watch = Watch()
    for path in paths:
        watch.note(str(path))
    return watch.standing()


def test_what_nobody_touched_stands_still(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert noted(tmp_path, tmp_path / "file", tmp_path / "none").still()


def test_a_folder_that_was_put_back_has_moved(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    standing = noted(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    (tmp_path / "b").rename(tmp_path / "a")
    assert not standing.still()


def test_a_file_that_was_written_and_written_back_has_moved(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one")
    standing = noted(tmp_path / "file")
    facts = (tmp_path / "file").stat()
    for text in ("two", "one"):
        (tmp_path / "file").write_text(text)
    os.utime(tmp_path / "file", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert not standing.still()


def test_what_was_not_there_has_moved_when_it_is(tmp_path: Path) -> None:
    standing = noted(tmp_path / "none")
    (tmp_path / "none").symlink_to("nowhere")
    assert not standing.still()


def test_what_is_gone_has_moved(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    watch = Watch()
    watch.note_place(str(tmp_path / "file"))
    watch.note_place(str(tmp_path / "none"))
    standing = watch.standing()
    assert standing.still()
    (tmp_path / "file").unlink()
    assert not standing.still()


def test_a_place_may_change_and_not_be_another(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    watch = Watch()
    watch.note_place(str(folder))
    (folder / "new").write_text("")
    assert watch.standing().still()
    folder.rename(tmp_path / "moved")
    folder.mkdir()
    assert not watch.standing().still()


def test_the_first_stamp_is_the_one_that_counts(tmp_path: Path) -> None:
    watch = Watch()
    watch.note(str(tmp_path))
    (tmp_path / "new").write_text("")
    watch.note(str(tmp_path))
    assert not watch.standing().still()
    assert watch.standing().identity(str(tmp_path)) == (tmp_path.stat().st_dev, tmp_path.stat().st_ino)
    assert watch.standing().identity(str(tmp_path / "other")) is None


def test_a_stamp_is_old_enough_for_the_next_change_to_leave_another(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("")
    stamp = Watch().noted(str(tmp_path))
    assert stamp == stamp_of(tmp_path.lstat())
    assert time.time_ns() - stamp[3] >= TICK_NANOSECONDS


def test_a_stamp_from_far_ahead_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    monkeypatch.setattr(time, "sleep", pytest.fail)
    assert Watch().noted(str(tmp_path)) == stamp_of(tmp_path.lstat())


def test_what_changes_all_the_time_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_WAITS", 3)
    monkeypatch.setattr(time, "sleep", lambda _: tmp_path.chmod(0o700))
    tmp_path.chmod(0o700)
    watch = Watch()
    with pytest.raises(BlockingIOError):
        watch.noted(str(tmp_path))
    watch.note(str(tmp_path))
    assert not watch.standing().still()
