import pytest
from hypothesis import given

from app.core.facts import Message
from app.core.tool_pairs import has_result, owed_from, pairs, settled, unanswered, whole_before, without_results
from tests.core.talking import assistant, body_of, call, conversations, result, summary, text, user
from tests.standin.rules import BreachError, Call, tool_pairs


def accepted(messages):
    try:
        tool_pairs(Call(body_of(messages)))
    except BreachError:
        return False
    return True


def test_a_call_is_paired_with_its_result():
    turns = (user("go"), assistant(call("a"), call("b")), user(result("a")), user(result("b")))
    assert list(pairs(turns)) == [(1, 2), (1, 3)]
    assert whole_before(turns) == (True, True, False, False)


def test_tools_of_the_provider_are_paired_too():
    server = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    assert list(pairs((user("go"), assistant(server), assistant(found)))) == [(1, 2)]
    assert owed_from((user("go"), assistant(server, found))) is None
    assert owed_from((user("go"), assistant(server))) == 1


@pytest.mark.parametrize("odd", [{"type": "tool_use", "id": 3}, {"type": "tool_result", "tool_use_id": "x"}, {}])
def test_what_is_not_part_of_a_pair_is_not_paired(odd):
    assert list(pairs((assistant(odd), user("go")))) == []
    assert owed_from((user("go"), assistant(odd))) is None


def test_no_message_no_pair():
    assert whole_before(()) == ()
    assert owed_from(()) is None
    assert unanswered(()) == ()


def test_a_result_is_seen_among_other_blocks():
    assert has_result(user(result("a"), text("more")))
    assert not has_result(user(text("more")))
    assert not has_result(user("more"))


def test_results_are_taken_out_and_the_rest_stays():
    assert without_results((result("a"), text("more"))) == (text("more"),)
    assert without_results((result("a"),)) == ()
    assert without_results("more") == "more"


def test_all_fragments_of_the_turn_that_is_owed_results_go():
    turns = (user("go"), assistant(text("thinking aloud")), assistant(call("a")))
    assert owed_from(turns) == 1
    assert settled(turns) == (user("go"),)


def test_results_that_came_go_with_a_turn_that_is_owed_others_and_words_stay():
    turns = (user("go"), assistant(call("a"), call("b")), user(result("a"), text("stop")), user(result("c")))
    assert settled(turns) == (user("go"), user(text("stop")))


@given(conversations())
def test_nothing_is_owed_where_every_call_has_its_results(messages):
    assert accepted(messages)
    assert settled(messages) == messages


@given(conversations(owing=True))
def test_the_api_takes_a_settled_conversation(messages):
    assert not accepted(messages)
    assert accepted(settled(messages))
    assert settled(settled(messages)) == settled(messages)


def test_a_prompt_that_only_an_unfinished_turn_followed_is_unanswered():
    turns = (user("go"), assistant("yes"), user("more"), user("and more"), assistant(call("a")))
    assert unanswered(turns) == (user("more"), user("and more"))


def test_an_answered_prompt_is_not_unanswered():
    assert unanswered((user("go"), assistant("yes"))) == ()
    assert unanswered((user("go"), assistant(call("a")), user(result("a")))) == ()


def test_what_the_user_said_beside_a_result_is_unanswered():
    turns = (user("go"), assistant(call("a")), user(result("a"), text("mind this")))
    assert unanswered(turns) == (user(text("mind this")),)


def test_a_summary_and_what_stands_before_it_are_not_unanswered():
    note = Message("system", "The day changed.")
    assert unanswered((user("old"), summary(), note, user("go"))) == (user("go"),)


@given(conversations(owing=True))
def test_what_is_unanswered_is_the_users_and_holds_no_results(messages):
    assert all(one.role == "user" and not one.boundary and not has_result(one) for one in unanswered(messages))
