"""The workspace descriptor: where the files are, and what machine the agent runs on."""

from __future__ import annotations

import base64
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from app.core.facts import Client, GitFacts, GitRoots, Platform
from app.core.paths import Paths, paths_for
from app.wire.base import Strict
from app.workspaces.inline import Binary, Folder, InlineFile, Link, Text
from app.workspaces.opening import CommitSource, InlineSource, LocalSource, Source

LONGEST_PATH = 4096
DEEPEST_PATH = 256


def _plausible(path: str) -> str:
    if path.count("/") + path.count("\\") > DEEPEST_PATH:
        raise ValueError(f"a path may lie at most {DEEPEST_PATH} folders deep")
    if "\0" in path:
        raise ValueError("this cannot hold a NUL character")
    return path


Path = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH), AfterValidator(_plausible)]


def _absolute(path: str) -> str:
    if not paths_for(path).is_absolute(path):
        raise ValueError(f"this must be an absolute path, and {path!r} is relative")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]

MANAGED_DIRS: dict[Platform, str] = {
    "linux": "/etc/claude-code",
    "macos": "/Library/Application Support/ClaudeCode",
    "windows": r"C:\Program Files\ClaudeCode",
}


class Base64File(Strict):
    """A file's bytes."""

    base64: str

    @field_validator("base64")
    @classmethod
    def _decodes(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except ValueError as error:
            raise ValueError(f"this is not base64: {error}") from error
        return value


class LinkFile(Strict):
    """A symbolic link; the target is absolute or relative to the link's folder."""

    link: Path


class FolderFile(Strict):
    directory: Literal[True]


def _file_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "as:text"
    keys = set(value) if isinstance(value, dict) else set()
    return next((f"as:{name}" for name in ("base64", "link", "directory") if name in keys), None)


FileContent = Annotated[
    Annotated[str, Tag("as:text")]
    | Annotated[Base64File, Tag("as:base64")]
    | Annotated[LinkFile, Tag("as:link")]
    | Annotated[FolderFile, Tag("as:directory")],
    Discriminator(
        _file_tag,
        custom_error_type="wrong_type",
        custom_error_message='a file is its text, {"base64": ...}, {"link": TARGET} or {"directory": true}',
    ),
]


class GitDescriptor(Strict):
    """What the caller knows of git, for an inline workspace; all optional."""

    toplevel: AbsolutePath | None = None
    main_toplevel: AbsolutePath | None = None
    bare: bool = False
    branch: str | None = None
    default_branch: str | None = None
    status: str | None = None
    log: list[str] = []
    user: str | None = None

    def facts(self, paths: Paths) -> GitFacts:
        roots = None
        if self.toplevel:
            main = paths.normal(self.main_toplevel) if self.main_toplevel else None
            roots = GitRoots(paths.normal(self.toplevel), main, self.bare)
        return GitFacts(
            roots=roots,
            branch=self.branch,
            default_branch=self.default_branch,
            status=self.status,
            log=tuple(self.log),
            user=self.user,
        )


class Workspace(Strict):
    """One of three sources: a folder on the server's disk, files in the request, or a commit on the server."""

    source: Literal["local", "inline", "git"]
    cwd: AbsolutePath | None = None
    home: AbsolutePath | None = None
    config_dir: AbsolutePath | None = None
    managed_dir: AbsolutePath | None = None
    platform: Platform | None = None
    shell: str | None = None
    os_version: str | None = None
    additional_directories: list[Path] = []
    files: dict[AbsolutePath, FileContent] = {}
    git: GitDescriptor | None = None
    repository: AbsolutePath | None = None
    ref: Path | None = None
    mount: AbsolutePath | None = None

    @model_validator(mode="after")
    def _fits_its_source(self) -> Self:
        if self.source == "git":
            if self.repository is None:
                raise ValueError("source git needs repository: a folder on the server that holds a git repository")
            if self.mount is not None and (paths_for(self.mount).windows or self.mount.strip("/") == ""):
                raise ValueError("mount must be a POSIX path other than /, such as /repo")
            if self.git is not None:
                raise ValueError("git describes an inline workspace; source git finds it out itself")
            return self
        if self.cwd is None:
            raise ValueError(f"source {self.source} needs cwd: the absolute path of the working directory")
        wrong = [name for name in ("repository", "ref", "mount") if getattr(self, name) is not None]
        if wrong:
            raise ValueError(f"{wrong[0]} belongs to source git only: remove it or set source to git")
        if self.source == "local" and self.git is not None:
            raise ValueError("git describes an inline workspace; source local finds it out itself")
        return self

    @model_validator(mode="after")
    def _has_one_flavour(self) -> Self:
        windows = self.paths().windows
        given = [getattr(self, name) for name in ("home", "config_dir", "managed_dir", "mount")]
        other = [path for path in (*given, *self.files) if path is not None and paths_for(path).windows != windows]
        if other:
            raise ValueError(f"paths must be all POSIX or all Windows, and {other[0]!r} is not like cwd")
        return self

    def paths(self) -> Paths:
        return paths_for(self.cwd or self.mount or "/")

    def opened_as(self) -> Source:
        """Where the files are, in the words of `workspaces`."""
        paths = self.paths()
        files = {path: _file(content) for path, content in self.files.items()}
        cwd = paths.normal(self.cwd) if self.cwd else None
        if self.source == "git":
            mount = {"mount": paths.normal(self.mount)} if self.mount else {}
            return CommitSource(self.repository or "", self.ref or "HEAD", cwd, files=files, **mount)
        if self.source == "local":
            return LocalSource(cwd or "", files)
        return InlineSource(cwd or "", files, self.git.facts(paths) if self.git else None)

    def client(self, server_platform: Platform, server_home: str | None) -> Client:
        """The machine the agent runs on; defaults are the server's for a local source only."""
        paths = self.paths()
        local = self.source == "local"
        home = self.home or (server_home if local else None)
        platform = self.platform or (server_platform if local else "windows" if paths.windows else "linux")
        config = self.config_dir or (paths.join(home, ".claude") if home else None)
        return Client(
            cwd=paths.normal(self.cwd or self.mount or "/repo"),
            platform=platform,
            home=paths.normal(home) if home else None,
            config_dir=paths.normal(config) if config else None,
            managed_dir=paths.normal(self.managed_dir or MANAGED_DIRS[platform]),
            shell=self.shell,
            os_version=self.os_version,
            additional_directories=tuple(self.additional_directories),
        )


def _file(content: FileContent) -> InlineFile:
    match content:
        case Base64File():
            return Binary(base64.b64decode(content.base64))
        case LinkFile():
            return Link(content.link)
        case FolderFile():
            return Folder()
        case _:
            return Text(content)
