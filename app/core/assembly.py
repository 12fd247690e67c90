"""Facts and what the session remembers in; everything a request to the model is made of out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.core.attachments import merged_rows
from app.core.bill import Servers, rows
from app.core.blocks import Block
from app.core.budget import option_notices
from app.core.calibration import Calibration
from app.core.changes import Situation, changes, states
from app.core.compaction import fixed_parts
from app.core.conversation import conversation, empty_notices, system_notices
from app.core.dynamic_sections import mcp_texts
from app.core.facts import Json, Notice, Request
from app.core.gathered import Facts
from app.core.key_order import ordered
from app.core.late import Late, late_attachments
from app.core.markers import Planned, plan_markers
from app.core.message import UserContext
from app.core.models import BETA_1M, window
from app.core.previous import Previous
from app.core.prompt import Prompt, compose, kept_notices, takes_system
from app.core.providers import provider_row
from app.core.remembered import Remembered
from app.core.report import Row
from app.core.sections import SYSTEM_CONTEXT, to_remember, uses_default_prompt
from app.core.system_context import GIT_STATUS
from app.core.tally import Basis, Tally, tally
from app.core.tools import sorted_tools, tool_names
from app.core.turns import calibrations, changed_blocks, compared_with_last, kept, size_notices, turn_of, with_the_model

MOST_FIXED = 20
"""Parts that no compaction makes smaller, of which a session remembers the largest."""

BETA_1M_DATED = "context-1m-2025-08-07"


@dataclass(frozen=True, slots=True)
class Assembly:
    """One answer, in the core's words. ``request`` is the Messages API's body but for ``max_tokens``."""

    facts: Facts
    prompt: Prompt
    planned: Planned
    request: Json
    previous: Previous
    rows: tuple[Row, ...]
    tally: Tally
    notices: tuple[Notice, ...]
    remember: Remembered


def assemble(facts: Facts, remembered: Remembered) -> Assembly:
    """Composes the turn. The same arguments give the same answer, in any process."""
    request = facts.request
    tools = sorted_tools(ordered(request.tools))
    servers = tuple(mcp_texts(request.mcp_servers, request.settings.mcp_instruction_limit))
    prompt = compose(facts, remembered, tool_names(tools))
    situation = _situation(facts, prompt, servers)
    late = (*remembered.late, *_new_late(facts, remembered, situation))
    changed = changed_blocks(remembered.turn, facts.wire_model, tools, prompt.blocks)
    planned = _planned(facts, remembered, prompt, tools, _messages(facts, prompt, late), changed=changed)
    body = _body(facts, planned)
    learned = calibrations(remembered, request.messages)
    basis = _basis(facts, remembered, learned)
    raw = rows(basis.measure, _counted_prompt(prompt, servers), tools, basis.counted(request.messages), late)
    told = tally(basis, raw, request.messages)
    turn = turn_of(facts, prompt, planned, body, told, changed=changed)
    against = compared_with_last(facts, remembered, turn)
    return Assembly(
        facts=facts,
        prompt=prompt,
        planned=planned,
        request=body,
        previous=against,
        rows=merged_rows(facts.memory.rows, facts.attached.rows),
        tally=told,
        notices=(*_notices(facts, remembered, prompt, planned), *size_notices(turn)),
        remember=replace(
            _remembered(facts, remembered, prompt),
            told={**states(situation), **remembered.told},
            late=late,
            turn=kept(turn, against),
            calibrations=learned,
            threshold=told.state.threshold,
            fixed=fixed_parts(told.count.parts)[:MOST_FIXED],
        ),
    )


def _messages(facts: Facts, prompt: Prompt, late: Sequence[Late]) -> list[Json]:
    return conversation(prompt.opening, facts.request.messages, late, of_system=takes_system(facts))


def asked(request: Request) -> str:
    """What the caller says of memory: when that changes, it is read again."""
    return repr((request.memory, request.setting_sources))


def _betas(facts: Facts) -> tuple[str, ...]:
    """Beta values without which the API refuses what the answer counts on."""
    request, model = facts.request, facts.model
    asked = model.tagged_1m or any(beta.startswith(BETA_1M) for beta in request.betas)
    taken = model.supports_1m and provider_row(request.provider).takes_beta(BETA_1M_DATED)
    needed = asked and taken and not request.tokens.disable_1m
    return (BETA_1M_DATED,) if needed else ()


def _situation(facts: Facts, prompt: Prompt, servers: tuple[tuple[str, str], ...]) -> Situation:
    """What may change, as far as the model was told of it: of servers in a late message only in the late layout."""
    request = facts.request
    default = uses_default_prompt(request.prompt)
    told = any(GIT_STATUS in (element.text or "") for element in prompt.elements if element.name == SYSTEM_CONTEXT.name)
    return Situation(
        date=request.date,
        servers=servers if default and request.cache.layout == "late" else None,
        git=facts.git if told and request.settings.include_git_instructions else None,
    )


def _new_late(facts: Facts, remembered: Remembered, situation: Situation) -> tuple[Late, ...]:
    """What joins the conversation on this turn: changes, then what the touched files brought."""
    messages = facts.request.messages
    return (
        *changes(remembered.known, situation, messages),
        *late_attachments(
            facts.attached.files, messages, facts.request.client.cwd, with_the_model(remembered, messages)
        ),
    )


def _planned(
    facts: Facts,
    remembered: Remembered,
    prompt: Prompt,
    tools: Sequence[Json],
    messages: Sequence[Json],
    *,
    changed: frozenset[int],
) -> Planned:
    request, turn = facts.request, remembered.turn
    return plan_markers(
        tools,
        prompt.blocks,
        messages,
        cache=request.cache,
        provider=request.provider,
        model=facts.model,
        automatic=request.automatic,
        betas=_betas(facts),
        callers=request.cache.enabled,
        before=turn.all_messages if turn else None,
        changing=changed & turn.changed if turn else frozenset(),
        changed=changed,
    )


def _body(facts: Facts, planned: Planned) -> Json:
    """The Messages API's body in a fixed order."""
    return {
        "model": facts.wire_model,
        **{name: ordered(value) for name, value in facts.request.parameters.items()},
        **({"cache_control": planned.automatic} if planned.automatic else {}),
        **({"tools": list(planned.tools)} if planned.tools else {}),
        **({"system": list(planned.system)} if planned.system else {}),
        "messages": list(planned.messages),
    }


def _counted_prompt(prompt: Prompt, servers: Servers) -> tuple[tuple[Block, ...], UserContext, Servers]:
    opening = prompt.opening
    return (*prompt.blocks, *((opening.back,) if opening.back else ())), opening.context, servers


def _basis(facts: Facts, remembered: Remembered, calibrations: Mapping[int, Calibration]) -> Basis:
    request, model = facts.request, facts.model
    attempts = remembered.attempts if facts.started is None else remembered.attempts.at(facts.started, facts.cool_down)
    return Basis(
        model,
        request.tokens,
        window(model, request.tokens, facts.window_override, request.betas),
        attempts.breaker,
        calibrations.get(model.tokenizer, Calibration()),
    )


def _notices(facts: Facts, remembered: Remembered, prompt: Prompt, planned: Planned) -> tuple[Notice, ...]:
    return (
        *empty_notices(facts.request.messages),
        *system_notices(facts.request.messages, of_system=takes_system(facts)),
        *facts.notices,
        *facts.memory.notices,
        *option_notices(facts.request.tokens),
        *kept_notices(facts, remembered, prompt),
        *planned.notices,
    )


def _remembered(facts: Facts, remembered: Remembered, prompt: Prompt) -> Remembered:
    return replace(
        remembered,
        model=facts.wire_model,
        asked=asked(facts.request),
        tools=prompt.facts.tools,
        layout=facts.request.cache.layout,
        configuration=facts.configuration,
        style=remembered.style if remembered.begun else facts.style,
        sections={**remembered.sections, **to_remember(prompt.elements)},
        memory=facts.memory,
        delivered=(*remembered.delivered, *(file.real for file in facts.attached.files)),
    )
