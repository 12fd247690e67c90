"""A footprint that also holds what came to stand where nothing was, so that its own changes can be told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from app.core.change_kinds import INSTRUCTIONS, PRIVATE, RULES, SETTINGS, is_of_rules
from app.core.footprint import Change, FileMark, FolderMark, Footprint
from app.core.paths import paths_for

Mark = TypeVar("Mark", FileMark, FolderMark)

MOST = 10_000
"""Files and folders of a footprint that may still grow; what comes after is told, but not its later changes."""

NOT_THERE = "absent"
NOT_FOUND = "not_found"


def grown(footprint: Footprint, changes: Iterable[Change], folders: frozenset[str], most: int = MOST) -> Footprint:
    """With marks for created paths as if nothing stood there yet; ``folders`` are those of rules.

    Inside of a created folder only names that a session looks for are looked at, and all of it below a folder of rules.
    The same footprint when there is nothing to add.
    """
    created = [change.path for change in changes if change.kind == "created"]
    known_files = {mark.path for mark in footprint.files}
    known_folders = {mark.path for mark in footprint.folders}
    files = [_file(path) for path in created if path not in known_files]
    inside = [_folder(path, folders) for path in created if path not in known_folders]
    more = [mark for mark in inside if mark is not None]
    if not files or len(footprint.files) + len(footprint.folders) > most:
        return footprint
    return Footprint(_sorted((*footprint.files, *files)), _sorted((*footprint.folders, *more)))


def _sorted(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    return tuple(sorted(marks, key=lambda mark: mark.path))


def _file(path: str) -> FileMark:
    return FileMark(path, None, settled=False, sha256=None, problem=NOT_FOUND)


def _folder(path: str, folders: frozenset[str]) -> FolderMark | None:
    if is_of_rules(path, folders):
        return FolderMark(path, None, settled=False, entries=(), names=())
    if paths_for(path).name(path) != PRIVATE:
        return None
    names = (INSTRUCTIONS, RULES, *sorted(SETTINGS))
    return FolderMark(path, None, settled=False, entries=tuple((name, NOT_THERE) for name in names))
