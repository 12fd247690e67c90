from __future__ import annotations

from pathlib import Path

import pytest

from app.core.facts import Content, Kind, Node
from app.workspaces.inline import Folder, InlineFile, Link, Text, TreeConflictError
from app.workspaces.overlay import OverlayWorkspace
from tests.reference.programs import git
from tests.workspaces.trees import LIMIT, committed, lay_in_commit, lay_on_disk, local

ON_DISK: dict[str, InlineFile] = {
    "CLAUDE.md": Text("saved"),
    "AGENTS.md": Text("agents"),
    "link.md": Link("AGENTS.md"),
    "docs/a.md": Text("a"),
    "docs/b.md": Text("b"),
    "to_docs": Link("docs"),
    "to_new": Link("new/c.md"),
    "outside": Link("/etc/passwd"),
}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    lay_on_disk(ON_DISK, folder)
    return folder


def overlaid(disk: Path, files: dict[str, InlineFile]) -> OverlayWorkspace:
    keyed = {path if path.startswith("/") else f"{disk}/{path}": file for path, file in files.items()}
    return OverlayWorkspace(local(disk), keyed, LIMIT)


def test_an_overlaid_file_wins(disk: Path) -> None:
    workspace = overlaid(disk, {"CLAUDE.md": Text("unsaved")})
    assert workspace.read(f"{disk}/CLAUDE.md") == Content(b"unsaved")
    assert workspace.look(f"{disk}/CLAUDE.md").size == 7
    assert workspace.read(f"{disk}/AGENTS.md") == Content(b"agents")
    assert (disk / "CLAUDE.md").read_text() == "saved"


def test_a_link_of_the_base_sees_the_overlaid_text(disk: Path) -> None:
    workspace = overlaid(disk, {"AGENTS.md": Text("unsaved"), "new/c.md": Text("c")})
    assert workspace.look(f"{disk}/link.md") == Node(Kind.FILE, f"{disk}/AGENTS.md", 7)
    assert workspace.read(f"{disk}/link.md") == Content(b"unsaved")
    assert workspace.read(f"{disk}/to_new") == Content(b"c")


def test_a_file_below_a_link_of_the_base_stands_where_the_link_leads(disk: Path) -> None:
    workspace = overlaid(disk, {"to_docs/a.md": Text("unsaved"), "to_docs/new/d.md": Text("d")})
    assert workspace.read(f"{disk}/docs/a.md") == Content(b"unsaved")
    assert workspace.look(f"{disk}/to_docs/new/d.md").real == f"{disk}/docs/new/d.md"
    assert workspace.names(f"{disk}/docs") == ("a.md", "b.md", "new")


def test_a_file_over_a_link_hides_the_link(disk: Path) -> None:
    workspace = overlaid(disk, {"link.md": Text("own")})
    assert workspace.look(f"{disk}/link.md") == Node(Kind.FILE, f"{disk}/link.md", 3)
    assert workspace.read(f"{disk}/AGENTS.md") == Content(b"agents")


def test_listings_merge(disk: Path) -> None:
    workspace = overlaid(disk, {"docs/b.md": Text("unsaved"), "docs/c.md": Text("new"), "docs/Z/z.md": Text("z")})
    assert workspace.names(f"{disk}/docs") == ("Z", "a.md", "b.md", "c.md")
    assert workspace.names(f"{disk}/docs/Z") == ("z.md",)


def test_a_file_over_a_folder_hides_what_was_in_it(disk: Path) -> None:
    workspace = overlaid(disk, {"docs": Text("a file now")})
    assert workspace.look(f"{disk}/docs").kind is Kind.FILE
    assert workspace.look(f"{disk}/docs/a.md").kind is Kind.MISSING
    assert workspace.look(f"{disk}/to_docs").kind is Kind.FILE


def test_a_folder_over_a_file_or_a_link_is_empty(disk: Path) -> None:
    workspace = overlaid(disk, {"CLAUDE.md": Folder(), "to_docs": Folder(), "AGENTS.md/x.md": Text("x")})
    assert workspace.names(f"{disk}/CLAUDE.md") == ()
    assert workspace.names(f"{disk}/to_docs") == ()
    assert workspace.look(f"{disk}/to_docs/a.md").kind is Kind.MISSING
    assert workspace.names(f"{disk}/AGENTS.md") == ("x.md",)


def test_a_folder_over_a_folder_changes_nothing(disk: Path) -> None:
    assert overlaid(disk, {"docs": Folder()}).names(f"{disk}/docs") == ("a.md", "b.md")


def test_a_link_may_be_overlaid(disk: Path) -> None:
    workspace = overlaid(disk, {"CLAUDE.md": Link("docs/a.md"), "docs": Link("other"), "other/a.md": Text("other")})
    assert workspace.look(f"{disk}/CLAUDE.md") == Node(Kind.FILE, f"{disk}/other/a.md", 5)
    assert workspace.look(f"{disk}/to_docs/a.md").real == f"{disk}/other/a.md"
    assert workspace.names(f"{disk}/to_docs") == ("a.md",)


@pytest.mark.parametrize("target", ["CLAUDE.md/", "CLAUDE.md/.", "CLAUDE.md/../CLAUDE.md"])
def test_a_link_that_dangles_in_the_base_over_something_that_is_there_dangles_still(disk: Path, target: str) -> None:
    (disk / "odd").symlink_to(target)
    assert overlaid(disk, {}).look(f"{disk}/odd").kind is Kind.DANGLING


def test_a_file_over_a_circle_of_the_base_is_there(disk: Path) -> None:
    (disk / "ping").symlink_to("pong")
    (disk / "pong").symlink_to("ping")
    workspace = overlaid(disk, {"ping": Text("unsaved")})
    assert workspace.look(f"{disk}/ping") == Node(Kind.FILE, f"{disk}/ping", 7)


def test_files_may_lie_outside_the_fence_and_open_nothing_there(disk: Path) -> None:
    workspace = overlaid(disk, {"/etc/claude-code/CLAUDE.md": Text("managed"), "/etc/link": Link("passwd")})
    assert workspace.read("/etc/claude-code/CLAUDE.md") == Content(b"managed")
    assert workspace.names("/etc") == ("claude-code", "link")
    for path in ("/etc/passwd", "/etc/link", "/no/such", f"{disk}/outside"):
        assert workspace.look(path).kind is Kind.OUTSIDE
        assert workspace.read(path) == Content(None, "outside_fence")
    assert workspace.look(f"{disk}/outside").real == f"{disk}/outside"
    assert workspace.read(f"{disk}/docs/a.md") == Content(b"a")


@pytest.mark.parametrize(
    "files",
    [
        {"x": Text("x"), "x/y": Text("y")},
        {"docs/a.md": Text("x"), "to_docs/a.md": Text("y")},
        {"loop": Link("loop"), "loop/a.md": Text("a")},
    ],
)
def test_files_that_make_no_tree_are_refused(disk: Path, files: dict[str, InlineFile]) -> None:
    with pytest.raises(TreeConflictError):
        overlaid(disk, files)


def test_git_is_the_bases(disk: Path) -> None:
    git(disk, "init", "--quiet", "--initial-branch=main")
    base = local(disk)
    workspace = overlaid(disk, {"new.md": Text("unsaved")})
    assert workspace.roots(str(disk)) == base.roots(str(disk))
    assert workspace.git(str(disk)) == base.git(str(disk))


def test_a_commit_may_be_overlaid(tmp_path: Path) -> None:
    lay_in_commit({"CLAUDE.md": Text("committed"), "link.md": Link("CLAUDE.md")}, tmp_path)
    workspace = OverlayWorkspace(committed(tmp_path), {"/repo/CLAUDE.md": Text("unsaved")}, LIMIT)
    assert workspace.read("/repo/link.md") == Content(b"unsaved")
    workspace.close()
