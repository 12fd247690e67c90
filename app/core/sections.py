"""SECTIONS, a row each, in the order in which they stand in the system prompt: the order is the cache's prefix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.core import dynamic_sections as dynamic
from app.core import static_sections as static
from app.core.facts import GitFacts, PromptOptions, SessionSettings
from app.core.registry import (
    ATTRIBUTION_HEADER_NAME,
    BOUNDARY,
    BOUNDARY_NAME,
    PREFIX_NAME,
    Element,
    PromptFacts,
    Section,
    cached_section,
    dangerous_uncached_section,
    said,
    static_section,
)
from app.core.system_context import GIT_STATUS, system_context

SECTIONS: tuple[Section, ...] = (
    static_section("intro", static.intro),
    static_section("system", lambda facts: facts.prose["system"]),
    static_section("doing_tasks", static.doing_tasks),
    static_section("actions", lambda facts: facts.prose["actions"]),
    static_section("using_tools", static.using_tools),
    static_section("tone_and_style", lambda facts: facts.prose["tone_and_style"]),
    static_section("output_efficiency", lambda facts: facts.prose["output_efficiency"]),
    cached_section("session_guidance", dynamic.session_guidance),
    cached_section("memory", dynamic.memory),
    cached_section("model_override", dynamic.model_override),
    cached_section("env_info", dynamic.env_info),
    cached_section("language", dynamic.language),
    cached_section("output_style", dynamic.output_style),
    dangerous_uncached_section(
        "mcp_instructions", dynamic.mcp_instructions, reason="servers connect and disconnect within a session"
    ),
    cached_section("scratchpad", dynamic.scratchpad),
    cached_section("function_result_clearing", dynamic.function_result_clearing),
    cached_section("summarize_tool_results", dynamic.summarize_tool_results),
)
SIMPLE = cached_section("simple", dynamic.simple)
LATE_SIMPLE: tuple[Section, ...] = (
    static_section("simple", lambda facts: facts.prose["intro_identity"]),
    cached_section("simple_place", dynamic.simple_place),
)
"""The simple prompt in the late layout."""

SYSTEM_CONTEXT = cached_section("system_context", lambda facts: system_context(facts.git, facts.settings))

SESSION_GUIDANCE = "session_guidance"


def uses_default_prompt(prompt: PromptOptions) -> bool:
    return prompt.custom is None and not prompt.simple


def prompt_elements(facts: PromptFacts, remembered: Mapping[str, str | None]) -> tuple[Element, ...]:
    """The system prompt's list, in order, not joined.

    Args:
        facts: what this turn is about.
        remembered: the text of each cached section that this session has computed; None for one that was absent.

    Returns:
        An element for each section, absent ones included, and for each text that the caller gave.
    """
    prompt = facts.prompt
    after = SYSTEM_CONTEXT.resolve(facts, remembered) if uses_default_prompt(prompt) else None
    return (
        *_given(ATTRIBUTION_HEADER_NAME, prompt.attribution_header),
        *_given(PREFIX_NAME, prompt.prefix),
        *_body(facts, remembered),
        *_given("memory_mechanics", prompt.memory_mechanics),
        *_given("append", prompt.append),
        *(() if after is None else (after,)),
    )


def kept_apart(facts: PromptFacts, remembered: Mapping[str, str | None]) -> Iterator[str]:
    """Names of remembered sections that would say something else if the session began now.

    Of the repository's state only whether it is told counts: it is not always looked at again.
    """
    for section in SECTIONS:
        if section.name in remembered and not _says(section, facts, remembered[section.name]):
            yield section.name
    if SYSTEM_CONTEXT.name not in remembered:
        return
    context = remembered[SYSTEM_CONTEXT.name] or ""
    breaker = system_context(None, facts.settings) or ""
    told, wanted = GIT_STATUS in context, facts.settings.include_git_instructions
    if breaker not in context or (told and not wanted) or (wanted and not told and _is_known(facts.git)):
        yield SYSTEM_CONTEXT.name


def _is_known(git: GitFacts | None) -> bool:
    return git is not None and system_context(git, SessionSettings()) is not None


def _says(section: Section, facts: PromptFacts, text: str | None) -> bool:
    """Whether a section still says that. Skills, which are not looked for again, may follow the guidance."""
    fresh = section.kept().resolve(facts, {}).text
    if section.name == SESSION_GUIDANCE:
        return (text or "").startswith(fresh or "") and bool(text) >= bool(fresh)
    return section.kind == "uncached" or fresh == text


def to_remember(elements: tuple[Element, ...]) -> dict[str, str | None]:
    """What the session keeps until it is cleared or compacted, to be laid over what it kept before."""
    return {element.name: element.text for element in elements if element.kind == "cached"}


def _body(facts: PromptFacts, remembered: Mapping[str, str | None]) -> Iterator[Element]:
    if facts.prompt.custom is not None:
        yield from _given("custom", facts.prompt.custom)
    elif facts.prompt.simple:
        yield from (section.resolve(facts, remembered) for section in (LATE_SIMPLE if facts.late else (SIMPLE,)))
    else:
        yield from _default(facts, remembered)


def _default(facts: PromptFacts, remembered: Mapping[str, str | None]) -> Iterator[Element]:
    yield from (section.resolve(facts, remembered) for section in SECTIONS if section.kind == "static")
    if facts.global_scope:
        yield Element(BOUNDARY_NAME, BOUNDARY, "static")
    dynamic_rows = (section.kept() if facts.late else section for section in SECTIONS if section.kind != "static")
    yield from (section.resolve(facts, remembered) for section in dynamic_rows)


def _given(name: str, text: str | None) -> Iterator[Element]:
    """The caller's own text as it is; a blank one is no element."""
    if said(text) is not None:
        yield Element(name, text, "static")
