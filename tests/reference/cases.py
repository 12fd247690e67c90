"""The reference cases, and which of them each kind of workspace can hold."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import Any

import yaml

Case = dict[str, Any]

SAMPLE = Path(__file__).parent / "memory.yaml"
ACCOUNT = "/home/dev"

LEFT_OUT_OF_GIT = {
    "c-broken-gitdir": "a commit cannot hold a .git file, and that file is the case",
}


def load() -> tuple[Case, ...]:
    return tuple(yaml.load(SAMPLE.read_bytes(), Loader=yaml.CSafeLoader))


def workspace(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = case["request"]["workspace"]
    return found


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder + "/")


def _includes_something(case: Case) -> bool:
    return any(isinstance(entry, str) and "@" in entry for entry in workspace(case)["files"].values())


def commit_root(case: Case) -> str | None:
    """The folder whose tree, made one commit, is the whole case; None when no commit is.

    It is the checkout the case names, else the working directory, else, where the case knows of no repository and
    includes nothing (a repository moves the boundary of includes), the folder that holds all files.
    """
    described = workspace(case)
    files = described["files"]
    if case["id"] in LEFT_OUT_OF_GIT or not files:
        return None
    if any(_below(path, f"{ACCOUNT}/.claude") for path in files) or "config_dir" in described:
        return None
    named = described.get("git", {}).get("toplevel")
    roots = [named or described["cwd"]]
    if named is None and not _includes_something(case):
        roots.append(os.path.commonpath([described["cwd"], *map(os.path.dirname, files)]))
    for root in roots:
        if _below(root, ACCOUNT) and all(_below(path, root) for path in files):
            return root
    return None


CASES = load()
INLINE = CASES
LOCAL = CASES
GIT = tuple(case for case in CASES if commit_root(case) is not None)
