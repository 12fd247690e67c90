"""The questions every kind of workspace answers. One suite of tests holds all kinds to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from app.core.facts import Content, GitFacts, GitRoots, Node
from app.core.footprint import Footprint
from app.core.paths import Paths


class Workspace(Protocol):
    """Where a context's files come from. Synchronous: `gather` calls it from worker threads.

    Paths are absolute, of the flavour `paths`, and need not be normal or real.
    """

    @property
    def paths(self) -> Paths: ...

    def look(self, path: str) -> Node:
        """What stands at ``path``, links followed. Never raises for what a tree can hold."""

    def read(self, path: str) -> Content:
        """The bytes of the file at ``path``; too large: ``problem='budget'``."""

    def names(self, path: str) -> tuple[str, ...]:
        """The names in a folder, sorted by code point; empty when it is none or cannot be read."""

    def roots(self, cwd: str) -> GitRoots | None:
        """The repository that holds ``cwd``. Cheap: reads a few small files at most."""

    def carries(self, path: str, toplevel: str) -> bool:
        """Whether the checkout at ``toplevel`` carries ``path``, or a link on the way to it; True in doubt."""

    def git(self, cwd: str) -> GitFacts | None:
        """A snapshot of the repository that holds ``cwd``; None when there is none or nothing is known."""

    def asking_git(self, cwd: str) -> AbstractContextManager[Callable[[], GitFacts | None]]:
        """As `git`, begun on entering where it is a program; what is given waits for the answer."""

    def footprint(self) -> Footprint | None:
        """All that was asked for so far, apart from git's snapshot; None when whether it changed cannot be told."""

    def close(self) -> None:
        """Let go of processes and handles. May be called twice."""
