from dataclasses import replace

import pytest

from app.core.budget import Breaker
from app.core.calibration import Calibration
from app.core.facts import Message, TokenOptions, Usage
from app.core.models import Window
from app.core.tally import NOTHING_TO_COMPACT, Basis, tally
from app.core.tokens import Rows
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


def test_an_empty_conversation_is_never_to_be_compacted():
    full = Rows((("system:intro", 170_000),))
    empty = told(rows=full, messages=())
    assert (empty.state.should_compact, empty.state.explain[-1]) == (False, NOTHING_TO_COMPACT)
    assert told(rows=full).state.should_compact
    assert told(messages=()).state.explain[-1] != NOTHING_TO_COMPACT


def test_the_breaker_of_the_session_counts():
    full = Rows((("system:intro", 170_000),))
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
