from dataclasses import replace

import pytest

from app.core.compaction_end import Failed, reported, usage_of
from app.core.remembered import Remembered
from app.core.summary import Failure
from app.core.tokens import Part

FIXED = (Part("memory:/p/CLAUDE.md", 60_000), Part("system:intro", 500))
SESSION = Remembered("w", "2026-11-30", threshold=100_000, fixed=FIXED)


def test_a_failure_keeps_its_reason_its_words_and_the_parts_to_blame():
    assert Failed.of(Failure("empty", "Nothing.", FIXED)) == Failed("empty", "Nothing.", FIXED)


def test_what_ends_below_the_threshold_and_frees_enough_helped():
    assert reported(SESSION, 150_000, 90_000) is None


@pytest.mark.parametrize(("before", "after"), [(150_000, 100_000), (99_000, 98_000)])
def test_what_did_not_help_names_the_parts_of_the_last_turn(before, after):
    failed = reported(SESSION, before, after)
    assert (failed.reason, failed.parts) == ("did_not_help", FIXED)


def test_without_a_threshold_what_was_freed_decides():
    session = replace(SESSION, threshold=None, fixed=())
    assert reported(session, 900_000, 800_000) is None
    assert reported(session, 900_000, 850_000).reason == "did_not_help"


def test_usage_is_told_in_whole_counts():
    usage = {
        "input_tokens": 7,
        "cache_read_input_tokens": None,
        "output_tokens": True,
        "cache_creation_input_tokens": -1,
    }
    assert usage_of({"usage": usage}) == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
    }


@pytest.mark.parametrize("response", [{}, {"usage": None}, {"usage": 3}])
def test_no_usage_is_none(response):
    assert usage_of(response) is None
