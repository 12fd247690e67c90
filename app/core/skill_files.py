"""Where skills are looked for, which of several with one name counts, and what is told of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.core.candidates import Plan
from app.core.configuration import private_folders
from app.core.facts import Kind, Node, Notice, Skill, Skills
from app.core.flow import Flow, look, names, read
from app.core.includes import Reach, is_git_metadata, leads_out, reach
from app.core.loading import UNDECODED
from app.core.skills import LONGEST_LIST, MOST_LISTED, SKILL_FILE, SWITCH, Reading, fitting, read_skill

MOST_ENTRIES = 500
"""Entries of skills folders that one request looks at."""

Found = tuple[Skills, tuple[Notice, ...]]


def find_skills(plan: Plan) -> Flow[Found]:
    """The skills of managed, user and project folders, by name; of several with one name the first counts."""
    search = _Search(plan, reach(plan.client, plan.roots, plan.options, plan.paths))
    for place in _places(plan):
        yield from search.below(place)
    listed = sorted((one for one in search.taken.values() if not one.hidden), key=lambda one: one.skill.name)
    skills = [one.skill for one in listed]
    room = fitting(skills)
    left = len(skills) - room
    if left:
        search.notices.append(_cut(left, listed[room].folder))
    return Skills(tuple(skills[:room]), left + search.unseen), tuple(search.notices)


def _cut(left: int, folder: str) -> Notice:
    skills = "1 skill is" if left == 1 else f"{left:,} skills are"
    message = (
        f"{skills} not listed: the list takes {MOST_LISTED} skills and {LONGEST_LIST:,} characters. "
        f"Shorten descriptions, or set {SWITCH}: true in skills that only the user calls."
    )
    return Notice("skills_cut", message, folder)


@dataclass(frozen=True, slots=True)
class _Place:
    folder: str
    project: bool = False


def _places(plan: Plan) -> Iterator[_Place]:
    """Every skills folder, first in precedence first."""
    client, join = plan.client, plan.paths.join
    if client.managed_dir:
        yield _Place(join(client.managed_dir, ".claude", "skills"))
    if client.config_dir and "user" in plan.sources:
        yield _Place(join(client.config_dir, "skills"))
    if "project" in plan.sources:
        private = private_folders(client, plan.paths)
        for folder in _projects(plan):
            if folder not in private:
                yield _Place(join(folder, ".claude", "skills"), project=True)


def _projects(plan: Plan) -> tuple[str, ...]:
    more = plan.client.additional_directories if plan.options.from_additional_directories else ()
    return (*([plan.roots.toplevel] if plan.roots else []), plan.client.cwd, *more)


@dataclass(frozen=True, slots=True)
class _Taken:
    """A skill that has its name. ``hidden``: the model may not run it, so that it is not listed."""

    skill: Skill
    hidden: bool
    folder: str
    path: str


@dataclass(slots=True)
class _Search:
    """``taken`` maps names to the skills that have them; ``unseen`` counts entries beyond the limit."""

    plan: Plan
    within: Reach
    left: int = MOST_ENTRIES
    unseen: int = 0
    taken: dict[str, _Taken] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    visited: set[str] = field(default_factory=set)

    def below(self, place: _Place) -> Flow[None]:
        """Takes the skills of one skills folder. None there is no fault."""
        node = yield from look(place.folder)
        if node.real in self.visited or (place.project and self._is_private(node)):
            return
        self.visited.add(node.real)
        if node.kind is not Kind.DIRECTORY:
            yield from self._no_folder(place.folder, node)
            return
        for name in (yield from self._entries(place.folder, node)):
            yield from self._entry(place.folder, name)

    def _is_private(self, node: Node) -> bool:
        return self.plan.paths.parent(node.real) in private_folders(self.plan.client, self.plan.paths)

    def _no_folder(self, folder: str, node: Node) -> Flow[None]:
        """A word on what stands in a skills folder's place. What the service may not see at all is no fault."""
        beyond = (
            node.kind is Kind.OUTSIDE and (yield from look(self.plan.paths.parent(folder))).kind is not Kind.DIRECTORY
        )
        if node.kind is not Kind.MISSING and not beyond:
            self._skip(folder, "It has to be a folder." if node.kind is Kind.FILE else _WRONG[node.kind])

    def _entries(self, folder: str, node: Node) -> Flow[list[str]]:
        if is_git_metadata(node.real, self.plan.paths):
            self._skip(folder, _METADATA)
            return []
        entries = sorted((yield from names(node.real)))
        if not entries and (yield from read(node.real)).problem == "unreadable":
            self._skip(folder, _WRONG[Kind.UNREADABLE])
        seen, unseen = entries[: self.left], len(entries[self.left :])
        self.left -= len(seen)
        self.unseen += unseen
        if unseen:
            message = f"{unseen:,} of its {len(entries):,} entries were not looked at: keep at most {MOST_ENTRIES}."
            self.notices.append(Notice("skills_cut", message, folder))
        return seen

    def _entry(self, folder: str, name: str) -> Flow[None]:
        path = self.plan.paths.join(folder, name)
        node = yield from look(path)
        if node.kind is Kind.DIRECTORY:
            yield from self._skill(folder, path, node)
        elif node.kind is Kind.FILE and _is_like_a_skill(name):
            self._skip(path, f"Move it into a folder of its own, as NAME/{SKILL_FILE}.")
        elif node.kind is Kind.MISSING and UNDECODED in name:
            self._skip(path, "Its name is not UTF-8: rename it.")
        elif node.kind not in {Kind.FILE, Kind.MISSING}:
            self._skip(path, _WRONG[node.kind])

    def _skill(self, folder: str, path: str, node: Node) -> Flow[None]:
        file = self.plan.paths.join(path, SKILL_FILE)
        found = yield from look(file)
        if found.kind is Kind.MISSING:
            yield from self._misnamed(path, node)
        elif found.kind is not Kind.FILE:
            self._skip(file, _WRONG[found.kind])
        elif (yield from leads_out(self.within, self.plan.roots, file, found.real)):
            self._skip(file, _LINKED_OUT)
        else:
            self._take(folder, file, (yield from self._reading(found, self.plan.paths.name(path))))

    def _misnamed(self, path: str, node: Node) -> Flow[None]:
        if is_git_metadata(node.real, self.plan.paths):
            self._skip(path, _METADATA)
            return
        for name in sorted(filter(_is_like_a_skill, (yield from names(node.real)))):
            self._skip(self.plan.paths.join(path, name), f"Name it {SKILL_FILE}.")

    def _reading(self, node: Node, folder: str) -> Flow[Reading]:
        if is_git_metadata(node.real, self.plan.paths):
            return Reading(None, faults=(_METADATA,))
        content = yield from read(node.real)
        if content.data is None:
            return Reading(None, faults=(_TOO_LARGE if content.problem == "budget" else _WRONG[Kind.UNREADABLE],))
        return read_skill(content.data, folder, self.plan.reader.markdown)

    def _take(self, folder: str, path: str, reading: Reading) -> None:
        for fault in reading.faults:
            self._skip(path, fault)
        if reading.skill is None:
            return
        taken = _Taken(reading.skill, reading.hidden, folder, path)
        first = self.taken.setdefault(reading.skill.name, taken)
        if (first.skill, first.hidden) != (taken.skill, taken.hidden):
            self._skip(path, f"{first.path} has the same name and comes first: rename one of them.")

    def _skip(self, path: str, message: str) -> None:
        self.notices.append(Notice("skill_skipped", message, path))


def _is_like_a_skill(name: str) -> bool:
    return name.lower() == SKILL_FILE.lower()


_LINKED_OUT = "It is a link that came with the repository and leads out of it: put the file itself there."

_WRONG = {
    Kind.DIRECTORY: "A folder stands there: put a file in its place.",
    Kind.DANGLING: "It is a link that leads nowhere: mend or remove it.",
    Kind.SPECIAL: "It is no ordinary file or folder: put one in its place.",
    Kind.UNREADABLE: "It cannot be read: check its permissions.",
    Kind.OUTSIDE: "It leads to where nothing may be read: put a copy there, or check STRATA_ROOTS or your key's roots.",
}
_METADATA = "It leads into .git, which is not read."
_TOO_LARGE = (
    "It is larger than what this request may still read: make it smaller, or raise STRATA_MAX_FILE_BYTES or "
    "STRATA_MAX_MEMORY_BYTES."
)
