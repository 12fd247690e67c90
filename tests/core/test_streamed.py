"""Events of a streamed answer, put together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.streamed import message_of

START = {
    "type": "message_start",
    "message": {"id": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}},
}
END = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 7, "input_tokens": None},
}
STOP = {"type": "message_stop"}
TEXT = {"type": "text", "text": ""}


def begins(block: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grows(index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def says(text: str, index: int = 0) -> dict[str, Any]:
    return grows(index, type="text_delta", text=text)


@given(st.lists(st.text(), max_size=6))
def test_a_text_is_its_pieces_in_order(pieces: list[str]) -> None:
    events = [START, begins(TEXT), {"type": "ping"}, *map(says, pieces), {"type": "content_block_stop"}, END, STOP]
    assert message_of(events) == {
        "id": "m",
        "content": [{"type": "text", "text": "".join(pieces)}],
        "usage": {"input_tokens": 9, "output_tokens": 7},
        "stop_reason": "end_turn",
    }


@pytest.mark.parametrize(
    ("block", "deltas", "whole"),
    [
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "h"},
                {"type": "thinking_delta", "thinking": "m"},
                {"type": "signature_delta", "signature": "s"},
            ],
            {"type": "thinking", "thinking": "hm", "signature": "s"},
        ),
        (
            {"type": "tool_use", "id": "t", "name": "n", "input": {}},
            [{"type": "input_json_delta", "partial_json": '{"a"'}, {"type": "input_json_delta", "partial_json": ":1}"}],
            {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}},
        ),
        (
            {"type": "tool_use", "id": "t", "name": "n", "input": {"x": 1}},
            [{"type": "input_json_delta", "partial_json": ""}],
            {"type": "tool_use", "id": "t", "name": "n", "input": {}},
        ),
        (
            TEXT | {"citations": None},
            [{"type": "citations_delta", "citation": {"n": 1}}, {"type": "citations_delta", "citation": {"n": 2}}],
            TEXT | {"citations": [{"n": 1}, {"n": 2}]},
        ),
        ({"type": "later"}, [{"type": "later_delta", "more": 1}], {"type": "later"}),
    ],
)
def test_a_block_of_each_kind_grows_by_its_deltas(block: Any, deltas: list[Any], whole: Any) -> None:
    message = message_of([START, begins(block), *(grows(**delta) for delta in deltas), END])
    assert message is not None
    assert message["content"] == [whole]


def test_blocks_grow_by_their_index() -> None:
    message = message_of([START, begins(TEXT), begins(TEXT, 1), says("b", 1), says("a"), END])
    assert message is not None
    assert [block["text"] for block in message["content"]] == ["a", "b"]


def test_events_are_left_as_they_were() -> None:
    events = [START, begins(TEXT), says("a"), END]
    assert message_of(events) == message_of(events)


def test_a_later_event_takes_neither_content_nor_usage_from_the_message() -> None:
    later = {"type": "message_delta", "delta": {"stop_reason": "refusal", "content": None, "usage": None}}
    assert message_of([START, begins(TEXT), later]) == {
        "id": "m",
        "content": [TEXT],
        "usage": {"input_tokens": 9, "output_tokens": 1},
        "stop_reason": "refusal",
    }


@pytest.mark.parametrize(
    "events",
    [
        [],
        [START],
        [START, begins(TEXT), says("a")],
        [START, STOP],
        [START, END | {"delta": {"stop_reason": None}}],
        [END],
        [START, START, END],
        [{"type": "message_start", "message": {}}, END],
        [START, begins(TEXT, 1), END],
        [START, says("a"), END],
        [START, begins(TEXT), says("a", 1), END],
        [START, begins(TEXT), says("a", -1), END],
        [START, begins(TEXT), grows(type="text_delta", text=1), END],
        [START, begins({"type": "later"}), says("a"), END],
        [START, begins(TEXT), {"type": "content_block_delta", "index": 0}, END],
        [START, begins(TEXT), grows(type="input_json_delta", partial_json="{"), END],
        [START, begins(TEXT), grows(type="input_json_delta", partial_json="[" * 100_000), END],
        ["nonsense"],
    ],
)
def test_events_that_break_off_or_do_not_fit_tell_no_message(events: list[Any]) -> None:
    assert message_of(events) is None
