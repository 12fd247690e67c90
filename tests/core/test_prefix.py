import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.prefix import (
    LOOK_BACK,
    common,
    compact,
    entries,
    linked,
    model_tokens,
    reached,
    rough_minimum,
    segments,
)
from app.data.tables import load_models
from tests.core.raw_requests import LONG, MARK, REQUESTS, nested, text


def request(*blocks, **more):
    return {"messages": [{"role": "user", "content": list(blocks)}], **more}


def row(*marked, length=0, tokens=1):
    """So many blocks of a message, marked at these places."""
    return linked(
        {
            "at": f"messages[0].content[{at}]",
            "area": "messages",
            "name": "",
            "text": str(at),
            "tokens": tokens,
            "digest": str(at).encode(),
            "ttl": "5m" if at in marked else None,
        }
        for at in range(length)
    )


def hit_length(before, after, minimum):
    shared = common(before, after)
    return reached([end for end in entries(before, minimum) if end <= shared], entries(after, minimum))


@given(REQUESTS)
def test_any_json_has_segments_in_the_order_tools_system_messages(body):
    found = segments(body)
    order = [("tools", "system", "messages").index(one.area) for one in found]
    assert order == sorted(order)
    assert all(one.at.startswith(one.area) and one.tokens >= 0 and len(one.digest) == 32 for one in found)


@given(REQUESTS)
def test_a_request_begins_with_all_of_itself(body):
    found = segments(body)
    assert common(found, found) == len(found)
    assert hit_length(found, found, 0) == max([at + 1 for at, one in enumerate(found) if one.ttl], default=0)


def test_segments_tell_place_name_text_role_and_marker():
    found = segments(
        {
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [text("yo")]}],
            "system": [text("s", {**LONG, "scope": "global"}), {"type": "odd"}],
            "tools": [{"name": "Read", "cache_control": MARK}, {"type": "x"}],
        }
    )
    assert [(one.at, one.name, one.text, one.role, one.ttl, one.scope) for one in found] == [
        ("tools[0]", "Read", '{"name":"Read"}', None, "5m", None),
        ("tools[1]", "tools[1]", '{"type":"x"}', None, None, None),
        ("system[0]", "system[0]", "s", None, "1h", "global"),
        ("system[1]", "system[1]", '{"type":"odd"}', None, None, None),
        ("messages[0].content", "messages[0].content", "hi", "user", None, None),
        ("messages[1].content[0]", "messages[1].content[0]", "yo", "assistant", None, None),
    ]


def test_a_system_prompt_that_is_a_text_is_one_block_and_an_empty_one_is_none():
    assert segments({"messages": [], "system": "s"}) == segments({"messages": [], "system": [text("s")]})
    assert segments({"messages": [], "system": ""}) == ()


def test_tools_and_system_of_another_shape_are_left_out():
    assert segments({"messages": [], "system": 7, "tools": {"a": 1}}) == ()


def test_a_marker_is_no_part_of_the_text_at_any_place_where_one_may_stand():
    def result(**more):
        inside = [text("a") | more, "stray"]
        return {"type": "tool_result", "content": inside, **more}

    bare, marked = segments(request(result())), segments(request(result(cache_control=MARK)))
    assert common(bare, marked) == 1
    assert (bare[0].markers, marked[0].markers) == (0, 2)
    assert bare[0].digest == marked[0].digest


def test_what_a_caller_names_like_a_marker_is_text():
    calls = [{"type": "tool_use", "name": "x", "input": {"cache_control": value}} for value in (1, 2)]
    assert common(segments(request(calls[0])), segments(request(calls[1]))) == 0


def test_a_marker_that_is_no_object_is_none_and_an_inner_one_still_counts():
    block = {"type": "tool_result", "content": [text("a", LONG)], "cache_control": "odd"}
    assert [(one.ttl, one.markers) for one in segments(request(block))] == [("1h", 1)]


def test_a_marker_of_the_whole_request_stands_on_its_last_segment():
    found = segments(request(text("a"), text("b"), cache_control=LONG))
    assert [one.ttl for one in found] == [None, "1h"]
    assert segments({"messages": [], "cache_control": MARK}) == ()


def test_a_role_that_changes_ends_what_is_common():
    one, other = ({"messages": [{"role": role, "content": "a"}]} for role in ("user", "assistant"))
    assert common(segments(one), segments(other)) == 0


def test_json_that_is_too_deep_for_the_encoder_is_compared_all_the_same():
    deep = [segments(request({"type": "x", "y": nested(5000, end)}))[0] for end in (1, 1, 2)]
    assert deep[0].text == deep[1].text
    assert deep[0].text != deep[2].text
    assert compact(nested(4, 1)) == '[{"a":[{"a":1}]}]'


def test_an_entry_needs_a_marker_and_the_minimum():
    assert hit_length(row(1, length=3), row(1, length=3), 2) == 2
    assert hit_length(row(1, length=3), row(1, length=3), 3) == 0
    assert hit_length(row(length=3), row(1, length=3), 0) == 0
    assert hit_length(row(1, length=3), row(length=3), 0) == 0


def test_a_marker_finds_entries_within_twenty_positions_before_it_and_none_beyond():
    before = row(0, length=1)
    assert hit_length(before, row(LOOK_BACK, length=40), 0) == 1
    assert hit_length(before, row(LOOK_BACK + 1, length=40), 0) == 0


def test_an_entry_behind_the_first_change_is_not_read():
    before, after = (segments(request(*(text(one, MARK) for one in texts))) for texts in ("abc", "axc"))
    assert common(before, after) == 1
    assert hit_length(before, after, 0) == 1


def test_a_chain_is_the_digest_of_all_digests_so_far():
    one, two = segments(request(text("a"), text("b")))
    assert one.chain == hashlib.sha256(one.digest).digest()
    assert two.chain == hashlib.sha256(one.chain + two.digest).digest()


@given(st.lists(st.sampled_from("ab"), max_size=6), st.lists(st.sampled_from("ab"), max_size=6))
def test_what_is_common_is_what_stands_in_both_one_by_one(one, other):
    found = [segments(request(*map(text, texts))) for texts in (one, other)]
    differs = [at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]]
    assert common(*found) == min([*differs, len(one), len(other)])


def test_what_is_common_needs_no_text():
    found = segments(request(text("a"), text("b")))
    assert common(found, [replace(one, text=None) for one in found]) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "\ud800"}, {"role": "user", "content": "?"}),
        ({"role": "user", "content": '{"type":"x"}'}, {"role": "user", "content": [{"type": "x"}]}),
        ({"role": "a", "content": " b"}, {"role": "a ", "content": "b"}),
        ({"content": "a"}, {"role": "None", "content": "a"}),
        (
            {"role": "user", "content": [{"type": "x", "a": 1, "b": 2}]},
            {"role": "user", "content": [{"type": "x", "b": 2, "a": 1}]},
        ),
    ],
)
def test_what_the_api_reads_otherwise_has_another_digest(one, other):
    found = [segments({"messages": [message]})[0].digest for message in (one, other)]
    assert found[0] != found[1]


@pytest.mark.parametrize("last", [text(" "), {"type": "thinking", "thinking": "x"}, {"type": "redacted_thinking"}])
def test_a_marker_of_the_whole_request_goes_back_to_the_last_segment_that_takes_one(last):
    assert [one.ttl for one in segments(request(text("a"), last, cache_control=LONG))] == ["1h", None]
    assert [one.ttl for one in segments(request(last, cache_control=LONG))] == [None]


def test_a_marker_of_the_whole_request_gives_way_to_one_that_stands_there():
    assert [(one.ttl, one.markers) for one in segments(request(text("a", MARK), cache_control=LONG))] == [("5m", 1)]


def test_a_marker_changes_no_count():
    bare, marked = ({"name": "x", "description": "y"} | more for more in ({}, {"cache_control": MARK}))
    counts = [segments({"messages": [], "tools": [tool]})[0].tokens for tool in (bare, marked)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("model", load_models().rows, ids=lambda model: model.id)
def test_a_prefix_has_the_rough_minimum_when_the_model_makes_its_minimum_of_it(model):
    least = rough_minimum(model)
    per_rough = 1.3 if model.tokenizer == 2 else 1
    assert least * per_rough >= model.min_cache > (least - 1) * per_rough
    assert model_tokens(least, model) >= model.min_cache


def test_a_model_that_is_not_known_makes_what_is_counted():
    model = load_models().find("own-model")
    assert (rough_minimum(model), model_tokens(10, model)) == (model.min_cache, 10)
