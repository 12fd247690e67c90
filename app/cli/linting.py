"""``strata lint-cache``: requests read from files, and what is found in them told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from app.cli.asking import INVALID, failed, read_settings
from app.cli.telling import Line
from app.data.tables import load_models
from app.errors import Problem
from app.main import prices_of
from app.wire.lints import LintRequest, lint_answer, linted
from app.wire.parsing import parsed


def linted_files(files: Sequence[Path]) -> dict[str, Any]:
    """The answer of ``POST /v1/cache/lint`` for bodies in files, with the prices of the settings."""
    models = load_models()
    prices = prices_of(read_settings({}), models)
    bodies = [body for file in files for body in _bodies(file)]
    try:
        asked = parsed(LintRequest, orjson.dumps({"requests": [{"body": body} for body in bodies]}))
    except Problem as problem:
        raise failed(problem.detail, INVALID) from problem
    return lint_answer(linted(asked.requests, models, prices))


def _bodies(file: Path) -> list[Any]:
    try:
        values = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise failed(f"{file} cannot be read: {error}", INVALID) from error
    return values if isinstance(values, list) else [values]


def linted_lines(values: Mapping[str, Any]) -> Iterator[Line]:
    """Lines for people: a line for each request after the first, then the findings."""
    for row in values["comparisons"]:
        yield from _compared(row)
    yield Line()
    yield Line("Findings", "heading")
    if not values["findings"]:
        yield Line("  none", "good")
    for row in values["findings"]:
        yield Line(f"  request {row['request']}, {row['at']}: {row['code']}", "bad")
        yield Line(f"    {row['message']}", "hint")
        if row["shown"]:
            yield Line(f"    … {row['shown']} …", "faint")


def _compared(row: Mapping[str, Any]) -> Iterator[Line]:
    words = {True: "hit", False: "miss", None: "nothing cached before"}[row["hit"]]
    cause = f", {row['cause']}" if row["cause"] else ""
    where = f" at {row['at']}" if row["at"] else ""
    yield Line(f"request {row['request']}: {words}{cause}{where}", "bad" if row["hit"] is False else "good")
    yield Line(f"  {', '.join(_counted(row))}", "faint")
    change = row["first_change"]
    if change:
        yield Line(f"  before: {change['before']}", "hint")
        yield Line(f"  after:  {change['after']}", "hint")


def _counted(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{row['hit_tokens']:,} tokens read"
    yield f"{row['rewritten_tokens']:,} written again"
    if row["unwritten_tokens"]:
        yield f"{row['unwritten_tokens']:,} sent again without a marker"
    if row["cost"]:
        yield f"at a cost of {row['cost']['amount']:,.6f} {row['cost']['currency']}"
