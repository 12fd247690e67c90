import pytest

from app.core.blocks import Block
from app.core.conversation import Opening, conversation, empty_notices, system_notices
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
    found = conversation(Opening(CONTEXT), (Message("user", "a"), Message("user", "b")), late, of_system=True)
    assert found == [
        {"role": "user", "content": [text("Context.")]},
        {"role": "user", "content": "a"},
        {"role": "user", "content": [text("first")]},
        {"role": "user", "content": "b"},
        {"role": "user", "content": [text("second"), text("third")]},
    ]


def test_keys_of_blocks_are_in_a_fixed_order():
    call = {"type": "tool_use", "name": "n", "input": {"b": 1, "a": 2}, "id": "1"}
    (message,) = conversation(Opening(NONE), (Message("assistant", (call,)),), (), of_system=True)
    assert message["content"] == [call]
    assert list(message["content"][0]) == ["id", "input", "name", "type"]
    assert list(message["content"][0]["input"]) == ["a", "b"]


@pytest.mark.parametrize("content", ["", " ", (), (text(" "),), (text("a"), text(""))])
def test_an_empty_text_is_told(content):
    (notice,) = empty_notices([Message("user", "fine"), Message("user", content)])
    assert (notice.code, notice.where) == ("empty_text", "messages[1]")


CALL = Message("assistant", ({"type": "tool_use", "id": "1", "name": "n", "input": {}},))
RESULT = Message("user", ({"type": "tool_result", "tool_use_id": "1", "content": "x"},))


def reminder(words):
    return {"type": "text", "text": f"<system-reminder>\n{words}\n</system-reminder>"}


def test_messages_of_the_system_stay_where_they_are_taken():
    message = Message("system", "Mind the gap.")
    assert conversation(Opening(NONE), (Message("user", "a"), message), (), of_system=True)[1] == {
        "role": "system",
        "content": "Mind the gap.",
    }
    assert list(system_notices([message], of_system=True)) == []


def test_elsewhere_they_are_the_users_reminders_with_their_markers():
    marked = {"type": "text", "text": "Two.", "cache_control": {"type": "ephemeral"}}
    other = {"type": "image", "source": {}}
    messages = (
        Message("user", "a"),
        Message("system", "One."),
        Message("system", (marked, other)),
        Message("user", "b"),
    )
    found = conversation(Opening(NONE), messages, [Late(1, "x", "late")], of_system=False)
    assert found == [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [reminder("One."), text("late")]},
        {"role": "user", "content": [reminder("Two.") | {"cache_control": {"type": "ephemeral"}}, other]},
        {"role": "user", "content": "b"},
    ]
    notices = list(system_notices(messages, of_system=False))
    assert [(one.code, one.where) for one in notices] == [
        ("system_message_as_reminder", "messages[1]"),
        ("system_message_as_reminder", "messages[2]"),
    ]


def test_a_reminder_never_stands_between_a_call_and_its_results():
    messages = (CALL, Message("system", "Mind."), RESULT, RESULT, Message("assistant", "ok"))
    found = conversation(Opening(NONE), messages, (), of_system=False)
    assert [one["role"] for one in found] == ["assistant", "user", "user", "user", "assistant"]
    assert found[3] == {"role": "user", "content": [reminder("Mind.")]}
