"""Random values of the core, by the types that their fields are written with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from app.core.prefix import Segment, linked
from app.core.remembered import Remembered
from app.stores.forms import LEAST, MOST_NUMBER

TEXTS = st.text(st.characters(codec=None), max_size=12)
"""Lone surrogates among them."""

PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(-MOST_NUMBER, MOST_NUMBER),
    bytes: st.binary(max_size=40),
}
ROWS = 3


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind in PLAIN:
        return PLAIN[kind]
    if kind is Remembered:
        return st.deferred(lambda: REMEMBERED)
    if kind == tuple[Segment, ...]:
        return st.lists(_rows_of_segments(), max_size=ROWS).map(linked)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _records(kind)
    return MADE[get_origin(kind)](*get_args(kind))


def _optional(*inner: Any) -> st.SearchStrategy[Any]:
    return st.none() | values_of(next(one for one in inner if one is not NoneType))


def _tuple(*inner: Any) -> st.SearchStrategy[Any]:
    if inner[-1] is Ellipsis:
        return st.lists(values_of(inner[0]), max_size=ROWS).map(tuple)
    return st.tuples(*map(values_of, inner))


MADE: dict[Any, Callable[..., st.SearchStrategy[Any]]] = {
    Literal: lambda *words: st.sampled_from(words),
    Union: _optional,
    UnionType: _optional,
    tuple: _tuple,
    frozenset: lambda inner: st.frozensets(values_of(inner), max_size=ROWS),
    Mapping: lambda *inner: st.dictionaries(*map(values_of, inner), max_size=ROWS),
}


def _records(kind: Any) -> st.SearchStrategy[Any]:
    fields = {name: values_of(hint) for name, hint in get_type_hints(kind).items()}
    bounded = {name: st.integers(least) for name, least in LEAST.get(kind, {}).items()}
    return st.builds(kind, **(fields | bounded))


def _rows_of_segments() -> st.SearchStrategy[Any]:
    hints = {name: hint for name, hint in get_type_hints(Segment).items() if name != "chain"}
    return st.fixed_dictionaries({name: values_of(hint) for name, hint in hints.items()})


def _remembered() -> st.SearchStrategy[Remembered]:
    """Each field its default or any value, or there would seldom be time for the rest."""
    fields = {field.name: field for field in dataclasses.fields(Remembered)}
    hints = get_type_hints(Remembered)
    required = {name: values_of(hints[name]) for name in ("workspace", "date")}
    others = {name: values_of(hints[name]) for name in fields if name not in required}
    return st.fixed_dictionaries(required, optional=others).map(lambda given: Remembered(**given))


REMEMBERED = _remembered()
