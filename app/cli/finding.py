"""A scan told to people: a table of files by kind, and what was cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.cli.telling import Line
from app.core.scan_names import KINDS


def listed(values: Mapping[str, Any]) -> Iterator[Line]:
    """Lines for a scan's answer."""
    found = values["found"]
    tokens = sum(file["tokens"] for file in found if file["duplicate_of"] is None)
    yield Line(_shown(values["root"]), "heading")
    yield Line(f"{len(found):,} files, {tokens:,} tokens; {values['folders']:,} folders looked through", "faint")
    for kind, heading in KINDS:
        yield from _table(heading, [file for file in found if file["kind"] == kind])
    yield from _links(values["links"])
    yield from _cuts(values["cut"])


def _table(heading: str, files: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    if files:
        yield Line()
        yield Line(f"{heading:<48} {'tool':<22} {'bytes':>9} {'tokens':>8}", "heading")
    for file in files:
        yield Line(f"  {_shown(file['relative']):<46} {file['tool']:<22} {file['size']:>9,} {file['tokens']:>8,}")
        if file["duplicate_of"] is not None:
            yield Line(f"    the same file as {_shown(file['duplicate_of'])}", "faint")
        if file["note"] is not None:
            yield Line(f"    {file['note'].replace('_', ' ')}", "faint")


def _links(links: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    if links:
        yield Line()
        yield Line("Links to folders, not followed", "heading")
    for link in links:
        yield Line(f"  {_shown(link['relative'])} leads to {_shown(link['target'])}")


def _cuts(cuts: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    if cuts:
        yield Line()
        yield Line("Left out", "heading")
    for cut in cuts:
        kind = f" ({cut['kind']})" if cut["kind"] else ""
        limit = "" if cut["limit"] is None else f", limit {cut['limit']:,}"
        times = f" and {cut['times'] - 1:,} more" if cut["times"] > 1 else ""
        yield Line(f"  {cut['what'].replace('_', ' ')}{kind}{limit}: {_shown(cut['where'])}{times}", "bad")


def _shown(path: str) -> str:
    """On one line, and without codes that a terminal would obey."""
    return path if path.isprintable() else path.encode("unicode_escape").decode()
