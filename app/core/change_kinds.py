"""What a changed path is to a session: memory, a rule, or settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from app.core.footprint import Change, Footprint
from app.core.paths import Paths, paths_for

ChangeKind = Literal["memory_changed", "rules_changed", "settings_changed"]

KINDS: tuple[ChangeKind, ...] = ("memory_changed", "rules_changed", "settings_changed")

SETTINGS = frozenset({"settings.json", "settings.local.json", "managed-settings.json"})
RULES = "rules"
INSTRUCTIONS = "CLAUDE.md"
PRIVATE = ".claude"
LINK = "link:"


def by_kind(changes: Iterable[Change], folders: frozenset[str]) -> tuple[tuple[ChangeKind, tuple[Change, ...]], ...]:
    """Each kind that occurs with its changes, sorted by path; ``folders`` are those of rules."""
    found: dict[ChangeKind, list[Change]] = {kind: [] for kind in KINDS}
    for change in sorted(changes, key=lambda one: one.path):
        found[kind_of(change.path, folders)].append(change)
    return tuple((kind, tuple(ones)) for kind, ones in found.items() if ones)


def kind_of(path: str, folders: frozenset[str]) -> ChangeKind:
    paths = paths_for(path)
    if is_of_rules(path, folders):
        return "rules_changed"
    return "settings_changed" if paths.name(path) in SETTINGS else "memory_changed"


def is_of_rules(path: str, folders: frozenset[str]) -> bool:
    return any(above in folders for above in paths_for(path).chain(path))


def rules_folders(footprint: Footprint) -> frozenset[str]:
    """Where rules were looked for: the folders, and what links to rules and in them lead to, as far as it was read."""
    links = tuple(_links(footprint))
    found = frozenset(_named(footprint))
    while more := {target for link, target in links if is_of_rules(link, found)} - found:
        found |= more
    return found


def _named(footprint: Footprint) -> Iterator[str]:
    """Of a project, `rules` counts in `.claude` only: right in a project's folder it may be anything."""
    for mark in footprint.folders:
        names = {name for name, _ in mark.entries}
        paths = paths_for(mark.path)
        is_configuration = INSTRUCTIONS in names and PRIVATE not in names
        if RULES in names and (is_configuration or paths.name(mark.path) == PRIVATE):
            yield paths.join(mark.path, RULES)


def _links(footprint: Footprint) -> Iterator[tuple[str, str]]:
    for mark in footprint.folders:
        paths: Paths = paths_for(mark.path)
        for name, state in mark.entries:
            if state.startswith(LINK):
                yield paths.join(mark.path, name), paths.join(mark.path, state.removeprefix(LINK))
