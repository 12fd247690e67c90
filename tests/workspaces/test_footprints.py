from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.facts import Kind
from app.core.footprint import Change, FileMark, FolderMark, Footprint
from app.workspaces.disk import Disk
from app.workspaces.drives import Drives
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints
from app.workspaces.inline import InlineWorkspace, Text
from app.workspaces.local import LocalWorkspace
from app.workspaces.overlay import OverlayWorkspace
from tests.reference.programs import git
from tests.workspaces.trees import (
    FILES,
    KINDS,
    LIMIT,
    POSIX,
    PROGRAM,
    Laid,
    committed,
    in_an_hour,
    lay_in_commit,
    local,
    pass_a_tick,
)

SETTLED = Disk(wall=in_an_hour)
FRESH = Disk()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """``a.md`` with eight bytes, ``docs/b.md``, ``link.md`` to the former, ``empty``."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a.md").write_text("text 000")
    (root / "docs" / "b.md").write_text("deep")
    (root / "link.md").symlink_to("a.md")
    pass_a_tick(root)
    return root


def asked(root: Path, disk: Disk = SETTLED) -> LocalWorkspace:
    """A workspace that was asked for all of it, and for what is not there."""
    workspace = local(root, disk)
    for path in ("a.md", "docs/b.md", "link.md", "gone.md", "docs/gone.md", "gone/c.md"):
        workspace.read(f"{root}/{path}")
    for path in ("docs", "empty"):
        workspace.names(f"{root}/{path}")
    workspace.look(f"{root}/empty/c.md")
    return workspace


def own(root: Path, disk: Disk = SETTLED) -> Footprint:
    """The footprint of all of it, without the folders above that others are busy in."""
    whole = asked(root, disk).footprint()
    return replace(whole, folders=tuple(mark for mark in whole.folders if mark.path.startswith(str(root.parent))))


@dataclass(frozen=True)
class Comparing:
    """The comparisons of one caller, whose fence is always the same."""

    fence: Fence
    footprints: Footprints

    def renewed(self, footprint: Footprint) -> Footprint | None:
        return self.footprints.renewed(footprint, self.fence)

    def changes(self, footprint: Footprint) -> tuple[tuple[Change, ...], Footprint]:
        return self.footprints.changes(footprint, self.fence)


def comparing(root: Path, disk: Disk = SETTLED, limit: int = LIMIT) -> Comparing:
    return Comparing(Fence.of([str(root)]), Footprints(limit, disk))


def marks(footprint: Footprint) -> tuple[FileMark | FolderMark, ...]:
    return (*footprint.files, *footprint.folders)


def test_a_footprint_holds_every_folder_that_was_looked_in_and_every_file_that_was_read(root: Path) -> None:
    footprint = asked(root).footprint()
    here = {mark.path: mark for mark in footprint.folders}
    assert [mark.path for mark in footprint.files] == [f"{root}/a.md", f"{root}/docs/b.md"]
    assert set(here) == {*POSIX.chain(str(root)), "/", f"{root}/docs", f"{root}/empty"}
    assert here[str(root)].entries == (
        ("a.md", "file"),
        ("docs", "directory"),
        ("empty", "directory"),
        ("gone", "absent"),
        ("gone.md", "absent"),
        ("link.md", "link:a.md"),
    )
    assert here[str(root)].names is None
    assert here[f"{root}/docs"].entries == (("b.md", "file"), ("gone.md", "absent"))
    assert (here[f"{root}/docs"].names, here[f"{root}/empty"].names) == (("b.md",), ())


def test_the_folders_of_a_footprint_come_before_those_in_them(root: Path) -> None:
    paths = [mark.path for mark in asked(root).footprint().folders]
    assert all(POSIX.parent(path) in paths[: at + 1] for at, path in enumerate(paths))


def test_what_was_left_alone_is_the_same_footprint(root: Path) -> None:
    footprint = own(root)
    assert footprint.settled
    assert comparing(root).renewed(footprint) is footprint
    assert comparing(root).changes(footprint) == ((), footprint)


def test_sessions_of_one_folder_hold_the_same_marks(root: Path) -> None:
    disk = Disk(1_000_000, wall=in_an_hour)
    first, second = own(root, disk), own(root, disk)
    assert all(one is other for one, other in zip(marks(first), marks(second), strict=True))
    pass_a_tick(root)
    in_place(root / "a.md", b"text 001")
    third = own(root, disk)
    assert [one.path for one, other in zip(marks(first), marks(third), strict=True) if one != other] == [
        f"{root}/a.md",
        str(root),
    ]


def test_what_was_touched_a_moment_ago_is_looked_at_again(root: Path) -> None:
    footprint = own(root, FRESH)
    assert not footprint.settled
    assert comparing(root, FRESH).renewed(footprint) == footprint


def test_what_has_settled_since_is_proven_by_its_stamp_from_then_on(root: Path) -> None:
    footprint = comparing(root).renewed(own(root, FRESH))
    assert footprint is not None
    assert footprint.settled
    assert comparing(root).renewed(footprint) is footprint


def test_nothing_settles_on_a_drive_that_is_not_local(root: Path) -> None:
    disk = Disk(drives=Drives("/nonexistent"), wall=in_an_hour)
    footprint = own(root, disk)
    assert not any(mark.settled for mark in marks(footprint))
    assert comparing(root, disk).renewed(footprint) == footprint


def in_place(path: Path, data: bytes) -> None:
    """The same size, modification time and inode."""
    modified = path.stat().st_mtime_ns
    with path.open("r+b") as opened:
        opened.write(data)
    os.utime(path, ns=(modified, modified))


def rename_over(path: Path, data: bytes) -> None:
    modified = path.stat().st_mtime_ns
    (path.parent / "new").write_bytes(data)
    os.utime(path.parent / "new", ns=(modified, modified))
    (path.parent / "new").rename(path)


def swap_for_a_link(folder: Path) -> None:
    """The same files, behind a link."""
    folder.rename(folder.parent / "moved")
    folder.symlink_to("moved")


def swap_for_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def retarget(link: Path) -> None:
    link.unlink()
    link.symlink_to("docs/b.md")


EDITS: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "a file is written in place": (lambda root: in_place(root / "a.md", b"text 001"), {"a.md": "modified"}),
    "a file is renamed over": (lambda root: rename_over(root / "a.md", b"text 001"), {"a.md": "modified"}),
    "a file grows": (lambda root: (root / "a.md").write_text("more than before"), {"a.md": "modified"}),
    "a file grows too large": (lambda root: (root / "a.md").write_bytes(b"x" * (LIMIT + 1)), {"a.md": "modified"}),
    "a file goes": (lambda root: (root / "a.md").unlink(), {"a.md": "deleted"}),
    "a file is swapped for a folder": (lambda root: swap_for_a_folder(root / "a.md"), {"a.md": "modified"}),
    "an absent file comes": (lambda root: (root / "gone.md").touch(), {"gone.md": "created"}),
    "an absent file comes in a listed folder": (
        lambda root: (root / "docs/gone.md").touch(),
        {"docs/gone.md": "created"},
    ),
    "an absent folder comes": (lambda root: (root / "gone").mkdir(), {"gone": "created"}),
    "a name comes into a listing": (lambda root: (root / "empty/new.md").touch(), {"empty/new.md": "created"}),
    "a name goes from a listing": (lambda root: (root / "docs/b.md").unlink(), {"docs/b.md": "deleted"}),
    "a name is changed in a listing": (
        lambda root: (root / "docs/b.md").rename(root / "docs/c.md"),
        {"docs/b.md": "deleted", "docs/c.md": "created"},
    ),
    "a link is retargeted": (lambda root: retarget(root / "link.md"), {"link.md": "modified"}),
    "a folder is swapped for a link": (
        lambda root: swap_for_a_link(root / "docs"),
        {"docs": "modified", "docs/b.md": "deleted"},
    ),
    "a folder goes": (lambda root: shutil.rmtree(root / "docs"), {"docs": "deleted", "docs/b.md": "deleted"}),
}


@pytest.mark.parametrize("disk", [SETTLED, FRESH], ids=["settled", "fresh"])
@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_what_was_asked_for_is_seen_and_told(root: Path, name: str, disk: Disk) -> None:
    edit, expected = EDITS[name]
    footprint = asked(root, disk).footprint()
    pass_a_tick(root)
    edit(root)
    assert comparing(root, disk).renewed(footprint) is None
    told, now = comparing(root, disk).changes(footprint)
    assert told == tuple(Change(f"{root}/{path}", kind) for path, kind in sorted(expected.items()))
    assert comparing(root, disk).changes(now)[0] == ()


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_within_a_moment_of_the_answer_is_seen(root: Path, name: str) -> None:
    (root / "a.md").write_text("text 000")
    footprint = asked(root, FRESH).footprint()
    EDITS[name][0](root)
    assert comparing(root, FRESH).renewed(footprint) is None


def test_writes_of_the_same_size_and_time_in_a_row_are_each_seen(root: Path) -> None:
    for number in range(1, 300):
        footprint = asked(root, FRESH).footprint()
        in_place(root / "a.md", b"text %03d" % number)
        assert comparing(root, FRESH).renewed(footprint) is None


HARMLESS: dict[str, Callable[[Path], object]] = {
    "a file is touched": lambda root: os.utime(root / "a.md"),
    "a file may be run": lambda root: (root / "a.md").chmod(0o755),
    "a file is written as it was": lambda root: (root / "a.md").write_text("text 000"),
    "a file is renamed over with its like": lambda root: rename_over(root / "a.md", b"text 000"),
    "a file goes and comes back": lambda root: ((root / "a.md").unlink(), (root / "a.md").write_text("text 000")),
    "a folder may be written by more": lambda root: (root / "docs").chmod(0o777),
    "a name comes that nobody asked for": lambda root: (root / "other.md").touch(),
    "a folder above is busy": lambda root: (root.parent / "other.md").touch(),
    "a name goes and comes back in a listing": lambda root: (
        (root / "docs/b.md").rename(root / "b.md"),
        (root / "b.md").rename(root / "docs/b.md"),
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_no_answer_is_no_change_and_is_proven_by_stamps_from_then_on(root: Path, name: str) -> None:
    footprint = own(root)
    pass_a_tick(root)
    HARMLESS[name](root)
    renewed = comparing(root).renewed(footprint)
    assert renewed is not None
    assert renewed != footprint
    assert comparing(root).renewed(renewed) is renewed
    assert comparing(root).changes(footprint) == ((), renewed)


def test_a_file_that_was_only_looked_at_counts_with_its_size(root: Path) -> None:
    workspace = local(root, SETTLED)
    workspace.look(f"{root}/link.md")
    footprint = workspace.footprint()
    assert [(mark.path, mark.sha256, mark.problem) for mark in footprint.files] == [(f"{root}/a.md", None, None)]
    pass_a_tick(root)
    in_place(root / "a.md", b"text 001")
    assert comparing(root).renewed(footprint) is not None
    (root / "a.md").write_text("longer than before")
    assert comparing(root).renewed(footprint) is None
    assert comparing(root).changes(footprint)[0] == (Change(f"{root}/a.md", "modified"),)
    (root / "a.md").unlink()
    assert comparing(root).changes(footprint)[0] == (Change(f"{root}/a.md", "deleted"),)


def test_a_file_that_is_too_large_counts_as_that(root: Path) -> None:
    (root / "a.md").write_bytes(b"x" * (LIMIT + 1))
    footprint = asked(root).footprint()
    assert (footprint.files[0].sha256, footprint.files[0].problem) == (None, "budget")
    pass_a_tick(root)
    (root / "a.md").write_bytes(b"y" * (LIMIT + 2))
    assert comparing(root).renewed(footprint) is not None
    (root / "a.md").write_bytes(b"x")
    assert comparing(root).renewed(footprint) is None


def test_whether_a_folder_may_be_read_counts_where_that_was_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = local(root, SETTLED)
    workspace.read(f"{root}/docs")
    footprint = workspace.footprint()
    assert footprint.folders[-1].entries == ((".", "directory"),)
    pass_a_tick(root)
    (root / "docs").chmod(0o311)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    assert comparing(root).renewed(footprint) is None
    assert comparing(root).changes(footprint)[0] == (Change(f"{root}/docs", "modified"),)


def test_a_folder_that_came_back_is_told_with_what_is_in_it(root: Path) -> None:
    footprint = asked(root).footprint()
    (root / "docs").rename(root / "away")
    (root / "docs").symlink_to("away")
    _, now = comparing(root).changes(footprint)
    (root / "docs").unlink()
    (root / "away").rename(root / "docs")
    told, _ = comparing(root).changes(now)
    assert told == (Change(f"{root}/docs", "modified"), Change(f"{root}/docs/b.md", "created"))


def test_what_lies_outside_the_fence_is_no_part_of_a_footprint(root: Path) -> None:
    (root.parent / "outside").mkdir()
    workspace = local(root, SETTLED)
    assert workspace.look(f"{root.parent}/outside/a.md").kind is Kind.OUTSIDE
    footprint = workspace.footprint()
    pass_a_tick(root)
    (root.parent / "outside" / "a.md").write_text("a")
    assert comparing(root).renewed(footprint) is not None
    assert comparing(root).changes(footprint)[0] == ()


def test_a_link_out_of_the_fence_tells_nothing_of_what_is_there(root: Path) -> None:
    secret = root.parent / "secret"
    secret.mkdir()
    (secret / "b.md").write_text("secret")
    footprint = asked(root).footprint()
    shutil.rmtree(root / "docs")
    (root / "docs").symlink_to(secret)
    told, now = comparing(root).changes(footprint)
    assert told == (Change(f"{root}/docs", "modified"), Change(f"{root}/docs/b.md", "deleted"))
    (secret / "b.md").unlink()
    assert comparing(root).changes(now) == ((), now)


def test_the_parts_of_a_repository_that_say_where_it_is_count_and_its_history_does_not(root: Path) -> None:
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "first")
    workspace = LocalWorkspace(Fence.of([str(root)]), POSIX, 100_000, PROGRAM, SETTLED)
    assert workspace.roots(str(root)) is not None
    before = workspace.footprint()
    assert workspace.git(str(root)) is not None
    assert workspace.footprint() == before
    compare = comparing(root, limit=100_000)
    pass_a_tick(root)
    git(root, "checkout", "--quiet", "-b", "another-branch")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "second")
    assert compare.renewed(before) is not None
    git(root, "config", "core.bare", "true")
    assert compare.renewed(before) is None
    (root / ".git" / "HEAD").rename(root / ".git" / "TAIL")
    assert compare.changes(before)[0] == (
        Change(f"{root}/.git/HEAD", "deleted"),
        Change(f"{root}/.git/config", "modified"),
    )


def test_a_file_that_was_only_looked_at_and_gave_way_to_a_link_is_told_once(root: Path) -> None:
    workspace = local(root, SETTLED)
    workspace.look(f"{root}/a.md")
    footprint = workspace.footprint()
    (root / "a.md").unlink()
    (root / "a.md").symlink_to("docs")
    told, now = comparing(root).changes(footprint)
    assert told == (Change(f"{root}/a.md", "modified"),)
    assert comparing(root).changes(now)[0] == ()


def test_an_inline_workspace_leaves_no_footprint() -> None:
    workspace = InlineWorkspace({"/a/b.md": Text("b")}, None, POSIX, LIMIT)
    workspace.read("/a/b.md")
    assert workspace.footprint() == Footprint()
    assert comparing(Path("/")).renewed(Footprint()) == Footprint()
    assert comparing(Path("/")).footprints.is_local(Footprint())


def test_a_branch_may_move_and_a_commit_cannot_change(tmp_path: Path) -> None:
    lay_in_commit(FILES, tmp_path)
    commit = git(tmp_path, "rev-parse", "main")
    git(tmp_path, "update-ref", f"refs/heads/{'a' * 64}", commit)
    for ref, footprint in (("main", None), ("a" * 64, None), (commit[:10], None), (commit, Footprint())):
        with closing(committed(tmp_path, ref)) as workspace:
            workspace.read("/repo/CLAUDE.md")
            assert workspace.footprint() == footprint


def test_an_overlay_leaves_the_footprint_of_what_is_below(root: Path) -> None:
    workspace = OverlayWorkspace(local(root, SETTLED), {f"{root}/a.md": Text("unsaved")}, LIMIT)
    assert workspace.read(f"{root}/a.md").data == b"unsaved"
    assert workspace.read(f"{root}/docs/b.md").data == b"deep"
    footprint = workspace.footprint()
    assert footprint is not None
    pass_a_tick(root)
    in_place(root / "a.md", b"text 001")
    assert comparing(root).renewed(footprint) is not None
    in_place(root / "docs" / "b.md", b"peed")
    assert comparing(root).renewed(footprint) is None


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"commit", "commit_sha256", "overlay_on_commit"}))
def test_all_that_can_be_asked_stays_as_it_is(kind: str, tmp_path: Path) -> None:
    laid: Laid = KINDS[kind](tmp_path)
    for path in ("", "nothing.md", "docs/nul\0.md", "n" * 300, "docs/\udcff.md", "CLAUDE.md/a", *FILES):
        laid.workspace.read(laid.at(path))
        laid.workspace.names(laid.at(path))
    footprint = laid.workspace.footprint()
    assert footprint is not None
    assert comparing(tmp_path, FRESH).renewed(footprint) is not None
    assert comparing(tmp_path, FRESH).changes(footprint)[0] == ()


def test_a_footprint_is_local_when_all_its_drives_are(root: Path, tmp_path: Path) -> None:
    footprint = asked(root).footprint()
    assert comparing(root).footprints.is_local(footprint)
    far = replace(footprint.files[0], stamp=footprint.files[0].stamp._replace(device=os.makedev(0, 99)), path="/proc/x")
    assert not comparing(root).footprints.is_local(replace(footprint, files=(*footprint.files, far)))
    assert not comparing(root, Disk(drives=Drives("/nonexistent"))).footprints.is_local(footprint)


NAMES = ("a", "b", "c")
PLACES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TARGETS = st.one_of(PLACES, st.sampled_from(["..", ".", "../a", "../../b", "/nowhere", "../../../../out"]))
TEXTS = st.sampled_from([b"", b"one", b"two", b"three"])
EDIT = st.one_of(
    st.tuples(st.just("write"), PLACES, TEXTS),
    st.tuples(st.just("in_place"), PLACES, TEXTS),
    st.tuples(st.just("link"), PLACES, TARGETS),
    st.tuples(st.just("mkdir"), PLACES),
    st.tuples(st.just("remove"), PLACES),
    st.tuples(st.just("rename"), PLACES, PLACES),
    st.tuples(st.just("touch"), PLACES),
    st.tuples(st.just("chmod"), PLACES),
)
QUESTION = st.tuples(st.sampled_from(["look", "read", "names"]), PLACES)


def edit(root: Path, what: str, place: str, *more: str | bytes) -> None:
    """Does it where it can be done, and links do not lead away from it all; else leaves the tree as it is."""
    path = root / place
    if not all(stays(one, root.parent) for one in (path, path.parent)):
        return
    with suppress(OSError):
        match what, more:
            case "write", (bytes(data),):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            case "in_place", (bytes(data),):
                in_place(path, data)
            case "link", (str(target),):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(target)
            case "mkdir", ():
                path.mkdir(parents=True)
            case "remove", ():
                remove(path)
            case "rename", (str(other),):
                move(path, root / other, root.parent)
            case "touch", ():
                os.utime(path)
            case "chmod", ():
                path.chmod(0o700)


def stays(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(folder)


def move(path: Path, to: Path, within: Path) -> None:
    if stays(to.parent, within):
        path.rename(to)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def answers(workspace: LocalWorkspace, root: Path, questions: list[tuple[str, str]]) -> list[object]:
    ways: dict[str, Callable[[str], object]] = {
        "look": workspace.look,
        "read": workspace.read,
        "names": workspace.names,
    }
    return [ways[way](f"{root}/{place}") for way, place in questions]


@pytest.mark.parametrize("disk", [SETTLED, FRESH], ids=["settled", "fresh"])
@settings(deadline=None)
@given(
    tree=st.lists(EDIT, max_size=8),
    questions=st.lists(QUESTION, max_size=6),
    edits=st.lists(EDIT, min_size=1, max_size=4),
)
def test_a_footprint_is_renewed_only_while_every_answer_is_the_same(
    disk: Disk,
    tree: list[tuple[str, str]],
    questions: list[tuple[str, str]],
    edits: list[tuple[str, str]],
) -> None:
    with TemporaryDirectory() as made:
        root = Path(made).resolve() / "root"
        root.mkdir()
        for one in tree:
            edit(root, *one)
        workspace = local(root, disk)
        before = answers(workspace, root, questions)
        footprint = workspace.footprint()
        if disk is SETTLED:
            pass_a_tick(root)
        for one in edits:
            edit(root, *one)
        renewed = comparing(root, disk).renewed(footprint)
        if answers(local(root, disk), root, questions) != before:
            assert renewed is None
        telling_all = comparing(Path("/"), disk)
        told, now = telling_all.changes(footprint)
        assert bool(told) == (renewed is None)
        assert telling_all.changes(now)[0] == ()
