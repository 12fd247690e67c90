"""A copy of the index for git alone: its names are looked at first, and nobody changes it any more."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from app.workspaces.configuration import settings_in
from app.workspaces.containment import SHARED_INDEX, Shown
from app.workspaces.git_folder import GitFolder
from app.workspaces.index import UnclearIndexError, index_bytes, leads_away, stamped_index


def copied_index(shown: Shown, folder: GitFolder) -> bool:
    """Whether git may look for the files that the index names: each of them is below the checkout.

    Then ``folder`` holds the index, with the part of it that is shared. No index is an empty one.
    """
    if shown.index is None:
        return True
    object_format = dict(settings_in(shown.config)).get("extensions.objectformat", "sha1")
    try:
        own, written = stamped_index(folder.held.path(shown.index))
        parts = {name: index_bytes(real) for name, real in _further(own, shown, folder)}
        if leads_away(own, object_format, is_split=bool(parts)):
            return False
        if any(leads_away(part, object_format) for part in parts.values()):
            return False
        for name, data in (("index", own), *parts.items()):
            Path(folder.path, name).write_bytes(data)
        os.utime(folder.index, ns=(written, written))  # git goes by it to tell which files it has to read
    except (UnclearIndexError, OSError):
        return False
    return True


def _further(index: bytes, shown: Shown, folder: GitFolder) -> list[tuple[str, str]]:
    """The file that an index goes on in, if any. Raises UnclearIndexError."""
    used = [(name, folder.held.path(real)) for name, real in shown.shared if _is_used(index, name)]
    if len(used) > 1:
        raise UnclearIndexError(used)
    return used


def _is_used(index: bytes, name: str) -> bool:
    """Whether an index says that it goes on in the file ``name``, or could."""
    with suppress(ValueError):
        return bytes.fromhex(name.removeprefix(SHARED_INDEX)) in index
    return False
