import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.facts import Message
from app.core.rounds import overflow, rounds, without_oldest
from app.core.tokens import rough_message
from app.core.tool_pairs import has_result
from tests.core.talking import assistant, body_of, call, conversations, result, summary, text, user
from tests.standin.rules import Call, tool_pairs


def each_one(_message):
    return 1


def is_prompt(message):
    return message.role == "user" and not has_result(message)


def shortened(messages, tokens, size_of=each_one):
    found = without_oldest(tuple(messages), tokens, size_of)
    assert found is not None
    return found.messages


def turn(identity):
    return assistant(call(identity)), user(result(identity))


FIRST = (user("one"), *turn("a"), assistant("done"))
SECOND = (user("two"), *turn("b"))
THIRD = (user("three"), *turn("c"), *turn("d"), *turn("e"))


# --- rounds


def test_a_round_is_a_prompt_and_all_that_came_of_it():
    assert [one.messages for one in rounds(FIRST + SECOND + THIRD)] == [FIRST, SECOND, THIRD]


def test_an_empty_conversation_has_no_rounds():
    assert rounds(()) == ()


def test_prompts_in_a_row_are_one_round():
    assert len(rounds((user("one"), user("and"), assistant("yes")))) == 1


def test_a_summary_is_a_prompt_of_its_own():
    assert len(rounds((summary(), user("go"), assistant("yes")))) == 2
    assert len(rounds((summary(), assistant("on it")))) == 1
    assert len(rounds((user("old"), summary()))) == 2


def test_words_between_a_call_and_its_result_begin_no_round():
    assert len(rounds((user("one"), assistant(call("a")), user("wait"), user(result("a"))))) == 1


def test_what_stands_before_the_first_prompt_is_a_round():
    assert [one.messages for one in rounds((assistant("hello"), *SECOND))] == [(assistant("hello"),), SECOND]


@given(conversations())
def test_rounds_hold_every_message_in_order_and_part_no_pair(messages):
    found = rounds(messages)
    assert tuple(message for one in found for message in one.messages) == messages
    for one in found:
        assert is_prompt(one.messages[0])
        tool_pairs(Call(body_of(one.messages)))


# --- shorter


def test_the_oldest_round_goes_first_and_no_more_than_needed():
    assert shortened(FIRST + SECOND + THIRD, 4) == SECOND + THIRD
    assert shortened(FIRST + SECOND + THIRD, 5) == THIRD


def test_one_step_is_taken_even_when_nothing_need_be_freed():
    assert shortened(FIRST + SECOND, 0) == SECOND


def test_what_went_is_told():
    found = without_oldest(FIRST + SECOND, 1, each_one)
    assert found is not None
    assert found.dropped == FIRST


def test_sizes_are_the_callers():
    long = (user("x" * 4000), assistant("y"))
    assert shortened((*long, *FIRST, *SECOND), 900, rough_message) == FIRST + SECOND


def test_in_a_single_round_the_oldest_turns_of_work_go_and_the_prompt_stays():
    assert shortened(THIRD, 1) == (user("three"), *turn("d"), *turn("e"))
    assert shortened(THIRD, 99) == (user("three"), *turn("e"))


def test_all_prompts_of_a_single_round_stay():
    assert shortened((user("a"), user("b"), *turn("c"), *turn("d")), 1) == (user("a"), user("b"), *turn("d"))


def test_fragments_of_one_answer_go_together():
    fragments = (user("go"), assistant(text("see")), assistant(call("a")), user(result("a")), assistant("done"))
    assert shortened(fragments, 1) == (user("go"), assistant("done"))


def test_no_turn_is_cut_off_from_results_that_come_later():
    late = (user("go"), assistant(call("a")), user("wait"), assistant("yes"), user(result("a")), assistant("done"))
    assert shortened(late, 1) == (user("go"), assistant("done"))


def test_when_the_rounds_free_too_little_the_last_one_is_cut_too():
    assert shortened(FIRST + THIRD, 5) == (user("three"), *turn("d"), *turn("e"))


def test_a_summary_goes_only_when_nothing_else_is_left():
    with_summary = (summary(), *turn("z"), *FIRST, *THIRD)
    assert shortened(with_summary, 2) == (summary(), *FIRST, *THIRD)
    assert shortened(with_summary, 6) == (summary(), *THIRD)
    assert shortened(with_summary, 10) == (summary(), user("three"), *turn("e"))
    assert shortened(with_summary, 11) == (user("three"), *turn("e"))


def test_a_summary_that_is_the_last_prompt_stays():
    assert shortened((summary(), *turn("a"), *turn("b")), 99) == (summary(), *turn("b"))


def test_what_stands_before_the_first_prompt_goes_first():
    assert shortened((assistant("hello"), *FIRST, *SECOND), 1) == FIRST + SECOND
    assert shortened((Message("assistant", "hello", boundary=True), *FIRST, *SECOND), 1) == FIRST + SECOND


@pytest.mark.parametrize(
    "messages", [(), (user("go"),), SECOND, (summary(), *SECOND[1:]), (assistant("a"), assistant("b"))]
)
def test_what_cannot_be_shortened_is_told_apart(messages):
    assert without_oldest(messages, 1, each_one) is None
    assert without_oldest(messages, None, each_one) is None


def test_without_a_begin_to_keep_no_turn_is_cut():
    assert without_oldest((*turn("a"), *turn("b")), 1, each_one) is None


@pytest.mark.parametrize(("count", "gone"), [(2, 1), (6, 1), (7, 2), (11, 2), (12, 3)])
def test_without_figures_a_fifth_of_the_rounds_goes(count, gone):
    many = tuple(one for number in range(count) for one in (user(f"{number}"), assistant("yes")))
    assert shortened(many, None) == many[2 * gone :]


def test_without_figures_a_fifth_of_a_single_rounds_turns_goes_and_then_the_summary():
    work = tuple(one for number in range(7) for one in turn(f"t{number}"))
    assert shortened((user("go"), *work), None) == (user("go"), *work[4:])
    assert shortened((summary(), user("go"), *turn("a")), None) == (user("go"), *turn("a"))


@given(conversations(), st.none() | st.integers(0, 40))
def test_a_shorter_conversation_keeps_order_pairs_the_last_message_and_begins_with_a_prompt(messages, tokens):
    found = without_oldest(messages, tokens, each_one)
    if found is None:
        return
    places = {id(message): index for index, message in enumerate(messages)}
    kept = [places[id(message)] for message in found.messages]
    dropped = [places[id(message)] for message in found.dropped]
    assert kept == sorted(kept)
    assert dropped == sorted(dropped)
    assert sorted(kept + dropped) == list(range(len(messages)))
    assert found.dropped
    assert is_prompt(found.messages[0])
    assert found.messages[-1] is messages[-1]
    tool_pairs(Call(body_of(found.messages)))


@given(conversations(), st.integers(1, 40))
def test_enough_is_freed_or_nothing_more_can_go(messages, tokens):
    found = without_oldest(messages, tokens, each_one)
    if found is not None and len(found.dropped) < tokens:
        assert without_oldest(found.messages, 1, each_one) is None


@given(conversations(), st.none() | st.integers(0, 5))
def test_shortening_again_and_again_ends_with_the_last_prompt(messages, tokens):
    left = messages
    while (found := without_oldest(left, tokens, each_one)) is not None:
        assert len(found.messages) < len(left)
        left = found.messages
    assert is_prompt(left[0])
    assert left[0] is rounds(messages)[-1].messages[0]


@given(conversations(), st.integers(0, 40))
def test_a_summary_is_kept_as_long_as_anything_else_can_go(messages, tokens):
    found = without_oldest(messages, tokens, each_one)
    if found is not None and any(one.boundary for one in found.dropped):
        assert without_oldest((Message("user", "go"), *found.messages[1:]), 1, each_one) is None


# --- how much is too much


@pytest.mark.parametrize(
    ("told", "over"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 10_000),
        ("prompt is too long: 1,000,050 tokens > 1,000,000 maximum", 50),
        ('{"message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease"}', 10_000),
        ("prompt is too long: 10 tokens > 200000 maximum", None),
        ("prompt is too long", None),
        ("overloaded", None),
        ("", None),
    ],
)
def test_the_providers_own_figures_say_how_much_is_too_much(told, over):
    assert overflow(told) == over
