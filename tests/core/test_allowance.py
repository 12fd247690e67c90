from app.core.allowance import PATTERN_CHARACTERS, Allowance, Limits


def test_an_allowance_gives_out_what_its_limits_hold():
    left = Allowance.of(Limits(rules=2, includes=1))
    assert [left.take_rule(path) for path in "abc"] == [True, True, False]
    assert [left.take_include() for _ in range(2)] == [True, False]


def test_what_was_taken_once_is_not_taken_again():
    left = Allowance.of(Limits(rules=1, patterns=2))
    assert [left.take_rule(path) for path in "aab"] == [True, True, False]
    assert [left.take_patterns(globs) for globs in (("a", "b"), ("a", "b"), ("c",))] == [True, True, False]


def test_patterns_that_are_too_many_leave_room_for_fewer():
    left = Allowance.of(Limits(patterns=3))
    assert [left.take_patterns(globs) for globs in (("a", "b"), ("c", "d"), ("e",))] == [True, False, True]


def test_a_long_pattern_counts_for_several():
    left = Allowance.of(Limits(patterns=3))
    assert [left.take_patterns((letter * PATTERN_CHARACTERS,)) for letter in "ab"] == [True, False]
