from __future__ import annotations

from pathlib import Path

import pytest

from app.core.facts import Content, GitFacts, GitRoots, Kind
from app.errors import GitUnavailable, InvalidRequest, WorkspaceNotFound
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.inline import InlineFile, Link, Text, TreeConflictError
from app.workspaces.opening import CommitSource, Ground, InlineSource, LocalSource, Source, open_workspace
from app.workspaces.program import GitProgram
from tests.workspaces.trees import LIMIT, PROGRAM, in_an_hour, lay_in_commit


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(Fence.of([str(tmp_path)]), PROGRAM, LIMIT)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "real" / "project"
    folder.mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("saved")
    (tmp_path / "link").symlink_to("real")
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "app.git"
    lay_in_commit({"CLAUDE.md": Text("committed"), "src/a.ts": Text("a"), "link": Link("src")}, folder)
    return folder


def test_a_local_folder_opens_at_its_real_path(project: Path, tmp_path: Path, ground: Ground) -> None:
    opened = open_workspace(LocalSource(f"{tmp_path}/link/project/"), ground)
    assert opened.cwd == str(project)
    assert opened.workspace.read(f"{opened.cwd}/CLAUDE.md") == Content(b"saved")


def test_unsaved_buffers_lie_on_top_of_a_local_folder(project: Path, tmp_path: Path, ground: Ground) -> None:
    source = LocalSource(str(project), {f"{tmp_path}/link/project/CLAUDE.md": Text("unsaved")})
    assert open_workspace(source, ground).workspace.read(f"{project}/CLAUDE.md") == Content(b"unsaved")


def test_a_local_folder_must_exist_inside_the_fence(project: Path, ground: Ground) -> None:
    for cwd in (f"{project}/gone", f"{project}/CLAUDE.md", "/", "/etc", "/no/such", f"{project}\0"):
        for files in ({}, {f"{project}/gone/a.md": Text("a")}):
            with pytest.raises(WorkspaceNotFound) as caught:
                open_workspace(LocalSource(cwd, files), ground)
            assert caught.value.detail == (
                f"There is no folder {cwd} that this service may read. "
                "Give a folder inside the roots that it has for you (STRATA_ROOTS, or roots of your key) as cwd."
            )


def test_inline_files_open_at_a_folder_that_no_file_mentions(ground: Ground) -> None:
    opened = open_workspace(InlineSource("/home/dev/project/", {}, GitFacts(roots=GitRoots("/home/dev"))), ground)
    assert opened.cwd == "/home/dev/project"
    assert opened.workspace.roots(opened.cwd) == GitRoots("/home/dev")


def test_inline_files_open_at_the_real_path(ground: Ground) -> None:
    files: dict[str, InlineFile] = {"/home/dev/link": Link("real"), "/home/dev/link/p/a.md": Text("a")}
    assert open_workspace(InlineSource("/home/dev/link/p", files), ground).cwd == "/home/dev/real/p"
    assert open_workspace(InlineSource("/home/dev/link/q", files), ground).cwd == "/home/dev/real/q"


def test_inline_files_may_be_windows_ones(ground: Ground) -> None:
    opened = open_workspace(InlineSource(r"c:\p\sub", {"C:/p/CLAUDE.md": Text("a")}), ground)
    assert opened.cwd == r"C:\p\sub"
    assert opened.workspace.look(r"C:\p\CLAUDE.md").kind is Kind.FILE


@pytest.mark.parametrize("cwd", ["/p/file", "/p/file/", "/p/to_file", "/p/loop"])
def test_an_inline_cwd_must_not_be_something_else_than_a_folder(ground: Ground, cwd: str) -> None:
    files: dict[str, InlineFile] = {"/p/file": Text("a"), "/p/to_file": Link("file"), "/p/loop": Link("loop")}
    with pytest.raises(InvalidRequest, match="Give a folder as cwd"):
        open_workspace(InlineSource(cwd, files), ground)


def test_a_commit_opens_at_its_mount(repository: Path, ground: Ground) -> None:
    opened = open_workspace(CommitSource(str(repository), "main"), ground)
    assert opened.cwd == "/repo"
    assert opened.workspace.read("/repo/CLAUDE.md") == Content(b"committed")
    opened.workspace.close()


def test_a_commit_opens_at_a_folder_below_its_mount(repository: Path, ground: Ground) -> None:
    source = CommitSource(str(repository), "main", "/w/link", "/w", {"/w/link/a.ts": Text("unsaved")})
    opened = open_workspace(source, ground)
    assert opened.cwd == "/w/src"
    assert opened.workspace.read("/w/src/a.ts") == Content(b"unsaved")
    opened.workspace.close()


@pytest.mark.parametrize("cwd", ["/", "/repo/gone", "/repo/CLAUDE.md", "/elsewhere"])
def test_a_commit_must_have_the_folder(repository: Path, ground: Ground, cwd: str) -> None:
    with pytest.raises(WorkspaceNotFound, match="mounted at /repo"):
        open_workspace(CommitSource(str(repository), "main", cwd), ground)


def test_buffers_must_leave_the_cwd_a_folder(project: Path, repository: Path, ground: Ground) -> None:
    sources: tuple[Source, ...] = (
        LocalSource(str(project), {str(project): Text("a file")}),
        CommitSource(str(repository), "main", "/repo/src", files={"/repo/src": Text("a file")}),
    )
    for source in sources:
        with pytest.raises(InvalidRequest, match="Give a folder as cwd"):
            open_workspace(source, ground)


def test_a_relative_cwd_is_refused(repository: Path, ground: Ground) -> None:
    for cwd in ("project", "", ".", "C:project", "~/project"):
        sources = (LocalSource(cwd), InlineSource(cwd), CommitSource(str(repository), "main", cwd))
        for source in sources:
            with pytest.raises(InvalidRequest, match="not absolute"):
                open_workspace(source, ground)


def test_files_that_make_no_tree_are_refused(project: Path, repository: Path, ground: Ground) -> None:
    files = {"relative.md": Text("x")}
    for source in (
        LocalSource(str(project), files),
        InlineSource("/p", files),
        CommitSource(str(repository), "main", files=files),
    ):
        with pytest.raises(TreeConflictError):
            open_workspace(source, ground)


def test_a_missing_git_program_matters_to_commits_only(project: Path, repository: Path, tmp_path: Path) -> None:
    ground = Ground(Fence.of([str(tmp_path)]), GitProgram("/nonexistent/git"), LIMIT)
    assert open_workspace(LocalSource(str(project)), ground).cwd == str(project)
    with pytest.raises(GitUnavailable):
        open_workspace(CommitSource(str(repository), "main"), ground)


def test_what_one_request_read_is_kept_for_the_next(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    ground = Ground(Fence.of([str(tmp_path)]), PROGRAM, LIMIT, Disk(1_000_000, wall=in_an_hour))
    first, second = (open_workspace(LocalSource(str(tmp_path)), ground).workspace for _ in range(2))
    assert first.read(f"{tmp_path}/a.md") is second.read(f"{tmp_path}/a.md")
    assert first.footprint() is not None
