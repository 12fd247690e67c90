"""The disk of a soak: projects with git, whose texts say which version of them they are, and what lies outside."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CANARY = re.compile(r"canary-(?P<owner>[a-z0-9]+)-(?P<text>[a-z0-9]+)-(?P<version>[0-9]+)")
OUTSIDE = "canary-outside-secret-0"


@dataclass(slots=True)
class Text:
    """A file that is edited. ``since`` holds for each version when it began to stand there; the last one still does."""

    path: Path
    owner: str
    name: str
    since: list[tuple[float, float]] = field(default_factory=list)

    def words(self, version: int, more: str = "") -> str:
        return f"{self.name} is canary-{self.owner}-{self.name}-{version} {'.' * (version % 7)}\n{more}"

    def edit(self, more: str = "") -> None:
        """Writes the next version, by another file that takes its place."""
        beside = self.path.with_name(f".{self.path.name}.new")
        beside.write_text(self.words(len(self.since), more), encoding="utf-8")
        began = time.monotonic()
        beside.replace(self.path)
        self.since.append((began, time.monotonic()))

    def between(self, asked: float, answered: float) -> set[int]:
        """The versions that stood there at some moment between asking and answering."""
        ends = [ended for _, ended in self.since[1:]] + [float("inf")]
        return {
            version
            for version, ((began, _), ended) in enumerate(zip(self.since, ends, strict=True))
            if began <= answered and ended >= asked
        }


@dataclass(slots=True)
class Project:
    """A repository. ``owner`` is whose it is; ``commit`` the first one's whole id."""

    folder: Path
    owner: str
    memory: Text
    docs: Text
    commit: str = ""

    @property
    def texts(self) -> tuple[Text, Text]:
        return self.memory, self.docs

    def edit(self, which: int) -> None:
        if which:
            self.docs.edit()
        else:
            self.memory.edit("See @docs/api.md\n")


def project(folder: Path, owner: str) -> Project:
    (folder / "docs").mkdir(parents=True)
    (folder / ".claude/rules").mkdir(parents=True)
    (folder / ".claude/rules/style.md").write_text(f"Rule canary-{owner}-rule-0\n", encoding="utf-8")
    (folder / ".claude/settings.json").write_text("{}", encoding="utf-8")
    (folder / "main.py").write_text("print()\n", encoding="utf-8")
    made = Project(
        folder,
        owner,
        Text(folder / "CLAUDE.md", owner, "memory"),
        Text(folder / "docs/api.md", owner, "docs"),
    )
    made.edit(1)
    made.edit(0)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    made.commit = git(folder, "rev-parse", "HEAD").strip()
    return made


def git(folder: Path, *words: str) -> str:
    name = {"NAME": "Ann", "EMAIL": "ann@example.com"}
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in name.items()}
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **who}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


@contextmanager
def swapped(project: Project, how: str, outside: Path) -> Iterator[None]:
    """Something else stands in the place of a part of the project, or nothing does, until this ends."""
    place = project.folder if how.startswith("folder") else project.memory.path
    away = place.with_name(f"{place.name}.away")
    place.rename(away)
    try:
        _put(place, how, outside)
        yield
    finally:
        _take(place)
        away.rename(place)


SWAPS = ("folder gone", "folder linked outside", "file gone", "file linked outside", "file a FIFO", "file a folder")


def _put(place: Path, how: str, outside: Path) -> None:
    match how:
        case "folder linked outside":
            place.symlink_to(outside)
        case "file linked outside":
            place.symlink_to(outside / "CLAUDE.md")
        case "file a FIFO":
            os.mkfifo(place)
        case "file a folder":
            place.mkdir()


def _take(place: Path) -> None:
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        place.unlink()
    elif place.is_dir():
        place.rmdir()


def outside(folder: Path) -> Path:
    """A folder that no root holds."""
    folder.mkdir()
    (folder / "CLAUDE.md").write_text(f"Secret {OUTSIDE}\n", encoding="utf-8")
    return folder
