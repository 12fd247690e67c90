"""The verdicts beside a model of the API's cache that has seen nothing but the request before."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.cache_report import compared
from app.core.sent import sent
from tests.core.raw_requests import LONG, MARK
from tests.standin.prompt_cache import PromptCache, size
from tests.standin.rules import rows

WORDS = st.sampled_from(["a", "b", "€" * 5, "long " * 30])
MARKERS = st.sampled_from([None, None, None, MARK, LONG])
STEPS = ("far", "append", "edit", "drop", "insert", "move", "tools", "system", "model", "own", "same")


def marked(block, marker):
    return block | ({"cache_control": marker} if marker else {})


@st.composite
def blocks(draw):
    word = draw(WORDS)
    block = draw(
        st.sampled_from(
            [
                {"type": "text", "text": word},
                {"type": "tool_use", "id": "t", "name": word, "input": {"x": word, "y": 1}},
                {"type": "tool_use", "id": "t", "name": word, "input": {"y": 1, "x": word}},
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": word}]},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": word}},
            ]
        )
    )
    return marked(block, draw(MARKERS))


@st.composite
def messages(draw):
    content = draw(st.lists(blocks(), min_size=1, max_size=30) | WORDS)
    return {"role": draw(st.sampled_from(["user", "assistant"])), "content": content}


def tools():
    tool = st.builds(
        lambda name, marker: marked({"name": name, "input_schema": {"type": "object"}}, marker), WORDS, MARKERS
    )
    return st.lists(tool, max_size=3)


def systems():
    block = st.builds(lambda word, marker: marked({"type": "text", "text": word}, marker), WORDS, MARKERS)
    return st.lists(block, max_size=3) | WORDS


@st.composite
def next_of(draw, body):
    """The request after ``body``: one step further."""
    talk, step = list(body["messages"]), draw(st.sampled_from(STEPS))
    at = draw(st.integers(0, len(talk) - 1))
    if step == "append":
        talk += draw(st.lists(messages(), min_size=1, max_size=3))
    elif step == "edit":
        talk[at] = draw(messages())
    elif step == "insert":
        talk.insert(at, draw(messages()))
    elif step == "drop":
        talk = talk[: at + 1] if draw(st.booleans()) else [*talk[:at], *talk[at + 1 :]] or talk
    elif step == "move":
        talk = [replaced(message, draw) for message in talk]
    elif step == "far":
        body, talk = {**body, "cache_control": None}, [*map(unmarked, talk), draw(far())]
    body = {**body, "messages": talk}
    changed = {"tools": tools(), "system": systems(), "model": st.sampled_from("mn"), "own": MARKERS}
    if step in changed:
        body["cache_control" if step == "own" else step] = draw(changed[step])
    return body


@st.composite
def far(draw):
    """A message about as long as the API looks back from a marker at its end."""
    bare = [{"type": "text", "text": str(at)} for at in range(draw(st.integers(17, 21)))]
    return {"role": "user", "content": [*bare, marked({"type": "text", "text": "end"}, MARK)]}


def unmarked(message):
    if isinstance(message["content"], str):
        return message
    bare = [{key: value for key, value in block.items() if key != "cache_control"} for block in message["content"]]
    return {**message, "content": bare}


def replaced(message, draw):
    """The same message with its markers at other places."""
    bare = unmarked(message)
    if isinstance(bare["content"], str):
        return bare
    return {**bare, "content": [marked(block, draw(MARKERS)) for block in bare["content"]]}


@st.composite
def histories(draw):
    body = {
        "model": "m",
        "tools": draw(tools()),
        "system": draw(systems()),
        "messages": draw(st.lists(messages(), min_size=1, max_size=3)),
    }
    found = [body]
    for _ in range(draw(st.integers(1, 4))):
        found.append(draw(next_of(found[-1])))
    return found


def seen(body, minimum):
    """As the engine sees it, with the model's own count of each segment's tokens."""
    one = sent(body, minimum)
    counted = zip(one.segments, rows(body), strict=True)
    return replace(one, segments=tuple(replace(segment, tokens=size(row)) for segment, (_, row) in counted))


@settings(max_examples=300)
@given(histories(), st.sampled_from([0, 5, 40, 200]))
def test_what_is_read_and_written_is_what_a_cache_reads_and_writes_that_saw_the_request_before(history, minimum):
    for before, after in pairwise(history):
        cache = PromptCache(minimum)
        first = cache.use(before)
        usage = cache.use(after)
        found = compared(seen(before, minimum), seen(after, minimum))
        assert found.hit_tokens == usage["cache_read_input_tokens"]
        assert (found.hit_blocks > 0) == (usage["cache_read_input_tokens"] > 0)
        written, by_life = first["cache_creation_input_tokens"], usage["cache_creation"]
        assert found.hit is (found.hit_tokens >= written if written else None)
        assert found.rewritten_5m <= by_life["ephemeral_5m_input_tokens"]
        assert found.rewritten_1h <= by_life["ephemeral_1h_input_tokens"]
        assert found.rewritten == min(max(0, written - found.hit_tokens), usage["cache_creation_input_tokens"])
