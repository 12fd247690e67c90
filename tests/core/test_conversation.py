import pytest

from app.core.blocks import Block
from app.core.conversation import Opening, conversation, empty_notices
from app.core.facts import Message
from app.core.late import Late
from app.core.message import Piece, UserContext

CONTEXT = UserContext({"currentDate": "x"}, (Piece("user_context", "Context."),))
NONE = UserContext({})
BACK = Block("Back.", None, ("env_info",), (("env_info", 5),))


def text(words):
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("opening", "messages"),
    [
        (Opening(NONE), []),
        (Opening(CONTEXT), [("user", ["Context."])]),
        (Opening(CONTEXT, BACK), [("user", ["Context.", "Back."])]),
        (Opening(NONE, BACK), [("user", ["Back."])]),
        (Opening(CONTEXT, BACK, of_system=True), [("user", ["Context."]), ("system", ["Back."])]),
        (Opening(CONTEXT, of_system=True), [("user", ["Context."])]),
    ],
)
def test_what_stands_in_front_of_the_conversation(opening, messages):
    found = [(one["role"], [block["text"] for block in one["content"]]) for one in opening.messages()]
    assert found == messages


def test_late_texts_stand_at_their_places_and_at_the_end():
    late = [Late(1, "x", "first"), Late(2, "x", "second"), Late(2, "x", "third")]
    found = conversation(Opening(CONTEXT), (Message("user", "a"), Message("user", "b")), late)
    assert found == [
        {"role": "user", "content": [text("Context.")]},
        {"role": "user", "content": "a"},
        {"role": "user", "content": [text("first")]},
        {"role": "user", "content": "b"},
        {"role": "user", "content": [text("second"), text("third")]},
    ]


def test_keys_of_blocks_are_in_a_fixed_order():
    call = {"type": "tool_use", "name": "n", "input": {"b": 1, "a": 2}, "id": "1"}
    (message,) = conversation(Opening(NONE), (Message("assistant", (call,)),), ())
    assert message["content"] == [call]
    assert list(message["content"][0]) == ["id", "input", "name", "type"]
    assert list(message["content"][0]["input"]) == ["a", "b"]


@pytest.mark.parametrize("content", ["", " ", (), (text(" "),), (text("a"), text(""))])
def test_an_empty_text_is_told(content):
    (notice,) = empty_notices([Message("user", "fine"), Message("user", content)])
    assert (notice.code, notice.where) == ("empty_text", "messages[1]")
