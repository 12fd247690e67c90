"""The folder that git works in: private, small, and gone afterwards."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.facts import GitRoots
from app.errors import GitUnavailable
from app.workspaces import git_folder as module
from app.workspaces.containment import Shown
from app.workspaces.git_folder import git_folder, sweep
from app.workspaces.repository import Repository
from app.workspaces.standing import Standing
from tests.workspaces.trees import local

CONFIG = '[core]\nfsmonitor = evil\n[user]\nname = Ada\n[remote "r"]\nurl = https://secret@example.org\n'
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="open folders have a path there")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "room"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def parts(tmp_path: Path) -> Shown:
    """A repository without a checkout."""
    own = tmp_path.resolve() / "r" / ".git"
    for name in ("objects", "refs", "info"):
        (own / name).mkdir(parents=True)
    (own / "info" / "exclude").write_text("excluded\n")
    return Shown(
        workspace=local(own.parent),
        repository=Repository(str(own), str(own), None),
        objects=f"{own}/objects",
        refs=f"{own}/refs",
        head=b"ref: refs/heads/main\n",
        config=CONFIG,
        index=None,
        linked=(("info/exclude", f"{own}/info/exclude"),),
    )


def with_checkout(parts: Shown) -> Shown:
    own = parts.repository.git_dir
    return replace(parts, repository=Repository(own, own, GitRoots(str(Path(own).parent))))


def open_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir()) if sys.platform == "linux" else set()


def test_it_holds_links_and_nothing_of_the_repositorys_configuration_but_its_user(room: Path, parts: Shown) -> None:
    made = git_folder(parts)
    folder = Path(made.path)
    assert folder.parent == room
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {str(path.relative_to(folder)) for path in folder.rglob("*")} == {
        *("HEAD", "config", "info", "info/exclude", "refs", "user")
    }
    assert (folder / "refs").resolve() == Path(parts.refs)
    assert (folder / "info" / "exclude").read_text() == "excluded\n"
    assert (folder / "config").read_text() == "[core]\n\tbare = true\n"
    assert made.user_config is not None
    assert Path(made.user_config).read_text() == "[user]\nname = Ada\n"
    assert made.start == made.path
    made.close()
    made.close()
    assert list(room.iterdir()) == []


def test_without_words_on_a_user_it_holds_none(room: Path, parts: Shown) -> None:
    made = git_folder(replace(parts, config="[core]\n\tbare = false\n", linked=()))
    assert made.user_config is None
    assert {path.name for path in Path(made.path).iterdir()} == {"HEAD", "config", "refs"}
    made.close()


def test_it_is_removed_with_its_links_and_not_with_what_they_lead_to(room: Path, parts: Shown) -> None:
    (Path(parts.refs) / "kept").write_text("")
    git_folder(parts).close()
    assert list(room.iterdir()) == []
    assert (Path(parts.refs) / "kept").exists()


def test_nothing_is_left_when_it_cannot_be_filled(room: Path, parts: Shown) -> None:
    before = open_descriptors()
    with pytest.raises(FileExistsError):
        git_folder(replace(parts, linked=(("HEAD", "/r/.git/HEAD"),)))
    assert list(room.iterdir()) == []
    assert open_descriptors() == before


@on_linux
def test_what_takes_the_place_of_the_repository_meanwhile_is_not_seen(room: Path, parts: Shown, tmp_path: Path) -> None:
    made = git_folder(with_checkout(parts))
    checkout = Path(parts.repository.git_dir).parent
    checkout.rename(tmp_path / "moved")
    (tmp_path / "other" / ".git" / "objects" / "secret").mkdir(parents=True)
    checkout.symlink_to(tmp_path / "other")
    assert list(Path(parts.objects).iterdir()) != []
    assert list(Path(made.objects).iterdir()) == []
    assert Path(made.start).samefile(tmp_path / "moved")
    made.close()


@on_linux
def test_descriptors_are_closed_once(room: Path, parts: Shown) -> None:
    before = open_descriptors()
    made = git_folder(with_checkout(parts))
    assert len(made.held.descriptors) == 2
    assert len(open_descriptors() - before) == 2
    made.close()
    assert open_descriptors() == before
    with Path(parts.repository.git_dir, "info", "exclude").open() as file:  # takes a number that was free again
        made.close()
        assert file.read() == "excluded\n"


@on_linux
@pytest.mark.parametrize("change", ["gone", "another", "a link"])
def test_a_repository_that_is_not_in_its_place_any_more_is_refused(
    room: Path, parts: Shown, tmp_path: Path, change: str
) -> None:
    own = Path(parts.repository.git_dir)
    facts = own.stat()
    standing = Standing(((str(own), (facts.st_dev, facts.st_ino, 0, 0)),))
    git_folder(replace(parts, standing=standing)).close()
    own.parent.rename(tmp_path / "moved")
    if change == "another":
        own.mkdir(parents=True)
    elif change == "a link":
        own.parent.symlink_to(tmp_path / "moved")
    before = open_descriptors()
    with pytest.raises(GitUnavailable, match="changed while it was read"):
        git_folder(replace(with_checkout(parts), standing=standing))
    assert list(room.iterdir()) == []
    assert open_descriptors() == before


def test_elsewhere_git_goes_by_paths(room: Path, parts: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HOLDS_FOLDERS", False)
    made = git_folder(with_checkout(parts))
    assert (made.objects, made.held.descriptors) == (parts.objects, ())
    assert made.start == str(Path(parts.repository.git_dir).parent)
    assert (Path(made.path) / "refs").readlink() == Path(parts.refs)
    made.close()


def test_what_a_killed_process_left_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("strata-git-12-a", "strata-git-12-b", "strata-git-123-a", "other"):
        (tmp_path / name / "refs").mkdir(parents=True)
    sweep(12)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "strata-git-123-a"]


def test_where_there_is_no_folder_for_temporary_files_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    sweep(12)
    assert list(tmp_path.iterdir()) == []
