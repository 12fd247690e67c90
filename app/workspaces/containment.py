"""What of a repository git may be shown: every part is inside the fence by its real path, and stands still."""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from dataclasses import dataclass, field

from cachetools import LRUCache

from app.core.facts import Kind
from app.workspaces.listing import Listing, listed, opened_folder
from app.workspaces.repository import Branches, Repository, branches_of, config_text, place_named
from app.workspaces.resolving import child, is_text
from app.workspaces.socket import Workspace
from app.workspaces.standing import Stamp, Standing, Watch, stamp_of

_BORROWING_DEPTH = 5  # as git has it
_ENTRIES_LIMIT = 300_000
SHARED_INDEX = "sharedindex."
_SHARED_INDEXES_LIMIT = 64
_REFS = "refs/"
_OWN_FILES = ("info/sparse-checkout",)
_COMMON_FILES = ("packed-refs", "shallow", "info/exclude", "info/attributes", "info/grafts")
_NANOSECONDS = 1_000_000_000
_LEADS_ELSEWHERE = re.compile(rb"[/\\\0]")


class Proven:
    """Folders that held no link when they were listed, by what their disk says of them. For several threads.

    ``limit``: how many folders and names of folders are remembered; the ones not asked for go first. A folder counts
    as what it was for as long as its device, inode and times stay, and only when it had been left alone for
    ``settled_seconds`` before it was listed: until then another change may not show in its times.
    """

    def __init__(self, limit: int = 32_768, settled_seconds: float = 2.0) -> None:
        self._known: LRUCache[Stamp, Listing] = LRUCache(limit, getsizeof=_weight)
        self._settled = int(settled_seconds * _NANOSECONDS)
        self._lock = threading.Lock()

    def listing(self, stamp: Stamp) -> Listing | None:
        """What the folder with ``stamp`` holds; None when it is not known."""
        with self._lock:
            return self._known.get(stamp)

    def keep(self, stamp: Stamp, listing: Listing, listed_at: int) -> None:
        """Remember what a folder with ``stamp`` held when it was listed at ``listed_at`` (nanoseconds since 1970)."""
        is_settled = max(stamp[2:]) + self._settled < listed_at
        if is_settled and not listing.links and _weight(listing) <= self._known.maxsize:
            with self._lock:
                self._known[stamp] = listing


@dataclass(frozen=True, slots=True)
class Shown:
    """A repository's parts by their real paths, as ``workspace`` saw them.

    ``head``: what HEAD says. ``config``: the configuration's text. ``index`` is None when there is none. ``linked``:
    further parts, each with its name inside a git folder. ``shared``: the same of indexes that ``index`` may go on in.
    ``reached``: the folders and files that git may read of them. ``branches`` is None when only git can tell them.
    ``standing``: what must not have moved for an answer of git to be
    one about these parts.
    """

    workspace: Workspace = field(repr=False, compare=False)
    repository: Repository
    objects: str
    refs: str
    head: bytes = field(repr=False)
    config: str = field(repr=False)
    index: str | None
    linked: tuple[tuple[str, str], ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    reached: tuple[str, ...] = field(default=(), repr=False)
    branches: Branches | None = None
    standing: Standing = field(default_factory=Standing, repr=False, compare=False)


def shown(workspace: Workspace, repository: Repository, proven: Proven | None = None) -> Shown | None:
    """The parts of ``repository`` on this server's disk; None when one leads where ``workspace`` may not read.

    Folders that ``proven`` knows are not listed again.
    """
    return _Search(workspace, repository, proven).shown() if repository.is_followed else None


class _Search:
    """One look through a repository. It notes what it relied upon."""

    def __init__(self, workspace: Workspace, repository: Repository, proven: Proven | None) -> None:
        self._workspace = workspace
        self._repository = repository
        self._proven = proven
        self._watch = Watch()
        self._reached: dict[str, None] = {}
        self._temporary = _temporary_folder()

    def shown(self) -> Shown | None:
        workspace, paths = self._workspace, self._workspace.paths
        git_dir, common_dir = self._repository.git_dir, self._repository.common_dir
        for folder in (git_dir, common_dir):
            self._watch.note(folder)
            self._watch.note(paths.join(folder, "info"))
        objects, refs = (workspace.look(paths.join(common_dir, name)) for name in ("objects", "refs"))
        index = workspace.look(paths.join(git_dir, "index"))
        head = _head(workspace, paths.join(git_dir, "HEAD"))
        config = config_text(workspace, git_dir, common_dir)
        linked = self._linked()
        if head is None or config is None or linked is None or index.kind not in (Kind.FILE, Kind.MISSING):
            return None
        if any(folder.kind is not Kind.DIRECTORY for folder in (objects, refs)):
            return None
        if not self._stays(refs.real) or not self._lends_from_inside(objects.real):
            return None
        known_index = index.real if index.kind is Kind.FILE else None
        for real in (objects.real, refs.real, known_index, *(real for _, real in linked)):
            self._note_way_to(real)
        self._reached |= dict.fromkeys((refs.real, *(real for _, real in linked)))
        shared = tuple(part for part in linked if part[0].startswith(SHARED_INDEX))
        linked = tuple(part for part in linked if part not in shared)
        return Shown(
            *(workspace, self._repository, objects.real, refs.real, head, config, known_index, linked, shared),
            reached=tuple(self._reached),
            branches=branches_of(workspace, common_dir, head, config),
            standing=self._watch.standing(),
        )

    def _linked(self) -> tuple[tuple[str, str], ...] | None:
        workspace, repository = self._workspace, self._repository
        paths = workspace.paths
        indexes = [name for name in workspace.names(repository.git_dir) if name.startswith(SHARED_INDEX)]
        if len(indexes) > _SHARED_INDEXES_LIMIT:
            return None
        wanted = (
            *((name, repository.common_dir) for name in _COMMON_FILES),
            *((name, repository.git_dir) for name in (*_OWN_FILES, *indexes)),
        )
        nodes = [(name, workspace.look(paths.join(folder, name))) for name, folder in wanted]
        stacks = workspace.look(paths.join(repository.common_dir, "reftable"))
        if any(node.kind not in (Kind.FILE, Kind.MISSING) for _, node in nodes):
            return None
        if stacks.kind is Kind.DIRECTORY and self._stays(stacks.real) and self._stacks_up(stacks.real):
            nodes.append(("reftable", stacks))
        elif stacks.kind is not Kind.MISSING:
            return None
        return tuple((name, node.real) for name, node in nodes if node.kind is not Kind.MISSING)

    def _stacks_up(self, reftable: str) -> bool:
        """Whether the tables of names that git is to read there are those of the folder itself."""
        tables = self._workspace.paths.join(reftable, "tables.list")
        self._watch.note(tables)
        if self._workspace.look(tables).kind is Kind.MISSING:
            return True
        data = self._workspace.read(tables).data
        return data is not None and not _LEADS_ELSEWHERE.search(data)

    def _lends_from_inside(self, objects: str, depth: int = _BORROWING_DEPTH) -> bool:
        """Whether a store of objects, and each that it borrows from, stays inside."""
        workspace = self._workspace
        self._reached[objects] = None
        lenders = workspace.look(workspace.paths.join(objects, "info", "alternates"))
        if not self._stays(objects):
            return False
        if lenders.kind is not Kind.FILE:
            return lenders.kind is Kind.MISSING
        self._watch.note(lenders.real)
        data = workspace.read(lenders.real).data
        if data is None or depth == 0:
            return False
        named = [_lender(workspace, objects, line) for line in data.split(b"\n") if line[:1] not in (b"", b"#")]
        for lender in (objects, *named):
            self._note_above(lender)  # git goes by their paths
        return all(lender is not None and self._lends_from_inside(lender, depth - 1) for lender in named)

    def _stays(self, folder: str) -> bool:
        """Whether nothing below the real ``folder`` leads outside, nowhere, or to more than is looked through."""
        waiting, seen, left = [folder], {folder}, _ENTRIES_LIMIT
        while waiting:
            here = waiting.pop()
            listing = self._listing(here, left)
            below = None if listing is None or listing.entries > left else self._folders(here, listing)
            if listing is None or below is None:
                return False
            left -= listing.entries
            fresh = [path for path in below if path not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
        return True

    def _folders(self, folder: str, listing: Listing) -> list[str] | None:
        """The folders right below ``folder``, links followed; None when a link leads outside or nowhere."""
        paths = self._workspace.paths
        found = [child(paths, folder, name) for name in listing.folders]
        for name in listing.links:
            node = self._workspace.look(child(paths, folder, name))
            if node.kind not in (Kind.DIRECTORY, Kind.FILE):
                return None
            self._note_above(node.real)
            self._reached[node.real] = None
            if node.kind is Kind.DIRECTORY:
                found.append(node.real)
        return found

    def _listing(self, folder: str, most: int) -> Listing | None:
        """What ``folder`` holds, read as far as one entry more than ``most``; None when git could see more."""
        try:
            stamp = self._watch.noted(folder)
            known = None if self._proven is None else self._proven.listing(stamp)
            return known or _listed(folder, stamp, most, self._proven)
        except FileNotFoundError:
            return Listing()
        except PermissionError:  # what may not be listed can still be passed by who knows the names
            return None if os.access(folder, os.X_OK) else Listing()
        except OSError:
            return None

    def _note_way_to(self, real: str | None) -> None:
        """Git is given open folders of the repository, and paths of what links lead to elsewhere."""
        within, own = self._workspace.paths.within, (self._repository.git_dir, self._repository.common_dir)
        if real is not None and not any(within(real, folder) for folder in own):
            self._note_above(real)

    def _note_above(self, real: str | None) -> None:
        """The folders that hold ``real``, as far up as they may be told of: above, nobody but the owner moves them."""
        folder = real
        while folder is not None and not self._workspace.paths.is_root(folder):
            folder = self._workspace.paths.parent(folder)
            node = self._workspace.look(folder)
            if node.kind is not Kind.DIRECTORY:
                return
            own = self._temporary  # where this service makes its own folders
            if own and self._workspace.paths.within(own, folder):
                self._watch.note_place(folder)
            else:
                self._watch.note(folder)


def _temporary_folder() -> str | None:
    """None where nothing can be written, as on a disk that is full."""
    try:
        return os.path.realpath(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def _head(workspace: Workspace, path: str) -> bytes | None:
    """What HEAD says; a link to a branch, as old repositories have it, says the branch's name."""
    try:
        target = os.readlink(path)  # noqa: PTH115 - text
    except OSError:
        return workspace.read(path).data
    if target.startswith(_REFS) and is_text(target):
        return f"ref: {target}\n".encode()
    return workspace.read(path).data


def _lender(workspace: Workspace, objects: str, line: bytes) -> str | None:
    """The real folder that a line names; None for one that is not trusted."""
    if line.startswith(b'"'):  # a quoted path; git writes none of its own accord
        return None
    place = place_named(workspace, objects, line)
    lender = None if place is None else workspace.look(place)
    return lender.real if lender is not None and lender.kind is Kind.DIRECTORY else None


def _listed(folder: str, stamp: Stamp, most: int, proven: Proven | None) -> Listing:
    """Raises OSError, also where ``folder`` is another one than that of ``stamp`` by now."""
    with opened_folder(folder) as opened:
        now = time.time_ns()
        listing = listed(opened, most)
        if isinstance(opened, str):
            return listing
        if stamp_of(os.fstat(opened)) != stamp:
            raise NotADirectoryError(folder)
        if proven is not None and listing.entries <= most:
            proven.keep(stamp, listing, now)
        return listing


def _weight(listing: Listing) -> int:
    return 1 + len(listing.folders)
