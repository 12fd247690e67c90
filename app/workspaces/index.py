"""Which names a repository tracks, read from its index without the git program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

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
_OPENING_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class UnclearIndexError(Exception):
    """An index of a kind, or of a size, that is not read here."""


def index_bytes(path: str) -> bytes:
    """The index at the real ``path``. Raises UnclearIndexError and OSError."""
    descriptor = os.open(path, _OPENING_FLAGS)
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_LARGEST_BYTES + 1)
    if len(data) > _LARGEST_BYTES:
        raise UnclearIndexError(path)
    return data


def holds(data: bytes, names: Iterable[str], object_format: str = "sha1") -> bool:
    """Whether an index holds one of ``names``, which are relative to the checkout; ASCII letters in any case.

    Raises UnclearIndexError.
    """
    version = int.from_bytes(data[_VERSION], "big")
    if data[:4] != _OPENING or version not in (2, 3, _COMPRESSED) or object_format not in _ID_BYTES:
        raise UnclearIndexError(version)
    wanted = {os.fsencode(name).lower() for name in names}
    if version == _COMPRESSED:
        return any(name.lower() in wanted for name in _compressed_names(data, _FIXED_BYTES + _ID_BYTES[object_format]))
    lowered = data.lower()
    return any(_stands_in(data, lowered, name) for name in wanted)


def _stands_in(data: bytes, lowered: bytes, name: bytes) -> bool:
    """Whether an entry, which has its length in front and a zero behind, has this name."""
    length, at = min(len(name), _LENGTH), lowered.find(name + b"\0")
    while at >= 0:
        if any(_flags(data, at - back) & _LENGTH == length for back in (_FLAG_BYTES, 2 * _FLAG_BYTES)):
            return True
        at = lowered.find(name + b"\0", at + 1)
    return False


def _compressed_names(data: bytes, fixed_bytes: int) -> Iterator[bytes]:
    """Each name is told as how much of the one before is cut off, and what follows."""
    name, at = b"", _HEAD_BYTES
    for _ in range(int.from_bytes(data[_COUNT], "big")):
        at += fixed_bytes + (_FLAG_BYTES if _flags(data, at + fixed_bytes - _FLAG_BYTES) & _EXTENDED else 0)
        cut, at = _number(data, at)
        end = data.find(b"\0", at)
        if end < 0 or cut > len(name):
            raise UnclearIndexError(at)
        name, at = name[: len(name) - cut] + data[at:end], end + 1
        yield name


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
