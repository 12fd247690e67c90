"""The system prompt of one turn: its sections, how they are cut, and what of them follows the instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from app.core import message as texts
from app.core.blocks import Block, CacheMode, choose_mode, cut, global_scope
from app.core.conversation import Opening
from app.core.facts import Notice, SessionSettings
from app.core.gathered import Facts
from app.core.layouts import Laid, laid_out
from app.core.providers import provider_row
from app.core.registry import Element, PromptFacts
from app.core.remembered import Remembered
from app.core.sections import SYSTEM_CONTEXT, kept_apart, prompt_elements, uses_default_prompt

NAME_THE_MODEL = frozenset({"env_info"})
SECTION_KEPT = "This section stays as the session began, so that the prompt cache holds: clear the session to renew it."


@dataclass(frozen=True, slots=True)
class Prompt:
    """Layer 1 and what stands in front of the conversation. ``facts`` are what the sections were computed from."""

    facts: PromptFacts
    elements: tuple[Element, ...]
    mode: CacheMode
    blocks: tuple[Block, ...]
    opening: Opening


def compose(facts: Facts, remembered: Remembered, tools: frozenset[str]) -> Prompt:
    request = facts.request
    scoped = global_scope(request.provider, request.cache, default_prompt=uses_default_prompt(request.prompt))
    told = _prompt_facts(facts, remembered, tools, scoped)
    elements = prompt_elements(told, _still_true(facts, remembered))
    laid = laid_out(elements, request.cache.layout)
    mode = choose_mode(request.provider, request.cache, scoped, tools)
    return Prompt(told, elements, mode, cut(laid.front, mode), _opening(facts, remembered, laid))


def _prompt_facts(facts: Facts, remembered: Remembered, tools: frozenset[str], scoped: bool) -> PromptFacts:
    request = facts.request
    return PromptFacts(
        client=request.client,
        git=facts.git,
        model=facts.model,
        tools=tools,
        servers=request.mcp_servers,
        settings=_session_settings(facts, remembered),
        prompt=request.prompt,
        date=remembered.date,
        memory_dir=facts.memory_dir,
        global_scope=scoped,
        prose=facts.prose,
        late=request.cache.layout == "late",
    )


def _session_settings(facts: Facts, remembered: Remembered) -> SessionSettings:
    """The settings with the style that the session began with: the first words of the prompt depend on it."""
    settings = facts.request.settings
    style = remembered.style[1] if remembered.style else None
    return replace(settings, output_style=style) if remembered.begun else settings


def _still_true(facts: Facts, remembered: Remembered) -> Mapping[str, str | None]:
    """The remembered sections; what names the model goes when the session runs on another, which has its own cache."""
    if remembered.model in {"", facts.model.id}:
        return remembered.sections
    return {name: text for name, text in remembered.sections.items() if name not in NAME_THE_MODEL}


def _opening(facts: Facts, remembered: Remembered, laid: Laid) -> Opening:
    context = texts.user_context(facts.memory.files, remembered.date)
    takes = provider_row(facts.request.provider).takes_system_messages(facts.model)
    of_system = bool(context.text) and takes
    return Opening(context, laid.message(of_system=of_system), of_system)


def kept_notices(facts: Facts, remembered: Remembered, prompt: Prompt) -> Iterator[Notice]:
    """A word on each section that stays as the session began although the request or the files now say otherwise."""
    if not remembered.begun:
        return
    fresh = replace(prompt.facts, settings=facts.request.settings)
    still = {name: text for name, text in _still_true(facts, remembered).items() if name != SYSTEM_CONTEXT.name}
    for name in kept_apart(fresh, still):
        yield Notice("section_kept", SECTION_KEPT, name)
