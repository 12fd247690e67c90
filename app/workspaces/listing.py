"""What a folder holds, as far as it matters to who follows its links and looks into what is below."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

_LISTS_WHAT_IS_OPEN = os.scandir in os.supports_fd
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds: how many entries, and the names of the links and folders among them."""

    entries: int = 0
    links: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@contextmanager
def opened_folder(folder: str) -> Iterator[int | str]:
    """The folder itself, so that no other can take its place meanwhile; its path where the system cannot list that."""
    if not _LISTS_WHAT_IS_OPEN:
        yield folder
        return
    opened = os.open(folder, _FOLDER)
    try:
        yield opened
    finally:
        os.close(opened)


def listed(folder: int | str, most: int) -> Listing:
    """A folder's listing, read as far as one entry more than ``most``. Raises OSError."""
    count, links, folders = 0, [], []
    with os.scandir(folder) as entries:
        for count, entry in enumerate(islice(entries, most + 1), 1):  # noqa: B007 - how many there were
            if entry.is_file(follow_symlinks=False):
                continue
            if entry.is_symlink():
                links.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return Listing(count, tuple(links), tuple(folders))
