"""Texts as classes of characters: which class follows which is most of what decides how many tokens a text makes."""

from __future__ import annotations

from dataclasses import dataclass

START = b"\n"
"""What stands before the first character of a text."""

CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that never start a character."""


@dataclass(frozen=True, slots=True)
class CharacterClass:
    """Characters that are counted alike: what bytes their UTF-8 starts with, and how many it has at most."""

    name: str
    leads: bytes
    size: int


def _bytes(first: int, last: int) -> bytes:
    return bytes(range(first, last + 1))


CLASSES = (
    CharacterClass("letter", b"abcdefghijklmnopqrstuvwxyz", 1),
    CharacterClass("capital", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1),
    CharacterClass("digit", b"0123456789", 1),
    CharacterClass("line break", b"\n\r", 1),
    CharacterClass("space", b" ", 1),
    CharacterClass("tab", b"\t", 1),
    CharacterClass("stop", b".,:;", 1),
    CharacterClass("bracket, quote", b"()[]{}<>\"'`", 1),
    CharacterClass("other ASCII", b"!#$%&*+-/=?@\\^_|~\x7f" + _bytes(0, 8) + b"\v\f" + _bytes(14, 31), 1),
    CharacterClass("marked Latin", _bytes(0xC0, 0xCB), 2),
    CharacterClass("Cyrillic", _bytes(0xD0, 0xD3), 2),
    CharacterClass("kana", b"\xe3", 3),
    CharacterClass("Han", _bytes(0xE4, 0xE9), 3),
    CharacterClass("Hangul", _bytes(0xEA, 0xED), 3),
    CharacterClass("other script", _bytes(0xCC, 0xCF) + _bytes(0xD4, 0xE2) + b"\xee\xef", 3),
    CharacterClass("four-byte", _bytes(0xF0, 0xFF), 4),
)
"""At most 16, so that two of them fit into a byte. The order is that of the rows and columns of coefficients.

Neighbours that share a first byte go together: rare Han with kana, Yi with Hangul. "other script" has Greek, Hebrew,
Arabic, the scripts of India and of south-east Asia, and the symbols and marks of three bytes.
"""


def _code(byte: int) -> int:
    return next((code for code, row in enumerate(CLASSES) if byte in row.leads), 0)


CODES = bytes(_code(byte) for byte in range(256))


def utf8(text: str) -> bytes:
    """``text`` in UTF-8; half of a surrogate pair takes three bytes."""
    return text.encode("utf-8", "surrogatepass")


def transitions(encoded: bytes) -> bytes:
    """One byte per character of UTF-8: the index of its class, and in the low half that of the class before it.

    The text as one large number, shifted against itself, pairs all neighbours at once: a loop would be too slow.
    """
    codes = (START + encoded).translate(CODES, CONTINUATION)
    number = int.from_bytes(codes, "big")
    return ((number << 4) | (number >> 8)).to_bytes(len(codes), "big")[1:]
