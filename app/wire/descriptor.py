"""The workspace descriptor: where the files are, and what machine the agent runs on."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator
from pydantic.config import JsonDict

from app.core.allowance import Limits
from app.core.facts import Client, GitFacts, GitRoots, Platform
from app.core.paths import Paths, paths_for
from app.errors import TooLarge
from app.wire.base import FIRST, Strict
from app.workspaces.inline import SHOWN_CHARACTERS, Binary, Folder, InlineFile, Link, Text
from app.workspaces.opening import CommitSource, InlineSource, LocalSource, Source

LONGEST_PATH = 4096
DEEPEST_PATH = 256
"""Of paths that are not measured by a setting."""

LONGEST_TEXT = 1024 * 1024
"""Characters of a text about the machine or the repository."""

MOST_DIRECTORIES = 1000
"""Additional directories in one request."""

MOST_COMMITS = 1000
"""Lines of git's log in one request."""


def _plausible(path: str) -> str:
    if "\0" in path:
        raise ValueError("this cannot hold a NUL character")
    return path


def _shallow(path: str) -> str:
    if depth_of(path) > DEEPEST_PATH:
        raise ValueError(f"a path may lie at most {DEEPEST_PATH} folders deep")
    return path


def depth_of(path: str) -> int:
    """How many folders lie above each other, in paths of either flavour."""
    return path.count("/") + path.count("\\")


Place = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH), AfterValidator(_plausible)]
"""A path whose depth the limits of a request measure."""

Path = Annotated[Place, AfterValidator(_shallow)]
Told = Annotated[str, Field(max_length=LONGEST_TEXT)]


def _absolute(path: str) -> str:
    if not paths_for(path).is_absolute(path):
        raise ValueError(f"this must be an absolute path, and {path!r} is relative")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
AbsolutePlace = Annotated[Place, AfterValidator(_absolute)]

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

    link: Place


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

    toplevel: AbsolutePlace | None = None
    main_toplevel: AbsolutePlace | None = None
    bare: bool = False
    branch: Told | None = None
    default_branch: Told | None = None
    status: Told | None = None
    log: Annotated[list[Told], FIRST, Field(max_length=MOST_COMMITS)] = []
    user: Told | None = None

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


NEEDED: JsonDict = {
    "if": {"properties": {"source": {"const": "git"}}},
    "then": {"required": ["repository"]},
    "else": {"required": ["cwd"]},
}
"""What each source cannot do without, as JSON Schema says it."""


class Workspace(Strict):
    """One of three sources: a folder on the server's disk, files in the request, or a commit on the server."""

    model_config = ConfigDict(json_schema_extra={"allOf": [NEEDED]})

    source: Literal["local", "inline", "git"]
    cwd: AbsolutePlace | None = None
    home: AbsolutePlace | None = None
    config_dir: AbsolutePlace | None = None
    managed_dir: AbsolutePlace | None = None
    platform: Platform | None = None
    shell: Told | None = None
    os_version: Told | None = None
    additional_directories: Annotated[list[Place], FIRST, Field(max_length=MOST_DIRECTORIES)] = []
    files: Annotated[dict[AbsolutePlace, FileContent], FIRST] = {}
    git: GitDescriptor | None = None
    repository: AbsolutePlace | None = None
    ref: Path | None = None
    mount: AbsolutePlace | None = None

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

    def opened_as(self, limits: Limits) -> Source:
        """Where the files are, in the words of `workspaces`. Raises TooLarge."""
        self._require_within(limits)
        paths = self.paths()
        files = {path: _file(content) for path, content in self.files.items()}
        cwd = paths.normal(self.cwd) if self.cwd else None
        if self.source == "git":
            mount = {"mount": paths.normal(self.mount)} if self.mount else {}
            return CommitSource(self.repository or "", self.ref or "HEAD", cwd, files=files, **mount)
        if self.source == "local":
            return LocalSource(cwd or "", files)
        return InlineSource(cwd or "", files, self.git.facts(paths) if self.git else None)

    def _require_within(self, limits: Limits) -> None:
        if len(self.files) > limits.files:
            raise _too_large(
                "/workspace/files",
                f"a request may bring {limits.files:,} files (STRATA_MAX_FILES), and this one has {len(self.files):,}: "
                "send fewer, or use a local or git workspace",
            )
        for pointer, place in self._places():
            if depth_of(place) > limits.depth:
                raise _too_large(
                    pointer,
                    f"a path may lie {limits.depth:,} folders deep (STRATA_MAX_DEPTH), and this one lies "
                    f"{depth_of(place):,} deep: {place[:SHOWN_CHARACTERS]}…",
                )

    def _places(self) -> Iterator[tuple[str, str]]:
        """Every path, with a pointer to where it is given."""
        for name in ("cwd", "home", "config_dir", "managed_dir", "repository", "mount"):
            yield f"/workspace/{name}", getattr(self, name) or ""
        for number, folder in enumerate(self.additional_directories):
            yield f"/workspace/additional_directories/{number}", folder
        for path, content in self.files.items():
            yield "/workspace/files", path
            if isinstance(content, LinkFile):
                yield "/workspace/files", content.link
        if self.git:
            yield "/workspace/git/toplevel", self.git.toplevel or ""
            yield "/workspace/git/main_toplevel", self.git.main_toplevel or ""

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


def _too_large(pointer: str, message: str) -> TooLarge:
    return TooLarge(f"{pointer}: {message}", errors=[{"pointer": pointer, "message": message}])


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
