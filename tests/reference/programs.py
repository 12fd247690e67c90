"""The git program, with nothing of this machine's configuration and with fixed dates and names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

WHO_AND_WHEN = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """Run git in a folder, which is made when it is missing; answers what it printed, trimmed."""
    folder.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=given, capture_output=True, check=True, env=inherited | WHO_AND_WHEN
    )
    return done.stdout.decode().strip()


def first_commit(repository: Path) -> None:
    """Put an empty commit on ``main``, so that there is something to check out."""
    tree = git(repository, "mktree")
    git(repository, "update-ref", "refs/heads/main", git(repository, "commit-tree", tree, "-m", "first"))
