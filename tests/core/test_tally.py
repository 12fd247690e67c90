from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.budget import Breaker
from app.core.calibration import Calibration
from app.core.facts import Message, TokenOptions, Usage
from app.core.models import Window
from app.core.tally import NOTHING_TO_COMPACT, Basis, tally
from app.core.tokens import Part, Rows
from app.data.tables import load_models

MODEL = load_models().find("claude-sonnet-4-5")
WINDOW = Window(200_000, "model table")
ROWS = Rows((("system:intro", 1000),), (100, 200))
TALK = (Message("user", "a"), Message("assistant", "b"))


def told(method="rough", rows=ROWS, messages=TALK, **more):
    return tally(Basis(MODEL, TokenOptions(method=method), WINDOW, **more), rows, messages)


def test_rough_counts_are_not_calibrated():
    found = told(calibration=Calibration(1.5, 3))
    assert (found.method, found.factor, found.count.used, found.raw) == ("rough", None, 1300, 1300)


@pytest.mark.parametrize("method", ["estimate", "exact", "auto"])
def test_estimates_are_corrected_by_what_usage_taught(method):
    found = told(method, calibration=Calibration(1.5, 3))
    assert (found.method, found.factor, found.count.used, found.raw) == ("estimate", 1.5, 1950, 1300)


@pytest.mark.parametrize(
    ("method", "used", "asks"),
    [
        ("rough", 160_000, False),
        ("estimate", 160_000, False),
        ("exact", 10, True),
        ("auto", 110_000, False),
        ("auto", 113_000, True),
    ],
)
def test_the_api_is_asked_always_or_where_it_matters(method, used, asks):
    assert told(method, Rows((("x", used),))).asks is asks


def test_the_apis_own_figure_stands_for_all():
    found = told("exact").exactly(180_000, "exact")
    assert (found.count.used, found.method) == (180_000, "exact")
    assert found.state.is_above_auto_compact
    assert sum(part.tokens for part in found.count.parts) == 180_000


def test_an_empty_conversation_is_never_to_be_compacted_and_what_stands_before_it_is_named():
    full = Rows((("system:intro", 150_000), ("tool:a", 5)), (), (("attachment:/p/a.md", 20_000, 0),))
    empty = told(rows=full, messages=())
    named = "system:intro 150,000, attachment:/p/a.md 20,000, tool:a 5"
    assert (empty.state.should_compact, empty.state.explain[-1]) == (False, f"{NOTHING_TO_COMPACT}: {named}")
    assert not any(NOTHING_TO_COMPACT in line for line in told(messages=()).state.explain)


FULL = Rows((("system:intro", 100_000), ("tool:Read", 67_000)), (100, 200))


def test_no_compaction_is_asked_for_that_cannot_help_and_the_parts_to_blame_are_named():
    state = told(rows=FULL).state
    assert (state.is_above_auto_compact, state.should_compact) == (True, False)
    assert state.explain[-1] == (
        "compaction cannot help: 167,000 stay whatever is compacted: system:intro 100,000, tool:Read 67,000; "
        "make these smaller, or use a model with a larger window"
    )


def test_one_token_less_that_stays_and_a_compaction_is_asked_for():
    found = told(rows=Rows((("system:intro", 166_999),), (100, 200)))
    assert (found.state.should_compact, found.hopeless) == (True, None)
    assert not any("cannot help" in line for line in found.state.explain)


def test_without_auto_compaction_it_is_told_where_the_effective_window_is_full():
    def state(fixed):
        rows = Rows((("tool:Read", fixed),), (100, 200))
        return tally(Basis(MODEL, TokenOptions(auto_compact=False), WINDOW), rows, TALK).state

    assert any("cannot help: 180,000 stay" in line for line in state(180_000).explain)
    assert not any("cannot help" in line for line in state(179_999).explain)


def test_what_stays_is_measured_as_the_tokens_in_use_are():
    talk = (Message("user", "a"), Message("assistant", "b", usage=Usage(input_tokens=170_000)))
    low = told(rows=Rows((("tool:Read", 84_000),), (100, 900)), messages=talk)
    assert (low.state.should_compact, low.hopeless.parts) == (False, (Part("tool:Read", 168_000),))
    high = told(rows=Rows((("tool:Read", 170_000),), (100, 29_900)), messages=talk)
    assert (high.state.should_compact, high.hopeless) == (True, None)
    unlike = told(rows=Rows((("tool:Read", 3_000),), (1, 1)), messages=talk)
    assert (unlike.state.should_compact, unlike.scale) == (True, 4)
    exactly = told("exact", Rows((("tool:Read", 170_000),), (100, 40_000))).exactly(168_000, "exact")
    assert (exactly.state.should_compact, exactly.hopeless) == (True, None)


TOKENS = st.integers(0, 400_000)


@given(st.lists(TOKENS, max_size=3), st.tuples(TOKENS, TOKENS), st.none() | st.integers(1, 400_000), st.booleans())
def test_a_compaction_is_asked_for_exactly_when_the_line_is_reached_and_it_is_not_hopeless(fixed, rows, usage, auto):
    talk = (Message("user", "a"), Message("assistant", "b", usage=usage and Usage(input_tokens=usage)))
    found = tally(
        Basis(MODEL, TokenOptions(auto_compact=auto), WINDOW),
        Rows(tuple((f"tool:{index}", tokens) for index, tokens in enumerate(fixed)), rows),
        talk,
    )
    reached = auto and found.count.used >= found.line
    assert found.state.should_compact is (reached and found.hopeless is None)


def test_the_breaker_of_the_session_counts():
    full = Rows((), (160_000, 10_000))
    assert told(rows=full).state.should_compact
    assert not told(rows=full, breaker=Breaker("open", 3)).state.should_compact


def test_models_that_drop_thinking_are_counted_without_it():
    thought = Message("assistant", ({"type": "thinking", "thinking": "x"}, {"type": "text", "text": "y"}))
    messages = (Message("user", "a"), thought, Message("user", "b"))
    basis = Basis(MODEL, TokenOptions(), WINDOW)
    assert len(basis.counted(messages)[1].content) == 1
    kept = Basis(replace(MODEL, drops_thinking=False), TokenOptions(), WINDOW)
    assert kept.counted(messages) is messages


def test_the_pace_comes_from_usage():
    messages = tuple(
        one
        for total in (1000, 3000, 5000)
        for one in (Message("user", "a"), Message("assistant", "b", usage=Usage(input_tokens=total)))
    )
    assert told(messages=messages, rows=Rows((), (1,) * 6)).state.turns_left == (167_000 - 5000) // 2000
