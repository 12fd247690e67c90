"""A folder of this service's own that stands in for a repository's: git reads no configuration but ours."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.workspaces.configuration import told_to_git, user_in
from app.workspaces.containment import Shown

_PREFIX = "strata-git-"
_USER = "user"


@dataclass(frozen=True, slots=True)
class GitFolder:
    """``path`` is private to this service. ``toplevel`` is None when the repository is read without a checkout.

    ``user_config``: a file with the repository's words on its user, for git to look the name up in; None without any.
    """

    path: str
    objects: str
    index: str
    toplevel: str | None
    user_config: str | None

    def close(self) -> None:
        """Remove the folder. May be called twice."""
        shutil.rmtree(self.path, ignore_errors=True)


def git_folder(shown: Shown) -> GitFolder:
    """A new folder for ``shown``, which copies neither objects nor the index. Raises OSError.

    Whoever asked for it closes it.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return _filled(folder, shown)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _filled(folder: Path, shown: Shown) -> GitFolder:
    repository = shown.repository
    toplevel = repository.roots.toplevel if repository.roots is not None and repository.has_checkout else None
    (folder / "HEAD").write_bytes(shown.head)
    (folder / "config").write_text(told_to_git(shown.config, bare=toplevel is None), encoding="utf-8")
    user = user_in(shown.config)
    if user:
        (folder / _USER).write_text(user, encoding="utf-8")
    for name, real in (("refs", shown.refs), *shown.linked):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(real)
    index = shown.index or str(folder / "index")
    return GitFolder(str(folder), shown.objects, index, toplevel, str(folder / _USER) if user else None)
