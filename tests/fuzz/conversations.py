"""Targets for conversations: their calls and rounds, what joins them, their markers, and what is said of series."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from app.core.blocks import Block
from app.core.conversation import Opening, conversation, empty_notices, system_notices
from app.core.costs import Prices
from app.core.estimate import estimate_message
from app.core.facts import Json, Message
from app.core.late import Late
from app.core.message import Piece, UserContext
from app.core.rounds import overflow, rounds, without_oldest
from app.core.summary import Summary, compacted, judged
from app.core.summary_request import summary_request
from app.core.thinking import THINKING, without_old_thinking
from app.core.tokens import rough_message
from app.core.tool_pairs import call_ids, owed_from, pairs, result_ids, settled, unanswered, whole_before
from app.data.tables import load_models
from app.errors import Problem
from app.wire.lints import LintAnswer, LintRequest, lint_answer, linted
from app.wire.parsing import parsed
from tests.core.marker_cases import case
from tests.core.test_marker_plans import Outcome
from tests.fuzz import talks
from tests.fuzz.drawing import Drawn
from tests.standin.rules import BreachError, Call, check

MODELS = load_models()
PROSE = {"compact_summary": "Write a summary of at most {count} words."}


def legal(messages: Sequence[Json], **more: Any) -> bool:
    """Whether the API takes a request of these messages. Its rules fail on values of another type than they expect."""
    try:
        check(Call({"model": "m", "max_tokens": 10_000, "messages": list(messages), **more}, system_role=True))
    except (BreachError, AttributeError, KeyError, TypeError):
        return False
    return True


def messages(data: bytes) -> None:
    drawn = Drawn(data)
    said = talks.any_talk(drawn)
    before = copy.deepcopy(said)
    _pairs_are_those_of_a_slow_look(said)
    assert tuple(message for one in rounds(said) for message in one.messages) == said
    _settled_is_legal(said)
    _the_oldest_go(drawn, said)
    _thinking_goes(said)
    _late_texts_join(drawn, said)
    _a_summary_can_be_asked_for(drawn, said)
    assert said == before


def _pairs_are_those_of_a_slow_look(said: tuple[Message, ...]) -> None:
    found = list(pairs(said))
    expected = []
    for at, message in enumerate(said):
        for identity in result_ids(message.content):
            callers = [index for index in range(at + 1) if identity in call_ids(said[index].content)]
            expected.extend([(callers[-1], at)] if callers else [])
    assert found == expected
    assert whole_before(said) == tuple(
        all(not call < cut <= result for call, result in expected) for cut in range(len(said))
    )


def _settled_is_legal(said: tuple[Message, ...]) -> None:
    left = settled(said)
    first = owed_from(said)
    assert left == said if first is None else left[:first] == said[:first]
    if legal(talks.as_sent(said[:first])) and all(one.role != "system" for one in said):
        assert legal(talks.as_sent(left)) or first is None
    waiting = unanswered(said)
    assert all(one.role == "user" and one.content for one in waiting)
    assert legal(talks.as_sent(compacted(Summary("What was done."), waiting))) or not all(map(_is_sound, waiting))


def _is_sound(message: Message) -> bool:
    return legal(talks.as_sent((message,)))


def _the_oldest_go(drawn: Drawn, said: tuple[Message, ...]) -> None:
    wanted = drawn.choice((None, 0, 1, 100, 10**6))
    sound, left = legal(talks.as_sent(said)), said
    while (shorter := without_oldest(left, wanted, rough_message)) is not None:
        kept = {id(one) for one in shorter.messages}
        gone = {id(one) for one in shorter.dropped}
        assert shorter.dropped
        assert [id(one) for one in left if id(one) in kept] == [id(one) for one in shorter.messages]
        assert sorted(map(id, left)) == sorted([*map(id, shorter.messages), *map(id, shorter.dropped)])
        assert not kept & gone or len(kept | gone) < len(left)
        assert not sound or legal(talks.as_sent(shorter.messages))
        assert not sound or shorter.messages[0].role == "user"
        left = shorter.messages


def _thinking_goes(said: tuple[Message, ...]) -> None:
    left = without_old_thinking(said)
    assert len(left) == len(said)
    for before, after in zip(said, left, strict=True):
        if before != after:
            assert before.role == "assistant"
            assert after.content == tuple(one for one in before.content if one.get("type") not in THINKING)  # type: ignore[union-attr]
    assert without_old_thinking(left) == left


def _late_texts_join(drawn: Drawn, said: tuple[Message, ...]) -> None:
    of_system = drawn.maybe()
    opening = Opening(
        UserContext({}, (Piece("p", "Context."),) if drawn.maybe() else ()),
        drawn.choice((None, Block("Back.", None, ("env_info",), ()))),
        of_system=of_system and drawn.maybe(),
    )
    late = [Late(drawn.randint(0, len(said) + 2), "p", f"late {at}") for at in drawn.several(3)]
    sent = conversation(opening, said, late, of_system=of_system)
    there = json.dumps(sent)
    assert all(there.count(f'"late {at}"') == 1 for at in range(len(late)))
    if not of_system:
        assert all(one["role"] != "system" for one in sent) or opening.of_system
    unchanged = all(isinstance(one.content, str) or "cache_control" not in str(one.content) for one in said)
    if legal(talks.as_sent(said)) and unchanged and sent[0]["role"] == "user":
        assert legal(sent), sent
    told = {notice.where for notice in empty_notices(said)}
    assert {f"messages[{at}]" for at, one in enumerate(said) if not one.content} <= told
    assert len(list(system_notices(said, of_system=of_system))) == (
        0 if of_system else sum(one.role == "system" for one in said)
    )


def _a_summary_can_be_asked_for(drawn: Drawn, said: tuple[Message, ...]) -> None:
    body: dict[str, Any] = {"model": "m", "messages": talks.as_sent(said)}
    if drawn.maybe(0.3):
        body["thinking"] = {"type": "enabled", "budget_tokens": drawn.choice((1024, 15_000, 60_000))}
    if drawn.maybe(0.3):
        body["tool_choice"] = drawn.choice(({"type": "any"}, {"type": "tool", "name": "Read"}, {"type": "auto"}))
    instructions, missing = drawn.choice((None, "", "Keep the names.")), drawn.randint(0, 3)
    asked = summary_request(body, PROSE, instructions=instructions, max_output=32_000, missing=missing)
    assert asked.body["messages"][-1]["role"] == "user"
    most = asked.body["max_tokens"]
    assert 0 < most <= 32_000
    sound = legal(talks.as_sent(said[: owed_from(said)])) and all(one.role != "system" for one in said)
    if sound and talks.has_sound_markers(said):
        check(Call(asked.body, system_role=True))


def markers(data: bytes) -> None:
    """Laws of every plan: legal, complete and told, the same again, and a plan of a plan is the same plan."""
    given = case(Drawn(data))
    before = copy.deepcopy(given)
    outcome = Outcome(given)
    assert outcome.faults() == [], given
    assert given == before
    assert given.planned() == outcome.planned


def lint(data: bytes) -> None:
    """A body of the linter."""
    try:
        body = parsed(LintRequest, data)
    except Problem:
        return
    found = linted(body.requests, MODELS, Prices())
    LintAnswer.model_validate(lint_answer(found))
    assert len(found.comparisons) == len(body.requests) - 1
    for finding in found.findings:
        assert 0 <= finding.request < len(body.requests)
        assert len(finding.shown) <= 400
    for (before, after), one in zip(pairwise(body.requests), found.comparisons, strict=True):
        assert min(one.hit_tokens, one.rewritten_5m, one.rewritten_1h, one.unwritten, one.hit_blocks) >= 0
        if before.body == after.body and after.usage is None and (before.started or 0) == (after.started or 0):
            assert one.first_change is None
            assert one.hit is not False or one.cause is not None
    assert lint_answer(linted(body.requests, MODELS, Prices())) == lint_answer(found)


def summaries(data: bytes) -> None:
    """What an API, or what stands in its place, may answer to a request for a summary."""
    try:
        response = json.loads(data)
    except (ValueError, RecursionError):
        overflow(data.decode("latin-1"))
        return
    found = judged(response)
    if isinstance(found, Summary):
        assert found.text == found.text.strip() != ""
        assert response["stop_reason" if "stop_reason" in response else "type"] != "refusal"
        assert legal(talks.as_sent(compacted(found)))
    else:
        assert found.message
    more = overflow(data.decode("latin-1"))
    assert more is None or more > 0


def estimates(data: bytes) -> None:
    """Messages of any blocks have an estimate that does not shrink when more is said."""
    said = talks.hostile(Drawn(data))
    for tokenizer in (1, 2):
        counts = [estimate_message(one, tokenizer) for one in said]
        assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert all(rough_message(one) >= 0 for one in said)


TARGETS = {"messages": messages, "markers": markers, "lint": lint, "summaries": summaries, "estimates": estimates}
