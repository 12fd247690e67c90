"""A scan of a workspace: open, drive, close."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from app.context import open_source
from app.core.scan import Scan, ScanLimits, scan
from app.core.scan_prompt import scan_prompt
from app.gather import Answers
from app.workspaces.opening import CommitSource, Ground, Source


@dataclass(frozen=True, slots=True)
class Scans:
    """Answers scans. ``prose`` holds the package's texts."""

    ground: Ground
    prose: Mapping[str, str]

    async def scan(self, source: Source) -> tuple[Scan, str]:
        """What was found, and the prompt. Raises the problems of opening a workspace."""
        return await asyncio.to_thread(self._scan, source)

    def _scan(self, source: Source) -> tuple[Scan, str]:
        opened = open_source(source, self.ground)
        with closing(opened.workspace):
            tracked = isinstance(source, CommitSource)
            walk = scan(opened.cwd, opened.workspace.paths, ScanLimits(), all_tracked=tracked)
            found = Answers(opened.workspace).drive(walk)
        return found, scan_prompt(found, self.prose)
