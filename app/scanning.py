"""A scan of a workspace: open, drive, close."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import dataclass, replace

from app.core.scan import Scan, ScanLimits, scan
from app.core.scan_prompt import scan_prompt
from app.gather import Known
from app.opened import open_source
from app.workspaces.fence import Fence
from app.workspaces.opening import CommitSource, Ground, Source


@dataclass(frozen=True, slots=True)
class Scans:
    """Answers scans."""

    ground: Ground
    known: Known

    async def scan(self, source: Source, fence: Fence | None = None) -> tuple[Scan, str]:
        """What was found, and the prompt. Raises the problems of opening a workspace, TookTooLong and TooLarge."""
        return await asyncio.to_thread(self._scan, source, fence)

    def _scan(self, source: Source, fence: Fence | None) -> tuple[Scan, str]:
        opened = open_source(source, replace(self.ground, fence=fence or self.ground.fence))
        with closing(opened.workspace):
            tracked = isinstance(source, CommitSource)
            answers = self.known.answers(opened.workspace)
            found = answers.drive(scan(opened.cwd, opened.workspace.paths, self._limits(), all_tracked=tracked))
        return found, scan_prompt(found, self.known.prose)

    def _limits(self) -> ScanLimits:
        usual = ScanLimits()
        return replace(usual, depth=min(usual.depth, self.known.limits.depth))
