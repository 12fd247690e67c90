import json
from fractions import Fraction
from math import floor
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.facts import Message, Usage
from app.core.tokens import (
    Anchor,
    Count,
    Part,
    Rows,
    anchor,
    bytes_per_token,
    count,
    counted,
    json_length,
    pace,
    rough,
    rough_block,
    rough_message,
    rough_tool,
    spread,
    utf16_length,
)

TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
LEAVES = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats() | TEXTS
KEYS = st.sampled_from(["type", "text", "thinking", "name", "input", "content"]) | TEXTS
KINDS = st.sampled_from(["text", "thinking", "image", "tool_use", "tool_result", "other"])
JSONS = st.recursive(
    LEAVES | KINDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.fixed_dictionaries(
            {"type": KINDS}, optional={"text": inner, "content": inner, "input": inner, "name": inner}
        )
    ),
    max_leaves=15,
)


def user(text="", **more):
    return Message("user", text, **more)


def answer(text="", response_id=None, usage=None, **more):
    return Message("assistant", text, response_id, Usage(input_tokens=usage) if usage is not None else None, **more)


# Lengths and rough counts


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("abc", 3), ("é", 1), ("文", 1), ("😀", 2), ("a😀é", 4), ("\ud83d", 1)]
)
def test_length_is_in_utf16_units(text, length):
    assert utf16_length(text) == length


@given(TEXTS)
def test_length_counts_characters_beyond_the_basic_plane_twice(text):
    assert utf16_length(text) == len(text) + sum(character > "\uffff" for character in text)


@pytest.mark.parametrize(
    ("path", "units"),
    [
        ("/a/b.json", 2),
        ("x.JSONL", 2),
        ("tsconfig.jsonc", 2),
        ("b.json5", 4),
        ("json", 4),
        ("a.json/b.md", 4),
        ("C:\\a\\b.Json", 2),
    ],
)
def test_json_files_have_two_units_per_token_and_all_others_four(path, units):
    assert bytes_per_token(path) == units


@pytest.mark.parametrize(
    ("length", "per_token", "tokens"),
    [
        (0, 4, 0),
        (1, 4, 0),
        (2, 4, 1),
        (5, 4, 1),
        (6, 4, 2),
        (10, 4, 3),
        (1, 2, 1),
        (2, 2, 1),
        (3, 2, 2),
        (400_000, 4, 100_000),
    ],
)
def test_a_half_token_rounds_up(length, per_token, tokens):
    assert rough("x" * length, per_token) == tokens


def test_four_units_make_a_token_unless_said_otherwise():
    assert rough("😀😀😀😀") == 2


# Blocks, messages, tools


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        ({"type": "text", "text": "x" * 40}, 10),
        ({"type": "thinking", "thinking": "x" * 40, "signature": "s" * 400}, 10),
        ({"type": "image", "source": {"type": "base64", "data": "x" * 9_000}}, 2_000),
        ({"type": "document", "source": {"type": "text", "data": "short"}}, 2_000),
        ({"type": "tool_use", "id": "t" * 40, "name": "Read", "input": {"a": 1, "b": "é"}}, 5),
        ({"type": "tool_use", "name": "Read"}, 2),
        ({"type": "tool_result", "tool_use_id": "t" * 40, "content": "x" * 40}, 10),
        ({"type": "tool_result", "content": [{"type": "text", "text": "x" * 40}, {"type": "image"}, "x" * 8]}, 2_012),
        ({"type": "tool_result", "content": {"type": "text", "text": "x" * 40}}, 10),
        ({"type": "tool_result", "content": None}, 0),
        ({"type": "tool_result"}, 0),
        ({"type": "redacted_thinking", "data": "x" * 5}, 11),
        ({"a": [1, 2]}, 3),
        ({}, 1),
        ("x" * 40, 10),
        (None, 1),
        ([1, 2], 1),
    ],
)
def test_a_block_counts_by_its_type(block, tokens):
    assert rough_block(block) == tokens


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": 7},
        {"type": "text"},
        {"type": "thinking", "thinking": None},
        {"type": "tool_use", "input": {"a": 1}},
        {"type": ["text"]},
    ],
)
def test_a_block_that_lacks_what_its_type_needs_counts_as_the_json_it_is(block):
    assert rough_block(block) == rough(json.dumps(block, separators=(",", ":")))


@given(JSONS)
def test_any_json_has_a_count(value):
    assert rough_block(value) >= 0
    assert rough_tool({"input_schema": value}) >= 5
    assert rough_message(Message("user", (value, value))) == 2 * rough_block(value)


@settings(deadline=None)
@given(JSONS)
def test_json_length_is_that_of_compact_json_at_any_depth(value):
    deep = value
    for _ in range(5_000):
        deep = [deep]
    assert json_length(value) == utf16_length(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    assert json_length(deep) == json_length(value) + 10_000


def test_json_length_keeps_characters_that_are_not_ascii_and_has_no_spaces():
    assert json_length({"a": ["é", "😀"], "b": None}) == len('{"a":["é","😀"],"b":null}') + 1


def test_frozen_mappings_count_like_others():
    frozen = MappingProxyType({"type": "other", "inner": MappingProxyType({"a": 1})})
    assert rough_block(frozen) == rough_block({"type": "other", "inner": {"a": 1}})


def test_deeply_nested_results_have_a_count():
    block = {"type": "text", "text": "x" * 40}
    for _ in range(5_000):
        block = {"type": "tool_result", "content": [block]}
    assert rough_block(block) == 10


def test_a_message_is_the_sum_of_its_blocks_each_rounded():
    assert rough_message(user("x" * 6)) == 2
    assert rough_message(Message("user", ({"type": "text", "text": "xx"}, {"type": "text", "text": "xx"}))) == 2
    assert rough_message(Message("user", ())) == 0


def test_a_tool_counts_as_compact_json():
    assert rough_tool({"name": "Read", "input_schema": {"type": "object"}}) == 12


# Spreading a total over rows


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(1, 7)), max_size=20))
def test_rows_add_up_to_the_rounded_total_and_none_is_negative(sizes):
    rows = spread(sizes)
    exact = sum((Fraction(length, per_token) for length, per_token in sizes), Fraction(0))
    assert sum(rows) == floor(exact + Fraction(1, 2))
    assert len(rows) == len(sizes)
    assert all(row >= 0 for row in rows)


@given(st.lists(st.tuples(st.integers(0, 1_000), st.sampled_from([2, 4])), max_size=20))
def test_a_row_is_within_one_of_what_it_rounds_to_alone(sizes):
    assert all(
        abs(row - rough("x" * length, per)) <= 1 for row, (length, per) in zip(spread(sizes), sizes, strict=True)
    )


def test_spread_carries_the_remainders_on():
    assert spread([(1, 4), (1, 4), (1, 4), (1, 4)]) == (0, 1, 0, 0)
    assert spread([(3, 2), (1, 4)]) == (2, 0)
    assert spread([]) == ()


# Anchoring on usage


def test_the_last_response_with_usage_is_the_anchor():
    messages = (user(), answer(usage=10), user(), answer(usage=30), user(), answer())
    assert anchor(messages) == Anchor(first=3, carrier=3, total=30)


def test_usage_adds_up_input_cache_and_output():
    usage = Usage(1, 241, 339_155, 7)
    assert anchor((Message("assistant", "", usage=usage),)) == Anchor(0, 0, 339_404)


def test_usage_of_a_message_that_is_no_response_does_not_count():
    assert anchor((user(usage=Usage(5)), answer())) is None
    assert anchor(()) is None


def test_usage_of_nothing_at_all_is_no_usage():
    assert anchor((answer(usage=10), answer(usage=0))) == Anchor(0, 0, 10)


def test_usage_before_the_last_boundary_does_not_count():
    before = (user(), answer(usage=170_000), user("s", boundary=True), user())
    assert anchor(before) is None
    assert anchor((*before, answer(usage=20))) == Anchor(4, 4, 20)
    assert anchor((answer(usage=5, boundary=True),)) is None


def test_fragments_of_one_response_lead_back_to_the_first_with_tool_results_between():
    messages = (
        user(),
        answer("a", "r1", usage=50),
        user("result"),
        answer("b", "r1"),
        user("result", response_id="u1"),
        answer("c", "r1", usage=60),
        user(),
    )
    assert anchor(messages) == Anchor(first=1, carrier=5, total=60)


def test_another_response_between_fragments_ends_the_walk():
    messages = (answer("a", "r1"), answer("b", "r2"), user(), answer("c", "r1", usage=60))
    assert anchor(messages) == Anchor(first=3, carrier=3, total=60)


def test_a_response_without_an_id_is_its_own_first_fragment():
    assert anchor((answer("a"), answer("b", usage=60))) == Anchor(1, 1, 60)


def test_fragments_before_the_boundary_are_not_walked_to():
    messages = (answer("a", "r1"), user(boundary=True), answer("b", "r1", usage=9))
    assert anchor(messages) == Anchor(2, 2, 9)


def test_right_behind_a_boundary_its_own_figure_counts():
    boundary = Message("user", "summary", boundary=True, boundary_tokens=50)
    assert anchor((answer(usage=9), boundary, user())) == Anchor(1, 1, 50)
    assert anchor((boundary, answer(usage=70))) == Anchor(1, 1, 70)
    assert anchor((boundary, user(boundary=True))) is None


# Counting what is in use


def tallied(messages, fixed=(), late=()):
    return count(messages, Rows(fixed, tuple(map(rough_message, messages)), late))


def test_without_usage_everything_counts_roughly():
    counted = tallied((user("x" * 40), answer("x" * 8)), (("intro", 5),), (("rule", 3, 2),))
    assert counted == Count(
        20, None, (Part("intro", 5), Part("messages[0]", 10), Part("messages[1]", 2), Part("rule", 3))
    )


def test_with_usage_only_what_follows_the_first_fragment_is_added():
    messages = (user("x" * 40), answer("x" * 8, "r", usage=100), user("x" * 20), answer("x" * 4, "r"), user("x" * 12))
    counted = tallied(messages, (("intro", 5),))
    assert (counted.used, counted.anchored_on) == (100 + 5 + 1 + 3, 1)
    assert counted.parts[-1] == Part("usage_difference", 100 - 5 - 10 - 2)


def test_the_usage_difference_may_be_negative():
    counted = tallied((user("x" * 400), answer(usage=10)))
    assert (counted.used, counted.parts[-1]) == (10, Part("usage_difference", -90))


def test_what_is_placed_late_is_added_only_behind_the_anchor():
    messages = (user(), answer(usage=100), user())
    late = (("inside", 7, 0), ("before", 7, 1), ("behind", 5, 2), ("end", 3, 3))
    assert tallied(messages, (), late).used == 100 + 5 + 3


def test_the_apis_own_figure_stands_and_what_the_rows_are_off_by_has_one_of_its_own():
    rows = Rows((("intro", 5),), (10, 20), (("rule", 3, 1),))
    found = counted(rows, 50)
    assert (found.used, found.anchored_on, found.parts[-1]) == (50, None, Part("count_difference", 12))
    assert counted(rows, 30).parts[-1] == Part("count_difference", -8)


def test_every_figure_of_the_rows_can_be_changed_in_the_same_way():
    rows = Rows((("intro", 5),), (10, 20), (("rule", 3, 1),))
    assert rows.mapped(lambda tokens: 2 * tokens) == Rows((("intro", 10),), (20, 40), (("rule", 6, 1),))


# How fast it grows


@pytest.mark.parametrize(
    ("usages", "tokens"),
    [
        ([], None),
        ([100], None),
        ([100, 300, 400], 150),
        ([100, 300, 200, 300], 150),
        ([300, 200, 100], None),
        ([1, *range(1000, 1006)], 1),
    ],
)
def test_the_pace_is_what_the_last_responses_added(usages, tokens):
    messages = [one for total in usages for one in (user("go"), answer("ok", usage=total))]
    assert pace(messages) == tokens


def test_fragments_of_one_response_are_one_step_and_what_came_before_a_boundary_is_none():
    assert pace([answer("a", "r1", usage=100), answer("b", "r1", usage=120), answer("c", "r2", usage=200)]) == 80
    assert pace([answer(usage=100), user(boundary=True), answer(usage=500)]) is None
    assert pace([answer(usage=100), answer(), answer(usage=200)]) == 100


ROWS = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 10**6)), max_size=4).map(tuple)
LATE = st.lists(st.tuples(st.text(max_size=3), st.integers(0, 10**6), st.integers(0, 8)), max_size=4).map(tuple)
MESSAGES = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "system"]),
        content=st.text(max_size=40),
        response_id=st.sampled_from([None, "r1", "r2"]),
        usage=st.none() | st.builds(Usage, *[st.integers(0, 10**6)] * 4),
        boundary=st.sampled_from([False, False, False, True]),
    ),
    max_size=8,
).map(tuple)


@given(MESSAGES, ROWS, LATE)
def test_parts_add_up_to_what_is_used(messages, fixed, late):
    counted = tallied(messages, fixed, late)
    assert sum(part.tokens for part in counted.parts) == counted.used
    assert counted.used >= 0
    assert len(counted.parts) == len(fixed) + len(messages) + len(late) + (counted.anchored_on is not None)


@given(MESSAGES)
def test_an_anchor_stands_behind_the_last_boundary_on_a_response_with_usage(messages):
    found = anchor(messages)
    behind = [i for i in range(len(messages)) if not any(message.boundary for message in messages[i:])]
    carriers = [i for i in behind if messages[i].role == "assistant" and (messages[i].usage or Usage()).total]
    assert (found and found.carrier) == (max(carriers) if carriers else None)
    assert found is None or found.first in behind
