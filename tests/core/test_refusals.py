"""Statuses, types and words of a Messages API, as reasons."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.refusals import ADVICE, MOST_QUOTED, Reason, reason_of, told

REASONS = get_args(Reason)


@pytest.mark.parametrize(
    ("status", "error_type", "words", "reason"),
    [
        (400, "invalid_request_error", "messages: nonsense", "invalid"),
        (400, "invalid_request_error", "Prompt is too long: 9 tokens > 8 maximum", "too_long"),
        (400, None, "input length and `max_tokens` exceed context limit: 9 + 9 > 8", "too_long"),
        (400, None, "Input is too long for requested model.", "too_long"),
        (402, "billing_error", "pay", "invalid"),
        (401, None, "", "unauthorized"),
        (403, None, "", "unauthorized"),
        (404, None, "", "not_found"),
        (405, None, "", "not_found"),
        (307, None, "", "not_found"),
        (408, None, "", "timeout"),
        (413, None, "", "too_long"),
        (418, None, "", "invalid"),
        (429, None, "", "rate_limited"),
        (500, "api_error", "", "server_error"),
        (502, None, "", "server_error"),
        (504, None, "", "timeout"),
        (529, None, "", "overloaded"),
        (200, "overloaded_error", "", "overloaded"),
        (200, "rate_limit_error", "", "rate_limited"),
        (200, "invalid_request_error", "", "invalid"),
        (200, "api_error", "", "server_error"),
        (500, "overloaded_error", "", "overloaded"),
    ],
)
def test_an_answer_s_reason(status: int, error_type: str | None, words: str, reason: Reason) -> None:
    assert reason_of(status, error_type, words) == reason


def test_every_reason_says_what_to_do() -> None:
    assert set(ADVICE) == set(REASONS)
    assert all(advice.endswith(".") for advice in ADVICE.values())


@pytest.mark.parametrize("words", [None, "", " \n"])
def test_without_words_the_advice_stands_alone(words: str | None) -> None:
    assert told("invalid", words) == ADVICE["invalid"]


def test_words_stand_behind_the_advice_on_one_line() -> None:
    assert told("invalid", "first\n  second") == f"{ADVICE['invalid']} It says: first second."


@given(st.sampled_from(REASONS), st.text(), st.text(), st.text("0123456789", min_size=4, max_size=400))
def test_no_key_is_told_and_nothing_is_long(reason: Reason, before: str, after: str, key: str) -> None:
    said = told(reason, f"{before}{key}{after}", key)
    assert key not in said.removeprefix(ADVICE[reason])
    assert len(said) <= len(ADVICE[reason]) + len(" It says: ") + MOST_QUOTED + 1
