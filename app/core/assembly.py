"""Facts and what the session remembers in; everything a request to the model is made of out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.core import message as texts
from app.core.attachments import Attached, merged_rows
from app.core.blocks import JOINT, Block, CacheMode, choose_mode, cut, global_scope
from app.core.budget import CompactionState, compaction_state, option_notices
from app.core.configuration import Configuration
from app.core.dynamic_sections import mcp_texts
from app.core.facts import GitFacts, Json, Message, Notice, OutputStyle, Request
from app.core.late import Late, late_attachments, late_date, places
from app.core.markers import Planned, plan_markers
from app.core.memory import Memory
from app.core.message import UserContext
from app.core.models import BETA_1M, Model, Window, window
from app.core.registry import Element, PromptFacts
from app.core.remembered import Remembered
from app.core.report import Row
from app.core.sections import prompt_elements, to_remember, uses_default_prompt
from app.core.tokens import BYTES_PER_TOKEN, Count, count, rough, rough_tool, spread, utf16_length
from app.core.tools import sorted_tools, tool_name, tool_names

NAME_THE_MODEL = frozenset({"env_info"})
BETA_1M_DATED = "context-1m-2025-08-07"


@dataclass(frozen=True, slots=True)
class Facts:
    """All that was gathered for one turn.

    ``memory_dir`` is where auto memory stands, None when it is off; ``wire_model`` the model's id as it is sent;
    ``window_override`` the service's own setting, in tokens.
    """

    request: Request
    model: Model
    wire_model: str
    git: GitFacts | None
    memory: Memory
    attached: Attached
    memory_dir: str | None
    prose: Mapping[str, str]
    configuration: Configuration = field(default_factory=Configuration)
    style: tuple[str, OutputStyle | None] | None = None
    window_override: int | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Assembly:
    """One answer, in the core's words. ``messages`` of ``planned`` are the API's, markers set."""

    facts: Facts
    mode: CacheMode
    blocks: tuple[Block, ...]
    elements: tuple[Element, ...]
    user_context: UserContext
    planned: Planned
    rows: tuple[Row, ...]
    tokens: Count
    window: Window
    compaction: CompactionState
    notices: tuple[Notice, ...]
    remember: Remembered

    @property
    def betas(self) -> tuple[str, ...]:
        return self.planned.betas


def assemble(facts: Facts, remembered: Remembered) -> Assembly:
    """Composes the turn. The same arguments give the same answer, in any process."""
    request = facts.request
    tools = sorted_tools(request.tools)
    names = tool_names(tools)
    default_prompt = uses_default_prompt(request.prompt)
    scoped = global_scope(request.provider, request.cache, default_prompt=default_prompt)
    elements = prompt_elements(_prompt_facts(facts, remembered, names, scoped), _still_true(facts, remembered))
    mode = choose_mode(request.provider, request.cache, scoped, names)
    blocks = cut(elements, mode)
    context = texts.user_context(facts.memory.files, remembered.date)
    late = (*remembered.late, *_new_late(facts, remembered))
    planned = plan_markers(
        tools,
        blocks,
        _messages(context, request.messages, late),
        cache=request.cache,
        provider=request.provider,
        min_cache=facts.model.min_cache,
        betas=_betas(facts),
        callers=request.cache.enabled,
    )
    servers = tuple(mcp_texts(request.mcp_servers, request.settings.mcp_instruction_limit))
    used = count(request.messages, _fixed_parts(blocks, context, tools, servers), _late_parts(late))
    size = window(facts.model, request.tokens, facts.window_override, request.betas)
    return Assembly(
        facts=facts,
        mode=mode,
        blocks=blocks,
        elements=elements,
        user_context=context,
        planned=planned,
        rows=merged_rows(facts.memory.rows, facts.attached.rows),
        tokens=used,
        window=size,
        compaction=compaction_state(used.used, size, facts.model, request.tokens),
        notices=(
            *_empty_notices(request.messages),
            *facts.notices,
            *facts.memory.notices,
            *option_notices(request.tokens),
            *planned.notices,
        ),
        remember=replace(
            remembered,
            told_date=request.date,
            model=facts.model.id,
            asked=asked(request),
            configuration=facts.configuration,
            style=facts.style,
            sections={**remembered.sections, **to_remember(elements)},
            memory=facts.memory,
            delivered=(*remembered.delivered, *(file.real for file in facts.attached.files)),
            late=late,
        ),
    )


def asked(request: Request) -> str:
    """What the caller says of memory: when that changes, it is read again."""
    return repr((request.memory, request.setting_sources))


def _prompt_facts(facts: Facts, remembered: Remembered, tools: frozenset[str], scoped: bool) -> PromptFacts:
    request = facts.request
    return PromptFacts(
        client=request.client,
        git=facts.git,
        model=facts.model,
        tools=tools,
        servers=request.mcp_servers,
        settings=request.settings,
        prompt=request.prompt,
        date=remembered.date,
        memory_dir=facts.memory_dir,
        global_scope=scoped,
        prose=facts.prose,
    )


def _still_true(facts: Facts, remembered: Remembered) -> Mapping[str, str | None]:
    """The remembered sections; what names the model goes when the session runs on another, which has its own cache."""
    if remembered.model in {"", facts.model.id}:
        return remembered.sections
    return {name: text for name, text in remembered.sections.items() if name not in NAME_THE_MODEL}


def _betas(facts: Facts) -> tuple[str, ...]:
    """Beta values without which the API refuses what the answer counts on."""
    request, model = facts.request, facts.model
    asked = model.tagged_1m or any(beta.startswith(BETA_1M) for beta in request.betas)
    needed = asked and model.supports_1m and request.provider == "anthropic" and not request.tokens.disable_1m
    return (BETA_1M_DATED,) if needed else ()


def _new_late(facts: Facts, remembered: Remembered) -> tuple[Late, ...]:
    """What joins the conversation on this turn: a changed date, then what the touched files brought."""
    request = facts.request
    date = [late_date(request.date, request.messages)] if request.date != remembered.told_date else []
    return (*date, *late_attachments(facts.attached.files, request.messages, request.client.cwd))


def _messages(context: UserContext, messages: Sequence[Message], late: Sequence[Late]) -> list[Json]:
    """The API's messages: the user context, then the conversation with late texts at their places."""
    found: list[Json] = [_user([context.text])] if context.text else []
    there = places(messages, late)
    for index, message in enumerate(messages):
        if index in there:
            found.append(_user(there[index]))
        found.append(_api_message(message))
    if len(messages) in there:
        found.append(_user(there[len(messages)]))
    return found


def _empty_notices(messages: Sequence[Message]) -> Iterator[Notice]:
    """A word on each of the caller's messages that the API refuses for saying nothing."""
    for index, message in enumerate(messages):
        content = message.content
        blank = [block for block in ([] if isinstance(content, str) else content) if _is_blank(block)]
        if blank or not (content.strip() if isinstance(content, str) else content):
            yield Notice("empty_text", "The API takes no empty text: leave it out.", f"messages[{index}]")


def _is_blank(block: Json) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _user(blocks: Sequence[str]) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in blocks]}


def _api_message(message: Message) -> Json:
    content: Any = message.content if isinstance(message.content, str) else list(message.content)
    return {"role": message.role, "content": content}


def block_tokens(block: Block) -> tuple[int, ...]:
    """Rough tokens of each section of a block; together the rounded count of its text."""
    return spread([(length, 4) for _, length in block.parts])


def _fixed_parts(
    blocks: Sequence[Block], context: UserContext, tools: Sequence[Json], servers: Sequence[tuple[str, str]]
) -> tuple[tuple[str, int], ...]:
    rows = [row for block in blocks for row in _block_rows(block, servers)]
    return (
        *rows,
        *((f"tool:{tool_name(tool) or index}", rough_tool(tool)) for index, tool in enumerate(tools)),
        *context.tokens(),
    )


def _block_rows(block: Block, servers: Sequence[tuple[str, str]]) -> Iterator[tuple[str, int]]:
    """A row for each section, and one for each MCP server's instructions; together the count of the block."""
    sizes: list[tuple[str, int]] = []
    for name, length in block.parts:
        told = [(f"mcp:{server}", utf16_length(text) + len(JOINT)) for server, text in servers]
        told = told if name == "mcp_instructions" else []
        sizes.extend([(f"system:{name}", length - sum(size for _, size in told)), *told])
    counts = spread([(size, BYTES_PER_TOKEN) for _, size in sizes])
    yield from zip((name for name, _ in sizes), counts, strict=True)


def _late_parts(late: Sequence[Late]) -> tuple[tuple[str, int, int], ...]:
    return tuple((one.part, rough(one.text, one.units_per_token), one.at) for one in late)
