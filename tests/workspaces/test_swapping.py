"""What stands outside is never told, however fast a folder or file inside is swapped for a link to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.core.candidates import Plan
from app.core.document import DocumentReader
from app.core.facts import Client, Content, GitRoots, Kind, MemoryOptions, Node
from app.core.footprint import Change, FileMark, FolderMark, Footprint
from app.core.markdown import MarkdownReader
from app.core.memory import Memory, load
from app.gather import Answers
from app.workspaces.disk import ABSENT, Disk
from app.workspaces.fence import Fence
from app.workspaces.footprints import Footprints
from app.workspaces.local import LocalWorkspace
from tests.workspaces.swapping import swapped
from tests.workspaces.trees import POSIX, PROGRAM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the walk by descriptors is Linux's")

READER = DocumentReader(MarkdownReader())
ROUNDS = 200
LIMIT = 100_000
OPEN = b"in the open"
SECRET = b"the secret of another tenant "
FOLDERS = ("docs", ".claude", ".claude/rules", "x/y/z")
FILE = "CLAUDE.md"
ONLY_OUTSIDE = "only_outside.md"
LINK_OUTSIDE = "link_outside.md"
TO_NOWHERE = "a_target_that_is_a_secret.md"
UNHEARD_OF = "unheard_of.md"
KINDS_OF_NOTHING = (Kind.MISSING, Kind.OUTSIDE)


@dataclass(frozen=True, slots=True)
class Scene:
    """``root`` is inside, and is laid out as ``outside`` is, but for what is only there."""

    root: Path
    outside: Path
    secrets: frozenset[tuple[int, int]]
    """Device and inode of all that stands outside."""

    @property
    def fence(self) -> Fence:
        return Fence.of([str(self.root)])

    def pairs(self) -> list[tuple[Path, Path]]:
        """What is exchanged with what, in a circle that ends as it began; nothing below what is a link at that time."""
        circle = ("docs", "a.md", ".claude", "b.md", "x", "docs", "fifo.md", ".claude", "a.md", "x", "b.md")
        nested = (".claude/rules", "x/y", "fifo.md", "x/y", ".claude/rules", "x/y/z", "x/y/z")
        return [(self.root / name, self.root / "decoys" / decoy_of(name)) for name in (*circle, *nested)]

    def questions(self) -> Iterator[str]:
        yield from ("a.md", "b.md", "fifo.md", "hop/CLAUDE.md", "up/docs/CLAUDE.md", f"up/docs/{ONLY_OUTSIDE}")
        for folder in ("", *FOLDERS, "to_docs", "to_y"):
            for name in (FILE, ONLY_OUTSIDE, LINK_OUTSIDE, "deep", f"deep/{ONLY_OUTSIDE}"):
                yield f"{folder}/{name}" if folder else name
            yield folder


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for place, text in ((root, OPEN), (outside, SECRET * 50)):
        for folder in FOLDERS:
            (place / folder / "deep").mkdir(parents=True, exist_ok=True)
            (place / folder / FILE).write_bytes(text)
        for name in ("a.md", "b.md", "fifo.md"):
            (place / name).write_bytes(text)
    for folder in FOLDERS:
        (outside / folder / ONLY_OUTSIDE).write_bytes(SECRET)
        (outside / folder / "deep" / ONLY_OUTSIDE).write_bytes(SECRET)
        (outside / folder / LINK_OUTSIDE).symlink_to(TO_NOWHERE)
    (outside / ".claude" / "rules" / UNHEARD_OF).write_bytes(SECRET)
    (root / "to_docs").symlink_to("docs")
    (root / "to_y").symlink_to("x/y/../../x/y/z")
    (root / "hop").symlink_to("docs/deep/..")
    (root / "up").symlink_to(".claude/rules/../..")
    decoys(root, outside)
    stood = (os.lstat(path) for path in (outside, *outside.rglob("*")))
    return Scene(root, outside, frozenset((facts.st_dev, facts.st_ino) for facts in stood))


def decoys(root: Path, outside: Path) -> None:
    folder = root / "decoys"
    folder.mkdir()
    for name in ("docs", ".claude", "x", "a.md", ".claude/rules", "x/y", "x/y/z"):
        (folder / decoy_of(name)).symlink_to(outside / name)
    (folder / "b.md").symlink_to("../../outside/b.md")
    os.mkfifo(folder / "fifo.md")


def decoy_of(name: str) -> str:
    return name.replace("/", "_")


def hold(scene: Scene, workspace: LocalWorkspace, path: str) -> None:
    """Every answer about ``path`` is one of the tree inside."""
    node, content, names = workspace.look(path), workspace.read(path), workspace.names(path)
    hold_node(scene, node)
    hold_content(content)
    hold_names(names)
    if path.endswith((ONLY_OUTSIDE, LINK_OUTSIDE)):
        assert node.kind in KINDS_OF_NOTHING, node
        assert content in (Content(None, "not_found"), Content(None, "outside_fence"))


def hold_node(scene: Scene, node: Node) -> None:
    assert node.size in (0, len(OPEN)), node
    assert TO_NOWHERE not in node.real, node
    assert node.kind is Kind.OUTSIDE or not node.real.startswith(str(scene.outside)), node


def hold_content(content: Content) -> None:
    assert content.data in (None, OPEN), content
    assert content.problem != "budget", content


def hold_names(names: tuple[str, ...]) -> None:
    assert not {ONLY_OUTSIDE, LINK_OUTSIDE, UNHEARD_OF}.intersection(names), names


def hold_footprint(scene: Scene, footprint: Footprint) -> None:
    for file in footprint.files:
        hold_file_mark(scene, file)
    for folder in footprint.folders:
        hold_folder_mark(scene, folder)


def hold_file_mark(scene: Scene, mark: FileMark) -> None:
    assert mark.stamp is None or mark.stamp[:2] not in scene.secrets, mark
    assert not mark.path.endswith((ONLY_OUTSIDE, LINK_OUTSIDE)) or mark.problem is not None, mark


def hold_folder_mark(scene: Scene, mark: FolderMark) -> None:
    if mark.path.startswith(f"{scene.root}"):
        assert mark.stamp is None or mark.stamp[:2] not in scene.secrets, mark
        words = dict(mark.entries)
        assert {words.get(ONLY_OUTSIDE, ABSENT), words.get(LINK_OUTSIDE, ABSENT)} == {ABSENT}, mark
        hold_names(mark.names or ())


def hold_changes(told: tuple[Change, ...], scene: Scene) -> None:
    for change in told:
        assert change.path.startswith(str(scene.root)), change
        assert not change.path.endswith((ONLY_OUTSIDE, LINK_OUTSIDE)), change


def test_no_answer_is_of_what_stands_outside(scene: Scene) -> None:
    disk = Disk(1_000_000)
    shown = set()
    with swapped(scene.pairs()):
        for _ in range(ROUNDS):
            with closing(LocalWorkspace(scene.fence, POSIX, LIMIT, PROGRAM, disk)) as workspace:
                shown.add(workspace.look(f"{scene.root}/docs").kind)
                for path in scene.questions():
                    hold(scene, workspace, f"{scene.root}/{path}".rstrip("/"))
                hold_footprint(scene, workspace.footprint())
    assert shown >= {Kind.DIRECTORY, Kind.OUTSIDE}, "nothing was swapped"


def test_nothing_that_is_told_of_changes_is_of_what_stands_outside(scene: Scene) -> None:
    disk = Disk(1_000_000)
    footprints = Footprints(LIMIT, disk)
    with swapped(scene.pairs()):
        for _ in range(ROUNDS):
            workspace = LocalWorkspace(scene.fence, POSIX, LIMIT, PROGRAM, disk)
            with closing(workspace):
                for path in scene.questions():
                    workspace.read(f"{scene.root}/{path}".rstrip("/"))
                    workspace.names(f"{scene.root}/{path}".rstrip("/"))
                before = workspace.footprint()
            told, now = footprints.changes(before, scene.fence)
            hold_changes(told, scene)
            hold_footprint(scene, now)
            hold_footprint(scene, footprints.renewed(before, scene.fence) or Footprint())


def test_no_context_holds_what_stands_outside(scene: Scene) -> None:
    included = ("a.md", "docs/CLAUDE.md", "up/docs/CLAUDE.md", f"docs/{ONLY_OUTSIDE}", f"to_y/{ONLY_OUTSIDE}")
    (scene.root / FILE).write_text("".join(f"- @{path}\n" for path in included))
    plan = Plan(Client(f"{scene.root}/x/y/z", "linux"), POSIX, MemoryOptions(), READER, GitRoots(str(scene.root)))
    with swapped(scene.pairs()):
        for _ in range(ROUNDS):
            with closing(LocalWorkspace(scene.fence, POSIX, LIMIT, PROGRAM, Disk())) as workspace:
                memory = Answers(workspace).drive(load(plan))
            hold_memory(memory)


def hold_memory(memory: Memory) -> None:
    told = repr(memory)
    assert SECRET.decode() not in told
    assert UNHEARD_OF not in told
    for row in memory.rows:
        assert not row.path.endswith(ONLY_OUTSIDE) or row.reason in ("not_found", "outside_fence"), row
