"""The sections that differ between sessions. What they say of a machine is said of the client's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.core.facts import McpServer, Skills
from app.core.registry import PromptFacts
from app.core.skills import SKILL_TOOL, listing
from app.core.static_sections import Advice, applying, bulleted
from app.core.tokens import utf16_length
from app.core.units import first_units

MCP_OPENING = "# MCP Server Instructions\n\nThese MCP servers say how their tools and resources are to be used:"
NEWEST_MODELS = (
    "The newest Claude models are Fable 5.1 (`claude-fable-5-1`), Opus 5.5 (`claude-opus-5-5`), "
    "Sonnet 5.5 (`claude-sonnet-5-5`) and Haiku 5.5 (`claude-haiku-5-5`). "
    "Take the most capable of them that fits when you build something on a model."
)
STYLE_RANK = "Where this style says how to answer, it decides; the other instructions fill in the rest."
STYLE_REPLACES = "It takes the place of the section `# Doing tasks`, which does not apply."
WORKTREE = (
    "This is a git worktree, a checkout of its own beside the repository's main one. "
    "Work here, and do not change into the main checkout."
)
LOGIN_HINT = (
    "If a command needs the user in person, such as a login in a browser or a password, "
    "ask the user to run it and say which command it is."
)
GUIDANCE = (
    Advice(
        ("AskUserQuestion",),
        "If a call was denied and you do not see why, ask the user with {tool}.",
    ),
    Advice(
        ("Agent", "Task"),
        "Start sub-agents with {tool} for broad searches and for independent pieces of work; "
        "look up a known file or name yourself. Several that do not depend on each other can run at once.",
    ),
    Advice(
        (SKILL_TOOL,),
        "`/NAME` in a message by the user calls the skill of that name. Run it with {tool}, and only if it is among "
        "the skills listed for you.",
    ),
)


def session_guidance(facts: PromptFacts) -> str | None:
    login = (LOGIN_HINT,) if facts.settings.interactive else ()
    points = (*applying(GUIDANCE, facts.tools), *login)
    if not points:
        return None
    skills = facts.settings.skills if SKILL_TOOL in facts.tools else Skills()
    return "\n\n".join((bulleted("# Session guidance", points), *listing(skills)))


def memory(facts: PromptFacts) -> str | None:
    return None if facts.memory_dir is None else facts.prose["memory"].replace("{folder}", facts.memory_dir)


def model_override(facts: PromptFacts) -> str | None:
    return facts.settings.model_override


def env_info(facts: PromptFacts) -> str:
    lines = (
        "# Environment",
        "You have been invoked in the following environment: ",
        *(f" - {bullet}" for bullet in (*_place(facts), *_machine(facts), *_model(facts))),
    )
    return "\n".join(lines)


def _place(facts: PromptFacts) -> tuple[str, ...]:
    roots = facts.git.roots if facts.git is not None else None
    linked = roots is not None and roots.main_toplevel not in (None, roots.toplevel)
    folders = facts.client.additional_directories
    return (
        f"Primary working directory: {facts.client.cwd}",
        *((WORKTREE,) if linked else ()),
        f"Is a git repository: {'true' if facts.git is not None else 'false'}",
        *(("\n   - ".join(("Additional working directories:", *folders)),) if folders else ()),
    )


def _machine(facts: PromptFacts) -> tuple[str, ...]:
    named = (
        ("Platform", facts.client.platform),
        ("Shell", facts.client.shell),
        ("OS Version", facts.client.os_version),
    )
    return tuple(f"{name}: {value}" for name, value in named if value)


def _model(facts: PromptFacts) -> tuple[str, ...]:
    model, sent = facts.model, facts.wire_model
    named = f"named {model.name}. The exact model ID is {sent}" if model.known and model.name else sent
    return (
        f"You are powered by the model {named}.",
        *((f"Assistant knowledge cutoff is {model.cutoff}.",) if model.cutoff else ()),
        NEWEST_MODELS,
    )


def language(facts: PromptFacts) -> str | None:
    wanted = (facts.settings.language or "").strip()
    return facts.prose["language"].replace("{language}", wanted) if wanted else None


def output_style(facts: PromptFacts) -> str | None:
    style = facts.style
    if style is None:
        return None
    ranked = (STYLE_RANK, *(() if style.keep_coding_instructions else (STYLE_REPLACES,))) if facts.late else ()
    return "\n".join((f"# Output Style: {style.name}", *ranked, style.text.strip()))


def mcp_instructions(facts: PromptFacts) -> str | None:
    told = [text for _, text in mcp_texts(facts.servers, facts.settings.mcp_instruction_limit)]
    return "\n\n".join((MCP_OPENING, *told)) if told else None


def mcp_texts(servers: Iterable[McpServer], limit: int) -> Iterator[tuple[str, str]]:
    """Name and text of every connected server that has instructions, by name; each cut on its own ``limit``."""
    for server in sorted(servers, key=lambda server: (server.name, server.instructions)):
        if server.status == "connected" and server.instructions.strip():
            yield server.name, _instructions(server, limit)


def _instructions(server: McpServer, limit: int) -> str:
    whole = server.instructions.strip()
    shown = first_units(whole, limit)
    mark = "" if shown == whole else f"\n[cut here: {limit} of {utf16_length(whole)} characters]"
    return f"## {server.name}\n{shown}{mark}"


def scratchpad(facts: PromptFacts) -> str | None:
    folder = facts.settings.scratchpad_dir
    return facts.prose["scratchpad"].replace("{folder}", folder) if folder else None


def function_result_clearing(facts: PromptFacts) -> str | None:
    kept = facts.settings.function_result_clearing
    return None if kept is None else facts.prose["function_result_clearing"].replace("{count}", str(kept))


def summarize_tool_results(facts: PromptFacts) -> str | None:
    return facts.prose["summarize_tool_results"] if facts.settings.summarize_tool_results else None


def simple(facts: PromptFacts) -> str:
    return f"{facts.prose['intro_identity']}\n\n{simple_place(facts)}"


def simple_place(facts: PromptFacts) -> str:
    return f"CWD: {facts.client.cwd}\nDate: {facts.date}"
