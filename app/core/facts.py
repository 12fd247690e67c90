"""The nouns: what a workspace answers, and what the caller said. Frozen values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Json = Mapping[str, Any]
Platform = Literal["linux", "macos", "windows"]
Source = Literal["local", "inline", "git"]
SettingSource = Literal["user", "project", "local"]


class Kind(StrEnum):
    """What stands at a path once its links are followed."""

    FILE = "file"
    DIRECTORY = "directory"
    MISSING = "missing"
    DANGLING = "dangling"
    """A link that leads nowhere, or in a circle."""
    SPECIAL = "special"
    """A FIFO, a socket or a device."""
    UNREADABLE = "unreadable"
    OUTSIDE = "outside"
    """Beyond the folders this service may read."""


@dataclass(frozen=True, slots=True)
class Node:
    """What stands at a path.

    ``real`` is the path with every link resolved, as far as the path exists. ``size`` is in bytes.
    """

    kind: Kind
    real: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file, or why there are none."""

    data: bytes | None
    problem: Literal["not_found", "is_directory", "unreadable", "outside_fence", "budget"] | None = None


@dataclass(frozen=True, slots=True)
class GitRoots:
    """Where the repository that holds a folder has its checkouts.

    ``main_toplevel`` is the main checkout when ``toplevel`` is a linked worktree, else None; for a ``bare``
    repository, which has no checkout, it is the folder that holds the repository. ``carried``: local settings files
    that came with the clone, and so may say no more than a project's.
    """

    toplevel: str
    main_toplevel: str | None = None
    bare: bool = False
    carried: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GitFacts:
    """A snapshot of a repository. ``log`` holds one-line commits, newest first; None: not known."""

    roots: GitRoots | None = None
    branch: str | None = None
    default_branch: str | None = None
    status: str | None = None
    log: tuple[str, ...] = ()
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """The machine the agent runs on, which is not the one this service runs on. Paths are absolute and real.

    ``home``, ``config_dir`` and ``managed_dir`` are None where the workspace has no such level. ``given`` are folders
    of it by the paths that were asked for, links not resolved: those that people see.
    """

    cwd: str
    platform: Platform
    home: str | None = None
    config_dir: str | None = None
    managed_dir: str | None = None
    shell: str | None = None
    os_version: str | None = None
    additional_directories: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Touch:
    path: str
    event: Literal["read", "write", "edit", "shell"] = "read"


@dataclass(frozen=True, slots=True)
class McpServer:
    name: str
    status: Literal["connected", "pending", "failed", "disabled"] = "connected"
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """The caller's ``memory`` options; see the contract for each. ``auto_memory`` None: the settings files say."""

    enabled: bool = True
    bare: bool = False
    from_additional_directories: bool = False
    allow_external_includes: bool = False
    include_boundary: Literal["repository", "cwd"] = "repository"
    exclude: tuple[str, ...] = ()
    walk_stop: str | None = None
    auto_memory: bool | None = None
    auto_memory_dir: str | None = None
    team_memory_dir: str | None = None
    agents_md: Literal["off", "fallback", "both"] = "off"
    trigger_events: tuple[str, ...] = ("read",)
    include_raw: bool = False


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """The caller's ``system_prompt``: texts that replace, follow or precede the default list."""

    custom: str | None = None
    append: str | None = None
    memory_mechanics: str | None = None
    attribution_header: str | None = None
    prefix: str | None = None
    simple: bool = False


@dataclass(frozen=True, slots=True)
class OutputStyle:
    """A named style. ``keep_coding_instructions`` False: ``doing_tasks`` is left out of the prompt."""

    name: str
    text: str
    keep_coding_instructions: bool = False


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill the model may run. Both texts are one line; ``description`` may be empty."""

    name: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Skills:
    """What the prompt tells of skills: those ``listed``, in order, and how many ``more`` there are."""

    listed: tuple[Skill, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What the descriptor and the settings files say about the dynamic sections.

    ``function_result_clearing`` is how many recent tool results are kept; ``mcp_instruction_limit`` is in characters.
    """

    output_style: OutputStyle | None = None
    language: str | None = None
    scratchpad_dir: str | None = None
    function_result_clearing: int | None = None
    summarize_tool_results: bool = False
    model_override: str | None = None
    include_git_instructions: bool = True
    interactive: bool = False
    mcp_instruction_limit: int = 2048
    cache_breaker: str | None = None
    skills: Skills = field(default_factory=Skills)


@dataclass(frozen=True, slots=True)
class Overrides:
    """Settings that the descriptor sets over the settings files. None: not said."""

    output_style: str | None = None
    language: str | None = None
    include_git_instructions: bool | None = None


@dataclass(frozen=True, slots=True)
class CacheOptions:
    enabled: bool = True
    ttl: Literal["5m", "1h"] = "5m"
    scope: Literal["auto", "org", "off"] = "auto"
    scope_on_wire: bool = False
    layout: Literal["classic", "late"] = "classic"


@dataclass(frozen=True, slots=True)
class TokenOptions:
    """Caller's ``tokens`` options. Numbers out of range are ignored, with a warning."""

    method: Literal["rough", "estimate", "exact", "auto"] = "rough"
    max_context_tokens: int | None = None
    disable_1m: bool = False
    auto_compact: bool = True
    percent_override: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one response, as the Messages API reports them."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0

    @property
    def prompt(self) -> int:
        """Tokens of the request, cached ones included."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    @property
    def total(self) -> int:
        return self.prompt + self.output_tokens


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation. ``content`` is the API's: a string or a list of blocks.

    ``response_id`` is the API response's id (several messages share it when one response was split).
    ``boundary`` marks the place of a compaction: usage before it does not count. ``boundary_tokens`` is how many were
    in use right behind it, None when that is not known.
    """

    role: Literal["user", "assistant", "system"]
    content: str | tuple[Json, ...]
    response_id: str | None = None
    usage: Usage | None = None
    boundary: bool = False
    boundary_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the caller should know that is not an error. ``where`` is a path, a field or empty."""

    code: str
    message: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What the caller asked for, in the core's words. ``date`` is ``YYYY-MM-DD``.

    ``automatic`` is a cache marker of the request itself, ``parameters`` are other fields of the API, passed on.
    """

    client: Client
    model: str
    date: str
    provider: Literal["anthropic", "bedrock", "vertex", "foundry", "custom"] = "anthropic"
    tools: tuple[Json, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    messages: tuple[Message, ...] = ()
    touched: tuple[Touch, ...] = ()
    prompt: PromptOptions = field(default_factory=PromptOptions)
    settings: SessionSettings = field(default_factory=SessionSettings)
    overrides: Overrides = field(default_factory=Overrides)
    setting_sources: tuple[SettingSource, ...] = ("user", "project", "local")
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    cache: CacheOptions = field(default_factory=CacheOptions)
    tokens: TokenOptions = field(default_factory=TokenOptions)
    betas: tuple[str, ...] = ()
    automatic: Json | None = None
    parameters: Json = field(default_factory=dict)
