"""Bodies in, models out; each fault with a JSON pointer and a sentence that says what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from app.errors import InvalidRequest, NotJson
from app.wire.base import Strict

Model = TypeVar("Model", bound=Strict)

_MOST_FAULTS = 50
_NO_NUMBERS = re.compile(rb"NaN|Infinity|[0-9][eE]\+?[0-9]{3}")


def parsed(model: type[Model], body: bytes) -> Model:
    """Raises NotJson or InvalidRequest, the latter with a JSON pointer for each fault."""
    if _NO_NUMBERS.search(body):
        _refuse_what_is_no_number(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        raise NotJson(f"{faults[0]['msg']}. Send one JSON object in UTF-8.")
    errors = [
        {"pointer": _pointer(fault["loc"]), "message": _message(fault["msg"], fault["type"])}
        for fault in faults[:_MOST_FAULTS]
    ]
    first = errors[0]
    raise InvalidRequest(f"{first['pointer'] or 'The body'}: {first['message']}", errors=errors)


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
