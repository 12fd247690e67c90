"""What a series of raw requests does to the prompt cache, of any client: comparisons, and faults with their places."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

from app.core.cache_report import Comparison, compared
from app.core.costs import Cost, Prices, cost
from app.core.facts import Json, Usage
from app.core.models import Model
from app.core.prefix import Segment, model_tokens, rough_minimum
from app.core.secrets import masked_part
from app.core.sent import Sent, sent

MOST_MARKERS = 4
MOST_VOLATILE = 5
"""Kinds of volatile text that are told of one block."""
MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
CONTEXT_CHARACTERS = 40
CHANGING = (
    "This block differs from the last request, so that no marker behind it finds what was cached: "
    "give it the same text every time, leave it out, or move it into a message."
)

VOLATILE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a time", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?|\b\d\d:\d\d:\d\d\b")),
    (
        "a date",
        re.compile(
            r"\b\d{4}(?:-\d\d-|/\d\d/)\d\d\b"
            rf"|\b\d{{1,2}} {MONTH} \d{{4}}\b|\b{MONTH} \d{{1,2}}, \d{{4}}\b"
        ),
    ),
    (
        "an id",
        re.compile(
            r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
            r"|\b(?:req|msg|run|sess)_(?=[A-Za-z_]{0,40}\d)\w{8,}"
        ),
    ),
    ("a Unix time", re.compile(r"\b1[5-9]\d{8}(?:\d{3})?\b")),
    ("a home folder", re.compile(r"(?<![\w.])(?:/home/|(?:[A-Za-z]:)?/Users/|[A-Za-z]:\\{1,2}Users\\{1,2})[\w.-]+")),
    (
        "a repository's status",
        re.compile(
            r"^(?:Current branch:|On branch |Your branch is |(?:[MADRC][ MD]| [MD]|U[UAD]|[AD]U|AA|\?\?) \S+$)",
            re.MULTILINE,
        ),
    ),
)
"""Text that differs between users, days or calls, and does not belong before the last shared marker."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``request`` is the index of the request it was found in; ``at`` its place, ``shown`` a little of the text."""

    code: str
    message: str
    request: int
    at: str
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Linted:
    """``costs`` are those of the comparisons; None where the model has no price."""

    comparisons: tuple[Comparison, ...]
    costs: tuple[Cost | None, ...]
    findings: tuple[Finding, ...]


def lint(
    requests: Sequence[Json],
    models: Sequence[Model],
    started: Sequence[float | None],
    usages: Sequence[Usage | None],
    prices: Prices,
) -> Linted:
    """Compares each request with the one before it and looks through all of them.

    Args:
        requests: Messages API bodies, in the order in which they were sent.
        models: for each, the one that it names.
        started: when each was sent, in seconds; None where it is not known.
        usages: what the API answered to each; None where it is not known.
        prices: what the models cost, as far as that is known.
    """
    taken = [
        sent(request, rough_minimum(model), started=start)
        for request, model, start in zip(requests, models, started, strict=True)
    ]
    comparisons = tuple(
        compared(before, after, usage) for (before, after), usage in zip(pairwise(taken), usages[1:], strict=True)
    )
    costs = tuple(cost(one, model.id, prices) for one, model in zip(comparisons, models[1:], strict=True))
    findings = [
        finding
        for index, (one, model) in enumerate(zip(taken, models, strict=True))
        for finding in _in_one(index, one, model)
    ]
    for index, (before, after) in enumerate(pairwise(taken)):
        findings.extend(_in_two(index + 1, before, after))
    return Linted(comparisons, costs, tuple(_each_once(findings)))


def _in_one(index: int, one: Sent, model: Model) -> Iterator[Finding]:
    marked = [at for at, segment in enumerate(one.segments) if segment.ttl]
    if not marked:
        yield Finding("no_marker", "Nothing is cached: put a marker at the end of what stays.", index, "request")
    counted = list(accumulate(segment.markers for segment in one.segments))
    if counted and counted[-1] > MOST_MARKERS:
        text = f"{counted[-1]} places are marked; the API takes {MOST_MARKERS} and refuses the request."
        first = next(at for at, count in enumerate(counted) if count > MOST_MARKERS)
        yield Finding("too_many_markers", text, index, one.segments[first].at)
    yield from _ttl_order(index, [one.segments[at] for at in marked])
    yield from _wasted(index, one, marked, model)
    yield from _volatile(index, one, marked)


def _ttl_order(index: int, marked: Sequence[Segment]) -> Iterator[Finding]:
    for before, after in pairwise(marked):
        if before.ttl == "5m" and after.ttl == "1h":
            text = f"A marker of 1h follows one of 5m at {before.at}: the API refuses that. Put longer ones first."
            yield Finding("ttl_order", text, index, after.at)


def _wasted(index: int, one: Sent, marked: Sequence[int], model: Model) -> Iterator[Finding]:
    tokens = list(accumulate(segment.tokens for segment in one.segments))
    for at in marked:
        if tokens[at] < one.minimum:
            text = f"{_about(model_tokens(tokens[at], model))}; {one.model} caches {model.min_cache:,} or more."
            yield Finding("below_minimum", text, index, one.segments[at].at)


def _about(tokens: int) -> str:
    return "About 1 token stands up to here" if tokens == 1 else f"About {tokens:,} tokens stand up to here"


def _volatile(index: int, one: Sent, marked: Sequence[int]) -> Iterator[Finding]:
    shared = [at for at in marked if one.segments[at].area != "messages"]
    for segment in one.segments[: max(shared, default=-1) + 1]:
        for what, found in islice(_varying(segment.text or ""), MOST_VOLATILE):
            text = f"It holds {what}: move it behind the last marker of tools and system, or into a message."
            yield Finding("volatile_text", text, index, segment.at, _around(found.string, found.start()))


def _varying(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The first of each kind; none within one of a kind before it, as the date of a time is."""
    taken: list[re.Match[str]] = []
    for what, pattern in VOLATILE:
        found = next((one for one in pattern.finditer(text) if not _overlaps(one, taken)), None)
        if found:
            taken.append(found)
            yield what, found


def _overlaps(one: re.Match[str], taken: Sequence[re.Match[str]]) -> bool:
    return any(one.start() < other.end() and other.start() < one.end() for other in taken)


def _in_two(index: int, before: Sent, after: Sent) -> Iterator[Finding]:
    reordered = list(_reordered(index, _tools(before), _tools(after)))
    yield from reordered
    changed = [(old, new) for old, new in _changed(before, after) if new.area == "system" or not reordered]
    for old, new in changed:
        if old.ttl and new.ttl:
            text = "This block is marked and differs from the last request: mark the block before it instead."
            yield Finding("marker_on_changing_block", text, index, new.at)
    if before.model == after.model:
        yield from (Finding("changing_block", CHANGING, index, at) for at in _changing(before, after, changed))


def _changed(before: Sent, after: Sent) -> Iterator[tuple[Segment, Segment]]:
    """Tools and system blocks that stand at one place in both and say something else."""
    earlier = {one.at: one for one in before.segments if one.area != "messages"}
    for new in after.segments:
        old = earlier.get(new.at)
        if old is not None and old.digest != new.digest:
            yield old, new


def _changing(before: Sent, after: Sent, changed: Sequence[tuple[Segment, Segment]]) -> Iterator[str]:
    """Places of those without a marker that a marker behind them stands on, in both requests.

    Another tool in a tool's place is none, nor is what a system block moved that came or went in front of it.
    """
    goes_on = _first_message(before) == _first_message(after)
    old_places, new_places = (_before_marker(one, goes_on=goes_on) for one in (before, after))
    moved = len(_of_system(before)) != len(_of_system(after))
    first = next((new.at for _, new in changed if new.area == "system"), None)
    for old, new in changed:
        same = old.name == new.name != new.at if new.area == "tools" else not moved or new.at == first
        if same and not new.ttl and old.at in old_places and new.at in new_places:
            yield new.at


def _before_marker(one: Sent, *, goes_on: bool) -> set[str]:
    """Places up to the last marker. Those of a conversation count when it ``goes_on``."""
    marked = [at for at, segment in enumerate(one.segments) if segment.ttl and (segment.area != "messages" or goes_on)]
    return {segment.at for segment in one.segments[: max(marked, default=-1) + 1]}


def _first_message(one: Sent) -> bytes | None:
    return next((segment.digest for segment in one.segments if segment.area == "messages"), None)


def _of_system(one: Sent) -> list[Segment]:
    return [segment for segment in one.segments if segment.area == "system"]


def _tools(one: Sent) -> list[str]:
    return [segment.text or "" for segment in one.segments if segment.area == "tools"]


def _reordered(index: int, before: Sequence[str], after: Sequence[str]) -> Iterator[Finding]:
    if before == after:
        return
    if sorted(before) == sorted(after):
        text = "The same tools come in another order: sort them by name."
        yield Finding("tool_order", text, index, "tools")
    elif sorted(map(_sorted_keys, before)) == sorted(map(_sorted_keys, after)):
        text = "The same tools are written with their keys in another order: write JSON in one fixed order."
        yield Finding("key_order", text, index, "tools")


def _sorted_keys(text: str) -> str:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _around(text: str, at: int) -> str:
    start = max(0, at - CONTEXT_CHARACTERS // 2)
    return " ".join(masked_part(text, start, start + CONTEXT_CHARACTERS).split())


def _each_once(findings: Sequence[Finding]) -> Iterator[Finding]:
    """A fault that stands in every request is told for the first one; of volatile text each kind is a fault."""
    seen: set[tuple[str, str, str]] = set()
    for finding in findings:
        fault = (finding.code, finding.at, finding.message if finding.code == "volatile_text" else "")
        if fault not in seen:
            seen.add(fault)
            yield finding
