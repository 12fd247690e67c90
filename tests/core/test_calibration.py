from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.calibration import (
    FIRST_SHARE,
    HALF_WEIGHT,
    LEAST_FACTOR,
    LEAST_SHARE,
    MOST_FACTOR,
    Calibration,
)

SIZES = st.integers(1, 10**6)
PAIRS = st.lists(st.tuples(st.integers(-10, 10**6), st.integers(-10, 10**6)), max_size=12)


def taught(pairs, known=None):
    known = known or Calibration()
    for estimated, exact in pairs:
        known = known.learned(estimated, exact)
    return known


def test_without_any_usage_an_estimate_stays_as_it_is():
    assert Calibration().apply(1_234) == 1_234


@given(PAIRS, st.tuples(st.integers(), st.integers()))
def test_the_factor_stays_within_its_bounds_whatever_comes(pairs, anything):
    assert LEAST_FACTOR <= taught([*pairs, anything]).factor <= MOST_FACTOR


@given(PAIRS, st.integers(0, 10**7))
def test_a_corrected_estimate_is_between_half_and_twice_what_it_was(pairs, tokens):
    corrected = taught(pairs).apply(tokens)
    assert tokens * LEAST_FACTOR <= corrected <= tokens * MOST_FACTOR + 1


@given(PAIRS, st.lists(st.integers(0, 10**7), min_size=2, max_size=2))
def test_a_larger_estimate_is_never_corrected_to_fewer_tokens(pairs, two):
    known, (fewer, more) = taught(pairs), sorted(two)
    assert known.apply(fewer) <= known.apply(more)


@given(
    st.fractions(LEAST_FACTOR, MOST_FACTOR, max_denominator=50),
    st.lists(st.integers(10, 400), min_size=40, max_size=40),
)
def test_a_ratio_that_stays_the_same_is_learned(ratio, sizes):
    known = taught((size * 200, int(size * 200 * ratio)) for size in sizes)
    assert known.factor == pytest.approx(float(ratio), rel=0.02)
    assert known.apply(100_000) == pytest.approx(float(100_000 * ratio), rel=0.02)


@given(PAIRS, SIZES, SIZES)
def test_every_response_brings_the_factor_nearer_to_its_ratio_and_never_beyond(pairs, estimated, exact):
    known = taught(pairs)
    ratio = max(LEAST_FACTOR, min(exact / estimated, MOST_FACTOR))
    after = known.learned(estimated, exact)
    assert min(known.factor, ratio) - 1e-12 <= after.factor <= max(known.factor, ratio) + 1e-12
    assert abs(ratio - after.factor) < abs(ratio - known.factor) or ratio == pytest.approx(known.factor)


@given(PAIRS, SIZES, SIZES)
def test_one_outlier_moves_the_factor_by_at_most_the_first_share(pairs, estimated, exact):
    known = taught(pairs)
    ratio = max(LEAST_FACTOR, min(exact / estimated, MOST_FACTOR))
    moved = abs(known.learned(estimated, exact).factor - known.factor)
    assert moved <= FIRST_SHARE * abs(ratio - known.factor) + 1e-12


def test_after_many_responses_an_outlier_moves_it_less():
    known = taught([(50_000, 60_000)] * 20)
    moved = abs(known.learned(50_000, 10**7).factor - known.factor)
    assert moved <= LEAST_SHARE * (MOST_FACTOR - known.factor)


@given(st.integers(1, HALF_WEIGHT // 20))
def test_a_tiny_request_hardly_moves_it(exact):
    assert Calibration().learned(exact * 10, exact).factor > 1 - 0.5 * FIRST_SHARE / 20
    assert Calibration(samples=9).learned(exact * 10, exact).factor > 1 - 0.5 * LEAST_SHARE / 20


@pytest.mark.parametrize(("estimated", "exact"), [(0, 100), (100, 0), (0, 0), (-5, 100), (100, -5)])
def test_usage_that_says_nothing_teaches_nothing(estimated, exact):
    known = Calibration(1.2, 3)
    assert known.learned(estimated, exact) is known


@given(PAIRS)
def test_every_usage_that_says_something_is_a_sample(pairs):
    assert taught(pairs).samples == sum(estimated > 0 and exact > 0 for estimated, exact in pairs)


def test_numbers_of_any_size_have_a_ratio():
    known = Calibration().learned(1, 10**400).learned(10**400, 1)
    assert LEAST_FACTOR <= known.factor <= MOST_FACTOR
    assert Calibration(0.5).apply(10**400) == 10**400 // 2


def test_a_half_rounds_up():
    assert [Calibration(0.5).apply(tokens) for tokens in (1, 2, 3)] == [1, 1, 2]
    assert Calibration(1.25).apply(2) == Fraction(3)
