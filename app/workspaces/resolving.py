"""Links followed name by name, in any tree that can say what stands at a path whose folder is real."""

from __future__ import annotations

import ntpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.core.facts import Content, Kind, Node
from app.core.paths import Paths

MAX_LINKS = 40  # as Linux has it
MAX_STEPS_IN_VAIN = 200_000

Refusal = Literal["not_found", "is_directory", "unreadable", "outside_fence"]
REFUSALS: dict[Kind, Refusal] = {
    Kind.DIRECTORY: "is_directory",
    Kind.MISSING: "not_found",
    Kind.DANGLING: "not_found",
    Kind.SPECIAL: "unreadable",
    Kind.UNREADABLE: "unreadable",
    Kind.OUTSIDE: "outside_fence",
}
PASSABLE = (Kind.DIRECTORY, Kind.OUTSIDE)


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at a path, links not followed. ``target``: where a link points, as written; its kind says nothing."""

    kind: Kind
    size: int = 0
    target: str | None = None


def refused(kind: Kind) -> Content:
    """The answer to reading something that is not a file."""
    return Content(None, REFUSALS[kind])


def is_text(name: str) -> bool:
    """Whether UTF-8 can hold ``name``; bytes of a disk that are not UTF-8 arrive as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def child(paths: Paths, folder: str, name: str) -> str:
    return folder + name if folder.endswith(paths.separator) else folder + paths.separator + name


def split(paths: Paths, path: str) -> tuple[str, list[str]]:
    """The root (empty for a relative path) and the names as written.

    ``..`` goes up and ``.`` stays, which only folders allow; a separator at the end counts as a ``.``.
    """
    drive, rest = ntpath.splitdrive(path) if paths.windows else ("", path)
    root = paths.normal(drive + paths.separator) if paths.is_absolute(path) else ""
    written = paths.slashed(rest)
    names = [name for name in written.split("/") if name]
    return root, [*names, "."] if names and written.endswith("/") else names


def everywhere(_path: str) -> bool:
    return True


class Resolver:
    """Real paths in one tree, each name asked for once.

    ``entry`` says what stands at a path whose folder is real. ``tells`` says whether the existence of something at a
    path may be told; where it may not, nothing is asked and the way ends with ``Kind.OUTSIDE``. A tree whose links lead
    nowhere by very long ways has its other links followed no further: they dangle too.
    """

    def __init__(
        self, paths: Paths, entry: Callable[[str], Entry | None], tells: Callable[[str], bool] = everywhere
    ) -> None:
        self._paths = paths
        self._entry = entry
        self._tells = tells
        self._known: dict[str, Node] = {}
        self._resolved: dict[str, Node] = {}  # by the normal paths that were asked for
        self._steps_in_vain = 0

    def resolve(self, path: str) -> Node:
        """What stands at ``path``; ``..`` in it is text, ``..`` in a link's target goes up from the real folder."""
        normal = self._paths.normal(path)
        known = self._resolved.get(normal)
        if known is None:
            known = self._resolved[normal] = self._resolve(normal)
        return known

    def _resolve(self, normal: str) -> Node:
        folder, name = self._paths.parent(normal), self._paths.name(normal)
        above = self._resolved.get(folder)
        if above is None:
            above = self._resolved[folder] = self._from_the_root(folder)
        if above.kind is Kind.DIRECTORY and name:
            below = child(self._paths, above.real, name)
            return self._step(below, ()) if self._tells(below) else Node(Kind.OUTSIDE, below)
        return self._from_the_root(normal)

    def _from_the_root(self, normal: str) -> Node:
        root, names = split(self._paths, normal)
        return self._walk(root, names, ()) if root else Node(Kind.MISSING, normal)

    def _walk(self, start: str, names: Sequence[str], trail: tuple[str, ...]) -> Node:
        here = self._step(start, trail)
        for position, name in enumerate(names):
            if here.kind not in PASSABLE or (name == ".." and not self._tells(here.real)):
                return self._blocked(here, names[position:])
            onward = self._onward(here.real, name)
            if not self._tells(onward):
                return Node(Kind.OUTSIDE, onward)
            here = self._step(onward, trail)
        return here

    def _onward(self, folder: str, name: str) -> str:
        if name == ".":
            return folder
        return self._paths.parent(folder) if name == ".." else child(self._paths, folder, name)

    def _blocked(self, here: Node, rest: Sequence[str]) -> Node:
        if not self._tells(here.real):
            return Node(Kind.OUTSIDE, here.real)
        kind = Kind.UNREADABLE if here.kind is Kind.UNREADABLE else Kind.MISSING
        return Node(kind, self._paths.join(here.real, *rest))

    def _step(self, path: str, trail: tuple[str, ...]) -> Node:
        known = self._known.get(path)
        if known is not None:
            return known
        entry = self._entry(path)
        if entry is not None and entry.target is not None:
            node = self._follow(path, entry.target, trail)
            if node.kind is Kind.DANGLING and trail:  # may hold for this trail only
                return node
        else:
            node = Node(Kind.MISSING, path) if entry is None else Node(entry.kind, path, entry.size)
        self._known[path] = node
        return node

    def _follow(self, link: str, target: str, trail: tuple[str, ...]) -> Node:
        if not target or link in trail or len(trail) >= MAX_LINKS or self._steps_in_vain > MAX_STEPS_IN_VAIN:
            return Node(Kind.DANGLING, link)
        root, names = split(self._paths, target)
        node = self._walk(root or self._paths.parent(link), names, (*trail, link))
        if node.kind not in (Kind.MISSING, Kind.DANGLING):
            return node
        self._steps_in_vain += len(names)
        return Node(Kind.DANGLING, node.real)
