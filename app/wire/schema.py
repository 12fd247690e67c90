"""The answer as the contract writes it down. Answers are built as plain values; a test holds them to these models."""

from __future__ import annotations

from typing import Any, Literal

from app.core.cache_report import Cause
from app.wire.base import Strict


class MessagesRequest(Strict):
    """A Messages API body apart from ``max_tokens``."""

    model: str
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    tool_choice: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    system: list[dict[str, Any]] | None = None
    messages: list[dict[str, Any]]


class SystemBlock(Strict):
    text: str
    cache_scope: Literal["global", "org"] | None
    sections: list[str]
    tokens: int
    sha256: str


class SectionRow(Strict):
    """``tokens`` and ``sha256`` are of the text as it stands in its block.

    ``place``: in ``system``, or, in the late layout, in a message behind the instructions. None: it is absent.
    """

    name: str
    kind: Literal["static", "cached", "uncached"]
    reason: str | None
    origin: Literal["computed", "remembered"]
    present: bool
    place: Literal["system", "message"] | None
    tokens: int
    sha256: str | None


class UserContextAnswer(Strict):
    entries: dict[str, str]
    text: str


FileType = Literal["Managed", "User", "Project", "Local", "AutoMem", "TeamMem"]


class MemoryFileAnswer(Strict):
    path: str
    type: FileType
    label: str
    content: str
    raw_content: str | None = None
    parent: str | None
    globs: list[str] | None
    content_differs_from_disk: bool
    depth: int
    tokens: int
    sha256: str


class Attachment(Strict):
    path: str
    type: FileType
    content: str
    raw_content: str | None = None
    trigger: str
    reason: Literal["nested", "conditional_rule", "include"]
    globs: list[str] | None
    parent: str | None
    text: str
    tokens: int
    sha256: str


class ReportRow(Strict):
    """``line`` counts from 1; ``tried`` is the path that was looked for; ``hint`` is the one edit that would help."""

    path: str
    verdict: Literal["loaded", "skipped", "withheld"]
    reason: str | None
    parent: str | None
    line: int | None
    tried: str | None
    hint: str | None


class MemoryAnswer(Strict):
    files: list[MemoryFileAnswer]
    attachments: list[Attachment]
    report: list[ReportRow]


class Part(Strict):
    part: str
    tokens: int


class TokensAnswer(Strict):
    """``parts`` add up to ``used``; ``anchored_on`` is the index of the message whose usage was taken.

    ``calibration`` is the factor that the session's own usage gave its estimates, None where nothing was estimated.
    """

    used: int
    method: Literal["rough", "estimate", "exact", "fallback_model"]
    parts: list[Part]
    anchored_on: int | None
    calibration: float | None


class Breaker(Strict):
    state: Literal["closed", "open", "half_open"]
    consecutive_failures: int


class Compaction(Strict):
    """Sizes in tokens. ``turns_left``: how many more responses there is room for at the recent pace."""

    window: int
    effective_window: int
    threshold: int
    percent_left: int
    percent_of_window: int
    percent_of_model_window: int
    is_above_warning: bool
    is_above_error: bool
    is_above_auto_compact: bool
    is_at_blocking_limit: bool
    should_compact: bool
    breaker: Breaker
    turns_left: int | None
    explain: list[str]


class Breakpoint(Strict):
    """A cache marker. ``sent`` False: it was left out, because no prefix so short is cached."""

    at: str
    tokens: int
    below_minimum: bool
    sent: bool


class FirstChange(Strict):
    """``block`` counts from 0 over tools, system and messages; ``at`` says where that is.

    ``offset`` is in characters of the block; None when the session no longer holds the text of the request before.
    """

    block: int
    at: str
    section: str | None
    offset: int | None
    before: str
    after: str


class Cost(Strict):
    """``currency`` is an ISO 4217 code."""

    amount: float
    currency: str


class Previous(Strict):
    """This request against the session's one before. ``hit`` None: there is none, or nothing could be cached.

    ``hit_blocks`` and ``hit_tokens`` are what this request can read of what that one wrote; ``rewritten_tokens`` is
    what is written again, ``unwritten_tokens`` what had been cached and has no marker behind it now; ``cost`` is that
    of both at the prices of the settings, None without a price for the model. ``agreed`` is about the request before,
    whose usage came with this one: whether the API read what was foreseen. Where it did not, ``cause`` says so unless
    this request has one of its own. Tokens are rough but for ``read_tokens``, which the API told.
    """

    hit: bool | None
    first_change: FirstChange | None
    cause: Cause | None
    hit_blocks: int
    hit_tokens: int
    rewritten_tokens: int
    unwritten_tokens: int
    cost: Cost | None
    agreed: bool | None
    read_tokens: int | None


class CacheAnswer(Strict):
    mode: Literal["global", "tool_based", "org", "off"]
    breakpoints: list[Breakpoint]
    prefix_sha256: str
    previous: Previous


class SessionAnswer(Strict):
    id: str | None
    new: bool
    section_hits: int
    section_misses: int


class Warning_(Strict):  # noqa: N801 - the contract's noun is Python's built-in
    code: str
    message: str
    where: str


class ContextAnswer(Strict):
    request: MessagesRequest
    headers: dict[str, str]
    system_blocks: list[SystemBlock]
    sections: list[SectionRow]
    user_context: UserContextAnswer
    memory: MemoryAnswer
    tokens: TokensAnswer
    compaction: Compaction
    cache: CacheAnswer
    session: SessionAnswer
    warnings: list[Warning_]
    digest: str


class SessionName(Strict):
    id: str | None
    new: bool


class AttachmentsAnswer(Strict):
    attachments: list[Attachment]
    report: list[ReportRow]
    session: SessionName
    warnings: list[Warning_]


class ModelRow(Strict):
    """One row of the model table; sizes in tokens."""

    id: str
    name: str | None
    family: str | None
    api_window: int
    client_window: int
    max_output: int
    min_cache: int
    tokenizer: int
    cutoff: str | None
    supports_1m: bool
    system_messages: bool
    drops_thinking: bool


class Models(Strict):
    models: list[ModelRow]
    aliases: dict[str, str]
    default: ModelRow


class Health(Strict):
    status: Literal["ok", "unavailable"]
    version: str
    checks: dict[str, bool] | None = None


class Fault(Strict):
    pointer: str
    message: str


class ProblemBody(Strict):
    """RFC 9457. ``detail`` says what to do; ``errors`` point into the body."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault]
    request_id: str | None
