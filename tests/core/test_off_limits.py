"""What loads by no way, whatever it is called and however it is reached."""

from __future__ import annotations

import pytest

from app.workspaces.inline import InlineFile, Link
from tests.core.tree import PROJECT, Tree, project

HOME = "/home/dev/.claude"
OWN: dict[str, InlineFile | str] = {f"{HOME}/CLAUDE.md": "PRIVATE", f"{HOME}/rules/a.md": "PRIVATE"}
STORE = ("HEAD", "objects/pack/x", "refs/heads/main")


def of_project(files: dict[str, InlineFile | str]) -> Tree:
    return project(files, sources=("project",))


def reasons(tree: Tree) -> dict[str, str | None]:
    return {row.path: row.reason for row in tree.load().rows if row.reason != "not_found"}


def texts(tree: Tree) -> list[str]:
    return [file.content for file in tree.load().files]


@pytest.mark.parametrize("link", [".claude", ".claude/rules"])
def test_the_users_own_folder_is_no_project_folder_under_another_name(link: str) -> None:
    target = HOME if link == ".claude" else f"{HOME}/rules"
    tree = of_project({**OWN, link: Link(target), "CLAUDE.md": "P"})
    assert texts(tree) == ["P"]
    assert reasons(tree)[f"{HOME}/rules/a.md"] == "private_folder"


def test_a_link_to_one_of_the_users_own_files_is_the_projects_file() -> None:
    assert texts(of_project({**OWN, "CLAUDE.md": Link(f"{HOME}/CLAUDE.md")})) == ["PRIVATE"]


@pytest.mark.parametrize("folder", [f"{PROJECT}/.bare", f"{PROJECT}/docs/store", "/home/dev/store"])
@pytest.mark.parametrize("name", ["config", "logs/HEAD", "info/exclude"])
def test_a_repository_without_a_checkout_is_metadata_whatever_it_is_called(folder: str, name: str) -> None:
    files = {f"{folder}/{each}": "x" for each in (*STORE, name)}
    tree = project({**files, "CLAUDE.md": f"P @{folder}/{name}"}).asked(allow_external_includes=True)
    assert texts(tree) == [f"P @{folder}/{name}"]
    assert "git_metadata" in reasons(tree).values()


def test_the_working_directory_may_be_one_itself() -> None:
    files = dict.fromkeys((*STORE, "config"), "x")
    assert texts(project({**files, "CLAUDE.md": "P @config"})) == ["P @config"]


@pytest.mark.parametrize("missing", STORE)
def test_a_folder_that_holds_only_some_of_it_is_a_folder(missing: str) -> None:
    files = {f"store/{each}": "x" for each in (*STORE, "config") if each != missing}
    assert texts(project({**files, "CLAUDE.md": "P @store/config"})) == ["P @store/config", "x"]


def test_an_include_at_the_root_is_looked_at_no_further() -> None:
    tree = project({"/notes.md": "N", "CLAUDE.md": "P @/notes.md"}).asked(allow_external_includes=True)
    assert texts(tree) == ["P @/notes.md", "N"]
