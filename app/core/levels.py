"""Where instruction files stand. Order is precedence: later text weighs more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.core.facts import SettingSource

LevelType = Literal["Managed", "User", "Project", "Local", "AutoMem", "TeamMem"]
Base = Literal["managed", "config", "directory", "auto_memory", "team_memory"]


@dataclass(frozen=True, slots=True)
class Level:
    """One kind of instruction file.

    ``files`` and ``rules`` are relative to the ``base`` folder. A level of base ``directory`` is looked for in every
    folder from the root's child down to the working directory. ``trusted`` files may include from anywhere.
    """

    type: LevelType
    label: str
    base: Base
    files: tuple[str, ...]
    rules: str | None = None
    source: SettingSource | None = None
    excludable: bool = False
    trusted: bool = False
    limited: bool = False
    checked_in: bool = False


LEVELS: tuple[Level, ...] = (
    Level(
        type="Managed",
        label="organization-managed policy instructions",
        base="managed",
        files=("CLAUDE.md",),
        rules=".claude/rules",
        trusted=True,
    ),
    Level(
        type="User",
        label="user's private global instructions for all projects",
        base="config",
        files=("CLAUDE.md",),
        rules="rules",
        source="user",
        excludable=True,
        trusted=True,
    ),
    Level(
        type="Project",
        label="project instructions, checked into the codebase",
        base="directory",
        files=("CLAUDE.md", ".claude/CLAUDE.md"),
        rules=".claude/rules",
        source="project",
        excludable=True,
        checked_in=True,
    ),
    Level(
        type="Local",
        label="user's private project instructions, not checked in",
        base="directory",
        files=("CLAUDE.local.md",),
        source="local",
        excludable=True,
    ),
    Level(
        type="AutoMem",
        label="user's auto-memory, persists across conversations",
        base="auto_memory",
        files=("MEMORY.md",),
        limited=True,
    ),
    Level(
        type="TeamMem",
        label="team's shared memory, persists across conversations",
        base="team_memory",
        files=("MEMORY.md",),
        limited=True,
    ),
)


def levels_at(base: Base) -> tuple[Level, ...]:
    return tuple(level for level in LEVELS if level.base == base)
