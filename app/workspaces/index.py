"""Which names a repository tracks, read from its index without the git program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

_OPENING = b"DIRC"
_HEAD_BYTES = 12
_VERSION = slice(4, 8)
_COUNT = slice(8, 12)
_COMPRESSED = 4
_FIXED_BYTES = 42  # of an entry, beside the id of its object
_ID_BYTES = {"sha1": 20, "sha256": 32}
_FLAG_BYTES = 2
_EXTENDED = 0x4000
_LENGTH = 0xFFF
_SEVEN_BITS = 0x7F
_LARGEST_BYTES = 67_108_864
_LARGEST_NAMES_BYTES = 268_435_456  # written out, all of them together
_MODE = slice(24, 28)  # of an entry
_SPARSE_FOLDER = 0o40000
_SIZE_STEP = 8
_BATCH = 1_000
_AWAY = tuple(f"/{part}/".encode() for part in ("", ".", "..", ".git"))
_NOT_A_NAME = b"\\:" if os.name == "nt" else b""
_OPENING_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class UnclearIndexError(Exception):
    """An index of a kind, or of a size, that is not read here."""


def index_bytes(path: str) -> bytes:
    """The index at the real ``path``. Raises UnclearIndexError and OSError."""
    return stamped_index(path)[0]


def stamped_index(path: str) -> tuple[bytes, int]:
    """The index at the real ``path``, and when it was written, in nanoseconds since 1970.

    Raises UnclearIndexError and OSError.
    """
    descriptor = os.open(path, _OPENING_FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        written = os.fstat(descriptor).st_mtime_ns
        data = file.read(_LARGEST_BYTES + 1)
    if len(data) > _LARGEST_BYTES:
        raise UnclearIndexError(path)
    return data, written


def holds(data: bytes, names: Iterable[str], object_format: str = "sha1") -> bool:
    """Whether an index holds one of ``names``, which are relative to the checkout; ASCII letters in any case.

    Raises UnclearIndexError.
    """
    version = _version(data, object_format)
    wanted = {os.fsencode(name).lower() for name in names}
    if version == _COMPRESSED:
        return any(name.lower() in wanted for name in _compressed_names(data, _FIXED_BYTES + _ID_BYTES[object_format]))
    lowered = data.lower()
    return any(_stands_in(data, lowered, name) for name in wanted)


def leads_away(data: bytes, object_format: str = "sha1", *, is_split: bool = False) -> bool:
    """Whether a name in an index is none of a file below the checkout, or one of git's own folder.

    ``is_split``: the index goes on in another, and need not repeat the names that stand there.
    Raises UnclearIndexError.
    """
    fixed_bytes = _FIXED_BYTES + _ID_BYTES.get(object_format, 0)
    is_compressed = _version(data, object_format) == _COMPRESSED
    names = _compressed_names(data, fixed_bytes) if is_compressed else _plain_names(data, fixed_bytes)
    named = filter(None, names) if is_split else names
    while batch := tuple(islice(named, _BATCH)):
        told = b"/%b/" % b"/".join(batch).lower()
        if any(part in told for part in _AWAY) or any(sign in told for sign in _NOT_A_NAME):
            return True
    return False


def _version(data: bytes, object_format: str) -> int:
    version = int.from_bytes(data[_VERSION], "big")
    if data[:4] != _OPENING or version not in (2, 3, _COMPRESSED) or object_format not in _ID_BYTES:
        raise UnclearIndexError(version)
    return version


def _stands_in(data: bytes, lowered: bytes, name: bytes) -> bool:
    """Whether an entry, which has its length in front and a zero behind, has this name."""
    length, at = min(len(name), _LENGTH), lowered.find(name + b"\0")
    while at >= 0:
        if any(_flags(data, at - back) & _LENGTH == length for back in (_FLAG_BYTES, 2 * _FLAG_BYTES)):
            return True
        at = lowered.find(name + b"\0", at + 1)
    return False


def _plain_names(data: bytes, fixed_bytes: int) -> Iterator[bytes]:
    entry = _HEAD_BYTES
    for _ in range(int.from_bytes(data[_COUNT], "big")):
        at = _name_at(data, entry, fixed_bytes)
        end = data.find(b"\0", at)
        name = data[at:end]
        yield _checked(data, entry, fixed_bytes, name, is_whole=end >= 0)
        entry += (end - entry + _SIZE_STEP) // _SIZE_STEP * _SIZE_STEP


def _compressed_names(data: bytes, fixed_bytes: int) -> Iterator[bytes]:
    """Each name is told as how much of the one before is cut off, and what follows."""
    name, entry, left = b"", _HEAD_BYTES, _LARGEST_NAMES_BYTES
    for _ in range(int.from_bytes(data[_COUNT], "big")):
        cut, at = _number(data, _name_at(data, entry, fixed_bytes))
        end = data.find(b"\0", at)
        if cut > len(name) or left < 0:
            raise UnclearIndexError(at)
        name = name[: len(name) - cut] + data[at:end]
        yield _checked(data, entry, fixed_bytes, name, is_whole=end >= 0)
        entry, left = end + 1, left - len(name)


def _name_at(data: bytes, entry: int, fixed_bytes: int) -> int:
    is_extended = _flags(data, entry + fixed_bytes - _FLAG_BYTES) & _EXTENDED
    return entry + fixed_bytes + (_FLAG_BYTES if is_extended else 0)


def _checked(data: bytes, entry: int, fixed_bytes: int, name: bytes, *, is_whole: bool) -> bytes:
    """The name, as git reads it; that of a folder, which a sparse index has, without the slash at its end."""
    length = _flags(data, entry + fixed_bytes - _FLAG_BYTES) & _LENGTH
    if not is_whole or length != min(len(name), _LENGTH):
        raise UnclearIndexError(entry)
    if name[-1:] == b"/" and int.from_bytes(data[entry + _MODE.start : entry + _MODE.stop], "big") == _SPARSE_FOLDER:
        return name[:-1]
    return name


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    number = -1
    while True:
        if at >= len(data):
            raise UnclearIndexError(at)
        number = (number + 1) << 7 | data[at] & _SEVEN_BITS
        at += 1
        if data[at - 1] <= _SEVEN_BITS:
            return number, at


def _flags(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + _FLAG_BYTES], "big")
