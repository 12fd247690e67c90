"""Other tools' files in a tree: which there are, and how large. Nothing of them reaches a request by itself.

Flows: they ask, and whoever drives them answers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.core.facts import Kind, Node
from app.core.flow import Flow, look, names, read
from app.core.ignores import IgnoreFiles, Ignores, Refusal
from app.core.paths import Paths
from app.core.report import NODE_REASONS
from app.core.scan_names import FileKind, Known, name_index
from app.core.tokens import bytes_per_token, rough, spread

Bound = Literal["folders", "names", "names_in_folder", "depth", "files_of_a_kind", "links", "read_bytes", "ignore_work"]

READ_KINDS: tuple[FileKind, ...] = ("instructions", "rules")
"""Kinds whose tokens are counted on their text."""


@dataclass(frozen=True, slots=True)
class ScanLimits:
    """How far a scan goes. ``depth`` is in folders below the root; ``read_bytes`` holds for each file that is read.

    ``ignore_bytes`` holds for all ignore files together, ``ignore_file_bytes`` for each, ``ignore_rules`` for lines in
    force in one folder, and ``ignore_work`` for the steps of all comparisons with them, as they would be at worst.
    """

    folders: int = 10_000
    names: int = 100_000
    names_in_folder: int = 2_000
    depth: int = 20
    files_of_a_kind: int = 200
    links: int = 200
    read_bytes: int = 131_072
    ignore_bytes: int = 131_072
    ignore_file_bytes: int = 65_536
    ignore_rules: int = 1_000
    ignore_work: int = 300_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """One file. ``path`` is absolute, ``relative`` as seen from the root of the scan, with slashes.

    ``size`` is in bytes. ``tokens`` are rough, of the text or, where it was not read, of the size. ``link`` is where
    a link leads, ``duplicate_of`` the relative path of the same real file. ``note`` is a reason of the report:
    ``empty``, ``not_text``, ``dangling_link`` and the like.
    """

    path: str
    relative: str
    tool: str
    kind: FileKind
    size: int
    tokens: int
    tokens_from: Literal["text", "size"]
    link: str | None = None
    duplicate_of: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class FolderLink:
    """A link to a folder, which is not followed. ``target`` is real."""

    path: str
    relative: str
    target: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A bound that was reached, or an ignore file without effect. ``where`` is the first path that was left out.

    ``times`` counts such paths, as far as they are known, and for ``ignore_lines`` the lines that cannot be read.
    ``limit`` is None where it is no bound.
    """

    what: Bound | Refusal
    where: str
    limit: int | None
    times: int = 1
    kind: FileKind | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """``found`` has files near the root first. ``folders`` were listed.

    ``ignored`` counts folders and known files that were left out because git ignores them.
    """

    root: str
    found: tuple[Found, ...] = ()
    links: tuple[FolderLink, ...] = ()
    cut: tuple[Cut, ...] = ()
    folders: int = 0
    ignored: int = 0


def scan(folder: str, paths: Paths, limits: ScanLimits, *, all_tracked: bool = False) -> Flow[Scan]:
    """Walks ``folder`` breadth first, names by code point. What git ignores is left out, and ``.git`` always.

    ``all_tracked``: every file is in git already, as in a commit, so that nothing is ignored. Without it a tracked file
    that an ignore pattern fits is left out too: a scan does not know what is tracked.
    """
    root = (yield from look(folder)).real
    walk = _Walk(root, paths, limits, all_tracked=all_tracked)
    yield from walk.run()
    return walk.scan()


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    relative: str
    depth: int
    ignores: Ignores

    def below(self, name: str) -> str:
        return f"{self.relative}/{name}" if self.relative else name


class _Walk:
    def __init__(self, root: str, paths: Paths, limits: ScanLimits, *, all_tracked: bool) -> None:
        self.root = root
        self.paths = paths
        self.limits = limits
        self.all_tracked = all_tracked
        self.index = name_index()
        self.ignore_files = IgnoreFiles(paths, limits.ignore_bytes, limits.ignore_file_bytes, limits.ignore_rules)
        self.waiting: deque[_Folder] = deque()
        self.found: list[tuple[str, Found]] = []  # each with its real path
        self.of_kind: Counter[FileKind] = Counter()
        self.links: list[FolderLink] = []
        self.cuts: dict[tuple[str, FileKind | None], Cut] = {}
        self.folders = self.names = self.ignored = self.work = 0

    def run(self) -> Flow[None]:
        above = Ignores() if self.all_tracked else (yield from self.ignore_files.above(self.root))
        self.waiting.append(_Folder(self.root, "", 0, above))
        while self.waiting and not self._is_full():
            yield from self._folder(self.waiting.popleft())
        for path, reason in self.ignore_files.refused:
            self._cut(reason, path)

    def scan(self) -> Scan:
        return Scan(
            root=self.root,
            found=_with_duplicates(self.found),
            links=tuple(self.links),
            cut=tuple(self.cuts.values()),
            folders=self.folders,
            ignored=self.ignored,
        )

    def _is_full(self) -> bool:
        """Whether no more folders may be listed; those that wait are told as left out."""
        reached = self._reached()
        if reached:
            self._cut(reached, self.waiting[0].path, times=len(self.waiting))
        return reached is not None

    def _reached(self) -> Bound | None:
        if self.folders >= self.limits.folders:
            return "folders"
        if self.names >= self.limits.names:
            return "names"
        return "ignore_work" if self.work >= self.limits.ignore_work else None

    def _cut(self, what: Bound | Refusal, where: str, *, times: int = 1, kind: FileKind | None = None) -> None:
        known = self.cuts.get((what, kind))
        limit: int | None = getattr(self.limits, what, None)
        self.cuts[what, kind] = (
            replace(known, times=known.times + times) if known else Cut(what, where, limit, times, kind)
        )

    def _folder(self, folder: _Folder) -> Flow[None]:
        self.folders += 1
        listed = sorted((yield from names(folder.path)))
        if not self.all_tracked:
            folder = replace(folder, ignores=(yield from self.ignore_files.inside(folder.ignores, folder.path, listed)))
        admitted = self._admitted(folder, [name for name in listed if name.lower() != ".git"])
        for at, name in enumerate(admitted):
            if self.work >= self.limits.ignore_work:
                self._cut("ignore_work", self.paths.join(folder.path, name), times=len(admitted) - at)
                break
            yield from self._name(folder, name)

    def _admitted(self, folder: _Folder, listed: Sequence[str]) -> Sequence[str]:
        """The names that are within bounds."""
        room = self.limits.names - self.names
        bound: Bound = "names" if room < self.limits.names_in_folder else "names_in_folder"
        admitted = listed[: min(room, self.limits.names_in_folder)]
        self.names += len(admitted)
        left = len(listed) - len(admitted)
        if left:
            self._cut(bound, self.paths.join(folder.path, listed[len(admitted)]), times=left)
        return admitted

    def _name(self, folder: _Folder, name: str) -> Flow[None]:
        path = self.paths.join(folder.path, name)
        node = yield from look(path)
        is_folder = node.kind is Kind.DIRECTORY
        known = None if is_folder else self.index.find(folder.relative, name)
        if not is_folder and known is None:
            return
        if self._ignores(folder, name, is_folder=is_folder and node.real == path):
            self.ignored += 1
        elif known:
            yield from self._file(known, path, folder.below(name), node)
        elif node.real != path:
            self._link(FolderLink(path, folder.below(name), node.real))
        else:
            self._wait(_Folder(path, folder.below(name), folder.depth + 1, folder.ignores.below(name)))

    def _ignores(self, folder: _Folder, name: str, *, is_folder: bool) -> bool:
        self.work += folder.ignores.work(name)
        return folder.ignores.ignores(name, is_folder=is_folder)

    def _link(self, link: FolderLink) -> None:
        if len(self.links) < self.limits.links:
            self.links.append(link)
        else:
            self._cut("links", link.path)

    def _wait(self, folder: _Folder) -> None:
        if folder.depth <= self.limits.depth:
            self.waiting.append(folder)
        else:
            self._cut("depth", folder.path)

    def _file(self, known: Known, path: str, relative: str, node: Node) -> Flow[None]:
        if self.of_kind[known.kind] >= self.limits.files_of_a_kind:
            self._cut("files_of_a_kind", path, kind=known.kind)
            return
        self.of_kind[known.kind] += 1
        found = Found(
            path=path,
            relative=relative,
            tool=known.tool,
            kind=known.kind,
            size=node.size,
            tokens=spread(((node.size, bytes_per_token(path)),))[0],
            tokens_from="size",
            link=node.real if node.real != path else None,
            note=NODE_REASONS.get(node.kind),
        )
        if node.kind is Kind.FILE and known.kind in READ_KINDS:
            found = yield from self._read(found, node)
        self.found.append((node.real if node.kind is Kind.FILE else path, found))

    def _read(self, found: Found, node: Node) -> Flow[Found]:
        """The file with its tokens counted on its text, where that may be read."""
        if node.size > self.limits.read_bytes:
            self._cut("read_bytes", found.path)
            return found
        content = yield from read(node.real)
        if content.data is None:
            return replace(found, note=content.problem)
        if b"\0" in content.data:
            return replace(found, note="not_text")
        text = content.data.decode("utf-8-sig", "replace")
        tokens = rough(text, bytes_per_token(found.path))
        return replace(found, tokens=tokens, tokens_from="text", note=None if text.strip() else "empty")


def _with_duplicates(found: Sequence[tuple[str, Found]]) -> tuple[Found, ...]:
    """Each file that is the same as another says so: of several names, the first one that is no link is the file's."""
    first: dict[str, str] = {}
    for real, file in sorted(found, key=lambda each: each[1].link is not None):
        first.setdefault(real, file.relative)
    return tuple(
        replace(file, duplicate_of=first[real]) if first[real] != file.relative else file for real, file in found
    )
