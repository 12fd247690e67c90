from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import pytest

from app.core.late import Late
from app.core.prefix import Segment, linked
from app.core.remembered import Remembered
from app.stores.forms import LEAST, UnreadableError, form_of


class Point(NamedTuple):
    x: int
    y: float


@dataclass(frozen=True, slots=True)
class Tree:
    name: str
    kind: Literal["leaf", "branch"]
    points: tuple[Point, ...] = ()
    pair: tuple[str, int] = ("", 0)
    inner: Tree | None = None
    counts: Mapping[int, bool] | None = None
    data: bytes = b""
    words: frozenset[str] = frozenset()


TREE = Tree("a", "branch", (Point(1, 2.5),), ("b", 3), Tree("c", "leaf"), {4: True}, b"\x00\xff", frozenset({"x", "y"}))
WRITTEN = form_of(Tree).write(TREE)


def test_a_record_is_a_row_of_its_fields() -> None:
    leaf = ["c", "leaf", [], ["", 0], None, None, "", []]
    assert ["a", "branch", [[1, 2.5]], ["b", 3], leaf, [[4, True]], "\x00\xff", ["x", "y"]] == WRITTEN


def test_what_is_read_is_what_was_written() -> None:
    assert form_of(Tree).read(json.loads(json.dumps(WRITTEN)), {}) == TREE


def test_a_text_that_is_there_twice_is_held_once() -> None:
    text = "a longer text"
    row = json.loads(json.dumps(form_of(Tree).write(Tree(text, "leaf", pair=(text, 1)))))
    read = form_of(Tree).read(row, {})
    assert read.name is read.pair[0]


def test_a_segment_is_written_without_its_chain_and_read_with_it() -> None:
    row = {"at": "system/0", "area": "system", "name": "intro", "text": "x", "tokens": 1, "digest": b"d"}
    found = linked([row, {**row, "digest": b"e"}])
    form = form_of(tuple[Segment, ...])
    assert found[0].chain.decode("latin-1") not in json.dumps(form.write(found), ensure_ascii=False)
    assert form.read(form.write(found), {}) == found


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 1),
        (0, None),
        (1, "twig"),
        (1, 3),
        (2, {}),
        (2, [[1]]),
        (2, [[1, 2.5, 3]]),
        (2, [[True, 2.5]]),
        (2, [[1, 10**400]]),
        (2, [[1, -(2**53) - 1]]),
        (2, [[1, 1e300]]),
        (2, [[1, float("inf")]]),
        (2, [[1, float("-inf")]]),
        (2, [[1, float("nan")]]),
        (2, [[1.0, 2.5]]),
        (2, [[1, True]]),
        (2, [[1, "2"]]),
        (3, ["b"]),
        (4, ["c"]),
        (4, "c"),
        (5, [[4, 1]]),
        (5, [[4, True], [4, False]]),
        (5, [["4", True]]),
        (6, "\u0100"),
        (6, 1),
        (7, ["x", "x"]),
        (7, "xy"),
    ],
)
def test_what_could_not_have_been_written_is_not_read(at: int, value: Any) -> None:
    row = [value if index == at else field for index, field in enumerate(WRITTEN)]
    with pytest.raises(UnreadableError):
        form_of(Tree).read(row, {})


@pytest.mark.parametrize("name", LEAST[Late])
def test_a_number_below_what_is_counted_from_or_divided_by_is_not_read(name: str) -> None:
    form = form_of(Late)
    least = Late(0, "p", "t", 1)
    assert form.read(form.write(least), {}) == least
    with pytest.raises(UnreadableError):
        form.read(form.write(replace(least, **{name: getattr(least, name) - 1})), {})


@pytest.mark.parametrize("row", [None, {}, "a", 1, [], WRITTEN[:-1], [*WRITTEN, None]])
def test_a_row_of_another_length_is_not_read(row: Any) -> None:
    with pytest.raises(UnreadableError):
        form_of(Tree).read(row, {})


@pytest.mark.parametrize("kind", [Any, int | str, int | str | None, dict[str, Any], list[int], object, complex])
def test_a_type_without_a_form_is_told_before_anything_is_written(kind: Any) -> None:
    with pytest.raises(TypeError, match="have no form"):
        form_of(kind)


def test_the_shape_names_every_field_of_every_part() -> None:
    shape = form_of(Remembered).shape
    assert [name in shape for name in ("workspace:str", "replaced:Remembered?", "calibrations:map[<int,Calibration(")]
    assert "chain" not in shape
    assert form_of(Tree).shape != form_of(Point).shape
