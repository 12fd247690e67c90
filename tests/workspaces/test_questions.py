"""What an answer costs: work goes by what can matter to the working directory, not by the size of the tree."""

from __future__ import annotations

from pathlib import Path

from app.core.candidates import Plan
from app.core.document import DocumentReader
from app.core.facts import Client, GitRoots, MemoryOptions
from app.core.footprint import Footprint
from app.core.markdown import MarkdownReader
from app.core.memory import Memory, load
from app.gather import Answers
from tests.workspaces.trees import POSIX, local

READER = DocumentReader(MarkdownReader())


def lay(root: Path, packages: int) -> None:
    """A root with rules and includes, and ``packages`` times five folders with instructions of their own."""
    write(root / "CLAUDE.md", "".join(f"- see @docs/{number}.md\n" for number in range(6)))
    for number in range(6):
        write(root / "docs" / f"{number}.md", "text")
        write(root / ".claude/rules" / f"{number}.md", "---\npaths: 'p0/**/*.c'\n---\nrule")
    for package in range(packages):
        for part in ("a", "b", "c", "d", "e"):
            write(root / f"p{package}" / part / "CLAUDE.md", f"{package} {part}")
            write(root / f"p{package}" / part / ".claude/rules/r.md", "rule")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def loaded(root: Path, cwd: Path) -> tuple[Memory, Footprint]:
    workspace = local(root)
    plan = Plan(Client(str(cwd), "linux"), POSIX, MemoryOptions(), READER, GitRoots(str(root)))
    memory = Answers(workspace).drive(load(plan))
    return memory, workspace.footprint()


def questions(footprint: Footprint) -> tuple[int, int, int]:
    """Folders looked in, files read, names looked for."""
    return (
        len(footprint.folders),
        len(footprint.files),
        sum(len(folder.entries) for folder in footprint.folders),
    )


def test_ten_times_the_folders_beside_the_working_directory_add_no_question(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    lay(small, 3)
    lay(large, 30)
    few, of_few = loaded(small, small / "p1/c")
    many, of_many = loaded(large, large / "p1/c")
    assert [file.content for file in few.files] == [file.content for file in many.files]
    assert [file.path.removeprefix(str(small)) for file in few.files][:2] == ["/CLAUDE.md", "/docs/0.md"]
    assert [file.content for file in few.files][-2:] == ["1 c", "rule"]
    assert questions(of_few) == questions(of_many)


def test_no_file_is_opened_that_does_not_load_or_wait(tmp_path: Path) -> None:
    lay(tmp_path, 3)
    memory, footprint = loaded(tmp_path, tmp_path / "p1/c")
    told = {file.real for file in memory.files} | {row.path for row in memory.rows if row.verdict == "withheld"}
    assert {mark.path for mark in footprint.files} == told


def test_an_answer_a_second_time_asks_the_same(tmp_path: Path) -> None:
    lay(tmp_path, 3)
    assert questions(loaded(tmp_path, tmp_path / "p1/c")[1]) == questions(loaded(tmp_path, tmp_path / "p1/c")[1])
