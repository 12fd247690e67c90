"""How large a body may be in values, whatever its bytes."""

from __future__ import annotations

import json

import pytest

from app.errors import InvalidRequest, NotJson, TooLarge
from app.wire.parsing import MOST_TOLD, MOST_VALUES, parsed, refuse_many_values
from app.wire.requests import ContextRequest
from app.wire.scans import ScanRequest


def body(value: str) -> bytes:
    return f'{{"workspace": {value}}}'.encode()


@pytest.mark.parametrize("most", [1, 100, MOST_VALUES])
@pytest.mark.parametrize("value", ["0", "{}", '"a"', '",["'])
def test_as_many_values_as_there_may_be_are_let_through_and_one_more_is_not(value: str, most: int) -> None:
    marks = 2 if value == "{}" else 1
    count = (most - 1) // marks
    refuse_many_values(f"[{','.join([value] * count)}]".encode(), most)
    with pytest.raises(TooLarge, match=rf"{most:,} JSON values \(STRATA_MAX_VALUES\)"):
        refuse_many_values(f"[{','.join([value] * (count + 2))}]".encode(), most)


@pytest.mark.parametrize("text", [',[{"', "\\,", '",', "é,\n["])
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    refuse_many_values(body(json.dumps(text * 1000)), 10)


def test_a_text_without_an_end_is_no_json() -> None:
    sent = body('"' + "a" * MOST_VALUES)
    refuse_many_values(sent, 10)
    with pytest.raises(NotJson):
        parsed(ScanRequest, sent)


FAULTY = {
    "files": '{"model": "s", "workspace": {"source": "inline", "cwd": "/p", "files": {%s}}}',
    "messages": '{"model": "s", "workspace": {"source": "inline", "cwd": "/p"}, "messages": [%s]}',
    "content": '{"model": "s", "workspace": {"source": "inline"}, "messages": [{"role": "user", "content": [%s]}]}',
    "tools": '{"model": "s", "workspace": {"source": "inline"}, "tools": [%s]}',
}


@pytest.mark.parametrize("name", FAULTY)
def test_of_very_many_faults_the_first_is_told(name: str) -> None:
    faults = (f'"k{number}": 1' if name == "files" else str(number) for number in range(50_000))
    with pytest.raises(InvalidRequest) as raised:
        parsed(ContextRequest, (FAULTY[name] % ",".join(faults)).encode())
    assert 1 <= len(raised.value.errors) <= 3


def test_very_many_fields_that_do_not_exist_are_counted_and_not_named() -> None:
    fields = ",".join(f'"k{number}": 1' for number in range(MOST_TOLD + 1))
    with pytest.raises(InvalidRequest, match="faults, too many to name them") as raised:
        parsed(ContextRequest, f'{{"model": "s", {fields}}}'.encode())
    assert raised.value.errors == []
