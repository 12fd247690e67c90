"""What became of every candidate: the rows of ``memory.report``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from app.core.facts import Kind

Verdict = Literal["loaded", "skipped", "withheld"]

REASONS: dict[str, str] = {
    "not_found": "there is no such file",
    "dangling_link": "a link that leads nowhere or in a circle",
    "is_directory": "a folder stands there",
    "not_regular": "a FIFO, a socket, a device, or the kernel's own (`/proc`)",
    "unreadable": "the file exists but may not be read",
    "outside_fence": "beyond the folders this service may read",
    "not_text": "its ending or its bytes say that it is not text",
    "not_a_rule": "a file in a rules folder that does not end in .md",
    "git_metadata": "inside .git: it can hold secrets",
    "external": "outside the working directory and its repository; needs consent",
    "excluded": "an exclude pattern fits it",
    "already_loaded": "the same real file came earlier",
    "already_attached": "it arrived earlier in this session and stands in the conversation",
    "touched_outside": "a touched file that lies outside the working directory brings nothing",
    "event_off": "memory.trigger_events does not name this event",
    "too_deep": "more than four includes away from the file that starts the chain",
    "empty": "nothing is left once frontmatter and comments are gone",
    "budget": "more than the service reads",
    "source_off": "its setting source is off",
    "private_folder": "the home's .claude and the configuration folder are never project folders",
    "worktree_duplicate": "the main checkout's copy of what the worktree holds itself",
    "condition_not_met": "waits until a file that fits its paths is touched",
    "pattern_invalid": "none of its patterns can be read",
    "pattern_never_matched": "written so that no path can fit it",
    "exclude_never_matched": "an exclude pattern for this project that fits nothing",
    "additional_off": "stands in an additional directory; memory.from_additional_directories is off",
    "includes_not_followed": "includes in memory indexes are not followed",
    "agents_md_off": "memory.agents_md does not ask for it here",
    "settings_unreadable": "the settings file is not valid JSON",
}
"""Why something did not load, each in a few words. The README's table is held to this one."""

NODE_REASONS: dict[Kind, str] = {
    Kind.MISSING: "not_found",
    Kind.DANGLING: "dangling_link",
    Kind.DIRECTORY: "is_directory",
    Kind.SPECIAL: "not_regular",
    Kind.UNREADABLE: "unreadable",
    Kind.OUTSIDE: "outside_fence",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate. ``parent`` and ``line`` (from 1) say who included it; ``tried`` is the path looked for."""

    path: str
    verdict: Verdict
    reason: str | None = None
    parent: str | None = None
    line: int | None = None
    tried: str | None = None
    hint: str | None = None

    @property
    def candidate(self) -> tuple[str, str | None, int | None]:
        """What the row is about: no two rows of a report have the same."""
        return self.path, self.parent, self.line


def distinct(rows: Iterable[Row]) -> tuple[Row, ...]:
    """One row for each candidate that was considered several times: that it loaded, else what was said first."""
    kept: dict[tuple[str, str | None, int | None], Row] = {}
    for row in rows:
        if row.verdict == "loaded":
            kept[row.candidate] = row
        else:
            kept.setdefault(row.candidate, row)
    return with_includers(kept.values())


def with_includers(rows: Collection[Row]) -> tuple[Row, ...]:
    """The rows, where a rule that came with another file is not said to wait for its own condition."""
    includers = {row.path: row.parent for row in rows if row.verdict == "loaded" and row.parent}
    return tuple(_came(row, includers.get(row.path)) for row in rows)


def _came(row: Row, includer: str | None) -> Row:
    if includer is None or row.parent is not None or row.verdict != "withheld":
        return row
    hint = f"It came with {includer}, which includes it."
    return replace(row, verdict="skipped", reason="already_loaded", hint=hint)
