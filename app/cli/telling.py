"""An answer told to people: what loads, in order and with its cost; what waits; what does not load, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.core.report import REASONS

Style = Literal["heading", "plain", "good", "waiting", "bad", "hint", "faint"]
LARGEST_PARTS = 8
STYLES: dict[Style, dict[str, Any]] = {
    "heading": {"bold": True},
    "plain": {},
    "good": {"fg": "green"},
    "waiting": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "hint": {"fg": "cyan"},
    "faint": {"dim": True},
}
"""How each kind of line looks on a terminal."""


@dataclass(frozen=True, slots=True)
class Line:
    text: str = ""
    style: Style = "plain"


def printable(text: str) -> str:
    """``text`` without what a terminal would obey: names of files and words of hints come from the workspace."""
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)


def explained(values: Mapping[str, Any], cwd: str, *, everything: bool = False) -> Iterator[Line]:
    """Lines for a context answer. ``everything``: also what was looked for and is simply not there."""
    tokens, compaction = values["tokens"]["used"], values["compaction"]
    yield Line(f"{cwd} with {values['request']['model']}", "heading")
    yield Line(f"{tokens:,} tokens of {compaction['window']:,} ({compaction['percent_of_window']} %)", "faint")
    yield from _loaded(values["memory"]["files"], values["memory"]["report"], cwd)
    yield from _attached(values["memory"]["attachments"], values["memory"]["report"], cwd)
    rows = [row for row in values["memory"]["report"] if row["verdict"] != "loaded"]
    absent = [row for row in rows if row["reason"] == "not_found" and not row["parent"]]
    withheld = [row for row in rows if row["verdict"] == "withheld"]
    skipped = [row for row in rows if row["verdict"] == "skipped" and (everything or row not in absent)]
    yield from _listed("Waits", withheld, "waiting", cwd)
    yield from _listed("Does not load", skipped, "bad", cwd)
    if absent and not everything:
        yield Line(f"  and {len(absent)} usual places where there is no file (--all lists them)", "faint")
    yield from _warned(values["warnings"])
    yield from _costs(values["tokens"]["parts"])
    yield Line()
    yield Line("Compaction", "heading")
    yield from (Line(f"  {line}") for line in compaction["explain"])


def _loaded(files: Sequence[Mapping[str, Any]], report: Sequence[Mapping[str, Any]], cwd: str) -> Iterator[Line]:
    hints = _hints_of_loaded(report)
    yield Line()
    yield Line("Loads, in this order", "heading")
    if not files:
        yield Line("  nothing", "faint")
    for file in files:
        indent = "  " + "  " * (file["depth"] - 1)
        name = f"{indent}{'└ ' if file['depth'] > 1 else ''}{_short(file['path'], cwd)}"
        yield Line(f"{name:<62} {file['type']:<8} {file['tokens']:>7,}", "good")
        if file["path"] in hints:
            yield Line(f"{indent}  {hints[file['path']]}", "hint")


def _attached(files: Sequence[Mapping[str, Any]], report: Sequence[Mapping[str, Any]], cwd: str) -> Iterator[Line]:
    hints = _hints_of_loaded(report)
    if files:
        yield Line()
        yield Line("Arrives with the touched files", "heading")
    for file in files:
        yield Line(f"  {_short(file['path'], cwd):<60} {file['type']:<8} {file['tokens']:>7,}", "good")
        yield Line(f"    {file['reason'].replace('_', ' ')}, brought by {_short(file['trigger'], cwd)}", "faint")
        if file["path"] in hints:
            yield Line(f"    {hints[file['path']]}", "hint")


def _hints_of_loaded(report: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {row["path"]: row["hint"] for row in report if row["verdict"] == "loaded" and row["hint"]}


def _listed(title: str, rows: Sequence[Mapping[str, Any]], style: Style, cwd: str) -> Iterator[Line]:
    if rows:
        yield Line()
        yield Line(title, "heading")
    for row in rows:
        parent = row["parent"]
        by = f", line {row['line']} of {_short(parent, cwd)}" if parent and row["line"] else ""
        by = by or (f", from {_short(parent, cwd)}" if parent else "")
        yield Line(f"  {_short(row['path'], cwd)}", style)
        yield Line(f"    {row['reason']}: {REASONS.get(row['reason'], '')}{by}")
        if row["hint"]:
            yield Line(f"    {row['hint']}", "hint")


def _warned(warnings: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    if warnings:
        yield Line()
        yield Line("Warnings", "heading")
    for warning in warnings:
        where = f" ({warning['where']})" if warning["where"] else ""
        yield Line(f"  {warning['code']}{where}: {warning['message']}", "bad")


def _costs(parts: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    largest = sorted(parts, key=lambda part: (-part["tokens"], part["part"]))
    yield Line()
    yield Line("Largest parts, in tokens", "heading")
    for part in largest[:LARGEST_PARTS]:
        yield Line(f"  {part['tokens']:>8,}  {part['part']}")
    rest = sum(part["tokens"] for part in largest[LARGEST_PARTS:])
    if len(largest) > LARGEST_PARTS:
        yield Line(f"  {rest:>8,}  {len(largest) - LARGEST_PARTS} more", "faint")


def _short(path: str, cwd: str) -> str:
    """``path`` as seen from the working directory, where it lies below it."""
    for separator in ("/", "\\"):
        if path.startswith(cwd + separator):
            return path[len(cwd) + 1 :]
    return path
