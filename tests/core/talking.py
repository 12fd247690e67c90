"""Conversations for tests: messages in short words, and a strategy for those that an agent and its user have."""

from hypothesis import strategies as st

from app.core.facts import Message

MARKER = {"type": "ephemeral"}


def text(words):
    return {"type": "text", "text": words}


def call(identity):
    return {"type": "tool_use", "id": identity, "name": "Read", "input": {}}


def result(identity, words="done"):
    return {"type": "tool_result", "tool_use_id": identity, "content": words}


def user(*content):
    return Message("user", content[0] if isinstance(content[0], str) else content)


def assistant(*content):
    return Message("assistant", content[0] if isinstance(content[0], str) else content)


def summary(words="Summary."):
    return Message("user", words, boundary=True)


def body_of(messages):
    """A Messages API body as it is sent, but for ``max_tokens``."""
    return {
        "model": "m",
        "messages": [
            {"role": one.role, "content": one.content if isinstance(one.content, str) else list(one.content)}
            for one in messages
        ],
    }


@st.composite
def conversations(draw, *, owing=False):
    """Rounds of prompts and agent loops, perhaps behind a summary; calls have distinct ids and all their results.

    ``owing``: results of the last calls may be missing.
    """
    messages = [summary()] if draw(st.booleans()) else []
    asked = 0
    for _ in range(draw(st.integers(1, 5))):
        messages.extend(user(f"prompt {len(messages)}") for _ in range(draw(st.integers(1, 2))))
        for _ in range(draw(st.integers(0, 4))):
            called = [f"t{asked + number}" for number in range(draw(st.integers(1, 3)))]
            asked += len(called)
            if draw(st.booleans()):
                messages.append(assistant(text("first")))
            messages.append(assistant(*map(call, called)))
            messages.extend(_results(draw, called))
        if draw(st.booleans()):
            messages.append(assistant("answer"))
    if owing:
        called = [f"t{asked + number}" for number in range(draw(st.integers(1, 3)))]
        answered = called[: draw(st.integers(0, len(called) - 1))]
        words = draw(st.sampled_from(((), (text("stop"),))))
        messages.append(assistant(*map(call, called)))
        messages.extend([user(*map(result, answered), *words)] if answered or words else [])
    return tuple(messages)


def _results(draw, called):
    together = [user(*map(result, called))]
    apart = [user(result(identity)) for identity in called]
    said_too = [user(*map(result, called), text("and mind this"))]
    return draw(st.sampled_from((together, apart, said_too)))
