"""``strata lint-cache``: what a series of requests does to the prompt cache, told to people request by request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.building import prices_of
from app.cli.asking import read_settings
from app.cli.lint_files import Row, sent_requests
from app.cli.telling import Line
from app.data.tables import load_models
from app.wire.lints import lint_answer, linted

VERDICTS = {True: "hit", False: "miss", None: "nothing cached before"}


def linted_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """The answer of ``POST /v1/cache/lint`` for requests from files, with the prices of the settings."""
    models = load_models()
    prices = prices_of(read_settings({}), models)
    return lint_answer(linted(sent_requests(rows), models, prices))


def is_to_mend(values: Mapping[str, Any]) -> bool:
    """Whether something was found, or what was cached was not read."""
    return bool(values["findings"]) or any(row["hit"] is False for row in values["comparisons"])


def linted_lines(values: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Line]:
    """Lines for people: each request by its place from 1, how it went, and what is to be mended in it."""
    compared = {row["request"]: row for row in values["comparisons"]}
    for index, row in enumerate(rows):
        yield Line(f"request {index + 1}: {row.where}", "heading")
        if index in compared:
            yield from _compared(compared[index])
        for finding in values["findings"]:
            if finding["request"] == index:
                yield from _found(finding)
    yield Line()
    yield _summary(values)


def _compared(row: Mapping[str, Any]) -> Iterator[Line]:
    cause = f", {row['cause']}" if row["cause"] else ""
    where = f" at {row['at']}" if row["at"] else ""
    yield Line(f"  {VERDICTS[row['hit']]}{cause}{where}", "bad" if row["hit"] is False else "good")
    if row["agreed"] is False:
        yield Line("  the usage says that less was read than could be", "hint")
    yield Line(f"  {', '.join(_counted(row))}", "faint")
    change = row["first_change"]
    if change:
        yield Line(f"  before: {change['before']}", "hint")
        yield Line(f"  after:  {change['after']}", "hint")


def _counted(row: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_many(row['hit_tokens'], 'token')} read"
    yield f"{row['rewritten_tokens']:,} written again"
    if row["unwritten_tokens"]:
        yield f"{row['unwritten_tokens']:,} sent again without a marker"
    if row["cost"]:
        yield f"at a cost of {row['cost']['amount']:,.6f} {row['cost']['currency']}"


def _found(finding: Mapping[str, Any]) -> Iterator[Line]:
    yield Line(f"  {finding['code']} at {finding['at']}", "bad")
    yield Line(f"    {finding['message']}", "hint")
    if finding["shown"]:
        yield Line(f"    … {finding['shown']} …", "faint")


def _summary(values: Mapping[str, Any]) -> Line:
    found = len(values["findings"])
    missed = sum(row["hit"] is False for row in values["comparisons"])
    told = [
        *([f"{_many(missed, 'request')} missed the cache"] if missed else []),
        *([f"{_many(found, 'finding')} to mend"] if found else []),
    ]
    return Line(f"{', '.join(told)}." if told else "Nothing to mend.", "bad" if told else "good")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
