"""What somebody may have meant: things that load but look like a mistake, and a memory folder that others share.

Flows: they ask, and whoever drives them answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.core.facts import Kind
from app.core.flow import Flow, look, names
from app.core.paths import Paths
from app.core.tokens import utf16_length

LONGEST_LINK = 1024
MOST_FOLDERS = 200
"""Folders looked into for another project with the same memory key."""

_NOT_KEY = re.compile(r"[^A-Za-z0-9]")
_LINK_TEXT = re.compile(r"\S+")

TOO_LARGE = "It is larger than what this request may still read (STRATA_MAX_FILE_BYTES, STRATA_MAX_MEMORY_BYTES)."
LINKED_OUT = (
    "It is a link that came with the repository and leads out of it: once the user agrees, ask with "
    "memory.allow_external_includes."
)
CONSENT = (
    "It lies outside the working directory and its repository: set memory.allow_external_includes once the user agrees."
)
TOO_MANY_PATTERNS = "The rules of this request have too many patterns in all (STRATA_MAX_PATTERNS)."
UNREAD = {"budget": TOO_LARGE}


def sentences(advice: Sequence[str]) -> str | None:
    """All of it together; None where there is none."""
    return " ".join(advice) or None


def link_in_words(text: str, folder: str, paths: Paths) -> Flow[str | None]:
    """A hint when ``text`` is nothing but the path of another file: what is left of a link that was not created."""
    target = text.strip()
    if len(target) > LONGEST_LINK or not _LINK_TEXT.fullmatch(target) or target.startswith("@"):
        return None
    node = yield from look(paths.join(folder, target))
    if node.kind is not Kind.FILE:
        return None
    return (
        f"This file holds only the path {target}: a link that git could not create here. Set core.symlinks and check "
        f"out again, or write @{target}."
    )


def memory_key(folder: str) -> str:
    """The project's name in the configuration folder: a dash for each UTF-16 unit. Different paths can share one."""
    return _NOT_KEY.sub(lambda other: "-" * utf16_length(other[0]), folder)


def same_key(folder: str, paths: Paths) -> Flow[str | None]:
    """Another existing folder whose memory key is that of ``folder``, when one is found within a few folders."""
    chain = paths.chain(folder)
    left = MOST_FOLDERS
    for index, child in enumerate(chain):
        pending = [(paths.parent(child), memory_key(_rest(chain, index, paths)))]
        while pending and left > 0:
            left -= 1
            parent, rest = pending.pop()
            for name in sorted((yield from names(parent))):
                path, key = paths.join(parent, name), memory_key(name)
                if path in chain[index:] or not _begins(rest, key):
                    continue
                if (yield from look(path)).kind is not Kind.DIRECTORY:
                    continue
                if len(key) == len(rest):
                    return path
                pending.append((path, rest[len(key) + 1 :]))
    return None


def _rest(chain: Sequence[str], index: int, paths: Paths) -> str:
    """The path from ``chain[index]`` on, seen from its parent."""
    return paths.separator.join(paths.name(folder) for folder in chain[index:])


def _begins(rest: str, key: str) -> bool:
    return rest == key or rest.startswith(f"{key}-")
