import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.tokens import utf16_length
from app.core.units import first_units


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abc"),
        ("a😀b", 2, "a"),
        ("a😀b", 3, "a😀"),
        ("é日😀", 2, "é日"),
        ("a", 0, ""),
        ("a", -5, ""),
    ],
)
def test_the_start_ends_at_the_limit_and_never_within_a_pair(text, limit, expected):
    assert first_units(text, limit) == expected


@given(st.text(), st.integers(min_value=0, max_value=30))
def test_the_start_is_the_longest_that_fits(text, limit):
    start = first_units(text, limit)
    assert text.startswith(start)
    assert utf16_length(start) <= limit
    rest = text[len(start) :]
    assert not rest or utf16_length(start + rest[0]) > limit
