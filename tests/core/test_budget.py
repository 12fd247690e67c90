from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.budget import Breaker, compaction_state, limits, option_notices
from app.core.facts import TokenOptions
from app.core.models import Model, Window

MODEL = Model("m", "M", 1_000_000, 200_000, 64_000, None, 1024, 1, "opus")
STANDARD = Window(200_000, "model table")
AUTO = TokenOptions()
MANUAL = TokenOptions(auto_compact=False)

windows = st.integers(1, 2_000_000)
usable = st.integers(2, 2_000_000)
outputs = st.integers(1, 200_000)
percents = st.none() | st.integers(-5, 105) | st.floats()


def state(used, window=STANDARD, model=MODEL, options=AUTO, **breaker):
    return compaction_state(used, window, model, options, **breaker)


# Lines in a window


@pytest.mark.parametrize(
    ("window", "effective", "threshold"),
    [
        (200_000, 180_000, 167_000),
        (1_000_000, 980_000, 967_000),
        (100_000, 80_000, 67_000),
        (99_999, 90_000, 83_501),
        (32_000, 28_800, 26_720),
        (8_192, 7_373, 6_841),
        (1_000, 900, 835),
    ],
)
def test_summary_and_buffer_are_reserved_and_shrink_below_100k(window, effective, threshold):
    lines = limits(window, MODEL, AUTO)
    assert (lines.effective, lines.threshold) == (effective, threshold)


def test_a_model_that_writes_less_than_a_summary_reserves_only_that():
    assert limits(200_000, replace(MODEL, max_output=8_192), AUTO).effective == 191_808
    assert limits(50_000, replace(MODEL, max_output=1_000), AUTO).effective == 49_000


@pytest.mark.parametrize(
    ("window", "blocking"),
    [(200_000, 177_000), (1_000_000, 977_000), (99_999, 87_000), (46_170, 38_553), (46_153, 40_846), (1_000, 885)],
)
def test_the_blocking_limit_is_3000_below_the_effective_window_or_shrinks_with_the_buffer(window, blocking):
    assert limits(window, MODEL, AUTO).blocking == blocking


@pytest.mark.parametrize(
    ("percent", "threshold"),
    [
        (None, 167_000),
        (50, 90_000),
        (50.5, 90_900),
        (57, 102_600),
        (33.3, 59_940),
        (1, 1_800),
        (92, 165_600),
        (93, 167_000),
        (99, 167_000),
        (100, 167_000),
        (0, 167_000),
        (101, 167_000),
        (0.8, 167_000),
        (-50, 167_000),
        (nan, 167_000),
        (inf, 167_000),
    ],
)
def test_a_percentage_of_the_effective_window_only_lowers_the_threshold(percent, threshold):
    assert limits(200_000, MODEL, TokenOptions(percent_override=percent)).threshold == threshold


@given(windows, outputs, percents, st.booleans())
def test_every_line_lies_inside_the_window(window, max_output, percent, auto):
    options = TokenOptions(percent_override=percent, auto_compact=auto)
    lines = limits(window, replace(MODEL, max_output=max_output), options)
    assert 0 < lines.threshold <= lines.effective <= window
    assert 0 < lines.warning <= lines.reference <= lines.effective
    assert lines.blocking <= lines.effective


@given(usable, outputs, percents)
def test_blocking_comes_after_the_threshold(window, max_output, percent):
    lines = limits(window, replace(MODEL, max_output=max_output), TokenOptions(percent_override=percent))
    assert lines.blocking > lines.threshold


@given(windows, outputs, percents)
def test_an_override_never_raises_the_threshold(window, max_output, percent):
    model = replace(MODEL, max_output=max_output)
    lowered = limits(window, model, TokenOptions(percent_override=percent))
    assert lowered.threshold <= limits(window, model, AUTO).threshold


@given(windows, outputs, percents)
def test_an_empty_conversation_reaches_no_line(window, max_output, percent):
    now = state(
        0, Window(window, "override"), replace(MODEL, max_output=max_output), TokenOptions(percent_override=percent)
    )
    assert (now.is_above_warning, now.is_above_error, now.should_compact) == (False, False, False)
    assert now.percent_left == 100


# The state


@pytest.mark.parametrize(
    ("window", "used", "compacts"),
    [
        (200_000, 166_999, False),
        (200_000, 167_000, True),
        (1_000_000, 171_000, False),
        (1_000_000, 966_000, False),
        (1_000_000, 967_000, True),
        (1_000_000, 968_000, True),
    ],
)
def test_it_compacts_from_the_threshold_on(window, used, compacts):
    now = state(used, Window(window, "model table"))
    assert (now.is_above_auto_compact, now.should_compact) == (compacts, compacts)


@pytest.mark.parametrize(
    ("used", "options", "warns"),
    [(146_999, AUTO, False), (147_000, AUTO, True), (159_999, MANUAL, False), (160_000, MANUAL, True)],
)
def test_warning_and_error_come_20000_before_the_reference(used, options, warns):
    now = state(used, options=options)
    assert (now.is_above_warning, now.is_above_error) == (warns, warns)


@pytest.mark.parametrize(
    ("window", "percent", "warning"),
    [
        (200_000, 50, 70_000),
        (200_000, 20, 16_000),
        (200_000, 12, 1_600),
        (1_000_000, 4, 19_200),
        (100_000, None, 47_000),
        (100_000, 30, 4_000),
    ],
)
def test_in_a_large_window_the_warning_comes_20000_before_the_reference_however_low_that_is(window, percent, warning):
    options = TokenOptions(percent_override=percent)
    assert limits(window, MODEL, options).warning == warning
    states = [state(used, Window(window, "override"), options=options) for used in (warning - 1, warning)]
    assert [(now.is_above_warning, now.is_above_error) for now in states] == [(False, False), (True, True)]


@pytest.mark.parametrize("percent", [1, 11])
def test_where_20000_are_never_left_every_token_warns(percent):
    options = TokenOptions(percent_override=percent)
    assert limits(200_000, MODEL, options).warning == 1
    assert [state(used, options=options).is_above_warning for used in (0, 1)] == [False, True]


@pytest.mark.parametrize(
    ("window", "percent", "warning"), [(32_000, None, 13_360), (99_999, None, 63_501), (99_999, 40, 18_000)]
)
def test_in_a_small_window_the_warning_comes_no_sooner_than_at_half_of_the_reference(window, percent, warning):
    assert limits(window, MODEL, TokenOptions(percent_override=percent)).warning == warning


@given(st.integers(100_000, 2_000_000), outputs, percents, st.booleans())
def test_the_warning_of_a_large_window_is_the_pages(window, max_output, percent, auto):
    options = TokenOptions(percent_override=percent, auto_compact=auto)
    lines = limits(window, replace(MODEL, max_output=max_output), options)
    assert lines.warning == max(1, lines.reference - 20_000)


@pytest.mark.parametrize(("used", "blocks"), [(176_999, False), (177_000, True)])
def test_the_blocking_limit_is_reached_at_its_value(used, blocks):
    assert state(used).is_at_blocking_limit is blocks
    assert state(used, options=MANUAL).is_at_blocking_limit is blocks


def test_without_auto_compaction_nothing_compacts_and_the_effective_window_is_the_reference():
    now = state(170_000, options=MANUAL)
    assert (now.threshold, now.is_above_auto_compact, now.should_compact, now.percent_left) == (
        167_000,
        False,
        False,
        6,
    )


@pytest.mark.parametrize(
    ("used", "left"),
    [(0, 100), (30_000, 82), (83_500, 50), (165_329, 1), (165_330, 1), (166_165, 1), (166_166, 0), (10**9, 0)],
)
def test_what_is_left_is_a_whole_percentage_of_the_reference_and_never_negative(used, left):
    assert state(used).percent_left == left


def test_half_a_percent_rounds_up():
    assert state(900, options=TokenOptions(auto_compact=False)).percent_left == 100
    assert state(1_000, Window(200_000, "x")).percent_of_window == 1
    assert state(999, Window(200_000, "x")).percent_of_window == 0


def test_both_percentages_are_told_when_an_override_makes_the_window_smaller():
    now = state(200_000, Window(400_000, "override", model_tokens=1_000_000))
    assert (now.percent_of_window, now.percent_of_model_window) == (50, 20)


def test_without_an_override_both_percentages_are_the_same():
    now = state(339_397, Window(1_000_000, "model table"))
    assert (now.percent_of_window, now.percent_of_model_window) == (34, 34)


# The breaker


def test_three_failures_in_a_row_open_the_breaker():
    breaker = Breaker()
    for outcome, seen in [
        ("failed", ("closed", 1)),
        ("failed", ("closed", 2)),
        ("ok", ("closed", 0)),
        ("failed", ("closed", 1)),
        ("aborted", ("closed", 1)),
        ("failed", ("closed", 2)),
        ("failed", ("open", 3)),
        ("aborted", ("open", 3)),
        ("failed", ("open", 4)),
        ("ok", ("closed", 0)),
    ]:
        breaker = breaker.after(outcome)
        assert (breaker.state, breaker.consecutive_failures) == seen


def test_an_open_breaker_stays_open_without_a_cool_down():
    assert Breaker("open", 3).cooled(10**9, 0) == Breaker("open", 3)


def test_an_open_breaker_is_half_open_once_it_has_cooled_down():
    assert Breaker("open", 3).cooled(59, 60) == Breaker("open", 3)
    assert Breaker("open", 3).cooled(60, 60) == Breaker("half_open", 3)
    assert Breaker("closed", 2).cooled(60, 60) == Breaker("closed", 2)


def test_the_one_attempt_of_a_half_open_breaker_decides():
    assert Breaker("half_open", 3).after("failed") == Breaker("open", 4)
    assert Breaker("half_open", 3).after("aborted") == Breaker("half_open", 3)
    assert Breaker("half_open", 3).after("ok") == Breaker("closed", 0)


@pytest.mark.parametrize(
    ("breaker", "compacts"),
    [
        (None, True),
        (Breaker("closed", 2), True),
        (Breaker("open", 3), False),
        (Breaker("half_open", 3), True),
    ],
)
def test_an_open_breaker_stops_compaction_and_is_shown(breaker, compacts):
    now = state(170_000, breaker=breaker)
    assert now.breaker == (breaker or Breaker())
    assert now.is_above_auto_compact
    assert now.should_compact is compacts


@pytest.mark.parametrize(("pace", "left"), [(None, None), (0, None), (1_000, 67), (67_000, 1), (67_001, 0)])
def test_the_turns_that_are_left_follow_from_the_pace(pace, left):
    now = state(100_000, pace=pace)
    assert now.turns_left == left
    assert any("at the recent pace" in line for line in now.explain) is (left is not None)


def test_above_the_threshold_no_turn_is_left():
    assert state(180_000, pace=10).turns_left == 0


# What is said


def test_the_state_explains_itself():
    assert state(30_000).explain == (
        "200,000 window (model table)",
        "− 20,000 reserved for the summary → 180,000 effective",
        "− 13,000 buffer → compacts at 167,000",
        "used 30,000: 82 % left before compaction, 15 % of the window",
    )


def test_a_lowered_threshold_is_explained():
    assert state(0, options=TokenOptions(percent_override=50.0)).explain[2:4] == (
        "− 13,000 buffer → compacts at 167,000",
        "lowered to 50 % of 180,000 by percent_override → compacts at 90,000",
    )


def test_an_override_that_lowers_nothing_is_told():
    explain = state(0, options=TokenOptions(percent_override=99)).explain
    assert explain[3] == "percent_override 99 % of 180,000 is no less: no effect"
    assert (*explain[:3], *explain[4:]) == state(0).explain


def test_that_auto_compaction_is_off_is_explained():
    options = TokenOptions(auto_compact=False, percent_override=50)
    assert state(30_000, options=options).explain[2:] == (
        "auto compaction is off: nothing compacts by itself",
        "percent_override 50 % has no effect without it",
        "used 30,000: 83 % left of the effective window, 15 % of the window",
    )


def test_auto_compaction_that_is_off_has_one_line_without_an_override():
    assert state(0, options=MANUAL).explain[2] == "auto compaction is off: nothing compacts by itself"
    assert "no effect" not in " ".join(state(0, options=MANUAL).explain)


def test_the_models_own_window_is_mentioned_where_it_makes_a_difference():
    now = state(200_000, Window(400_000, "override", model_tokens=1_000_000))
    assert now.explain[-1] == "used 200,000: 46 % left before compaction, 50 % of the window, 20 % of the model's own"


@pytest.mark.parametrize(
    ("shown", "line"),
    [
        ("open", "breaker open after 3 failures in a row: no automatic compaction"),
        ("half_open", "breaker half open after 3 failures in a row: one more attempt is allowed"),
    ],
)
def test_a_breaker_that_is_not_closed_is_explained(shown, line):
    assert state(0, breaker=Breaker(shown, 3)).explain[-1] == line


# Options that have no effect


@pytest.mark.parametrize("percent", [0, 101, 0.8, -1, nan, inf])
def test_a_percentage_out_of_range_is_reported(percent):
    (notice,) = option_notices(TokenOptions(percent_override=percent))
    assert (notice.code, notice.where) == ("percent_override_ignored", "tokens.percent_override")
    assert f"is {percent:g};" in notice.message


@pytest.mark.parametrize("tokens", [0, -5])
def test_a_window_that_is_not_positive_is_reported(tokens):
    (notice,) = option_notices(TokenOptions(max_context_tokens=tokens))
    assert (notice.code, notice.where) == ("max_context_tokens_ignored", "tokens.max_context_tokens")
    assert f"is {tokens};" in notice.message


@pytest.mark.parametrize(
    "options", [AUTO, TokenOptions(percent_override=1, max_context_tokens=1), TokenOptions(percent_override=100)]
)
def test_options_in_range_are_not_reported(options):
    assert option_notices(options) == ()


def test_every_option_out_of_range_is_reported():
    codes = [notice.code for notice in option_notices(TokenOptions(percent_override=0, max_context_tokens=0))]
    assert codes == ["percent_override_ignored", "max_context_tokens_ignored"]
