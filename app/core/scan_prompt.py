"""The prompt with which a model proposes a CLAUDE.md from what a scan found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.core.scan import Cut, Found, Scan
from app.core.scan_names import KINDS

MOST_LISTED = 40
"""Files of one kind that the prompt lists."""


def scan_prompt(scan: Scan, prose: Mapping[str, str]) -> str:
    """What to send to a model that can read the scanned folder; a person reviews what it proposes."""
    return "\n\n".join((prose["scan_prompt"].replace("{folder}", _quoted(scan.root)), *_listed(scan)))


def _listed(scan: Scan) -> Iterator[str]:
    yield "# Files found"
    if not scan.found:
        yield "None. Look at the folder yourself."
    for kind, heading in KINDS:
        files = [file for file in scan.found if file.kind == kind]
        lines = [_line(file) for file in files[:MOST_LISTED]]
        if len(files) > MOST_LISTED:
            lines.append(f"- and {len(files) - MOST_LISTED:,} more, further from the root")
        if lines:
            yield "\n".join((f"## {heading}", "", *lines))
    if scan.links:
        rows = (f"- {_quoted(link.relative)} leads to {_quoted(link.target)}" for link in scan.links[:MOST_LISTED])
        yield "\n".join(("## Links to folders, not followed", "", *rows))
    if scan.cut:
        yield "\n".join(
            ("## Not seen", "", "The scan left something out. Look there yourself:", "", *map(_cut, scan.cut))
        )


def _line(file: Found) -> str:
    facts = [file.tool, f"{file.tokens:,} tokens"]
    if file.duplicate_of is not None:
        facts.append(f"the same file as {_quoted(file.duplicate_of)}")
    if file.note is not None:
        facts.append(file.note.replace("_", " "))
    return f"- {_quoted(file.relative)} ({', '.join(facts)})"


def _cut(cut: Cut) -> str:
    limit = "" if cut.limit is None else f", limit {cut.limit:,}"
    times = f" and {cut.times - 1:,} more" if cut.times > 1 else ""
    kind = f" ({cut.kind})" if cut.kind else ""
    return f"- {cut.what.replace('_', ' ')}{kind}{limit}: {_quoted(cut.where)}{times}"


def _quoted(path: str) -> str:
    """As code, on one line whatever the name holds."""
    plain = path if path.isprintable() else path.encode("unicode_escape").decode()
    return f"`{plain.replace('`', '?')}`"
