"""Which content coding a caller takes, and the bytes of an answer in it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from functools import lru_cache

import zstandard

CODINGS = ("zstd", "gzip")
"""What this service can send, the dearest to it first."""

IDENTITY = "identity"
ANY = "*"
SPELLINGS = {"x-gzip": "gzip"}
"""Other names of a coding, which mean the same."""

KEPT_CODING = "zstd"
"""In which this service keeps what it may need again."""

MOST_KNOWN = 256
"""Spellings of a header whose meaning is remembered."""

ZSTD_LEVEL = 3
GZIP_LEVEL = 6

_WEIGHT = re.compile(r"0(?:\.[0-9]*)?|\.[0-9]+|1(?:\.0*)?")


def coding_for(accepted: Sequence[str]) -> str | None:
    """The coding for a caller with these ``Accept-Encoding`` headers; None: as it is.

    The highest weight wins; then a coding that was named over one that only ``*`` covers; then the order of `CODINGS`.
    """
    return _coding_for(",".join(accepted))


def refuses_identity(accepted: Sequence[str]) -> bool:
    """Whether the caller said that it does not take content as it is."""
    weights = _weights(accepted)
    return weights.get(IDENTITY, weights.get(ANY, 1)) == 0


def compressed(content: bytes, coding: str) -> bytes:
    """``content`` in one of `CODINGS`. The same content gives the same bytes."""
    if coding == "zstd":
        return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(content)
    return gzip.compress(content, GZIP_LEVEL, mtime=0)


def decompressed(content: bytes) -> bytes:
    """What was compressed in the coding for keeping."""
    return zstandard.ZstdDecompressor().decompress(content)


def tag_in(coding: str, tag: str) -> str:
    """A strong tag of the content in this coding: other bytes need another tag."""
    return f'{tag[:-1]}-{coding}"'


def tags_given(wanted: Sequence[str]) -> frozenset[str]:
    """The tags in these ``If-None-Match`` headers, weak ones as if they were strong."""
    return frozenset(one.strip().removeprefix("W/") for one in ",".join(wanted).split(",")) - {""}


def tag_among(given: frozenset[str], tag: str) -> str | None:
    """The one of ``given`` tags that is of the content tagged ``tag``, in any coding; any is ``tag`` itself."""
    if ANY in given:
        return tag
    return next((one for one in (tag, *(tag_in(coding, tag) for coding in CODINGS)) if one in given), None)


@lru_cache(MOST_KNOWN)
def _coding_for(accepted: str) -> str | None:
    weights = _weights((accepted,))
    best = max(CODINGS, key=lambda coding: (_weight(weights, coding), coding in weights))
    weight = _weight(weights, best)
    return best if weight > 0 and weight >= _weight(weights, IDENTITY) else None


def _weight(weights: dict[str, float], coding: str) -> float:
    return weights.get(coding, weights.get(ANY, 0))


def _weights(accepted: Sequence[str]) -> dict[str, float]:
    """By coding, in small letters. A coding given twice has the lower weight: nobody is sent what they refuse."""
    weights: dict[str, float] = {}
    for element in ",".join(accepted).split(","):
        name, *parameters = (part.strip().lower() for part in element.split(";"))
        coding = SPELLINGS.get(name, name)
        weights[coding] = min(_quality(parameters), weights.get(coding, 1))
    return weights


def _quality(parameters: Sequence[str]) -> float:
    """From 0 to 1. A weight that cannot be read is none."""
    given = [value.strip() for name, _, value in (each.partition("=") for each in parameters) if name.strip() == "q"]
    return min((float(weight) if _WEIGHT.fullmatch(weight) else 0 for weight in given), default=1)
