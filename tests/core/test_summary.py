import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.facts import Message
from app.core.rounds import rounds
from app.core.summary import REPLACED, UNFINISHED, Failure, Summary, compacted, judged
from app.core.tokens import anchor
from app.core.tool_pairs import unanswered
from tests.core.talking import assistant, body_of, call, conversations, summary, text, user
from tests.standin.rules import Call, contents, messages, tool_pairs


def answer(*blocks, stop_reason="end_turn"):
    return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": stop_reason}


def reason(response):
    found = judged(response)
    assert isinstance(found, Failure)
    assert found.message.endswith(".")
    return found.reason


def test_the_summary_is_the_text_joined_and_trimmed():
    thinking = {"type": "thinking", "thinking": "Well", "signature": "s"}
    assert judged(answer(thinking, text("\n## Requests"), text(" and more \n"))) == Summary("## Requests and more")


def test_a_frozen_answer_is_judged_alike():
    assert judged({"type": "message", "content": (text("S"),)}) == Summary("S")


@pytest.mark.parametrize("blocks", [[], [text(" \n")], [{"type": "thinking", "thinking": "Well"}], ["odd", 3, None]])
def test_an_answer_without_text_is_empty(blocks):
    assert reason(answer(*blocks)) == "empty"


def test_a_refusal_is_no_summary():
    assert reason(answer(text("I can not"), stop_reason="refusal")) == "refused"


@pytest.mark.parametrize("stop_reason", sorted(UNFINISHED))
def test_an_answer_that_was_not_finished_is_cut_whatever_it_holds(stop_reason):
    assert reason(answer(text("## Requests"), stop_reason=stop_reason)) == "cut"


def test_an_answer_that_calls_a_tool_is_no_summary_even_with_words():
    assert reason(answer(call("a"), stop_reason="tool_use")) == "tool_use"
    assert reason(answer(text("Let me look."), call("a"), stop_reason="tool_use")) == "tool_use"
    assert reason(answer(text("Let me look."), call("a"))) == "tool_use"
    assert reason(answer(text("Let me look."), stop_reason="tool_use")) == "tool_use"


def test_a_stop_reason_of_another_kind_does_no_harm():
    assert judged(answer(text("S"), stop_reason=["end_turn"])) == Summary("S")


def test_an_error_is_told_in_the_providers_words():
    found = judged({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert found == Failure("not_a_message", "The model's provider answered with an error: Overloaded")


@pytest.mark.parametrize(
    "odd", [None, "text", [], {}, {"content": []}, {"type": "message"}, {"type": "message", "content": "text"}]
)
def test_what_is_no_message_is_told_so(odd):
    assert reason(odd) == "not_a_message"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.builds(lambda content, stop: {"type": "message", "content": content, "stop_reason": stop}, JSON, JSON) | JSON)
def test_whatever_the_answer_is_it_is_judged(response):
    found = judged(response)
    assert found.text.strip() if isinstance(found, Summary) else found.message


def test_the_new_conversation_is_one_message_that_says_what_it_is_and_holds_the_summary():
    assert compacted(Summary("## Requests")) == (Message("user", f"{REPLACED}\n\n## Requests", boundary=True),)


def test_a_prompt_that_was_not_answered_stands_behind_the_summary_word_for_word():
    asked = (user("go"), assistant("yes"), user(text("Now  this.\n")))
    assert compacted(Summary("S"), unanswered(asked))[1:] == (user(text("Now  this.\n")),)


@given(conversations() | conversations(owing=True))
def test_the_api_takes_the_new_conversation_and_it_begins_anew(before):
    after = compacted(Summary("S"), unanswered(before))
    call_of = Call(body_of(after))
    for rule in (messages, contents, tool_pairs):
        rule(call_of)
    assert [one.boundary for one in after] == [True] + [False] * (len(after) - 1)
    assert anchor((*before, *after)) is None
    assert rounds(after)[0].messages == after[:1]


def test_a_summary_of_a_summary_replaces_it():
    assert compacted(Summary("S"), unanswered((summary("old"),))) == compacted(Summary("S"))
