"""How large a body may be in values, whatever its bytes."""

from __future__ import annotations

import json

import pytest

from app.errors import InvalidRequest, NotJson, TooLarge
from app.wire.parsing import MOST_VALUES, parsed
from app.wire.scans import ScanRequest


def body(value: str) -> bytes:
    return f'{{"workspace": {value}}}'.encode()


def test_as_many_values_as_there_may_be_are_looked_at() -> None:
    with pytest.raises(InvalidRequest):
        parsed(ScanRequest, body("[" + ",".join(["0"] * (MOST_VALUES - 1)) + "]"))


def test_one_value_more_is_too_large() -> None:
    with pytest.raises(TooLarge, match="JSON values"):
        parsed(ScanRequest, body("[" + ",".join(["0"] * MOST_VALUES) + "]"))


@pytest.mark.parametrize("text", [',[{"', "\\,", '",', "é,\n["])
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parsed(ScanRequest, body(json.dumps(text * MOST_VALUES)))


def test_values_behind_many_texts_count() -> None:
    with pytest.raises(TooLarge):
        parsed(ScanRequest, body("[" + ",".join(['"a"'] * MOST_VALUES) + "]"))


def test_a_text_without_an_end_is_no_json() -> None:
    with pytest.raises(NotJson):
        parsed(ScanRequest, body('"' + "a" * MOST_VALUES))
