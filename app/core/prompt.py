"""The system prompt of one turn: its sections, how they are cut, and what of them follows the instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from app.core import message as texts
from app.core.blocks import Block, CacheMode, choose_mode, cut, global_scope, parted
from app.core.conversation import Opening
from app.core.facts import Notice, SessionSettings
from app.core.gathered import Facts
from app.core.layouts import Laid, laid_out
from app.core.providers import provider_row
from app.core.registry import Element, PromptFacts
from app.core.remembered import Remembered
from app.core.sections import SESSION_GUIDANCE, kept_apart, prompt_elements, uses_default_prompt

OUTPUT_STYLE = "output_style"
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
    elements = parted(prompt_elements(told, still_true(facts, remembered, tools)))
    laid = laid_out(elements, request.cache.layout)
    mode = choose_mode(request.provider, request.cache, scoped, tools)
    return Prompt(told, elements, mode, cut(laid.front, mode), _opening(facts, remembered, laid))


def _prompt_facts(facts: Facts, remembered: Remembered, tools: frozenset[str], scoped: bool) -> PromptFacts:
    request = facts.request
    return PromptFacts(
        client=request.client,
        git=facts.git,
        model=facts.model,
        wire_model=facts.wire_model,
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


def still_true(facts: Facts, remembered: Remembered, tools: frozenset[str]) -> Mapping[str, str | None]:
    """The remembered sections, without those whose change costs nothing.

    Another model has a cache of its own; other tools, which stand in front of everything, and another layout leave
    nothing in it.
    """
    gone = {
        *(NAME_THE_MODEL if remembered.model not in {"", facts.wire_model} else ()),
        *((SESSION_GUIDANCE,) if remembered.tools not in {None, tools} else ()),
        *((OUTPUT_STYLE,) if remembered.layout not in {"", facts.request.cache.layout} else ()),
    }
    return {name: text for name, text in remembered.sections.items() if name not in gone}


def _opening(facts: Facts, remembered: Remembered, laid: Laid) -> Opening:
    context = texts.user_context(facts.memory.files, remembered.date)
    of_system = bool(context.text) and takes_system(facts)
    return Opening(context, laid.message(of_system=of_system), of_system)


def takes_system(facts: Facts) -> bool:
    """Whether a message of the role ``system`` may be sent."""
    return provider_row(facts.request.provider).takes_system_messages(facts.model)


def kept_notices(facts: Facts, remembered: Remembered, prompt: Prompt) -> Iterator[Notice]:
    """A word on each section that stays as the session began although the request or the files now say otherwise."""
    if not remembered.begun:
        return
    fresh = replace(prompt.facts, settings=facts.request.settings)
    for name in kept_apart(fresh, still_true(facts, remembered, prompt.facts.tools)):
        yield Notice("section_kept", SECTION_KEPT, name)
