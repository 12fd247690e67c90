from dataclasses import replace

from app.core.facts import CacheOptions, Message, PromptOptions, TokenOptions, Usage
from app.core.turns import MOST_SEGMENTS, changed_blocks, with_the_model
from tests.core.assembling import asked, assembled, conversation, fresh

TOOLS = ({"name": "Read", "input_schema": {}},)
ORG = CacheOptions(scope="org")


def turn(remembered=None, **more):
    return assembled(remembered, started=1.0, request=asked(**{"cache": ORG, "messages": conversation("a")} | more))


def changed(first, second):
    return changed_blocks(first.remember.turn, second.facts.wire_model, second.planned.tools, second.prompt.blocks)


def test_a_block_that_says_something_else_has_changed():
    first, second = (turn(prompt=PromptOptions(append=text)) for text in ("one", "two"))
    assert changed(first, second) == {0}
    assert changed(first, first) == frozenset()
    assert changed_blocks(None, "m", (), ()) == frozenset()


def test_where_something_before_it_changed_or_the_blocks_are_others_nothing_is_said():
    first = turn(prompt=PromptOptions(append="one"))
    assert changed(first, turn(prompt=PromptOptions(append="two"), model="claude-opus-4-1")) == frozenset()
    assert changed(first, turn(prompt=PromptOptions(append="two"), tools=TOOLS)) == frozenset()
    assert changed(first, turn(prompt=PromptOptions(append="two", prefix="You are X."))) == frozenset()


def test_without_a_session_no_turn_is_remembered():
    assert assembled(request=asked()).remember.turn is None
    assert turn().remember.turn is not None


def test_a_request_of_too_many_blocks_is_not_remembered_and_that_is_told():
    blocks = tuple({"type": "text", "text": "x"} for _ in range(MOST_SEGMENTS + 1))
    found = turn(messages=(Message("user", blocks),))
    assert found.remember.turn is None
    assert "comparison_unavailable" in [notice.code for notice in found.notices]


def test_what_the_model_has_is_what_was_sent_unless_the_conversation_was_taken_back():
    remembered = turn(messages=conversation("a", "b", "c")).remember
    assert with_the_model(remembered, conversation("a", "b", "c", "d", "e")) == 3
    assert with_the_model(remembered, conversation("a")) == 0
    assert with_the_model(fresh(), conversation("a")) == 0


def test_usage_teaches_what_estimates_are_off_by():
    estimate = TokenOptions(method="estimate")
    first = turn(tokens=estimate)
    used = Usage(input_tokens=2 * first.tally.raw)
    messages = (*conversation("a"), Message("assistant", "b", usage=used), Message("user", "c"))
    second = turn(first.remember, tokens=estimate, messages=messages)
    assert second.remember.calibrations[1].factor > 1.2
    rough = turn(replace(first.remember, turn=turn().remember.turn), messages=messages)
    assert rough.remember.calibrations == {}
