"""The words of ``git status``: as git itself writes them for people, from whichever folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from app.workspaces.status import Change, changes_in, written
from tests.reference.programs import WHO_AND_WHEN, git

NAMES = (
    *("plain.txt", "with space", "größer 文.md", 'quote"d', "back\\slash", "tab\there", "line\nend", "bell\a\b\v\f\r"),
    *("escape\x1b[1m", "delete\x7f", "-dash", "sub/plain.txt", "sub/with space/deep", "subway/x", "tracked/sub/x"),
)


def told(folder: Path, *more: str) -> bytes:
    asked = ["git", "-c", "core.quotePath=false", "status", "--short", *more]
    inherited = {"PATH": os.environ["PATH"], **WHO_AND_WHEN}
    return subprocess.run(asked, cwd=folder, capture_output=True, check=True, env=inherited).stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for folder in ("tracked/sub", "sub"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("modified", "deleted", "renamed from here"):
            (tmp_path / folder / name).write_text(f"{folder} {name}\n" * 9)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    for folder in ("tracked/sub", "sub"):
        (tmp_path / folder / "modified").write_text("other")
        (tmp_path / folder / "deleted").unlink()
        git(tmp_path, "mv", f"{folder}/renamed from here", f"{folder}/to")
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", "with space", "line\nend")
    return tmp_path


@pytest.mark.parametrize("folder", ["", "sub", "tracked", "tracked/sub", "sub/with space", "subway"])
def test_changes_are_written_as_git_writes_them(checkout: Path, folder: str) -> None:
    changes = tuple(changes_in(told(checkout, "-z").decode()))
    assert any(change.origin for change in changes)
    assert written(changes, folder) == told(checkout / folder).decode().rstrip("\n")


def test_a_change_that_broke_off_is_left_out() -> None:
    assert list(changes_in("?? a\0?? b")) == [Change("??", "a")]
    assert list(changes_in("R  to\0from\0R  next\0")) == [Change("R ", "to", "from")]
    assert list(changes_in("")) == []


def test_the_folder_itself_is_a_dot() -> None:
    assert written([Change("??", "a/"), Change("??", "a/b/")], "a") == "?? ./\n?? b/"
    assert written([Change("??", "a/")], "a/b") == "?? ../"
