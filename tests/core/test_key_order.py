import json
import random

from hypothesis import given
from hypothesis import strategies as st

from app.core.key_order import DEEPEST, ordered

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def shuffled(value, chance):
    """The same value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        chance.shuffle(keys)
        return {key: shuffled(value[key], chance) for key in keys}
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


@given(JSON, st.integers())
def test_equal_values_give_equal_bytes(value, seed):
    other = shuffled(value, random.Random(seed))  # noqa: S311 - an order, not a secret
    assert json.dumps(ordered(value)) == json.dumps(ordered(other))


@given(JSON)
def test_nothing_but_the_order_changes(value):
    before = json.dumps(value)
    assert ordered(value) == value
    assert json.dumps(value) == before


def test_lists_keep_their_order():
    assert ordered((2, 1, {"b": 1, "a": [3, 2]})) == [2, 1, {"a": [3, 2], "b": 1}]
    assert list(ordered({"b": 1, "a": 2})) == ["a", "b"]


def test_what_is_nested_too_deep_is_left_as_it_is():
    value = inner = {}
    for _ in range(DEEPEST + 50):
        inner["z"] = inner = {}
    assert ordered(value) == value
    many = [[]]
    for _ in range(DEEPEST + 50):
        many = [many]
    assert ordered(many) == many
