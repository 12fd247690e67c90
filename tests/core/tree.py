"""Layer 2 over files given as a dict, asked the way the service asks: the inline workspace and its answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from app.core.attachments import Attached, attach
from app.core.candidates import Plan
from app.core.configuration import Configuration, configuration
from app.core.document import DocumentReader
from app.core.facts import Client, GitFacts, GitRoots, MemoryOptions, SettingSource, Touch
from app.core.flow import Flow
from app.core.markdown import MarkdownReader
from app.core.memory import Memory, load
from app.core.paths import paths_for
from app.core.report import Row
from app.gather import Answers
from app.workspaces.inline import Binary, Folder, InlineFile, InlineWorkspace, Text

T = TypeVar("T")
Files = Mapping[str, str | bytes | InlineFile]

HOME = "/home/dev"
PROJECT = "/home/dev/p"
MANAGED = "/etc/claude-code"
FOLDER = Folder()
LARGEST = 1024 * 1024
READER = MarkdownReader()


def inline(files: Files) -> dict[str, InlineFile]:
    """Text and bytes as the workspace's own words."""
    return {
        path: Text(file) if isinstance(file, str) else Binary(file) if isinstance(file, bytes) else file
        for path, file in files.items()
    }


class Carrying(InlineWorkspace):
    """Files of which some are the repository's own."""

    def __init__(self, *given: Any, carried: Collection[str]) -> None:
        super().__init__(*given)
        self._carried = carried

    def carries(self, path: str, toplevel: str) -> bool:
        return path in self._carried


@dataclass(frozen=True)
class Tree:
    """A working directory in a tree of files. ``options`` and ``sources`` are the caller's."""

    files: Files
    cwd: str = PROJECT
    home: str | None = HOME
    config_dir: str | None = "/home/dev/.claude"
    managed_dir: str | None = MANAGED
    roots: GitRoots | None = None
    options: MemoryOptions = field(default_factory=MemoryOptions)
    sources: tuple[SettingSource, ...] = ("user", "project", "local")
    additional: tuple[str, ...] = ()
    largest: int = LARGEST
    carried: frozenset[str] = frozenset()
    """What the checkout carries: these paths."""

    def asked(self, **options: object) -> Tree:
        """The same tree with other memory options."""
        return replace(self, options=replace(self.options, **options))

    def drive(self, flow: Flow[T]) -> T:
        return self.answers().drive(flow)

    def answers(self) -> Answers:
        files = inline({self.cwd: FOLDER} | dict(self.files))
        git = GitFacts(roots=self.roots) if self.roots else None
        return Answers(Carrying(files, git, paths_for(self.cwd), self.largest, carried=self.carried))

    def client(self) -> Client:
        look = self.answers().workspace.look
        return Client(
            cwd=look(self.cwd).real,
            platform="windows" if paths_for(self.cwd).windows else "linux",
            home=self.home,
            config_dir=self.config_dir,
            managed_dir=self.managed_dir,
            additional_directories=tuple(look(folder).real for folder in self.additional),
            given=(self.cwd, *self.additional),
        )

    def configuration(self) -> Configuration:
        answers = self.answers()
        client = self.client()
        roots = answers.workspace.roots(client.cwd)
        return answers.drive(configuration(client, roots, self.sources, answers.workspace.paths))

    def plan(self) -> Plan:
        workspace = self.answers().workspace
        client = self.client()
        return Plan(
            client=client,
            paths=workspace.paths,
            options=self.options,
            reader=DocumentReader(READER),
            roots=workspace.roots(client.cwd),
            sources=self.sources,
            configuration=self.configuration(),
        )

    def load(self) -> Memory:
        return self.drive(load(self.plan()))

    def attach(self, *touches: str | Touch, delivered: Collection[str] = ()) -> Attached:
        """What reading (or touching) these files brings after everything loaded up front."""
        named = [Touch(touch) if isinstance(touch, str) else touch for touch in touches]
        return self.drive(attach(self.plan(), self.load(), delivered, named))

    def paths(self) -> list[str]:
        return [file.path for file in self.load().files]

    def brought(self, *touches: str | Touch) -> list[str]:
        return [file.path for file in self.attach(*touches).files]

    def row(self, path: str, parent: str | None = None) -> Row:
        """The one row about ``path`` that ``parent`` included."""
        (row,) = (row for row in self.load().rows if row.path == path and row.parent == parent)
        return row

    def reason(self, path: str, parent: str | None = None) -> str | None:
        return self.row(path, parent).reason


def project(files: Mapping[str, str | bytes | InlineFile], **more: object) -> Tree:
    """A tree whose relative paths stand in the working directory."""
    placed = {path if path.startswith("/") else f"{PROJECT}/{path}": file for path, file in files.items()}
    return Tree(placed, **more)  # type: ignore[arg-type]


def rows_of(rows: Sequence[Row], path: str) -> list[tuple[str, str | None]]:
    return [(row.verdict, row.reason) for row in rows if row.path == path]
