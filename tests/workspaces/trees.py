"""One made-up tree, laid into every kind of workspace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.core.paths import Paths
from app.workspaces.commit import GitWorkspace
from app.workspaces.disk import Disk
from app.workspaces.fence import Fence
from app.workspaces.inline import Binary, Folder, InlineFile, InlineWorkspace, Link, Text
from app.workspaces.local import LocalWorkspace
from app.workspaces.overlay import OverlayWorkspace
from app.workspaces.program import GitProgram
from app.workspaces.socket import Workspace
from tests.reference.programs import git

LIMIT = 1_000
PROGRAM = GitProgram()
POSIX = Paths()

FILES: dict[str, InlineFile] = {
    "CLAUDE.md": Text("# Notes\r\nfür alle\n"),
    "full.md": Binary(b"x" * LIMIT),
    "large.md": Binary(b"x" * (LIMIT + 1)),
    "empty": Folder(),
    "docs/a b.md": Text("with spaces"),
    "docs/.hidden.md": Text("hidden"),
    "docs/-dash.md": Text("dash"),
    "docs/zero.md": Text(""),
    "docs/Z.md": Text("capital"),
    "docs/é.md": Text("accent"),
    "docs/文档.md": Text("other script"),
    "docs/😀.md": Text("beyond the first plane"),
    "docs/quote'\".md": Text("quotes"),
    "docs/line\nend.md": Text("a line end in the name"),
    "docs/[a]*?.md": Text("glob characters"),
    "docs/latin.bin": Binary(b"caf\xe9 \xff\xfe\x00"),
    "docs/deep/er/est.md": Text("deep"),
    "links/file": Link("../CLAUDE.md"),
    "links/absolute": Link("{root}/docs/deep/er/est.md"),
    "links/chain": Link("file"),
    "links/folder": Link("../docs"),
    "links/slashed": Link("../docs/"),
    "links/below_link": Link("folder/deep/er/est.md"),
    "links/up_from_link": Link("folder/../CLAUDE.md"),
    "links/here": Link("."),
    "links/up": Link(".."),
    "links/empty": Link("../empty"),
    "links/large": Link("../large.md"),
    "links/dangling": Link("../nowhere/deep.md"),
    "links/dangling_absolute": Link("{root}/nowhere.md"),
    "links/below_a_file": Link("../CLAUDE.md/deep.md"),
    "links/self": Link("self"),
    "links/self_below": Link("self_below/deep.md"),
    "links/ping": Link("pong"),
    "links/pong": Link("{root}/links/ping"),
    "links/to_loop": Link("ping"),
}


@dataclass(frozen=True)
class Laid:
    """A workspace with FILES below ``root``."""

    workspace: Workspace
    root: str

    def at(self, path: str) -> str:
        """The absolute path of ``path``, which has slashes and is relative to the root."""
        separator = self.workspace.paths.separator
        return self.root + separator + path.replace("/", separator) if path else self.root


def rooted(files: Mapping[str, InlineFile], root: str) -> dict[str, InlineFile]:
    """``files`` with link targets that know the root."""
    return {
        path: Link(file.target.replace("{root}", root)) if isinstance(file, Link) else file
        for path, file in files.items()
    }


def keyed(files: Mapping[str, InlineFile], root: str) -> dict[str, InlineFile]:
    return {f"{root}/{path}": file for path, file in rooted(files, root).items()}


def content(file: Text | Binary) -> bytes:
    return file.text.encode() if isinstance(file, Text) else file.data


def lay_on_disk(files: Mapping[str, InlineFile], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path, file in rooted(files, str(folder)).items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(file, Link):
            place.symlink_to(file.target)
        elif isinstance(file, Folder):
            place.mkdir(exist_ok=True)
        else:
            place.write_bytes(content(file))


def lay_in_commit(
    files: Mapping[str, InlineFile], repository: Path, root: str = "/repo", object_format: str = "sha1"
) -> None:
    """One commit on ``main`` of a bare repository. A folder with nothing in it is a submodule."""
    git(repository, "init", "--quiet", "--bare", "--initial-branch=main", f"--object-format={object_format}")
    rows = []
    for path, file in rooted(files, root).items():
        if isinstance(file, Folder):
            mode, object_id = "160000", "1" * (64 if object_format == "sha256" else 40)
        else:
            mode, data = ("120000", file.target.encode()) if isinstance(file, Link) else ("100644", content(file))
            object_id = git(repository, "hash-object", "-w", "--stdin", given=data)
        rows.append(f"{mode} {object_id}\t{path}".encode())
    git(repository, "update-index", "-z", "--index-info", given=b"".join(row + b"\0" for row in rows))
    commit = git(repository, "commit-tree", git(repository, "write-tree"), "-m", "first")
    git(repository, "update-ref", "refs/heads/main", commit)


def local(folder: Path, disk: Disk | None = None) -> LocalWorkspace:
    return LocalWorkspace(Fence.of([str(folder)]), POSIX, LIMIT, PROGRAM, disk)


def in_an_hour() -> int:
    """A clock by which everything on the disk has been left alone for long."""
    return time.time_ns() + 3_600_000_000_000


def pass_a_tick(folder: Path) -> None:
    """Waits until the clock that stamps files has gone on, so that a write from now on leaves another stamp."""
    probe = folder / ".probe"
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns <= before:
        os.utime(probe)
    probe.unlink()


def committed(repository: Path, ref: str = "main", mount: str = "/repo") -> GitWorkspace:
    fence = Fence.of([str(repository)])
    return GitWorkspace(str(repository), ref, mount, fence=fence, program=PROGRAM, max_file_bytes=LIMIT)


def halves() -> tuple[dict[str, InlineFile], dict[str, InlineFile]]:
    """FILES dealt out in turn, so that links of each half lead into the other."""
    dealt = list(FILES.items())
    return dict(dealt[::2]), dict(dealt[1::2])


def links_and_rest() -> tuple[dict[str, InlineFile], dict[str, InlineFile]]:
    links: dict[str, InlineFile] = {path: file for path, file in FILES.items() if isinstance(file, Link)}
    return links, {path: file for path, file in FILES.items() if path not in links}


def _inline(_: Path) -> Laid:
    return Laid(InlineWorkspace(keyed(FILES, "/home/dev/project"), None, POSIX, LIMIT), "/home/dev/project")


def _inline_windows(_: Path) -> Laid:
    files = keyed(FILES, "c:/Users/dev/project")
    return Laid(InlineWorkspace(files, None, Paths(windows=True), LIMIT), r"C:\Users\dev\project")


def _local(folder: Path) -> Laid:
    lay_on_disk(FILES, folder)
    return Laid(local(folder), str(folder))


def _local_kept(folder: Path) -> Laid:
    """All of it is in the caches already."""
    lay_on_disk(FILES, folder)
    disk = Disk(1_000_000, wall=in_an_hour)
    first = local(folder, disk)
    for path in ("", *FILES):
        first.read(f"{folder}/{path}")
        first.names(f"{folder}/{path}")
    return Laid(local(folder, disk), str(folder))


def _commit(folder: Path) -> Laid:
    lay_in_commit(FILES, folder)
    return Laid(committed(folder), "/repo")


def _commit_sha256(folder: Path) -> Laid:
    lay_in_commit(FILES, folder, root="/srv/deep/mount", object_format="sha256")
    return Laid(committed(folder, mount="/srv/deep/mount"), "/srv/deep/mount")


def _overlay_alone(folder: Path) -> Laid:
    return Laid(OverlayWorkspace(local(folder), keyed(FILES, str(folder)), LIMIT), str(folder))


def _overlay_unused(folder: Path) -> Laid:
    lay_on_disk(FILES, folder)
    return Laid(OverlayWorkspace(local(folder), {}, LIMIT), str(folder))


def _overlay_on_local(folder: Path) -> Laid:
    below, above = halves()
    lay_on_disk(below, folder)
    return Laid(OverlayWorkspace(local(folder), keyed(above, str(folder)), LIMIT), str(folder))


def _overlay_of_files_on_links(folder: Path) -> Laid:
    links, rest = links_and_rest()
    lay_on_disk(links, folder)
    return Laid(OverlayWorkspace(local(folder), keyed(rest, str(folder)), LIMIT), str(folder))


def _overlay_of_links_on_files(folder: Path) -> Laid:
    links, rest = links_and_rest()
    lay_on_disk(rest, folder)
    return Laid(OverlayWorkspace(local(folder), keyed(links, str(folder)), LIMIT), str(folder))


def _overlay_on_commit(folder: Path) -> Laid:
    below, above = halves()
    lay_in_commit(below, folder)
    return Laid(OverlayWorkspace(committed(folder), keyed(above, "/repo"), LIMIT), "/repo")


KINDS: dict[str, Callable[[Path], Laid]] = {
    "inline": _inline,
    "inline_windows": _inline_windows,
    "local": _local,
    "local_kept": _local_kept,
    "commit": _commit,
    "commit_sha256": _commit_sha256,
    "overlay_alone": _overlay_alone,
    "overlay_unused": _overlay_unused,
    "overlay_on_local": _overlay_on_local,
    "overlay_of_files_on_links": _overlay_of_files_on_links,
    "overlay_of_links_on_files": _overlay_of_links_on_files,
    "overlay_on_commit": _overlay_on_commit,
}
