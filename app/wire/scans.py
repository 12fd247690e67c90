"""``POST /v1/scan``: a workspace in; other tools' files and the prompt that makes a CLAUDE.md of them out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Literal

from app.core.ignores import Refusal
from app.core.scan import Bound, Scan
from app.core.scan_names import FileKind
from app.wire.base import Strict
from app.wire.descriptor import Workspace


class ScanRequest(Strict):
    """The folder to scan is the workspace's ``cwd``. In a commit every file counts, else what git ignores does not."""

    workspace: Workspace


class ScannedFile(Strict):
    """``size`` is in bytes; ``duplicate_of`` is the relative path of the same real file; ``note`` is a reason."""

    path: str
    relative: str
    tool: str
    kind: FileKind
    size: int
    tokens: int
    tokens_from: Literal["text", "size"]
    link: str | None
    duplicate_of: str | None
    note: str | None


class ScannedLink(Strict):
    """A link to a folder, which is not followed."""

    path: str
    relative: str
    target: str


class ScanCut(Strict):
    """A bound that was reached, or an ignore file or line without effect; ``where`` is the first of ``times`` paths."""

    what: Bound | Refusal
    where: str
    limit: int | None
    times: int
    kind: FileKind | None


class ScanAnswer(Strict):
    """``folders`` were listed; ``ignored`` counts folders and known files that git ignores."""

    root: str
    found: list[ScannedFile]
    links: list[ScannedLink]
    cut: list[ScanCut]
    folders: int
    ignored: int
    prompt: str


def scan_answer(scan: Scan, prompt: str) -> dict[str, Any]:
    return {**asdict(scan), "prompt": prompt}
