"""The folder that git works in: private, small, and gone afterwards."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from app.workspaces.containment import Shown
from app.workspaces.git_folder import git_folder
from app.workspaces.repository import Repository


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "room"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


SHOWN = Shown(
    repository=Repository("/r/.git", "/r/.git", None),
    objects="/r/.git/objects",
    refs="/r/.git/refs",
    head=b"ref: refs/heads/main\n",
    config='[core]\nfsmonitor = evil\n[user]\nname = Ada\n[remote "r"]\nurl = https://secret@example.org\n',
    index=None,
    linked=(("info/exclude", "/r/.git/info/exclude"),),
)


def test_it_holds_links_and_nothing_of_the_repositorys_configuration_but_its_user(room: Path) -> None:
    made = git_folder(SHOWN)
    folder = Path(made.path)
    assert folder.parent == room
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == {
        *("HEAD", "config", "info", "info/exclude", "refs", "user")
    }
    assert (folder / "refs").readlink() == Path("/r/.git/refs")
    assert (folder / "config").read_text() == "[core]\n\tbare = true\n"
    assert made.user_config is not None
    assert Path(made.user_config).read_text() == "[user]\nname = Ada\n"
    made.close()
    made.close()
    assert list(room.iterdir()) == []


def test_without_words_on_a_user_it_holds_none(room: Path) -> None:
    made = git_folder(replace(SHOWN, config="[core]\n\tbare = false\n", linked=()))
    assert made.user_config is None
    assert {path.name for path in Path(made.path).iterdir()} == {"HEAD", "config", "refs"}
    made.close()


def test_it_is_removed_with_its_links_and_not_with_what_they_lead_to(room: Path, tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "kept").write_text("")
    git_folder(replace(SHOWN, refs=str(tmp_path / "refs"))).close()
    assert list(room.iterdir()) == []
    assert (tmp_path / "refs" / "kept").exists()


def test_nothing_is_left_when_it_cannot_be_filled(room: Path) -> None:
    with pytest.raises(FileExistsError):
        git_folder(replace(SHOWN, linked=(("HEAD", "/r/.git/HEAD"),)))
    assert list(room.iterdir()) == []
