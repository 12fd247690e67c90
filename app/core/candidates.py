"""The nouns of loading: what may load, by which plan, and what a loaded file is."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.core.allowance import Limits
from app.core.configuration import Configuration
from app.core.document import DocumentReader
from app.core.facts import Client, GitRoots, MemoryOptions, SettingSource
from app.core.levels import Level
from app.core.paths import Paths


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One loaded file. ``path`` is as reported, ``real`` is its identity, ``content`` is not yet trimmed.

    ``trigger`` is the touched file that brought it, None for files loaded up front; ``depth`` is 1 for a file that
    nothing included.
    """

    path: str
    real: str
    level: Level
    content: str
    raw: str
    parent: str | None = None
    globs: tuple[str, ...] = ()
    differs: bool = False
    depth: int = 1
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What layer 2 goes by. ``roots`` None: no repository holds the working directory."""

    client: Client
    paths: Paths
    options: MemoryOptions
    reader: DocumentReader
    roots: GitRoots | None = None
    sources: tuple[SettingSource, ...] = ("user", "project", "local")
    configuration: Configuration = field(default_factory=Configuration)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may load. ``path`` is as looked for, ``tried`` the literal path of an include."""

    path: str
    level: Level
    is_rule: bool = False
    depth: int = 1
    parent: str | None = None
    line: int | None = None
    tried: str | None = None
    globs: tuple[str, ...] = ()
    trigger: str | None = None


@dataclass(frozen=True, slots=True)
class Touched:
    """A file the model touched: ``path`` as given, ``real`` with links resolved."""

    path: str
    real: str
