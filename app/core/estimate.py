"""A closer estimate of tokens than a length divided by four, still without asking anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import floor
from typing import Any

from app.core.character_classes import transitions, utf8
from app.core.facts import Json, Message
from app.core.models import GENERATIONS
from app.core.tokens import ATTACHED_FILE_TOKENS, compact_json, leaves

MOST_BYTES_PER_TOKEN = 16

WEIGHTS = (
    ( 160,  884, 1095,  453,  256,  379, 1576,  876,  605,  403,  287,  280,  287,  288,  508,  287),  # letter
    ( 304,  230, 1674, 1373,  815,  563,  837,   31,  335,  538,  557,  556,  557,  557,  540,  557),  # capital
    (1185, 2000,   67,  632, 1027,  733, 1573,  974, 1016,  694,  699,  703,  699,  699,  699,  699),  # digit
    (   0,   44,  305,    0,    0,   76,  229,    0,  157,    0,    0,    0,    0,    0,  129,    0),  # line break
    ( 223,    0,  832,  375,   35,  505,  156,    0,  801,  372,    0,   59,    0,  743,    0,   93),  # space
    ( 113,  113,  871,  630,  113,  396,  113,  113,  113,  113,  113,  113,  113,  113,  113,  113),  # tab
    (1084,  353,  580,  509,  619,  509,  543,   43,  588,  417,  506,  497,  487,  709,  255,  508),  # stop
    ( 598,  612,  811,  669,  809, 1110,    0,   36,  505,  532,  599,  574,  577,  339,  562,  592),  # bracket, quote
    ( 589, 1276,  734, 1894,   89,  696,    0, 1213,    0,  619,  632,  640,  620,  625,  663,  640),  # other ASCII
    (2621, 2163, 2148, 2118, 2092, 2147, 2147, 2036, 2147, 1563, 2144, 2147, 2147, 2147, 2140, 2147),  # marked Latin
    ( 568,  568,  568,  280,  948,  568,  568,  575,  562,  568,  498,  568,  568,  568,  568,  568),  # Cyrillic
    (1022, 1023, 1023,  874, 1353, 1023, 1023,  943, 1023, 1023, 1023,  861, 1168, 1023,  822, 1023),  # kana
    ( 948,  948,  948,  510,  518,  948,  948,  925,  941,  948,  948, 1390,  935,  948,  943,  948),  # Han
    (1295, 1353, 1352, 1274, 1565, 1358, 1358,  789, 1355, 1358, 1358, 1358, 1358,  897, 1358, 1358),  # Hangul
    (1386, 1264, 1176, 1790,    0, 1263, 1269, 1199, 1287, 1274, 1263, 1278, 1139, 1263, 1542, 1263),  # other script
    (3791, 3791, 3791, 3841, 3818, 3791, 3791, 3791, 3791, 3791, 3791, 3791, 3791, 3791, 3791, 3791),  # four-byte
)  # fmt: skip
"""Thousandths of a token per occurrence: a row for a character's class, a column for the class of the one before it.

Rows and columns are in the order of ``CLASSES``. Found by ``python -m tests.bench.estimates --fit`` on texts of many
kinds, counted with Claude's old public vocabulary. None is negative, so that more text never makes fewer tokens.
"""

_ALL = tuple(weight for row in WEIGHTS for weight in row)
_HIGH = bytes(weight // 256 for weight in _ALL)
_LOW = bytes(weight % 256 for weight in _ALL)


def estimate(text: str, tokenizer: int) -> int:
    """Tokens of ``text`` for models with this generation of ``tokenizer``.

    At least a sixteenth of the length in UTF-8, at most one more than that length, and 0 for "" only. A text that
    goes on never has fewer tokens than its beginning. Takes some 20 ms for a megabyte.

    Raises:
        ValueError: the generation is not in ``GENERATIONS``.
    """
    encoded = utf8(text)
    tokens = floor(_thousandths(encoded) * _by_generation(tokenizer) / 1000 + Fraction(1, 2))
    least = -(-len(encoded) // MOST_BYTES_PER_TOKEN)
    return max(least, min(tokens, len(encoded) + 1)) if encoded else 0


def _thousandths(encoded: bytes) -> int:
    found = transitions(encoded)
    return 256 * sum(found.translate(_HIGH)) + sum(found.translate(_LOW))


def _by_generation(tokenizer: int) -> Fraction:
    if tokenizer not in GENERATIONS:
        known = ", ".join(map(str, GENERATIONS))
        raise ValueError(f"tokenizer {tokenizer!r} is not known: use one of {known}")
    return GENERATIONS[tokenizer]


def estimate_message(message: Message, tokenizer: int) -> int:
    if isinstance(message.content, str):
        return estimate(message.content, tokenizer)
    return sum(estimate_block(block, tokenizer) for block in message.content)


def estimate_block(block: Any, tokenizer: int) -> int:
    """Tokens of one content block, whatever JSON it is; a tool result is the sum of the blocks in it."""
    return sum(_estimate_leaf(leaf, tokenizer) for leaf in leaves(block))


def estimate_tool(tool: Json, tokenizer: int) -> int:
    return estimate(_json(tool), tokenizer)


def _estimate_leaf(block: Any, tokenizer: int) -> int:
    if isinstance(block, str):
        return estimate(block, tokenizer)
    match block:
        case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            return estimate(text, tokenizer)
        case {"type": "image" | "document"}:
            return ATTACHED_FILE_TOKENS
        case {"type": "tool_use", "name": str(name)}:
            return estimate(name + _json(block.get("input", {})), tokenizer)
        case _:
            return estimate(_json(block), tokenizer)


def _json(value: Any) -> str:
    try:
        return compact_json(value)
    except RecursionError:
        return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    """What compact JSON is made of, at any depth; brackets come before what stands in them."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, Mapping):
            yield "{" + ",".join(f"{compact_json(key)}:" for key in current) + "}"
            waiting.extend(current.values())
        elif isinstance(current, list | tuple):
            yield "[" + "," * (len(current) - 1) + "]"
            waiting.extend(current)
        else:
            yield compact_json(current)
