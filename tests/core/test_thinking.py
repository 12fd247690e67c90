from app.core.facts import Message
from app.core.thinking import without_old_thinking

THOUGHT = {"type": "thinking", "thinking": "Let me see.", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "x"}
DONE = {"type": "text", "text": "Done."}
CALL = {"type": "tool_use", "id": "1", "name": "n", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": "x"}


def user(*blocks):
    return Message("user", blocks)


def assistant(*blocks):
    return Message("assistant", blocks)


def test_thinking_of_earlier_turns_goes():
    old = (Message("user", "a"), assistant(THOUGHT, HIDDEN, DONE), Message("assistant", "b"), user(DONE))
    assert without_old_thinking(old) == (old[0], assistant(DONE), old[2], old[3])


def test_thinking_of_the_turn_at_hand_stays():
    turn = (Message("user", "a"), assistant(THOUGHT, CALL), user(RESULT), assistant(THOUGHT, DONE))
    assert without_old_thinking(turn) == turn
    assert without_old_thinking(()) == ()
    assert without_old_thinking((assistant(THOUGHT),)) == (assistant(THOUGHT),)


def test_what_the_user_is_said_to_have_thought_stays():
    assert without_old_thinking((user(THOUGHT), Message("user", "b")))[0] == user(THOUGHT)
