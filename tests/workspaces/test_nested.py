"""Repositories within a checkout: where git would have to look outside, nothing of it is told."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.workspaces import nested as module
from app.workspaces.fence import Fence
from app.workspaces.local import LocalWorkspace
from app.workspaces.nested import Nested, leads_outside
from app.workspaces.status import Change
from tests.reference.programs import git
from tests.workspaces.trees import POSIX, PROGRAM


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "inside"
    (folder / "sub").mkdir(parents=True)
    (folder / "other" / "refs").mkdir(parents=True)
    (tmp_path / "outside" / "refs").mkdir(parents=True)
    return folder


def write(inside: Path, place: str, text: str | bytes) -> None:
    (inside / place).parent.mkdir(parents=True, exist_ok=True)
    (inside / place).write_bytes(text if isinstance(text, bytes) else text.encode())


def workspace(inside: Path) -> LocalWorkspace:
    return LocalWorkspace(Fence.of([str(inside)]), POSIX, 10_000, PROGRAM)


def leads(inside: Path, folder: str = "sub") -> bool:
    return leads_outside(workspace(inside), str(inside / folder))


WITHIN: dict[str, Callable[[Path], object]] = {
    "none": lambda inside: None,
    "a repository": lambda inside: git(inside / "sub", "init", "--quiet"),
    "a pointer": lambda inside: write(inside, "sub/.git", "gitdir: ../other\n"),
    "a pointer to nothing": lambda inside: write(inside, "sub/.git", "gitdir: ../gone\n"),
    "a pointer to a file": lambda inside: (
        write(inside, "file", ""),
        write(inside, "sub/.git", "gitdir: ../file\n"),
    ),
    "another file": lambda inside: write(inside, "sub/.git", "nothing\n"),
    "a link": lambda inside: (inside / "sub" / ".git").symlink_to("../other"),
    "a link to nothing": lambda inside: (inside / "sub" / ".git").symlink_to("../gone"),
    "a common folder": lambda inside: (
        write(inside, "sub/.git/HEAD", ""),
        write(inside, "sub/.git/commondir", "../../other\n"),
    ),
    "a common folder that is gone": lambda inside: write(inside, "sub/.git/commondir", "../gone\n"),
}

BEYOND: dict[str, Callable[[Path], object]] = {
    "a pointer": lambda inside: write(inside, "sub/.git", "gitdir: ../../outside\n"),
    "a pointer to nothing": lambda inside: write(inside, "sub/.git", "gitdir: ../../gone\n"),
    "a pointer that only git can read": lambda inside: write(inside, "sub/.git", b"gitdir: ../\xff\n"),
    "a pointer too long": lambda inside: write(inside, "sub/.git", "gitdir: " + "x" * 20_000),
    "a link": lambda inside: (inside / "sub" / ".git").symlink_to("../../outside"),
    "refs": lambda inside: (
        (inside / "sub" / ".git").mkdir(),
        (inside / "sub" / ".git" / "refs").symlink_to("../../../outside/refs"),
    ),
    "HEAD": lambda inside: (
        (inside / "sub" / ".git").mkdir(),
        (inside / "sub" / ".git" / "HEAD").symlink_to("../../../outside/HEAD"),
    ),
    "a common folder": lambda inside: write(inside, "sub/.git/commondir", "../../../outside\n"),
    "a common folder that only git can read": lambda inside: write(inside, "sub/.git/commondir", " x\n"),
    "a link for its name": lambda inside: (
        (inside / "sub" / ".git").mkdir(),
        (inside / "sub" / ".git" / "commondir").symlink_to("../../../outside/commondir"),
    ),
    "in two steps": lambda inside: (
        write(inside, "other/commondir", "../../outside\n"),
        write(inside, "sub/.git", "gitdir: ../other\n"),
    ),
}


@pytest.mark.parametrize("name", list(WITHIN))
def test_what_stays_inside_may_be_asked_about(inside: Path, name: str) -> None:
    WITHIN[name](inside)
    assert not leads(inside)


@pytest.mark.parametrize("name", list(BEYOND))
def test_what_leads_outside_may_not(inside: Path, name: str) -> None:
    BEYOND[name](inside)
    assert leads(inside)


def test_below_a_name_that_is_no_text_nothing_can_be_followed(inside: Path) -> None:
    folder = os.fsdecode(b"bytes\xff")
    (inside / folder).mkdir()
    assert not leads(inside, folder)
    write(inside, f"{folder}/.git", "gitdir: ../other\n")
    assert leads(inside, folder)


def hides(inside: Path, code: str, path: str) -> bool:
    return Nested(workspace(inside), str(inside)).hides(Change(code, path))


def test_an_untracked_folder_is_hidden_when_anything_below_leads_outside(inside: Path) -> None:
    write(inside, "a/b/c/file", "")
    write(inside, "a/b/own/.git", "gitdir: ../../../other\n")
    assert not hides(inside, "??", "a/")
    write(inside, "a/b/c/d/.git", "gitdir: /gone\n")
    for path in ("a/", "a/b/", "a/b/c/", "a/b/c/d/", "a/b/c/d/file"):
        assert hides(inside, "??", path)
    assert not hides(inside, "??", "a/b/own/")
    assert not hides(inside, "??", "a/b/c/file")


def test_links_are_not_looked_through(inside: Path) -> None:
    write(inside, "a/file", "")
    write(inside, "b/.git", "gitdir: /gone\n")
    (inside / "a" / "link").symlink_to(inside / "b")
    assert not hides(inside, "??", "a/")


def test_a_tracked_file_is_hidden_when_a_repository_took_its_place(inside: Path) -> None:
    write(inside, "a", "")
    assert not hides(inside, " M", "a")
    assert not hides(inside, " D", "gone")
    write(inside, "b/.git", "gitdir: ../other\n")
    assert hides(inside, " D", "b")
    assert hides(inside, " T", "b")


def test_a_folder_with_more_than_is_looked_through_is_hidden(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        write(inside, f"a/{number}", "")
    monkeypatch.setattr(module, "_ENTRIES_LIMIT", 5)
    nested = Nested(workspace(inside), str(inside))
    assert not nested.hides(Change("??", "a/"))
    assert nested.hides(Change("??", "a/"))
    assert not nested.hides(Change("??", "a/1"))
