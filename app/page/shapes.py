"""JSON schemas as HTML: a row for each field, and what is in it to unfold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Schema = Mapping[str, Any]

LONGEST_DEFAULT = 60
"""Characters of a default that is shown."""

_CODE = re.compile(r"``?([^`]+)``?")
_LIMITS = (
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minimum", "maximum", ""),
    ("exclusiveMinimum", "exclusiveMaximum", ", exclusive"),
)
_FORMS = ("format", "pattern")


class Shapes:
    """Shows schemas that name each other; ``schemas`` are those of the contract's components."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas

    def shown(self, schema: Schema, within: tuple[str, ...] = ()) -> str:
        """What is in ``schema``, in rows; empty for one without fields. ``within`` are the schemas around it."""
        found = list(self._objects(schema))
        return "".join(self._object(name, one, within, headed=len(found) > 1) for name, one in found)

    def _object(self, name: str, schema: Schema, within: tuple[str, ...], *, headed: bool) -> str:
        if name in within:
            return f'<p class="again">{escape(name)}: as above</p>'
        inside = (*within, name) if name else within
        said = prose(schema.get("description", ""))
        required = schema.get("required", ())
        rows = [self._row(field, one, field in required, inside) for field, one in schema["properties"].items()]
        heading = f'<p class="name">{escape(name)}</p>' if headed and name else ""
        return f'<div class="fields">{heading}{said}{"".join(rows)}</div>'

    def _row(self, field: str, schema: Schema, required: bool, within: tuple[str, ...]) -> str:
        marks = ["required"] if required else []
        facts = "".join(f'<span class="fact">{escape(one)}</span>' for one in (*marks, *self._facts(schema)))
        head = f'<code>{escape(field)}</code> <span class="type">{escape(self.kind(schema))}</span> {facts}'
        inside = self.shown(schema, within)
        if inside:
            return f"<details><summary>{head}</summary>{inside}</details>"
        return f'<div class="field">{head}{prose(schema.get("description", ""))}</div>'

    def kind(self, schema: Schema) -> str:
        """The type in words: ``string or null``, ``list of Touch``."""
        if "$ref" in schema:
            return _name_of(schema)
        if "enum" in schema or "const" in schema:
            return " | ".join(json.dumps(value) for value in schema.get("enum", (schema.get("const"),)))
        if alternatives := _alternatives(schema):
            return " or ".join(dict.fromkeys(map(self.kind, alternatives)))
        return self._plain_kind(schema)

    def _plain_kind(self, schema: Schema) -> str:
        values = schema.get("additionalProperties")
        if schema.get("type") == "array":
            return f"list of {self.kind(schema.get('items', {}))}"
        if isinstance(values, dict) and values:
            return f"object of {self.kind(values)}"
        return str(schema.get("type", "any JSON"))

    def _objects(self, schema: Schema, followed: tuple[str, ...] = ()) -> Iterator[tuple[str, Schema]]:
        """The schemas with fields in ``schema``: itself, its items, values and alternatives; each with its name."""
        name, schema = _name_of(schema), self._resolved(schema)
        if name in followed:
            return
        if "properties" in schema:
            yield name, schema
        for one in (*_alternatives(schema), schema.get("items"), schema.get("additionalProperties")):
            if isinstance(one, dict):
                yield from self._objects(one, (*followed, name) if name else followed)

    def _resolved(self, schema: Schema) -> Schema:
        return self._schemas[_name_of(schema)] if "$ref" in schema else schema

    def _facts(self, schema: Schema) -> Iterator[str]:
        for one in (schema, *_alternatives(schema)):
            yield from filter(None, (_limits(one.get(low), one.get(high), unit) for low, high, unit in _LIMITS))
            yield from (str(one[form]) for form in _FORMS if form in one)
        if schema.get("default") is not None:
            written = json.dumps(schema["default"], ensure_ascii=False)
            yield f"default {written}" if len(written) <= LONGEST_DEFAULT else "has a default"


def _limits(low: Any, high: Any, unit: str) -> str:
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}{unit}"
    if low is not None:
        return f"at least {_number(low)}{unit}"
    return "" if high is None else f"at most {_number(high)}{unit}"


def prose(text: str) -> str:
    """Text of a docstring as paragraphs, with what stands between backticks as code."""
    return "".join(f"<p>{_with_code(part)}</p>" for part in text.split("\n\n") if part.strip())


def _with_code(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(" ".join(text.split())))


def _name_of(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _alternatives(schema: Schema) -> tuple[Schema, ...]:
    return tuple(one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, ()))


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
