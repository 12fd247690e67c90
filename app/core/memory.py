"""Layer 2, up front: the levels in their order, walked for one working directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.core.advice import memory_key, same_key
from app.core.allowance import Allowance
from app.core.candidates import Candidate, MemoryFile, Plan
from app.core.configuration import private_folders
from app.core.excludes import ExcludeGlob, Excludes, excludes, is_wild, static_folder
from app.core.facts import Kind, Notice
from app.core.flow import Flow, look
from app.core.includes import reach
from app.core.levels import Base, Level, levels_at
from app.core.loading import Loading
from app.core.off_limits import PRIVATE
from app.core.report import Row, distinct


@dataclass(frozen=True, slots=True)
class Memory:
    """What loaded up front, in the order of the prompt; ``seen`` maps real paths to reported ones."""

    files: tuple[MemoryFile, ...] = ()
    rows: tuple[Row, ...] = ()
    notices: tuple[Notice, ...] = ()
    seen: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """A folder where a level is looked for, and why its files do not count there, if so."""

    folder: str
    level: Level
    off: str | None = None


def load(plan: Plan, allowance: Allowance | None = None) -> Flow[Memory]:
    """Loads every level up front. Rules with a condition are withheld, each with a row.

    ``allowance`` is the request's; None: a whole one.
    """
    if not plan.options.enabled:
        return Memory()
    plan = yield from settled(plan)
    excluded = yield from excludes(exclude_globs(plan), plan.paths, plan.client.given)
    bounds = reach(plan.client, plan.roots, plan.options, plan.paths)
    loading = Loading(plan, excluded, bounds, {}, allowance or Allowance.of(plan.limits))
    loading.rows.extend(plan.configuration.rows)
    loading.rows.extend(_dead_rows(excluded))
    agents = yield from agents_files(plan)
    files: list[MemoryFile] = []
    for place in places(plan):
        files.extend((yield from _level(loading, place, agents)))
    yield from _unasked(loading)
    loading.rows.extend((yield from _idle_rows(loading)))
    return Memory(
        files=tuple(files),
        rows=distinct(loading.rows),
        notices=(*plan.configuration.notices, *_dead_notices(excluded), *(yield from _key_notices(plan, files))),
        seen=tuple(loading.seen.items()),
    )


def settled(plan: Plan) -> Flow[Plan]:
    """The plan with the links in ``walk_stop`` resolved: the walk goes over real folders."""
    if plan.options.walk_stop is None:
        return plan
    stop = yield from look(plan.options.walk_stop)
    return replace(plan, options=replace(plan.options, walk_stop=stop.real))


def exclude_globs(plan: Plan) -> tuple[ExcludeGlob, ...]:
    return (*plan.configuration.excludes, *(ExcludeGlob(glob, "memory.exclude") for glob in plan.options.exclude))


def places(plan: Plan) -> Iterator[Place]:
    """Every folder and level, lowest priority first."""
    client, options = plan.client, plan.options
    if not options.bare:
        if client.managed_dir:
            yield from _at(plan, "managed", client.managed_dir)
        if client.config_dir:
            yield from _at(plan, "config", client.config_dir)
        for folder in walk(plan):
            yield from _at(plan, "directory", folder)
    if options.from_additional_directories:
        for folder in client.additional_directories:
            yield from _at(plan, "directory", folder, walked=False)
    if not options.bare:
        memory = auto_memory_dir(plan)
        if memory:
            yield from _at(plan, "auto_memory", memory)
        if options.team_memory_dir:
            yield from _at(plan, "team_memory", plan.paths.normal(options.team_memory_dir))


def walk(plan: Plan) -> tuple[str, ...]:
    """The folders from the root's child, or from ``walk_stop`` when it lies on the way, to the working directory."""
    chain = plan.paths.chain(plan.client.cwd)
    stop = plan.options.walk_stop
    return chain[chain.index(stop) :] if stop in chain else chain


def _at(plan: Plan, base: Base, folder: str, *, walked: bool = True) -> Iterator[Place]:
    for level in levels_at(base):
        yield Place(folder, level, off_reason(plan, level, folder, walked=walked))


def off_reason(plan: Plan, level: Level, folder: str, *, walked: bool = True) -> str | None:
    """Why files of ``level`` in ``folder`` do not count: a source that is off, a private folder, a duplicate."""
    if level.source is not None and level.source not in plan.sources:
        return "source_off"
    if level.base != "directory":
        return None
    if folder in private_folders(plan.client, plan.paths):
        return "private_folder"
    return "worktree_duplicate" if walked and level.checked_in and _is_duplicate(plan, folder) else None


def _is_duplicate(plan: Plan, folder: str) -> bool:
    """Whether ``folder`` lies in the main checkout but not in the worktree, when the one holds the other."""
    roots, within = plan.roots, plan.paths.within
    if roots is None or roots.main_toplevel is None or roots.bare:
        return False
    nested = roots.main_toplevel != roots.toplevel and within(roots.toplevel, roots.main_toplevel)
    return nested and within(folder, roots.main_toplevel) and not within(folder, roots.toplevel)


def auto_memory_dir(plan: Plan) -> str | None:
    """The folder of this project's memory index; None when auto memory is off or there is no place for it."""
    options, client, configured = plan.options, plan.client, plan.configuration
    wanted = configured.auto_memory if options.auto_memory is None else options.auto_memory
    if wanted is False:
        return None
    moved = options.auto_memory_dir or configured.auto_memory_dir
    if moved:
        return plan.paths.normal(moved)
    if client.config_dir is None:
        return None
    return plan.paths.join(client.config_dir, "projects", memory_key(_project(plan)), "memory")


def _project(plan: Plan) -> str:
    return (plan.roots.main_toplevel or plan.roots.toplevel) if plan.roots else plan.client.cwd


def agents_files(plan: Plan) -> Flow[bool]:
    """Whether AGENTS.md stands in for, or beside, CLAUDE.md."""
    if plan.options.agents_md != "fallback":
        return plan.options.agents_md == "both"
    for folder in walk(plan):
        for level in levels_at("directory"):
            for name in level.files:
                standing = yield from look(plan.paths.join(folder, name))
                if standing.kind is Kind.FILE and not is_private(plan, level, folder, name):
                    return False
    return True


def level_files(level: Level, *, agents: bool) -> tuple[str, ...]:
    return ("CLAUDE.md", "AGENTS.md", *level.files[1:]) if agents and level.type == "Project" else level.files


def rules_folder(plan: Plan, level: Level, folder: str) -> str | None:
    """Where a level's rules stand; the home's own ``.claude`` holds no project rules."""
    if level.rules is None or is_private(plan, level, folder, level.rules):
        return None
    return plan.paths.join(folder, level.rules)


def is_private(plan: Plan, level: Level, folder: str, name: str) -> bool:
    """Whether a project file of this name would stand in the home's ``.claude`` or in the configuration folder."""
    private = private_folders(plan.client, plan.paths)
    inside = "/" in name and plan.paths.parent(plan.paths.join(folder, name)) in private
    return level.base == "directory" and inside


def _level(loading: Loading, place: Place, agents: bool) -> Flow[list[MemoryFile]]:
    plan, level = loading.plan, place.level
    if place.off:
        yield from _off(loading, place)
        return []
    found: list[MemoryFile] = []
    for name in level_files(level, agents=agents):
        path = plan.paths.join(place.folder, name)
        if is_private(plan, level, place.folder, name):
            yield from _note(loading, path, "private_folder")
        else:
            found.extend((yield from loading.file(Candidate(path, level))))
    if level.type == "Project" and not agents:
        yield from note_agents(loading, place.folder)
    folder = rules_folder(plan, level, place.folder)
    for candidate in (yield from loading.rules_below(folder, level)) if folder else []:
        found.extend((yield from loading.rule(candidate, rule_base(plan, level, place.folder), None)))
    return found


def rule_base(plan: Plan, level: Level, folder: str) -> str:
    """What a rule's patterns are relative to: the folder that holds ``.claude``, else the working directory."""
    return folder if level.base == "directory" else plan.client.cwd


def _off(loading: Loading, place: Place) -> Flow[None]:
    plan, level = loading.plan, place.level
    for name in level.files:
        reason = "private_folder" if is_private(plan, level, place.folder, name) else place.off or ""
        yield from _note(loading, plan.paths.join(place.folder, name), reason)
    rules = rules_folder(plan, level, place.folder)
    if rules:
        yield from _note(loading, rules, place.off or "")


def note_agents(loading: Loading, folder: str, *, nested: bool = False) -> Flow[None]:
    """A row for an AGENTS.md that is not asked for here; below the working directory it is no surprise."""
    hint = "" if nested else _NOTES["agents_md_off"]
    if not nested and loading.plan.options.agents_md == "fallback":
        hint = "A CLAUDE.md counts here, so AGENTS.md does not: set memory.agents_md to both, or include @AGENTS.md."
    yield from _note(loading, loading.plan.paths.join(folder, "AGENTS.md"), "agents_md_off", hint)


def _note(loading: Loading, path: str, reason: str, hint: str | None = None) -> Flow[None]:
    """A row for what exists and does not count here."""
    node = yield from look(path)
    if node.kind in {Kind.FILE, Kind.DIRECTORY} and node.real not in loading.seen:
        loading.add(path, "skipped", reason, hint=_NOTES.get(reason) if hint is None else hint or None)


_NOTES = {
    "source_off": "Add its source to setting_sources to load it.",
    "agents_md_off": "Set memory.agents_md to fallback or both to load it, or include it with @AGENTS.md.",
    "additional_off": "Set memory.from_additional_directories to load it.",
    "private_folder": PRIVATE,
}


def _unasked(loading: Loading) -> Flow[None]:
    """Rows for the files of additional directories whose memory was not asked for."""
    plan = loading.plan
    if plan.options.from_additional_directories or plan.options.bare:
        return
    for folder in plan.client.additional_directories:
        for level in levels_at("directory"):
            for name in (*level.files, *([level.rules] if level.rules else [])):
                yield from _note(loading, plan.paths.join(folder, name), "additional_off")


def _idle_rows(loading: Loading) -> Flow[list[Row]]:
    """Rows for patterns of this project that can fit nothing in it: the folder they begin with is not there."""
    found = []
    for glob in dict.fromkeys(written for _, written in loading.excludes.patterns):
        if glob.shared or glob in loading.excluding:
            continue
        folder = static_folder(glob.glob, loading.plan.paths)
        kind = (yield from look(folder)).kind if folder is not None else None
        hint = f"There is nothing at {folder}: check the path." if kind is Kind.MISSING else None
        if kind is Kind.DIRECTORY and not is_wild(glob.glob):
            hint = f"It names a folder, and excludes fit files: write {folder}/**."
        if hint:
            found.append(Row(glob.glob, "skipped", "exclude_never_matched", parent=glob.origin, hint=hint))
    return found


def _key_notices(plan: Plan, files: list[MemoryFile]) -> Flow[tuple[Notice, ...]]:
    """A warning when the memory that loaded could be another project's."""
    if plan.options.auto_memory_dir or plan.configuration.auto_memory_dir:
        return ()
    found = next((file for file in files if file.level.type == "AutoMem"), None)
    other = (yield from same_key(_project(plan), plan.paths)) if found else None
    if found is None or other is None:
        return ()
    message = f"{other} has the same memory folder: notes of one project may reach the other. Set auto_memory_dir."
    return (Notice("memory_key_ambiguous", message, found.path),)


def _dead_rows(excluded: Excludes) -> list[Row]:
    return [Row(dead.glob, "skipped", reason, parent=dead.origin, hint=hint) for dead, reason, hint in excluded.dead]


def _dead_notices(excluded: Excludes) -> list[Notice]:
    return [Notice(reason, f"{dead.glob}: {hint}", dead.origin) for dead, reason, hint in excluded.dead]
