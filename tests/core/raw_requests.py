"""Raw Messages API requests, made by hand and by Hypothesis."""

from hypothesis import strategies as st

MARK = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}
KEYS = st.sampled_from(["type", "text", "content", "source", "cache_control", "ttl", "scope", "name", "role", "input"])
WORDS = st.text('ab 1-:/\\"{\n€😀\ud800', max_size=8) | st.sampled_from(["text", "tool_result", "1h", "5m", "image"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | WORDS, inner, max_size=3),
    max_leaves=8,
)
REQUESTS = st.fixed_dictionaries(
    {"messages": st.lists(st.dictionaries(KEYS, JSON, max_size=3), max_size=3)},
    optional={"model": JSON, "system": JSON, "tools": JSON, "cache_control": JSON, "thinking": JSON},
)


def text(value, marker=None):
    return {"type": "text", "text": value} | ({"cache_control": marker} if marker else {})


def said(*texts, marker=MARK):
    """Messages of one block each, user and assistant in turn; the last one is marked."""
    last = len(texts) - 1
    return [
        {"role": ("user", "assistant")[at % 2], "content": [text(one, marker if at == last else None)]}
        for at, one in enumerate(texts)
    ]


def nested(depth, end):
    value = end
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value
