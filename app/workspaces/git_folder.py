"""A folder of this service's own that stands in for a repository's: git reads no configuration but ours."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import GitUnavailable
from app.workspaces.configuration import told_to_git, user_in
from app.workspaces.containment import Shown
from app.workspaces.fence import SERVER_PATHS

_PREFIX = "strata-git-{process}-"
_USER = "user"
_HELD = "/proc/self/fd"
_HOLDS_FOLDERS = sys.platform == "linux"
_HOLDING = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Held:
    """Folders by their real paths, each with an open descriptor: no other takes its place, whatever its path leads to.

    Empty where the system cannot hand open folders to a program.
    """

    folders: tuple[tuple[str, int], ...] = ()
    _open: list[int] = field(default_factory=list, repr=False, compare=False)

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple(self._open)

    def path(self, real: str) -> str:
        """A path to ``real`` that goes through an open folder, where one holds it."""
        for folder, descriptor in self.folders:
            if SERVER_PATHS.within(real, folder):
                return f"{_HELD}/{descriptor}{real[len(folder.rstrip('/')) :]}"
        return real

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())


@dataclass(frozen=True, slots=True)
class GitFolder:
    """``path`` is private to this service. ``toplevel`` is None when the repository is read without a checkout.

    ``index``: where git looks for one; there is none yet. ``beside``: what git reads elsewhere than in ``held``.
    ``user_config``: a file with the repository's words on its user, for git to look the name up in; None without any.
    """

    path: str
    objects: str
    index: str
    toplevel: str | None
    user_config: str | None
    held: Held = field(default_factory=Held)
    beside: tuple[str, ...] = ()

    @property
    def start(self) -> str:
        """Where git is to be started: it takes the place for its work tree, when it has one."""
        return self.path if self.toplevel is None else self.held.path(self.toplevel)

    def close(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.held.close()


def sweep(process: int) -> None:
    """Removes the folders of a process that was killed before it could."""
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(_PREFIX.format(process=process) + "*"):
            shutil.rmtree(folder, ignore_errors=True)


def git_folder(shown: Shown) -> GitFolder:
    """A new folder for ``shown``, which copies neither objects nor the index.

    Raises OSError, and GitUnavailable when the repository is not in its place any more. Whoever asked for it closes it.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX.format(process=os.getpid())))
    held = Held()
    try:
        held = _held(shown)
        return _filled(folder, shown, held)
    except (OSError, GitUnavailable):
        held.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _filled(folder: Path, shown: Shown, held: Held) -> GitFolder:
    toplevel = _toplevel(shown)
    (folder / "HEAD").write_bytes(shown.head)
    (folder / "config").write_text(told_to_git(shown.config, bare=toplevel is None), encoding="utf-8")
    user = user_in(shown.config)
    if user:
        (folder / _USER).write_text(user, encoding="utf-8")
    for name, real in (("refs", shown.refs), *shown.linked):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(held.path(real))
    user_config = str(folder / _USER) if user else None
    beside = tuple(real for real in shown.reached if held.path(real) == real)
    return GitFolder(str(folder), held.path(shown.objects), str(folder / "index"), toplevel, user_config, held, beside)


def _toplevel(shown: Shown) -> str | None:
    roots = shown.repository.roots
    return roots.toplevel if roots is not None and shown.repository.has_checkout else None


def _held(shown: Shown) -> Held:
    """The repository's own folders and its checkout, the inner ones first."""
    if not _HOLDS_FOLDERS:
        return Held()
    repository = shown.repository
    wanted = {folder for folder in (repository.git_dir, repository.common_dir, _toplevel(shown)) if folder}
    opened: list[int] = []
    try:
        places = sorted(wanted, key=len, reverse=True)
        for place in places:
            opened.append(_opened(place, shown))  # noqa: PERF401 - kept for closing
    except (OSError, GitUnavailable):
        Held((), opened).close()
        raise
    return Held(tuple(zip(places, opened, strict=True)), opened)


def _opened(place: str, shown: Shown) -> int:
    moved = GitUnavailable("The repository changed while it was read. Try again.")
    try:
        descriptor = os.open(place, _HOLDING)
    except OSError as error:
        raise moved from error
    is_it = False
    try:
        is_it = _is_at(descriptor, place) and shown.standing.identity(place) in (None, _identity(descriptor))
    finally:
        if not is_it:
            os.close(descriptor)
    if not is_it:
        raise moved
    return descriptor


def _is_at(descriptor: int, place: str) -> bool:
    return os.readlink(f"{_HELD}/{descriptor}") == place  # noqa: PTH115 - text


def _identity(descriptor: int) -> tuple[int, int]:
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino
