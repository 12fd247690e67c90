"""Layer 2, on demand: nested files and conditional rules that arrive when the model touches a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from app.core.allowance import Allowance
from app.core.candidates import Candidate, MemoryFile, Plan, Touched
from app.core.excludes import excludes
from app.core.facts import Touch
from app.core.flow import Flow, look, read
from app.core.includes import reach
from app.core.levels import Level, levels_at
from app.core.loading import Loading
from app.core.memory import (
    Memory,
    agents_files,
    exclude_globs,
    is_private,
    level_files,
    note_agents,
    off_reason,
    rule_base,
    rules_folder,
    settled,
    walk,
)
from app.core.report import Row, distinct, with_includers

TOUCHED = "touched"
"""The parent of rows about touched files themselves."""

_ELSEWHERE = "Name its folder in additional_directories and set memory.from_additional_directories."


@dataclass(frozen=True, slots=True)
class Attached:
    """What the touches brought, in the order it arrives, with the rows of everything considered for them."""

    files: tuple[MemoryFile, ...] = ()
    rows: tuple[Row, ...] = ()


def attach(
    plan: Plan,
    memory: Memory,
    delivered: Collection[str],
    touches: Sequence[Touch],
    allowance: Allowance | None = None,
) -> Flow[Attached]:
    """Attachments for ``touches``; what loaded up front or was ``delivered`` (real paths) does not come again.

    ``allowance`` is the request's; None: a whole one.
    """
    if not plan.options.enabled:
        return Attached()
    fitting = [touch for touch in touches if touch.event in plan.options.trigger_events]
    rows = [Row(real, "skipped", "already_attached") for real in delivered]
    rows.extend(_idle(plan, touch) for touch in touches if touch.event not in plan.options.trigger_events)
    if not fitting:
        return Attached(rows=tuple(rows))
    plan = yield from settled(plan)
    excluded = yield from excludes(exclude_globs(plan), plan.paths, plan.client.given)
    seen = dict(memory.seen) | {real: real for real in delivered}
    bounds = reach(plan.client, plan.roots, plan.options, plan.paths)
    loading = Loading(plan, excluded, bounds, seen, allowance or Allowance.of(plan.limits))
    loading.rows.extend(rows)
    agents = yield from agents_files(plan)
    files: list[MemoryFile] = []
    brought: set[str] = set()
    for touch in fitting:
        path = plan.paths.join(plan.client.cwd, touch.path)
        touched = Touched(touch.path, (yield from look(path)).real)
        if touched.real not in brought:
            brought.add(touched.real)
            files.extend((yield from _brought(loading, touched, agents=agents)))
    return Attached(tuple(files), distinct(loading.rows))


def _brought(loading: Loading, touched: Touched, *, agents: bool) -> Flow[list[MemoryFile]]:
    """Managed and user rules, then folders below the base outermost first, then rules of the base and above."""
    base = _base(loading.plan, touched)
    if base is None:
        if touched.real != loading.plan.client.cwd:
            loading.add(touched.real, "skipped", "touched_outside", parent=TOUCHED, hint=_ELSEWHERE)
        return []
    found: list[MemoryFile] = []
    for level, folder in _upper(loading.plan):
        found.extend((yield from _rules(loading, level, folder, touched, unconditional=False)))
    for folder in _below(loading.plan, base, touched):
        found.extend((yield from _nested(loading, folder, touched, agents=agents)))
    for folder in walk(loading.plan) if base == loading.plan.client.cwd else (base,):
        for level in levels_at("directory"):
            if off_reason(loading.plan, level, folder, walked=base == loading.plan.client.cwd) is None:
                found.extend((yield from _rules(loading, level, folder, touched, unconditional=False)))
    return found


def _idle(plan: Plan, touch: Touch) -> Row:
    path = plan.paths.join(plan.client.cwd, touch.path)
    return Row(path, "skipped", "event_off", parent=TOUCHED, hint=f"Add {touch.event} to memory.trigger_events.")


def _base(plan: Plan, touched: Touched) -> str | None:
    """The folder whose nested files a touched file brings: the working directory, or an additional one."""
    folders = [] if plan.options.bare else [plan.client.cwd]
    if plan.options.from_additional_directories:
        folders.extend(plan.client.additional_directories)
    return next((folder for folder in folders if plan.paths.relative(touched.real, folder)), None)


def _upper(plan: Plan) -> Iterator[tuple[Level, str]]:
    if plan.options.bare:
        return
    for base, folder in (("managed", plan.client.managed_dir), ("config", plan.client.config_dir)):
        for level in levels_at("managed") if base == "managed" else levels_at("config"):
            if folder and off_reason(plan, level, folder) is None:
                yield level, folder


def _below(plan: Plan, base: str, touched: Touched) -> tuple[str, ...]:
    chain = plan.paths.chain(plan.paths.parent(touched.real))
    return tuple(folder for folder in chain if folder != base and plan.paths.within(folder, base))


def _nested(loading: Loading, folder: str, touched: Touched, *, agents: bool) -> Flow[list[MemoryFile]]:
    found: list[MemoryFile] = []
    plan = loading.plan
    levels = [level for level in levels_at("directory") if off_reason(plan, level, folder, walked=False) is None]
    for level in levels:
        for name in level_files(level, agents=agents):
            if not is_private(plan, level, folder, name):
                candidate = Candidate(plan.paths.join(folder, name), level, trigger=touched.path)
                found.extend((yield from _once(loading, candidate)))
        if level.type == "Project" and not agents:
            yield from note_agents(loading, folder, nested=True)
    for unconditional in (True, False):
        for level in levels:
            found.extend((yield from _rules(loading, level, folder, touched, unconditional=unconditional)))
    return found


def _rules(
    loading: Loading, level: Level, folder: str, touched: Touched, *, unconditional: bool
) -> Flow[list[MemoryFile]]:
    """The rules of one folder that ``touched`` brings: those without a condition, or those whose condition it meets."""
    found: list[MemoryFile] = []
    rules = rules_folder(loading.plan, level, folder)
    base = rule_base(loading.plan, level, folder)
    for candidate in (yield from loading.rules_below(rules, level)) if rules else []:
        rule = replace(candidate, trigger=touched.path)
        if (yield from look(rule.path)).real in loading.seen:
            continue
        is_conditional = yield from _is_conditional(loading.plan, rule)
        if is_conditional is None or is_conditional is not unconditional:
            found.extend((yield from loading.rule(rule, base, touched)))
    return found


def _is_conditional(plan: Plan, rule: Candidate) -> Flow[bool | None]:
    """Whether the rule has a condition; also False when it cannot be read, and None when that is too much."""
    content = yield from read((yield from look(rule.path)).real)
    if content.problem == "budget":
        return None
    document = plan.reader.read(content.data) if content.data is not None else None
    return document is not None and bool(document.globs)


def _once(loading: Loading, candidate: Candidate) -> Flow[list[MemoryFile]]:
    """A nested file, silently skipped when it came before: each folder is asked for at every touch."""
    node = yield from look(candidate.path)
    return [] if node.real in loading.seen else (yield from loading.file(candidate))


def merged_rows(memory: Sequence[Row], attached: Sequence[Row]) -> tuple[Row, ...]:
    """One row for each candidate: what the touches say replaces what was said up front."""
    later = {row.candidate: row for row in attached}
    first = [later.pop(row.candidate, row) for row in memory]
    return with_includers((*first, *later.values()))
