"""Bodies in, models out; each fault with a JSON pointer and a sentence that says what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from app.errors import InvalidRequest, NotJson, TooLarge
from app.wire.base import Strict

Model = TypeVar("Model", bound=Strict)

MOST_VALUES = 200_000
"""Of one body, where nothing else is set: texts, numbers, lists and objects.

Each takes up to a kilobyte of memory, however short it is written.
"""

_MOST_FAULTS = 50
MOST_TOLD = 10_000
"""Faults of a body that are looked at one by one."""

_NO_NUMBERS = re.compile(rb"NaN|Infinity|[0-9][eE]\+?[0-9]{3}")

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def parsed(model: type[Model], body: bytes) -> Model:
    """Raises NotJson or InvalidRequest, the last with a JSON pointer for each fault."""
    if _NO_NUMBERS.search(body):
        _refuse_what_is_no_number(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        if error.error_count() > MOST_TOLD:
            raise _too_many(error.error_count()) from None
        faults = error.errors(include_url=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        raise NotJson(f"{faults[0]['msg']}. Send one JSON object in UTF-8.")
    errors = [
        {"pointer": _pointer(fault["loc"]), "message": _message(fault["msg"], fault["type"])}
        for fault in faults[:_MOST_FAULTS]
    ]
    first = errors[0]
    raise InvalidRequest(f"{first['pointer'] or 'The body'}: {first['message']}", errors=errors)


def refuse_many_values(body: bytes, most: int) -> None:
    """Raises TooLarge of a body with more than ``most`` values, before anything is made of them."""
    if _marks(body, 0, len(body)) > most and _has_more_values(body, most):
        told = f"A body may hold {most:,} JSON values (STRATA_MAX_VALUES)"
        raise TooLarge(f"{told}, and this one has more: send fewer, or in parts.")


def _too_many(faults: int) -> InvalidRequest:
    return InvalidRequest(
        f"The body has {faults:,} faults, too many to name them: most are fields that do not exist. Compare it with "
        "the contract at /openapi.json."
    )


def _marks(body: bytes, start: int, end: int) -> int:
    """Commas and opening brackets: at least one for each value, but for one."""
    return sum(body.count(mark, start, end) for mark in (b",", b"[", b"{"))


def _has_more_values(body: bytes, most: int) -> bool:
    """Whether there are more marks outside of strings than values may be."""
    found = at = 0
    for string in _STRING.finditer(body):
        found += _marks(body, at, string.start())
        at = string.end()
        if found > most:
            return True
    return found + _marks(body, at, len(body)) > most


def _refuse_what_is_no_number(body: bytes) -> None:
    """JSON has no NaN and no infinity: they would reach the model as null. What cannot be read is refused elsewhere."""
    try:
        json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except (RecursionError, ValueError):
        return


def _no_number(written: str) -> float:
    raise NotJson(f"{written} is no number of JSON: send null, or leave the field out.")


def _finite(written: str) -> float:
    return float(written) if math.isfinite(float(written)) else _no_number(written)


def _pointer(place: Sequence[int | str]) -> str:
    """RFC 6901. The name of a union's alternative, and the mark behind a faulty key, are no part of the document."""
    named = place[:-1] if place and place[-1] == "[key]" else place
    steps = [text for text in map(str, named) if not text.startswith("as:")]
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _message(text: str, kind: str) -> str:
    if kind == "extra_forbidden":
        return "there is no such field: check its spelling, or remove it"
    if kind == "missing":
        return "this field is needed: add it"
    return text.removeprefix("Value error, ")
