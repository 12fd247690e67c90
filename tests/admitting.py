"""Who is admitted, for tests of the layers that ask."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from app.callers import Keys, Meters
from app.guard import Admission
from app.origins import Origins
from app.workspaces.fence import Fence


def admission(
    *,
    hosts: Iterable[str] = (),
    keys: Iterable[str] = (),
    file: Path | None = None,
    origins: Iterable[str] = (),
    max_body_bytes: int = 100,
) -> Admission:
    known = Keys(keys, file, Fence.of, lambda *_: None)
    return Admission(
        hosts=hosts,
        keys=known,
        meters=Meters(time.monotonic),
        origins=Origins(origins),
        max_body_bytes=max_body_bytes,
    )
