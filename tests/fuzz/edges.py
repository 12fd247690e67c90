"""Targets for what stands at the edges: headers, bytes from a store, ids of events, files of settings and of keys."""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest.mock import patch

import zstandard
from pydantic import ValidationError

from app.callers import Caller, Keys, Meters
from app.core.remembered import Remembered
from app.core.tenants import name_in, name_shown
from app.encoding import CODINGS, coding_for, refuses_identity, tag_among, tag_in, tags_given
from app.errors import HostRefused, OriginRefused, Problem
from app.events import Event, Log
from app.guard import Admission
from app.keys_file import KeysFileError, read_keys
from app.origins import Origins, written
from app.settings import ConfigFileError, Settings
from app.stores.forms import UnreadableError
from app.stores.hashes import _found
from app.stores.records import Records
from app.workspaces.fence import Fence

OWN_HOSTS = {"localhost", "127.0.0.1", "::1", "strata.example"}
SECRET = "the-key-itself"
PLACE = "strata:1:session"
TAG = '"0123"'


def accepts(data: bytes) -> None:
    """Lines of ``Accept-Encoding``."""
    given = data.decode("latin-1").split("\n")
    coding = coding_for(given)
    assert coding in {*CODINGS, None}
    words = [[part.strip().lower() for part in element.split(";")] for element in ",".join(given).split(",")]
    names = {word[0] for word in words}
    if coding:
        aliases = {coding, "*"} | ({"x-gzip"} if coding == "gzip" else set())
        assert names & aliases
        refused = {word[0] for word in words if any(re.fullmatch(r"q\s*=\s*0(\.0*)?", part) for part in word[1:])}
        assert coding not in refused
    if refuses_identity(given):
        assert names & {"identity", "*"}
    assert coding_for([",".join(given)]) == coding


def tags(data: bytes) -> None:
    """Lines of ``If-None-Match``."""
    given = data.decode("latin-1").split("\n")
    known = tags_given(given)
    own = {TAG, *(tag_in(coding, TAG) for coding in CODINGS)}
    found = tag_among(known, TAG)
    assert found is None or found in own
    assert (found is not None) == bool(known & {"*", *own})
    assert found != TAG or known & {TAG, "*"}


def hosts(data: bytes) -> None:
    """Headers as ``name: value``, one to a line: nobody comes in under another name, or from another page."""
    rows = [line.partition(b":") for line in data.split(b"\n")]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in rows]
    verdict = _admission().verdict("POST", "/v1/context", headers, "127.0.0.1")
    named = [value for name, value in headers if name == b"host"]
    pages = [value for name, value in headers if name == b"origin"]
    if isinstance(verdict, Caller):
        assert named
        assert all(_name_in(value) in OWN_HOSTS for value in named)
        assert all(_is_own_page(value) for value in pages), pages
        assert len(pages) < 2
    else:
        assert isinstance(verdict, Problem)
        assert verdict.detail
        fine = named == [b"localhost"] and not pages and not any(name.startswith(b"sec-") for name, _ in headers)
        assert not (fine and isinstance(verdict, HostRefused | OriginRefused))


def _name_in(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def _is_own_page(page: bytes) -> bool:
    scheme, _, place = page.decode("latin-1").partition("://")
    return scheme in {"http", "https"} and _name_in(place.encode("latin-1")) in {*OWN_HOSTS, "app.example"}


@cache
def _admission() -> Admission:
    keys = Keys((), None, Fence.of, lambda *_: None)
    return Admission(
        hosts=("strata.example",),
        keys=keys,
        meters=Meters(float),
        origins=Origins(("https://app.example",)),
        max_body_bytes=1000,
    )


def origins(data: bytes) -> None:
    """What an administrator may write as an origin."""
    text = data.decode("utf-8", "replace")
    origin = written(text)
    if origin is None:
        return
    assert written(origin) == origin
    assert re.fullmatch(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", origin), origin
    assert origin.partition("://")[0] == text.strip().lower().partition("://")[0]


def tenants(data: bytes) -> None:
    """Two spaces and two names, parted by line ends: they meet only when both are the same."""
    one, other, first, second = (part.decode("utf-8", "replace") for part in (data + b"\n\n\n").split(b"\n")[:4])
    if "\x1f" in one + other:
        return
    assert name_shown(name_in(one, first)) == first
    assert (name_in(one, first) == name_in(other, second)) == ((one, first) == (other, second))


def sessions(data: bytes) -> None:
    """A byte that says what follows: a whole record, what is in it after its head, or its JSON."""
    records = _records()
    kind, content = data[:1], data[1:]
    if kind == b"j":
        content = records.head(PLACE) + zstandard.ZstdCompressor(level=1).compress(content)
    elif kind == b"z":
        content = records.head(PLACE) + content
    try:
        found = records.read(PLACE, content)
    except UnreadableError:
        return
    _is_of(found, Remembered)
    again = records.read(PLACE, records.written(PLACE, found))
    assert again == found or "NaN" in repr(found)


@cache
def _records() -> Records:
    return Records(1024 * 1024)


def _is_of(value: Any, kind: Any) -> None:
    """Whether a value is whole: of the type that its field is written with, all the way down."""
    if dataclasses.is_dataclass(kind):
        assert type(value) is kind
        for name, hint in get_type_hints(kind).items():
            _is_of(getattr(value, name), hint)
    elif get_origin(kind) is None:
        assert type(value) is kind or (kind is float and type(value) is int), (value, kind)
    else:
        WHOLE[get_origin(kind)](value, get_args(kind))


def _is_tuple(value: Any, inner: tuple[Any, ...]) -> None:
    assert type(value) is tuple
    hints = (inner[0],) * len(value) if inner[-1] is Ellipsis else inner
    for one, hint in zip(value, hints, strict=True):
        _is_of(one, hint)


def _is_mapping(value: Any, inner: tuple[Any, ...]) -> None:
    for name, one in value.items():
        _is_of(name, inner[0])
        _is_of(one, inner[1])


def _is_set(value: Any, inner: tuple[Any, ...]) -> None:
    for one in value:
        _is_of(one, inner[0])


def _is_word(value: Any, inner: tuple[Any, ...]) -> None:
    assert value in inner


def _is_optional(value: Any, inner: tuple[Any, ...]) -> None:
    if value is not None:
        _is_of(value, next(one for one in inner if one is not type(None)))


WHOLE: dict[Any, Callable[[Any, tuple[Any, ...]], None]] = {
    tuple: _is_tuple,
    Mapping: _is_mapping,
    frozenset: _is_set,
    Literal: _is_word,
    Union: _is_optional,
    UnionType: _is_optional,
}


def hashes(data: bytes) -> None:
    """The fields of a hash in Redis, one to a line; an empty one is not there."""
    row = [one or None for one in (data + b"\n\n").split(b"\n")[:3]]
    found = _found(row)
    if found.head is not None and any(row):
        assert row == [
            str(found.head.version).encode(),
            found.head.lineage.encode(),
            str(found.head.count).encode(),
        ]
    elif found.head is not None:
        assert (found.head.version, found.head.lineage, found.head.count) == (0, "", 0)


def events(data: bytes) -> None:
    """How many events there were, then the id that a reader heard last; ``E`` in it is the log's own epoch."""
    log = Log()
    sent = [log.add(Event("e", {"n": number})) for number in range(data[0] if data else 0)]
    epoch = log.last.rpartition("-")[0]
    found = log.since(data[1:].decode("latin-1").replace("E", epoch))
    if found is not None:
        assert list(found) == sent[len(sent) - len(found) :]
        assert int(data.rpartition(b"-")[2]) == len(sent) - len(found)


def toml(data: bytes) -> None:
    """The file that STRATA_CONFIG names: settings that are safe, or a word that tells no secret."""
    file = _file()
    file.write_bytes(data)
    try:
        with patch.dict(os.environ, {"STRATA_CONFIG": str(file)}, clear=True):
            found = Settings()
    except (ConfigFileError, ValidationError) as error:
        told = str(error)
        _is_told(told.partition("cannot be read: ")[0] if isinstance(error, ConfigFileError) else told, data)
        return
    assert found.api_keys or found.keys_file or found.host in {"127.0.0.1", "::1", "localhost"}
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", key) for key in found.api_keys)
    assert SECRET not in repr(found) or SECRET not in data.decode("utf-8", "replace")
    assert all(written(origin) == origin for origin in found.allowed_origins)


def _is_told(words: str, data: bytes) -> None:
    """A sentence without the secret, which was a value and no name of one."""
    assert words
    named = re.search(rf'{SECRET}(?!")|(?<!"){SECRET}|"{SECRET}"\s*[=.\]]', data.decode("utf-8", "replace"))
    assert SECRET not in words or named


@cache
def _file() -> Path:
    return Path(tempfile.mkdtemp()) / "strata.toml"


def keys(data: bytes) -> None:
    """A file of keys: rows that are whole, or a sentence."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    try:
        found = read_keys(text)
    except KeysFileError as error:
        _is_told(str(error), data)
        return
    assert len({key.name for key in found}) == len({key.sha256 for key in found}) == len(found)
    for key in found:
        assert re.fullmatch("[a-z0-9][a-z0-9._-]{0,63}", key.name)
        assert len(bytes.fromhex(key.sha256)) == 32
        assert all(root.startswith("/") for root in key.roots or ())


TARGETS = {
    "accepts": accepts,
    "tags": tags,
    "hosts": hosts,
    "origins": origins,
    "tenants": tenants,
    "sessions": sessions,
    "hashes": hashes,
    "events": events,
    "toml": toml,
    "keys": keys,
}
