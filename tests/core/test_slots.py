from app.core.slots import pieces, places_of, rewritten, slots, spelled, without_marker

NESTED = {
    "type": "tool_result",
    "content": [
        {"type": "text", "text": "a"},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "b"}]}},
        "not a block",
    ],
}


def places(tools=(), system=(), messages=()):
    request = {"tools": tools, "system": system, "messages": messages}
    return [slot for piece in pieces(request) for slot in slots(piece)]


def test_places_come_in_the_order_in_which_the_api_reads_with_inner_ones_first():
    found = places(
        tools=[{"name": "Read"}],
        system=[{"type": "text", "text": "s"}],
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "user", "content": [NESTED, {"type": "text", "text": "c"}]},
        ],
    )
    assert [slot.at for slot in found] == [
        "tools[0]",
        "system[0]",
        "messages[0]",
        "messages[1].content[0].content[0]",
        "messages[1].content[0].content[1].source.content[0]",
        "messages[1].content[0].content[1]",
        "messages[1].content[0]",
        "messages[1]",
    ]
    assert [slot.inner for slot in found] == [False] * 3 + [True] * 3 + [False] * 2


def test_blank_text_thinking_and_deferred_tools_take_no_marker():
    blocks = [
        {"type": "text", "text": " \n"},
        {"type": "text"},
        {"type": "thinking", "thinking": "x"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "image", "source": {"type": "url", "url": "x"}},
        "stray",
    ]
    found = places(
        tools=[{"name": "a", "defer_loading": True}],
        messages=[{"role": "user", "content": blocks}, {"role": "user", "content": " "}, {"role": "user"}],
    )
    assert [slot.takes for slot in found] == [False, False, False, False, False, True, True, False, False]


def test_nesting_that_the_api_does_not_know_is_not_followed_without_end():
    block = {"type": "text", "text": "deep"}
    for _ in range(2000):
        block = {"type": "tool_result", "content": [block]}
    assert len(places(messages=[{"role": "user", "content": [block]}])) == 9


def test_rewriting_changes_inner_places_before_outer_ones_and_mutates_nothing():
    before = {"a": [{"x": 1, "b": [{"y": 2}]}, {"z": 3}]}
    after = rewritten(
        before, {("a", 0): lambda block: {**block, "x": len(block["b"])}, ("a", 0, "b"): lambda inner: [*inner, 5]}
    )
    assert after == {"a": [{"x": 2, "b": [{"y": 2}, 5]}, {"z": 3}]}
    assert before == {"a": [{"x": 1, "b": [{"y": 2}]}, {"z": 3}]}
    assert after["a"][1] is before["a"][1]


def test_nothing_to_change_gives_the_same_value():
    before = {"a": []}
    assert rewritten(before, {}) is before


def test_a_block_without_its_marker_is_otherwise_the_same():
    assert without_marker({"type": "text", "cache_control": {"type": "ephemeral"}, "text": "a"}) == {
        "type": "text",
        "text": "a",
    }


def test_a_path_is_spelled_as_one_would_write_it():
    assert spelled(("messages", 4, "content", 1)) == "messages[4].content[1]"


def test_the_requests_own_marker_is_the_last_place_and_stands_on_the_last_block_that_takes_one():
    thinking = {"type": "thinking", "thinking": "x"}
    found = places_of(
        {"tools": [], "system": [], "messages": [{"role": "user", "content": [NESTED, thinking]}]},
        {"type": "ephemeral"},
    )
    assert (found.at(found.top), found.slots[found.top].marker) == ("cache_control", {"type": "ephemeral"})
    assert found.at(found.last) == "messages[0].content[0]"
    assert found.rows == (0, 0, 0, 0, 1, 1)
    assert found.ends == (3,)


def test_a_request_without_blocks_has_only_its_own_place():
    found = places_of({"tools": [], "system": [], "messages": []})
    assert (found.top, found.last, found.rows) == (0, None, (-1,))
