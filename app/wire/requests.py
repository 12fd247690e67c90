"""JSON in, the core's words out."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from app.core import facts
from app.core.allowance import Limits
from app.core.remembered import LastRequest
from app.core.tenants import name_in
from app.encoding import KEPT_CODING, compressed, decompressed
from app.wire.base import FIRST, Strict
from app.wire.descriptor import AbsolutePath, Path, Workspace
from app.wire.messages import Message, core_message
from app.wire.parsing import parsed
from app.workspaces.fence import Fence
from app.workspaces.opening import Source

LONGEST_TEXT = 1024 * 1024
"""Characters of one prompt text. Files have a limit of their own and are reported; messages may hold more."""

MOST_TOUCHED = 1000
"""Touched files in one request."""

MOST_SERVERS = 500
"""MCP servers in one request."""

MOST_EXCLUDES, LONGEST_EXCLUDE = 1000, 4096
"""Exclude patterns of one request, and the characters of one."""

Exclude = Annotated[str, Field(max_length=LONGEST_EXCLUDE)]
SettingText = Annotated[str, Field(max_length=LONGEST_TEXT)]
Freshness = Literal["session", "validate", "reload"]
Agent = Literal["main", "subagent", "explorer"]
SettingSources = Annotated[list[Literal["user", "project", "local"]], Field(max_length=8)]
SessionId = Annotated[str, Field(min_length=1, max_length=128)]


def _on_the_calendar(text: str) -> str:
    try:
        written = dt.date.fromisoformat(text).isoformat()
    except ValueError:
        written = None
    if written != text:
        raise ValueError("this must be a day of the calendar, written YYYY-MM-DD")
    return text


Date = Annotated[str, AfterValidator(_on_the_calendar), Field(json_schema_extra={"format": "date"})]


class McpServer(Strict):
    name: Annotated[str, Field(min_length=1, max_length=256)]
    status: Literal["connected", "pending", "failed", "disabled"] = "connected"
    instructions: SettingText | None = None


class Touch(Strict):
    path: Path
    event: Literal["read", "write", "edit", "shell"] = "read"


class SystemPrompt(Strict):
    custom: SettingText | None = None
    append: SettingText | None = None
    memory_mechanics: SettingText | None = None
    attribution_header: SettingText | None = None
    prefix: SettingText | None = None
    simple: bool = False


class Settings(Strict):
    """What the dynamic sections say. ``function_result_clearing``: how many recent tool results are kept."""

    output_style: SettingText | None = None
    language: SettingText | None = None
    scratchpad_dir: AbsolutePath | None = None
    function_result_clearing: Annotated[int, Field(ge=1)] | None = None
    summarize_tool_results: bool = False
    model_override: SettingText | None = None
    include_git_instructions: bool | None = None
    interactive: bool = False
    mcp_instruction_limit: Annotated[int, Field(ge=1)] = 2048
    cache_breaker: SettingText | None = None


class Memory(Strict):
    enabled: bool = True
    bare: bool = False
    from_additional_directories: bool = False
    allow_external_includes: bool = False
    include_boundary: Literal["repository", "cwd"] = "repository"
    exclude: Annotated[list[Exclude], FIRST, Field(max_length=MOST_EXCLUDES)] = []
    walk_stop: AbsolutePath | None = None
    auto_memory: bool = True
    auto_memory_dir: AbsolutePath | None = None
    team_memory_dir: AbsolutePath | None = None
    agents_md: Literal["off", "fallback", "both"] = "off"
    trigger_events: Annotated[list[Literal["read", "write", "edit", "shell"]], Field(max_length=8)] = ["read"]
    include_raw: bool = False


class Cache(Strict):
    enabled: bool = True
    ttl: Literal["5m", "1h"] = "5m"
    scope: Literal["auto", "org", "off"] = "auto"
    scope_on_wire: bool = False
    layout: Literal["classic", "late"] = "classic"


class Tokens(Strict):
    """Numbers out of range are ignored with a warning: they come from environments."""

    method: Literal["rough", "estimate", "exact", "auto"] = "rough"
    max_context_tokens: int | None = None
    disable_1m: bool = False
    auto_compact: bool = True
    percent_override: float | None = None


PARAMETERS = ("thinking", "output_config", "tool_choice")


class ContextRequest(Strict):
    """The body of ``POST /v1/context``.

    ``thinking``, ``output_config``, ``tool_choice`` and ``cache_control`` are the Messages API's own. They are passed
    on, and they decide what of the prompt cache can be read. ``region`` is the provider's, such as ``global``.
    """

    workspace: Workspace
    model: Annotated[str, Field(min_length=1, max_length=512)]
    provider: Literal["anthropic", "bedrock", "vertex", "foundry", "custom"] = "anthropic"
    region: Annotated[str, Field(max_length=64)] | None = None
    session_id: SessionId | None = None
    date: Date | None = None
    tools: Annotated[list[dict[str, Any]], FIRST] = []
    mcp_servers: Annotated[list[McpServer], FIRST, Field(max_length=MOST_SERVERS)] = []
    messages: Annotated[list[Message], FIRST] = []
    touched: Annotated[list[Touch], FIRST, Field(max_length=MOST_TOUCHED)] = []
    system_prompt: SystemPrompt = SystemPrompt()
    settings: Settings = Settings()
    setting_sources: SettingSources = ["user", "project", "local"]
    memory: Memory = Memory()
    agent: Agent = "main"
    cache: Cache = Cache()
    cache_control: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    tool_choice: dict[str, Any] | None = None
    tokens: Tokens = Tokens()
    freshness: Freshness | None = None


@dataclass(frozen=True, slots=True)
class Server:
    """What the server adds where the descriptor is silent. ``today`` is ``YYYY-MM-DD`` in the server's zone.

    ``space`` and ``fence`` are the caller's, as in `app.callers.Caller`.
    """

    platform: facts.Platform
    home: str | None
    today: str
    space: str = ""
    fence: Fence | None = None
    limits: Limits = field(default_factory=Limits)

    def session(self, given: str | None) -> str | None:
        """What the caller's session is called inside."""
        return None if given is None else name_in(self.space, given)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request in the core's words, with where its workspace is and which session it belongs to.

    ``upstream_key`` is the caller's own key of the API: it is used and not kept. ``is_sent`` False: what is assembled
    goes into another request, so that the next one is not compared with it. ``sent_as`` is the request as it came,
    for a session to ask it again; ``files`` is a digest of the files that came with it, empty without any; ``space``
    and ``fence`` are the caller's.
    """

    source: Source
    request: facts.Request
    session_id: str | None
    freshness: Freshness
    region: str | None = None
    files: str = ""
    is_sent: bool = True
    sent_as: LastRequest | None = field(default=None, repr=False)
    upstream_key: str | None = field(default=None, repr=False)
    space: str = ""
    fence: Fence | None = None


def parse_context_request(body: bytes) -> ContextRequest:
    """Raises NotJson or InvalidRequest."""
    return parsed(ContextRequest, body)


def to_ask(body: ContextRequest, server: Server, betas: Sequence[str], upstream_key: str | None = None) -> Ask:
    client = body.workspace.client(server.platform, server.home)
    return Ask(
        source=body.workspace.opened_as(server.limits),
        request=facts.Request(
            client=client,
            model=body.model,
            date=body.date or server.today,
            provider=body.provider,
            tools=tuple(body.tools),
            mcp_servers=tuple(
                facts.McpServer(one.name, one.status, one.instructions or "") for one in body.mcp_servers
            ),
            messages=tuple(core_message(one) for one in body.messages),
            touched=tuple(facts.Touch(one.path, one.event) for one in body.touched),
            prompt=facts.PromptOptions(**body.system_prompt.model_dump()),
            settings=_core_settings(body.settings),
            overrides=facts.Overrides(
                body.settings.output_style, body.settings.language, body.settings.include_git_instructions
            ),
            setting_sources=tuple(dict.fromkeys(body.setting_sources)),
            memory=core_memory(body.memory, body.agent),
            cache=facts.CacheOptions(**body.cache.model_dump()),
            tokens=facts.TokenOptions(**body.tokens.model_dump()),
            betas=tuple(betas),
            automatic=body.cache_control,
            parameters=given_parameters(body),
        ),
        session_id=server.session(body.session_id),
        space=server.space,
        fence=server.fence,
        freshness=body.freshness or ("session" if body.session_id else "validate"),
        files=files_digest(body.workspace.files),
        region=body.region,
        upstream_key=upstream_key,
    )


def asked_as(body: bytes, server: Server, betas: Sequence[str], upstream_key: str | None = None) -> Ask:
    """A body as it was sent. That of a session can be asked again.

    Raises NotJson or InvalidRequest.
    """
    ask = to_ask(parse_context_request(body), server, betas, upstream_key)
    sent_as = LastRequest(compressed(body, KEPT_CODING), tuple(betas)) if ask.session_id else None
    return replace(ask, sent_as=sent_as)


def asked_again(last: LastRequest, server: Server, upstream_key: str | None = None) -> Ask:
    """What a session asked for last."""
    return asked_as(decompressed(last.body), server, last.betas, upstream_key)


def files_digest(files: Mapping[str, object]) -> str:
    """The same for the same files in any order; empty without any."""
    written = sorted((path, repr(file)) for path, file in files.items())
    return hashlib.sha256(repr(written).encode("utf-8", "surrogatepass")).hexdigest() if written else ""


def given_parameters(body: BaseModel) -> dict[str, Any]:
    """The Messages API's own fields that are passed on, where they were given."""
    return {name: value for name in PARAMETERS if (value := getattr(body, name)) is not None}


def _core_settings(settings: Settings) -> facts.SessionSettings:
    return facts.SessionSettings(
        scratchpad_dir=settings.scratchpad_dir,
        function_result_clearing=settings.function_result_clearing,
        summarize_tool_results=settings.summarize_tool_results,
        model_override=settings.model_override,
        interactive=settings.interactive,
        mcp_instruction_limit=settings.mcp_instruction_limit,
        cache_breaker=settings.cache_breaker,
    )


def core_memory(memory: Memory, agent: Agent) -> facts.MemoryOptions:
    """The options, with what a kind of agent is not given: sub-agents no memory index, explorers no files at all.

    Auto memory that a caller turns on in so many words is on, whatever the settings files say.
    """
    options = facts.MemoryOptions(
        **memory.model_dump(exclude={"exclude", "trigger_events", "auto_memory"}),
        auto_memory=memory.auto_memory if "auto_memory" in memory.model_fields_set else None,
        exclude=tuple(memory.exclude),
        trigger_events=tuple(memory.trigger_events),
    )
    if agent == "explorer":
        return replace(options, enabled=False)
    return replace(options, auto_memory=False, team_memory_dir=None) if agent == "subagent" else options
