"""What is known of each model, under every spelling in use, and how large a model's window is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from app.core.facts import TokenOptions

GENERATIONS: Mapping[int, Fraction] = MappingProxyType({1: Fraction(1), 2: Fraction(13, 10)})
"""Tokens that each generation of tokenizer makes of what is one token to the first, as published."""

TAG_1M = "[1m]"
BETA_1M = "context-1m-"
WINDOW_1M = 1_000_000
STANDARD_WINDOW = 200_000
SMALLEST_TABLE_WINDOW = 100_000

_PROVIDER = re.compile(r"(?:[a-z0-9-]+\.)?anthropic\.")
_REVISION = re.compile(r"-v[0-9]+(?::[0-9]+)?$")
_EDITION = re.compile(r"(?:[-@][0-9]{8}|[-@]latest|@default)$")


@dataclass(frozen=True, slots=True)
class Model:
    """A row of the table. Windows, ``max_output`` and ``min_cache`` (shortest cacheable prefix) are in tokens.

    ``cutoff`` is ``Month Year``. ``known`` False: the default row under the caller's own spelling.
    ``tagged_1m``: the spelling carried the ``[1m]`` tag. ``system_messages``: it takes messages of the role ``system``.
    ``drops_thinking``: the API takes thinking of earlier turns out of its requests, and does not count it.
    """

    id: str
    name: str | None
    api_window: int
    client_window: int
    max_output: int
    cutoff: str | None
    min_cache: int
    tokenizer: int
    family: str | None
    supports_1m: bool = False
    system_messages: bool = False
    drops_thinking: bool = False
    known: bool = True
    tagged_1m: bool = False


@dataclass(frozen=True, slots=True)
class ModelTable:
    """All models, in the table's order. ``aliases`` maps a lower-case short name to an id."""

    rows: tuple[Model, ...]
    aliases: Mapping[str, str]
    default: Model

    @classmethod
    def from_rows(cls, table: Mapping[str, Any]) -> ModelTable:
        """From ``{default: row, models: {id: row}, aliases: {name: id}}``; what a row lacks, the default row gives.

        Raises:
            KeyError: ``default`` or ``models`` is missing.
            TypeError: a row has a field that a model has not, or the default row lacks a number.
        """
        base: dict[str, Any] = {"name": None, "cutoff": None, "family": None} | dict(table["default"])
        rows = tuple(Model(**(base | {"id": id_} | _given(row))) for id_, row in table["models"].items())
        default = Model(**(base | {"id": "", "known": False}))
        return cls(rows=rows, aliases=dict(table.get("aliases", {})), default=default)

    def find(self, spelling: str) -> Model:
        """The model that ``spelling`` names; for one that is not in the table, the default row with ``known`` False."""
        named, tagged = self.wire_id(spelling), _tagged(spelling)
        bare = bare_id(named)
        row = next((row for row in self.rows if row.id == bare), None)
        return replace(row or replace(self.default, id=named), tagged_1m=tagged)

    def nearest(self, spelling: str) -> str | None:
        """A model of the table that is spelt almost like an unknown one."""
        close = get_close_matches(bare_id(self.wire_id(spelling)).replace(".", "-"), [row.id for row in self.rows], n=1)
        return close[0] if close else None

    def wire_id(self, spelling: str) -> str:
        """What is sent upstream: no tag, aliases expanded, else as it is spelt, which is as its provider needs it."""
        own = untagged(spelling)
        return self.aliases.get(own.lower(), own)


def untagged(spelling: str) -> str:
    """``spelling`` without ``[1m]`` and without white space around it."""
    left = spelling.strip()
    while _tagged(left):
        left = left[: -len(TAG_1M)].rstrip()
    return left


def bare_id(spelling: str) -> str:
    """``spelling`` in lower case without provider, revision and date: ``us.anthropic.X-20250929-v1:0`` is ``x``."""
    last = spelling.lower().rpartition("/")[2]
    return _EDITION.sub("", _REVISION.sub("", _PROVIDER.sub("", last, count=1)))


def _given(row: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in row.items() if value is not None}


def _tagged(spelling: str) -> bool:
    return spelling.rstrip()[-len(TAG_1M) :].lower() == TAG_1M


@dataclass(frozen=True, slots=True)
class Window:
    """A window in tokens and where it came from.

    ``model_tokens`` is the window the model would have without an override; None: the same.
    """

    tokens: int
    origin: str
    model_tokens: int | None = None


def window(
    model: Model, options: TokenOptions, service_override: int | None = None, betas: tuple[str, ...] = ()
) -> Window:
    """The window to reckon with: the first rule that applies. Overrides that are not positive do not apply."""
    own = _held(_own_window(model, betas), options)
    override = _first_positive(options.max_context_tokens, service_override)
    if override is None:
        return own
    return replace(_held(Window(override, "override"), options), model_tokens=own.tokens)


def _own_window(model: Model, betas: tuple[str, ...]) -> Window:
    if model.tagged_1m:
        return Window(WINDOW_1M, "[1m] tag")
    # Before the table: every model that takes the beta has a window in the table, which would hide it.
    if model.supports_1m and any(beta.startswith(BETA_1M) for beta in betas):
        return Window(WINDOW_1M, "1M beta")
    if model.known and model.client_window >= SMALLEST_TABLE_WINDOW:
        return Window(model.client_window, "model table")
    return Window(STANDARD_WINDOW, "default")


def _held(found: Window, options: TokenOptions) -> Window:
    if options.disable_1m and found.tokens > STANDARD_WINDOW:
        return Window(STANDARD_WINDOW, f"held to {STANDARD_WINDOW:,} by disable_1m")
    return found


def _first_positive(*candidates: int | None) -> int | None:
    return next((number for number in candidates if number is not None and number > 0), None)
