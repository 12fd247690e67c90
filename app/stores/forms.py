"""Values of the core as plain JSON and back, by the types that their fields are written with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import GenericAlias, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from app.core.late import Late
from app.core.prefix import Segment, linked

Texts = dict[str, str]
"""Texts that were read before: what a value holds twice is held once."""

T = TypeVar("T")

FOLLOWS = {Segment: frozenset({"chain"})}
"""Fields that are not written, because they follow from others."""


LEAST: Mapping[Any, Mapping[str, int]] = {Late: {"at": 0, "units_per_token": 1}}
"""What is counted from, or divided by."""

MOST_NUMBER = 2**53
"""No moment is farther away than so many seconds, either way."""


class UnreadableError(ValueError):
    """It is not what was written."""


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """``shape`` names all that a value of the type consists of. ``read`` raises UnreadableError."""

    shape: str
    write: Callable[[Any], Any]
    read: Callable[[Any, Texts], Any]


def form_of(kind: Any) -> Form:
    """Raises TypeError for a type that has no form, such as one of any values."""
    return _Forms().of(kind)


class _Forms:
    def __init__(self) -> None:
        self._known: dict[Any, Form] = {}

    def of(self, kind: Any) -> Form:
        if kind not in self._known:
            self._known[kind] = self._made(kind)
        return self._known[kind]

    def _made(self, kind: Any) -> Form:
        if kind in PLAIN:
            return PLAIN[kind]
        if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
            return self._record(kind)
        made = {
            Literal: self._literal,
            Union: self._optional,
            UnionType: self._optional,
            tuple: self._tuple,
            frozenset: self._set,
            Mapping: self._mapping,
        }.get(get_origin(kind))
        if made is None:
            raise TypeError(f"values of {kind} have no form")
        return made(kind)

    def _record(self, kind: Any) -> Form:
        """A row of its fields. It may hold others of its kind, which are looked up once it is known."""
        self._known[kind] = Form(kind.__name__, lambda one: self.of(kind).write(one), self._later(kind))
        hints = get_type_hints(kind)
        names = tuple(name for name in _fields(kind) if name not in FOLLOWS.get(kind, ()))
        forms = tuple(self.of(hints[name]) for name in names)
        pairs = tuple((name, form.write) for name, form in zip(names, forms, strict=True))

        def write(one: Any) -> list[Any]:
            return [write_one(getattr(one, name)) for name, write_one in pairs]

        def read(row: Any, texts: Texts) -> Any:
            return _built(kind, dict(zip(names, _each(forms, row, texts), strict=True)))

        shape = ",".join(f"{name}:{form.shape}" for name, form in zip(names, forms, strict=True))
        return Form(f"{kind.__name__}({shape})", write, read)

    def _later(self, kind: Any) -> Callable[[Any, Texts], Any]:
        return lambda row, texts: self.of(kind).read(row, texts)

    def _optional(self, kind: Any) -> Form:
        inner = [one for one in get_args(kind) if one is not NoneType]
        if len(inner) > 1:
            raise TypeError(f"values of {kind} have no form")
        form = self.of(inner[0])
        write, read = form.write, form.read
        return Form(
            f"{form.shape}?",
            lambda one: None if one is None else write(one),
            lambda value, texts: None if value is None else read(value, texts),
        )

    def _tuple(self, kind: Any) -> Form:
        inner = get_args(kind)
        if inner[-1] is Ellipsis:
            return _linked_row(self._row(inner[0])) if inner[0] is Segment else self._row(inner[0])
        forms = tuple(self.of(one) for one in inner)
        return Form(
            f"<{','.join(form.shape for form in forms)}>",
            lambda one: [form.write(value) for form, value in zip(forms, one, strict=True)],
            lambda row, texts: tuple(_each(forms, row, texts)),
        )

    def _row(self, inner: Any) -> Form:
        form = self.of(inner)
        write, read = form.write, form.read
        return Form(
            f"[{form.shape}]",
            lambda row: [write(one) for one in row],
            lambda row, texts: tuple([read(one, texts) for one in _checked(list, row)]),
        )

    def _set(self, kind: Any) -> Form:
        row = self._row(get_args(kind)[0])

        def read(values: Any, texts: Texts) -> frozenset[Any]:
            return frozenset(_distinct(row.read(values, texts)))

        return Form(f"set{row.shape}", lambda one: row.write(sorted(one)), read)

    def _mapping(self, kind: Any) -> Form:
        pairs = self._row(GenericAlias(tuple, get_args(kind)))

        def read(values: Any, texts: Texts) -> dict[Any, Any]:
            found = pairs.read(values, texts)
            _distinct([name for name, _ in found])
            return dict(found)

        return Form(f"map{pairs.shape}", lambda one: pairs.write(one.items()), read)

    def _literal(self, kind: Any) -> Form:
        words = get_args(kind)

        def read(value: Any, _: Texts) -> Any:
            if not isinstance(value, str) or value not in words:
                raise UnreadableError(f"none of {words}")
            return words[words.index(value)]

        return Form("|".join(words), _same, read)


def _linked_row(row: Form) -> Form:
    """Segments are read without their chain, which follows from what stands before."""

    def read(values: Any, texts: Texts) -> tuple[Segment, ...]:
        return linked(row.read(values, texts))

    return Form(row.shape, row.write, read)


def _fields(kind: Any) -> tuple[str, ...]:
    return kind._fields if hasattr(kind, "_fields") else tuple(field.name for field in dataclasses.fields(kind))


def _built(kind: Any, values: dict[str, Any]) -> Any:
    if any(values[name] < least for name, least in LEAST.get(kind, {}).items()):
        raise UnreadableError("a number that none can be")
    return values if kind in FOLLOWS else kind(**values)


def _each(forms: tuple[Form, ...], row: Any, texts: Texts) -> list[Any]:
    if len(_checked(list, row)) != len(forms):
        raise UnreadableError("a row of another length")
    return [form.read(value, texts) for form, value in zip(forms, row, strict=True)]


def _distinct(values: Any) -> Any:
    if len(set(values)) != len(values):
        raise UnreadableError("a name twice")
    return values


def _checked(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise UnreadableError(f"no {kind.__name__}")
    return value


def _same(value: T) -> T:
    return value


def _text(value: Any, texts: Texts) -> str:
    found = _checked(str, value)
    return texts.setdefault(found, found)


def _number(value: Any, _: Texts) -> float:
    found = value if type(value) is int else _checked(float, value)
    if not -MOST_NUMBER <= found <= MOST_NUMBER:
        raise UnreadableError("a number that none can be")
    return found


def _octets(value: Any, _: Texts) -> bytes:
    try:
        return _checked(str, value).encode("latin-1")
    except UnicodeEncodeError as error:
        raise UnreadableError("no bytes") from error


PLAIN = {
    str: Form("str", _same, _text),
    int: Form("int", _same, lambda value, _: _checked(int, value)),
    bool: Form("bool", _same, lambda value, _: _checked(bool, value)),
    float: Form("float", _same, _number),
    bytes: Form("bytes", lambda one: one.decode("latin-1"), _octets),
}
"""Bytes are written as a text of as many characters: most are ASCII, and compress with the texts beside them."""
