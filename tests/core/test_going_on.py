from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.core.assembly import assemble
from app.core.facts import Message, Touch, Usage
from app.core.going_on import going_on, shortened, tokens_at_boundary
from app.core.late import Late
from app.core.summary import Summary
from tests.core.assembling import REQUEST, assembled, facts, fresh, said
from tests.core.assembling import conversation as turns
from tests.core.talking import assistant, body_of, call, conversations, result, user
from tests.standin.rules import Call, tool_pairs

SUMMARY = Summary("So far so good.")


def contents(messages):
    return [message.content for message in messages[1:]]


def test_what_waits_for_an_answer_stands_behind_the_summary():
    talk = (user("go"), assistant("done"), user("and now?"))
    found = going_on(SUMMARY, talk, talk)
    assert found[0].boundary
    assert SUMMARY.text in found[0].content
    assert contents(found) == ["and now?"]


def test_what_has_come_since_stays_without_the_usage_of_the_long_conversation():
    talk = (user("go"), assistant("done"), user("and now?"))
    answer = Message("assistant", "now", response_id="r", usage=Usage(150_000))
    found = going_on(SUMMARY, talk, (*talk, answer, user("next")))
    assert contents(found) == ["and now?", "now", "next"]
    assert [(one.usage, one.response_id) for one in found] == [(None, None)] * 4


def test_results_that_have_come_since_stay_with_their_calls():
    talk = (user("go"), assistant("done"), user("and now?"), assistant(call("a")))
    found = going_on(SUMMARY, talk, (*talk, user(result("a")), assistant("ok")))
    assert contents(found) == ["and now?", (call("a"),), (result("a"),), "ok"]
    assert contents(going_on(SUMMARY, talk, talk)) == ["and now?"]


@given(conversations(), st.integers(0, 30))
def test_calls_and_results_stay_in_pairs_wherever_the_summary_ends(talk, length):
    found = going_on(SUMMARY, talk[:length], talk)
    last = found[-1]
    if last.role == "assistant" and not isinstance(last.content, str):
        found = found[:-1]
    tool_pairs(Call(body_of(found)))


def late(at, text):
    return Late(at, f"attachment:/p/{text}", text)


def test_late_texts_stay_behind_what_they_stood_behind():
    talk = turns("one", "two", "three", "four", "five")
    remembered = replace(fresh(), late=(late(1, "early"), late(3, "middle"), late(5, "end"), late(9, "cut")))
    found = shortened(facts(replace(REQUEST, messages=talk)), remembered, talk[2:])
    texts = [text for _, texts in said(found) for text in texts][1:]
    assert texts == ["early", "three", "middle", "four", "five", "end", "cut"]


def test_what_the_turn_brought_does_not_come_twice():
    talk = turns("one", "two", "three")
    turn = facts(replace(REQUEST, messages=talk, touched=(Touch("a"),)))
    whole = assemble(turn, fresh())
    again = shortened(whole.facts, whole.remember, talk)
    assert again.request["messages"] == whole.request["messages"]
    assert again.remember.late == whole.remember.late


def test_the_system_prompt_stays_byte_for_byte():
    talk = turns("one", "two", "three")
    whole = assembled(request=replace(REQUEST, messages=talk))
    assert shortened(whole.facts, whole.remember, talk[2:]).request["system"] == whole.request["system"]


def test_the_tokens_at_the_boundary_are_all_but_those_behind_it():
    talk = (Message("user", "s" * 400, boundary=True), user("x" * 40))
    whole = assembled(
        replace(fresh(), late=(late(1, "y" * 80), late(0, "z" * 80))), request=replace(REQUEST, messages=talk)
    )
    alone = assembled(replace(fresh(), late=(late(0, "z" * 80),)), request=replace(REQUEST, messages=talk[:1]))
    assert tokens_at_boundary(whole.tally) == alone.tally.count.used
    marked = (replace(talk[0], boundary_tokens=tokens_at_boundary(whole.tally)), talk[1])
    again = assembled(replace(fresh(), late=whole.remember.late), request=replace(REQUEST, messages=marked))
    assert again.tally.count.used == whole.tally.count.used
