"""A reference case as one commit of a bare repository, written without a checkout."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tests.reference.cases import Case, commit_root, workspace
from tests.reference.programs import git

FILE, LINK = b"100644", b"120000"


def commit(case: Case, repository: Path) -> dict[str, Any]:
    """Make the commit; answers the case's request, which reads it mounted at the case's own root.

    Links keep their targets, absolute ones too: below the mount they mean the same. A folder with nothing in it gets
    a placeholder, because a commit has no empty folders.
    """
    root = commit_root(case)
    assert root is not None
    git(repository, "init", "--quiet", "--bare", "--initial-branch=main")
    git(repository, "fast-import", "--quiet", given=_stream(workspace(case)["files"], root))
    described = {"source": "git", "repository": str(repository), "ref": "main", "mount": root}
    kept = {name: workspace(case)[name] for name in ("cwd", "platform") if name in workspace(case)}
    request: dict[str, Any] = case["request"] | {"workspace": kept | described}
    return request


def _stream(files: dict[str, Any], root: str) -> bytes:
    head = b"commit refs/heads/main\ncommitter Ada <ada@example.org> 1767323045 +0000\n" + _data(b"first")
    return head + b"".join(_entry(path.removeprefix(root + "/"), entry) for path, entry in files.items())


def _entry(path: str, entry: Any) -> bytes:
    if isinstance(entry, str):
        return _row(FILE, path, entry.encode())
    if "base64" in entry:
        return _row(FILE, path, base64.b64decode(entry["base64"]))
    if "link" in entry:
        return _row(LINK, path, entry["link"].encode())
    return _row(FILE, path + "/.keep", b"")


def _row(mode: bytes, path: str, data: bytes) -> bytes:
    return b"M " + mode + b" inline " + path.encode() + b"\n" + _data(data)


def _data(data: bytes) -> bytes:
    return b"data " + str(len(data)).encode() + b"\n" + data + b"\n"
