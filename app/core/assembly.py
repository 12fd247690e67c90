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
from app.core.conversation import conversation, empty_notices
from app.core.dynamic_sections import mcp_texts
from app.core.facts import Json, Message, Notice, Request
from app.core.gathered import Facts
from app.core.key_order import ordered
from app.core.late import Late, late_attachments
from app.core.markers import Planned, plan_markers
from app.core.message import UserContext
from app.core.models import BETA_1M, window
from app.core.prefix import rough_minimum, segments
from app.core.previous import Previous, Turn, previous
from app.core.prompt import Prompt, compose, kept_notices
from app.core.providers import provider_row
from app.core.remembered import Remembered
from app.core.report import Row
from app.core.sections import to_remember, uses_default_prompt
from app.core.sent import lightened, sent
from app.core.tally import Basis, Tally, tally
from app.core.tokens import utf16_length
from app.core.tools import sorted_tools, tool_names

MOST_SEGMENTS = 20_000
"""Blocks of the last request that a session remembers; with more, its next request has nothing to compare with."""

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
    situation = _situation(facts, servers)
    late = (*remembered.late, *_new_late(facts, remembered, situation))
    planned = _planned(facts, remembered, prompt, tools, conversation(prompt.opening, request.messages, late))
    body = _body(facts, planned)
    calibrations = _calibrations(remembered, request.messages)
    basis = _basis(facts, remembered, calibrations)
    raw = rows(basis.measure, _counted_prompt(prompt, servers), tools, request.messages, late)
    told = tally(basis, raw, request.messages)
    turn = _turn(facts, prompt, planned, body, told)
    against = _previous(facts, remembered, turn)
    return Assembly(
        facts=facts,
        prompt=prompt,
        planned=planned,
        request=body,
        previous=against,
        rows=merged_rows(facts.memory.rows, facts.attached.rows),
        tally=told,
        notices=_notices(facts, remembered, prompt, planned),
        remember=replace(
            _remembered(facts, remembered, prompt),
            told={**states(situation), **remembered.told},
            late=late,
            turn=_kept(turn, against),
            calibrations=calibrations,
        ),
    )


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


def _situation(facts: Facts, servers: tuple[tuple[str, str], ...]) -> Situation:
    """What may change, as far as the model is told of it: of servers in a late message only in the late layout."""
    request = facts.request
    default = uses_default_prompt(request.prompt)
    return Situation(
        date=request.date,
        servers=servers if default and request.cache.layout == "late" else None,
        git=facts.git if default and request.settings.include_git_instructions else None,
    )


def _new_late(facts: Facts, remembered: Remembered, situation: Situation) -> tuple[Late, ...]:
    """What joins the conversation on this turn: changes, then what the touched files brought."""
    messages = facts.request.messages
    return (
        *changes(remembered.known, situation, messages),
        *late_attachments(facts.attached.files, messages, facts.request.client.cwd),
    )


def _planned(
    facts: Facts, remembered: Remembered, prompt: Prompt, tools: Sequence[Json], messages: Sequence[Json]
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
        changing=_changing(turn, prompt.blocks),
    )


def _changing(turn: Turn | None, blocks: Sequence[Block]) -> frozenset[int]:
    """The system blocks that say something else than on the session's last turn."""
    before = [one.digest for one in turn.sent.segments if one.area == "system"] if turn else []
    now = segments({"system": [{"type": "text", "text": block.text} for block in blocks], "messages": ()})
    return frozenset(index for index, (old, new) in enumerate(zip(before, now, strict=False)) if old != new.digest)


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


def _turn(facts: Facts, prompt: Prompt, planned: Planned, body: Json, told: Tally) -> Turn | None:
    """The request as the session keeps it; None without a session."""
    if facts.started is None:
        return None
    now = sent(
        body,
        rough_minimum(facts.model),
        started=facts.started,
        context_messages=len(prompt.opening.messages()),
        sections=_named_runs(prompt),
        left_out=any(not point.sent for point in planned.breakpoints),
    )
    estimated = told.raw if told.factor is not None else None
    return Turn(
        now,
        len(facts.request.messages),
        len(planned.messages),
        estimated=estimated,
        tokenizer=facts.model.tokenizer,
    )


def _named_runs(prompt: Prompt) -> dict[str, tuple[tuple[str, int], ...]]:
    """The sections of each system block, the files of the instructions, the sections that follow them, by place."""
    context, back = prompt.opening.context, prompt.opening.back
    behind = "messages[1].content[0]" if prompt.opening.of_system else f"messages[0].content[{int(bool(context.text))}]"
    return {
        **{f"system[{index}]": block.parts for index, block in enumerate(prompt.blocks)},
        "messages[0].content[0]": tuple((piece.part, utf16_length(piece.text)) for piece in context.pieces),
        **({behind: back.parts} if back else {}),
    }


def _kept(turn: Turn | None, against: Previous) -> Turn | None:
    """What is remembered of it: not more than a store can hold for every session."""
    if turn is None or len(turn.sent.segments) > MOST_SEGMENTS:
        return None
    return replace(turn, sent=lightened(turn.sent), comparison=against.comparison)


def _previous(facts: Facts, remembered: Remembered, turn: Turn | None) -> Previous:
    if turn is None or remembered.turn is None:
        return Previous()
    return previous(remembered.turn, turn.sent, facts.request.messages, facts.wire_model, facts.prices)


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


def _calibrations(remembered: Remembered, messages: Sequence[Message]) -> Mapping[int, Calibration]:
    """With what the usage of the last request says of its estimate."""
    turn = remembered.turn
    usage = turn.usage(messages) if turn else None
    if turn is None or usage is None or turn.estimated is None:
        return remembered.calibrations
    before = remembered.calibrations.get(turn.tokenizer, Calibration())
    return {**remembered.calibrations, turn.tokenizer: before.learned(turn.estimated, usage.prompt)}


def _notices(facts: Facts, remembered: Remembered, prompt: Prompt, planned: Planned) -> tuple[Notice, ...]:
    return (
        *empty_notices(facts.request.messages),
        *facts.notices,
        *facts.memory.notices,
        *option_notices(facts.request.tokens),
        *kept_notices(facts, remembered, prompt),
        *planned.notices,
    )


def _remembered(facts: Facts, remembered: Remembered, prompt: Prompt) -> Remembered:
    return replace(
        remembered,
        model=facts.model.id,
        asked=asked(facts.request),
        configuration=facts.configuration,
        style=remembered.style if remembered.begun else facts.style,
        sections={**remembered.sections, **to_remember(prompt.elements)},
        memory=facts.memory,
        delivered=(*remembered.delivered, *(file.real for file in facts.attached.files)),
    )
