"""Additional directories: how many a project may have, and what is wrong with them."""

from __future__ import annotations

from app.core.candidates import Plan
from app.core.facts import Kind, Notice
from app.core.flow import Flow, look

MOST_DIRECTORIES = 1_000
"""That settings files of one project may name."""

_ABSENT = (
    "This additional directory is no folder that can be read: check its path, and STRATA_ROOTS or your key's roots."
)


def directory_notices(plan: Plan) -> Flow[tuple[Notice, ...]]:
    """A warning for each that is no folder this service may read, and one when settings files name too many."""
    found: list[Notice] = []
    for folder in plan.client.additional_directories:
        node = yield from look(folder)
        found += [Notice("additional_directory_missing", _ABSENT, folder)] * (node.kind is not Kind.DIRECTORY)
    named = plan.configuration.additional_directories
    if len(named) > MOST_DIRECTORIES:
        message = f"Settings files name {len(named):,} additional directories: the first {MOST_DIRECTORIES:,} count."
        found.append(Notice("settings_ignored", message, named[MOST_DIRECTORIES]))
    return tuple(found)
