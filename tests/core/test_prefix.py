from dataclasses import replace

from hypothesis import given

from app.core.prefix import LOOK_BACK, Segment, common, compact, hit_length, segments
from tests.core.raw_requests import LONG, MARK, REQUESTS, nested, text


def request(*blocks, **more):
    return {"messages": [{"role": "user", "content": list(blocks)}], **more}


def row(*marked, length=0, tokens=1):
    blocks = [Segment(f"messages[0].content[{at}]", "messages", "", str(at), tokens) for at in range(length)]
    return [replace(one, ttl="5m") if at in marked else one for at, one in enumerate(blocks)]


@given(REQUESTS)
def test_any_json_has_segments_in_the_order_tools_system_messages(body):
    found = segments(body)
    order = [("tools", "system", "messages").index(one.area) for one in found]
    assert order == sorted(order)
    assert all(one.at.startswith(one.area) and one.tokens >= 0 and len(one.digest) == 64 for one in found)


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
    before, after = row(0, 2, length=3), row(0, 2, length=3)
    after[1] = replace(after[1], text="other")
    assert hit_length(before, after, 0) == 1
