"""Schemas as HTML."""

from __future__ import annotations

from typing import Any

import pytest

from app.page.shapes import Shapes, prose

TREE: dict[str, Any] = {
    "description": "A ``node``.",
    "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/x/Tree"}}},
    "required": ["name"],
}
ENDLESS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/x/Endless"}}]}
SHAPES = Shapes({"Tree": TREE, "Endless": ENDLESS, "Leaf": {"properties": {"a": {"type": "integer"}}}})


def row(schema: dict[str, Any], *, required: bool = False) -> str:
    return SHAPES.shown({"properties": {"field": schema}, "required": ["field"] if required else []})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "string"}]}, "string"),
        ({"oneOf": [{"$ref": "#/x/Tree"}, {"$ref": "#/x/Leaf"}]}, "Tree or Leaf"),
        ({"enum": ["a", "b"], "type": "string"}, '"a" | "b"'),
        ({"const": True}, "true"),
        ({"type": "array", "items": {"$ref": "#/x/Leaf"}}, "list of Leaf"),
        ({"type": "array"}, "list of any JSON"),
        ({"type": "object", "additionalProperties": True}, "object"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({}, "any JSON"),
    ],
)
def test_the_kind_says_what_fits(schema: dict[str, Any], said: str) -> None:
    assert SHAPES.kind(schema) == said


@pytest.mark.parametrize(
    ("schema", "fact"),
    [
        ({"minLength": 1, "maxLength": 4096}, "1 to 4,096 characters"),
        ({"anyOf": [{"type": "string", "maxLength": 64}, {"type": "null"}]}, "at most 64 characters"),
        ({"minItems": 2}, "at least 2 items"),
        ({"minimum": 0, "maximum": 1.5}, "0 to 1.5"),
        ({"exclusiveMinimum": 0}, "at least 0, exclusive"),
        ({"format": "date"}, "date"),
        ({"default": "x"}, "default &quot;x&quot;"),
        ({"default": list(range(100))}, "has a default"),
    ],
)
def test_a_row_says_what_is_asked_of_the_value(schema: dict[str, Any], fact: str) -> None:
    assert f'<span class="fact">{fact}</span>' in row(schema)


def test_a_field_that_may_be_left_out_says_nothing_more() -> None:
    assert 'class="fact"' not in row({"type": "string", "default": None})


def test_a_field_that_has_to_be_there_says_so() -> None:
    assert '<span class="fact">required</span>' in row({"type": "string"}, required=True)


def test_what_has_fields_unfolds_and_what_has_none_does_not() -> None:
    assert "<details><summary><code>field</code>" in row({"$ref": "#/x/Leaf"})
    assert "<details>" not in row({"type": "string", "description": "Plain."})
    assert "<p>Plain.</p>" in row({"type": "string", "description": "Plain."})


@pytest.mark.parametrize(
    "around",
    [
        {"type": "array", "items": {"$ref": "#/x/Leaf"}},
        {"type": "object", "additionalProperties": {"$ref": "#/x/Leaf"}},
        {"anyOf": [{"$ref": "#/x/Leaf"}, {"type": "null"}]},
        {"allOf": [{"$ref": "#/x/Leaf"}]},
    ],
)
def test_what_is_in_lists_objects_and_alternatives_is_shown(around: dict[str, Any]) -> None:
    assert "<code>a</code>" in SHAPES.shown(around)


def test_several_alternatives_stand_under_their_names() -> None:
    shown = SHAPES.shown({"oneOf": [{"$ref": "#/x/Tree"}, {"$ref": "#/x/Leaf"}]})
    assert '<p class="name">Tree</p>' in shown
    assert '<p class="name">Leaf</p>' in shown
    assert 'class="name"' not in SHAPES.shown({"$ref": "#/x/Leaf"})


def test_what_holds_itself_ends() -> None:
    shown = SHAPES.shown({"$ref": "#/x/Tree"})
    assert shown.count("<code>name</code>") == 1
    assert "Tree: as above" in shown
    assert SHAPES.shown({"$ref": "#/x/Endless"}) == ""


def test_prose_keeps_paragraphs_and_code_and_escapes_the_rest() -> None:
    assert prose("One\n``a<b``.\n\n Two & `c`.\n\n") == (
        "<p>One <code>a&lt;b</code>.</p><p>Two &amp; <code>c</code>.</p>"
    )
    assert prose("") == ""
