import json
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.character_classes import CLASSES, CONTINUATION, START, transitions, utf8
from app.core.estimate import (
    GENERATIONS,
    MOST_BYTES_PER_TOKEN,
    WEIGHTS,
    estimate,
    estimate_block,
    estimate_message,
    estimate_tool,
)
from app.core.facts import Message
from app.core.tokens import rough, rough_block
from tests.core.test_tokens import JSONS

TEXTS = st.text(st.characters(exclude_categories=()), max_size=60) | st.text("aB1 \n\t.({_-éж文한😀", max_size=60)
TOKENIZERS = st.sampled_from(sorted(GENERATIONS))
PROSE = "The quick brown fox jumps over the lazy dog, and nobody at the farm was surprised to see it. " * 20
CODE = "def total(rows):\n    return sum(row.price * row.amount for row in rows if not row.cancelled)\n\n\n" * 20


# Classes of characters


def test_every_byte_that_starts_a_character_is_in_one_class():
    leads = b"".join(row.leads for row in CLASSES)
    assert sorted(leads + CONTINUATION) == list(range(256))
    assert len(CLASSES) <= 16


@pytest.mark.parametrize(
    ("character", "name"),
    [
        ("q", "letter"),
        ("Q", "capital"),
        ("7", "digit"),
        ("\r", "line break"),
        (" ", "space"),
        ("\t", "tab"),
        (";", "stop"),
        ("`", "bracket, quote"),
        ("_", "other ASCII"),
        ("\0", "other ASCII"),
        ("é", "marked Latin"),
        ("ж", "Cyrillic"),
        ("の", "kana"),
        ("文", "Han"),
        ("한", "Hangul"),
        ("λ", "other script"),
        ("ก", "other script"),
        ("→", "other script"),
        ("😀", "four-byte"),
    ],
)
def test_a_character_has_the_class_of_its_first_byte(character, name):
    (transition,) = transitions(utf8(character))
    assert CLASSES[transition >> 4].name == name
    assert CLASSES[transition >> 4].size >= len(utf8(character))


@given(TEXTS)
def test_every_character_follows_the_class_before_it(text):
    found = transitions(utf8(text))
    start = next(code for code, row in enumerate(CLASSES) if START in row.leads)
    assert len(found) == len(text)
    assert [pair & 15 for pair in found] == [start, *(pair >> 4 for pair in found)][:-1]


@given(TEXTS, TEXTS)
def test_what_is_appended_does_not_change_the_transitions_before_it(text, more):
    assert transitions(utf8(text + more)).startswith(transitions(utf8(text)))


def test_half_of_a_surrogate_pair_takes_three_bytes():
    assert len(utf8("\ud83d")) == 3
    assert estimate("\ud83d" * 10, 1) > 0


# Estimates of texts


@given(TEXTS, TOKENIZERS)
def test_an_estimate_is_never_absurd(text, tokenizer):
    size = len(utf8(text))
    assert size / MOST_BYTES_PER_TOKEN <= estimate(text, tokenizer) <= size + 1


@given(TOKENIZERS)
def test_nothing_at_all_has_no_tokens(tokenizer):
    assert estimate("", tokenizer) == 0


@given(TEXTS, TEXTS, TOKENIZERS)
def test_appending_never_makes_fewer_tokens(text, more, tokenizer):
    assert estimate(text, tokenizer) <= estimate(text + more, tokenizer)


@given(TEXTS)
def test_a_later_generation_never_makes_fewer_tokens(text):
    assert estimate(text, 1) <= estimate(text, 2)


@pytest.mark.parametrize("text", [PROSE, CODE])
def test_generation_two_makes_about_three_tenths_more(text):
    assert estimate(text, 2) == pytest.approx(1.3 * estimate(text, 1), rel=0.01)


def test_prose_is_near_its_rough_count_and_dense_texts_are_far_above_it():
    assert estimate(PROSE, 1) == pytest.approx(rough(PROSE), rel=0.25)
    for dense in ("9f86d081884c7d659a2feaa0c55ad015" * 20, "中文分词测试" * 50, "TWFuIGlzIGRpc3Rpbmd1aXNoZWQs" * 20):
        assert estimate(dense, 1) > 1.5 * rough(dense)


def test_a_long_text_has_the_estimate_of_its_lines_together():
    lines = [f"{number} order_{number * 7} was shipped\n" for number in range(2_000)]
    assert estimate("".join(lines), 1) == pytest.approx(sum(estimate(line, 1) for line in lines), rel=0.1)


@pytest.mark.parametrize("tokenizer", [0, 3, -1])
def test_an_unknown_generation_is_refused_with_those_that_are_known(tokenizer):
    with pytest.raises(ValueError, match=rf"tokenizer {tokenizer} is not known: use one of 1, 2"):
        estimate("text", tokenizer)


def test_every_class_has_a_row_and_a_column_of_weights_and_none_is_negative():
    assert len(WEIGHTS) == len(CLASSES)
    assert all(len(row) == len(CLASSES) for row in WEIGHTS)
    assert all(weight >= 0 for row in WEIGHTS for weight in row)


def test_no_character_weighs_more_than_its_bytes_and_the_token_that_it_ends():
    assert all(max(row) <= 1_000 * (kind.size + 1) for row, kind in zip(WEIGHTS, CLASSES, strict=True))


# Blocks, messages, tools


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "text", "text": PROSE}, PROSE),
        ({"type": "thinking", "thinking": PROSE, "signature": "s" * 400}, PROSE),
        ({"type": "tool_use", "id": "t" * 40, "name": "Read", "input": {"a": 1, "b": "é"}}, 'Read{"a":1,"b":"é"}'),
        ({"type": "tool_use", "name": "Read"}, "Read{}"),
        ({"type": "tool_result", "tool_use_id": "t" * 40, "content": CODE}, CODE),
        ({"type": "tool_result", "content": {"type": "text", "text": CODE}}, CODE),
        ({"type": "tool_result", "content": None}, ""),
        ({"type": "tool_result"}, ""),
        ({"type": "redacted_thinking", "data": "xyz"}, '{"type":"redacted_thinking","data":"xyz"}'),
        ({"type": "text", "text": 7}, '{"type":"text","text":7}'),
        (MappingProxyType({"a": MappingProxyType({"b": [1, 2]})}), '{"a":{"b":[1,2]}}'),
        (PROSE, PROSE),
        (None, "null"),
        ([1, 2], "[1,2]"),
    ],
)
@pytest.mark.parametrize("tokenizer", sorted(GENERATIONS))
def test_a_block_counts_as_the_text_that_its_type_says(block, text, tokenizer):
    assert estimate_block(block, tokenizer) == estimate(text, tokenizer)


@pytest.mark.parametrize("kind", ["image", "document"])
@pytest.mark.parametrize("tokenizer", sorted(GENERATIONS))
def test_attached_files_count_as_in_rough_counts(kind, tokenizer):
    block = {"type": kind, "source": {"type": "base64", "data": "x" * 9_000}}
    assert estimate_block(block, tokenizer) == rough_block(block)


def test_a_result_is_the_sum_of_the_blocks_in_it():
    inner = [{"type": "text", "text": PROSE}, {"type": "image"}, CODE]
    block = {"type": "tool_result", "content": inner}
    assert estimate_block(block, 1) == sum(estimate_block(part, 1) for part in inner)


@given(JSONS, TOKENIZERS)
def test_any_json_has_an_estimate(value, tokenizer):
    assert estimate_block(value, tokenizer) >= 0
    assert estimate_tool({"input_schema": value}, tokenizer) > 0
    assert estimate_message(Message("user", (value, value)), tokenizer) == 2 * estimate_block(value, tokenizer)


def test_a_message_of_text_is_its_text():
    assert estimate_message(Message("user", PROSE), 2) == estimate(PROSE, 2)
    assert estimate_message(Message("user", ()), 2) == 0


def test_a_tool_counts_as_compact_json():
    tool = {"name": "Read", "input_schema": {"type": "object"}}
    assert estimate_tool(tool, 1) == estimate('{"name":"Read","input_schema":{"type":"object"}}', 1)


@settings(deadline=None, max_examples=25)
@given(JSONS)
def test_json_at_any_depth_has_an_estimate_near_that_of_its_text(value):
    deep, depth = value, 3_000
    for _ in range(depth):
        deep = [deep]
    written = "[" * depth + json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "]" * depth
    assert estimate_tool({"a": deep}, 1) == pytest.approx(estimate('{"a":' + written + "}", 1), rel=0.2, abs=20)


def test_deeply_nested_results_have_an_estimate():
    block = {"type": "text", "text": PROSE}
    for _ in range(5_000):
        block = {"type": "tool_result", "content": [block]}
    assert estimate_block(block, 1) == estimate(PROSE, 1)
