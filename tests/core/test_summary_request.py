import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.summary_request import ADDED, LEAST_BESIDE_THINKING, MOST_SUMMARY_TOKENS, summary_request
from app.data.texts import load_prose
from tests.core.api_rules import violations
from tests.core.talking import MARKER, assistant, body_of, call, conversations, result, text, user
from tests.standin.rules import Call, check

PROSE = {"compact_summary": "Summarise below {count}."}
LONG = {"type": "ephemeral", "ttl": "1h"}


def asked(request, instructions=None, max_output=32_000, prose=PROSE):
    return summary_request(request, prose, instructions=instructions, max_output=max_output)


def codes(found):
    return [(notice.code, notice.where) for notice in found.notices]


def marked(block, marker=MARKER):
    return {**block, "cache_control": marker}


TALK = {
    "model": "m",
    "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
    "system": [marked(text("You are P."))],
    "messages": [{"role": "user", "content": [marked(text("go"))]}],
}


def test_one_message_is_added_and_nothing_before_it_changes():
    found = asked(TALK)
    asking = {"role": "user", "content": [text("Summarise below 10,000.")]}
    assert found.body == {**TALK, "messages": [*TALK["messages"], asking], "max_tokens": 20_000}
    assert found.notices == ()


@pytest.mark.parametrize(
    "last", [{"role": "user", "content": [result("a")]}, {"role": "assistant", "content": "So far"}]
)
def test_behind_results_and_behind_a_begun_answer_it_is_a_message_of_its_own(last):
    before = [user("go"), assistant(call("a"))] if last["role"] == "user" else [user("go")]
    request = {**TALK, "messages": [*body_of(before)["messages"], last]}
    assert asked(request).body["messages"][:-1] == request["messages"]


def test_what_the_user_adds_is_a_part_of_its_own():
    content = asked(TALK, " Mind the schema.\n").body["messages"][-1]["content"]
    assert content == [text("Summarise below 10,000."), text(f"{ADDED}\n\nMind the schema.")]


@pytest.mark.parametrize("blank", [None, "", " \n"])
def test_blank_instructions_add_nothing(blank):
    assert asked(TALK, blank) == asked(TALK)


@pytest.mark.parametrize(("max_output", "most", "aim"), [(128_000, 20_000, "10,000"), (8_192, 8_192, "4,096")])
def test_the_summary_is_at_most_twenty_thousand_tokens_and_what_the_model_can_write(max_output, most, aim):
    body = asked({**TALK, "max_tokens": 5}, max_output=max_output).body
    assert body["max_tokens"] == most
    assert body["messages"][-1]["content"] == [text(f"Summarise below {aim}.")]


@pytest.mark.parametrize(
    ("budget", "max_output", "most"),
    [(10_000, 64_000, 30_000), (50_000, 64_000, 64_000), (60_000, 64_000, 64_000), (1_024, 2_048, None)],
)
def test_a_budget_of_thinking_has_its_own_room(budget, max_output, most):
    request = {**TALK, "thinking": {"type": "enabled", "budget_tokens": budget}}
    found = asked(request, max_output=max_output)
    assert ("thinking" in found.body) is (most is not None)
    assert found.body["max_tokens"] == (most or max_output)


def test_thinking_that_leaves_too_little_room_is_left_out_and_told():
    found = asked({**TALK, "thinking": {"type": "enabled", "budget_tokens": 60_001}}, max_output=64_000)
    assert "thinking" not in found.body
    assert found.body["max_tokens"] == 20_000
    assert codes(found) == [("thinking_left_out", "thinking.budget_tokens")]


@pytest.mark.parametrize("thinking", [{"type": "adaptive"}, {"type": "disabled"}, {"type": "enabled"}])
def test_thinking_without_a_budget_stays(thinking):
    found = asked({**TALK, "thinking": thinking})
    assert found.body["thinking"] == thinking
    assert found.body["max_tokens"] == 20_000


@given(st.integers(1_024, 130_000), st.integers(1, 130_000))
def test_max_tokens_is_above_the_budget_and_leaves_room(budget, max_output):
    request = {**TALK, "thinking": {"type": "enabled", "budget_tokens": budget}}
    body = asked(request, max_output=max_output).body
    taken = budget if "thinking" in body else 0
    least = min(LEAST_BESIDE_THINKING, max_output)
    assert taken + least <= body["max_tokens"] <= min(max_output, taken + MOST_SUMMARY_TOKENS)


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "Read"}])
def test_a_call_that_is_demanded_is_not_demanded_now(choice):
    found = asked({**TALK, "tool_choice": choice})
    assert found.body["tool_choice"] == {"type": "none"}
    assert codes(found) == [("tool_choice_changed", "tool_choice")]


@pytest.mark.parametrize("choice", [{"type": "auto", "disable_parallel_tool_use": True}, {"type": "none"}])
def test_another_choice_of_tools_stays(choice):
    found = asked({**TALK, "tool_choice": choice})
    assert found.body["tool_choice"] == choice
    assert found.notices == ()


@pytest.mark.parametrize(("rest", "left"), [({"effort": "high"}, {"effort": "high"}), ({}, None)])
def test_a_format_of_answers_is_left_out_and_told(rest, left):
    found = asked({**TALK, "output_config": {"format": {"type": "json_schema"}, **rest}})
    assert found.body.get("output_config") == left
    assert codes(found) == [("output_format_left_out", "output_config.format")]


def test_an_output_configuration_without_a_format_stays():
    found = asked({**TALK, "output_config": {"effort": "low"}, "cache_control": MARKER})
    assert found.body["output_config"] == {"effort": "low"}
    assert found.body["cache_control"] == MARKER
    assert found.notices == ()


def owing(*tail):
    return {**TALK, "messages": [{"role": "user", "content": "go"}, *tail]}


def test_a_turn_that_is_owed_results_is_left_out_and_told():
    found = asked(owing({"role": "assistant", "content": [text("Look:"), call("a")]}))
    assert found.body["messages"][:-1] == [{"role": "user", "content": "go"}]
    assert codes(found) == [("owed_calls_left_out", "messages[1]")]


@pytest.mark.parametrize(
    "tail",
    [
        [{"role": "assistant", "content": [marked(call("a"))]}],
        [
            {"role": "assistant", "content": [call("a"), call("b")]},
            {"role": "user", "content": [marked(result("a"))]},
        ],
        [
            {"role": "assistant", "content": [call("a"), call("b")]},
            {"role": "user", "content": [{**result("a"), "content": [marked(text("x"))]}]},
        ],
    ],
)
def test_a_cache_marker_that_goes_with_such_a_turn_moves_to_the_last_block(tail):
    assert asked(owing(*tail)).body["messages"][-1]["content"] == [marked(text("Summarise below 10,000."))]
    assert asked(owing(*tail), "More").body["messages"][-1]["content"] == [
        text("Summarise below 10,000."),
        marked(text(f"{ADDED}\n\nMore")),
    ]


def test_of_several_such_markers_the_last_moves_because_a_shorter_lifetime_comes_later():
    turn = {"role": "assistant", "content": [marked(text("Look:"), LONG), marked(call("a"))]}
    assert asked(owing(turn)).body["messages"][-1]["content"] == [marked(text("Summarise below 10,000."))]


@pytest.mark.parametrize("words", ["stop", [text("stop")], [marked(text("stop"))]])
def test_what_the_user_said_behind_such_a_turn_stays_with_its_marker(words):
    said = {"role": "user", "content": words}
    found = asked(owing({"role": "assistant", "content": [call("a")]}, said))
    assert found.body["messages"] == [
        {"role": "user", "content": "go"},
        said,
        {"role": "user", "content": [text("Summarise below 10,000.")]},
    ]


def test_results_that_came_are_left_out_beside_what_the_user_said():
    came = {"role": "user", "content": [result("a"), text("stop")]}
    found = asked(owing({"role": "assistant", "content": [call("a"), call("b")]}, came))
    assert found.body["messages"][1] == {"role": "user", "content": [text("stop")]}


@given(
    conversations() | conversations(owing=True),
    st.data(),
    st.sampled_from(({}, {"thinking": {"type": "enabled", "budget_tokens": 4_000}}, {"tool_choice": {"type": "any"}})),
)
def test_the_api_takes_the_request_and_the_one_given_is_untouched(talk, data, parameters):
    request = {**TALK, **body_of(talk), **parameters}
    blocks = [block for one in request["messages"] if isinstance(one["content"], list) for block in one["content"]]
    ttls = sorted(data.draw(st.lists(st.sampled_from("15"), max_size=min(3, len(blocks)))))
    request["system"] = [marked(text("You are P."), LONG)]
    for place, ttl in zip(sorted(data.draw(st.permutations(range(len(blocks))))[: len(ttls)]), ttls, strict=True):
        blocks[place]["cache_control"] = LONG if ttl == "1" else MARKER
    before = copy.deepcopy(request)

    body = asked(request, data.draw(st.none() | st.just("Mind this.")), prose=load_prose()).body

    assert request == before
    assert body["messages"][-1]["role"] == "user"
    assert violations(body["tools"], body["system"], body["messages"]) == []
    check(Call(json.loads(json.dumps(body))))


@given(conversations())
def test_where_nothing_is_owed_all_messages_stay(talk):
    request = body_of(talk)
    body = asked(request).body
    assert body["messages"][:-1] == request["messages"]
    assert set(body) == {"model", "messages", "max_tokens"}


def test_our_own_instruction_asks_for_text_only_in_six_sections_within_a_length():
    words = asked(TALK, prose=load_prose()).body["messages"][-1]["content"][0]["text"]
    sections = ["Requests", "Decisions and constraints", "State of the work", "Errors", "Open", "Next step"]
    assert [line.removeprefix("## ") for line in words.splitlines() if line.startswith("## ")] == sections
    assert "Answer with text only. Call no tools" in words
    assert "Stay below 10,000 tokens." in words
    assert "{" not in words
