"""The prompt's list cut into cache blocks: who may share which bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.core.facts import CacheOptions
from app.core.providers import Provider, provider_row
from app.core.registry import (
    ATTRIBUTION_HEADER_NAME,
    ATTRIBUTION_REST_NAME,
    BOUNDARY,
    BOUNDARY_NAME,
    PREFIX_NAME,
    Element,
    said,
)
from app.core.tokens import utf16_length
from app.core.tools import is_mcp

HEADER_START = "x-anthropic-billing-header"
JOINT = "\n\n"

CacheMode = Literal["global", "tool_based", "org", "off"]
Scope = Literal["global", "org"]


@dataclass(frozen=True, slots=True)
class Block:
    """A text block of ``system``. ``scope`` None: not marked.

    ``parts`` are (section, length in UTF-16 units with the joint before it); they add up to the text.
    """

    text: str
    scope: Scope | None
    sections: tuple[str, ...]
    parts: tuple[tuple[str, int], ...]


def global_scope(provider: Provider, cache: CacheOptions, *, default_prompt: bool) -> bool:
    """Whether the prompt's static part may be shared by all, so that the list carries the boundary."""
    return default_prompt and provider_row(provider).scope and cache.enabled and cache.scope == "auto"


def choose_mode(provider: Provider, cache: CacheOptions, boundary: bool, tool_names: Iterable[str]) -> CacheMode:
    """How the list is cut. ``boundary``: the list carries it."""
    if not cache.enabled or cache.scope == "off":
        return "off"
    if not global_scope(provider, cache, default_prompt=boundary):
        return "org"
    return "tool_based" if any(map(is_mcp, tool_names)) else "global"


def parted(elements: Sequence[Element]) -> tuple[Element, ...]:
    """The list with the line of a header in front as an element of its own: whoever takes it away would take all.

    What stands behind that line is the caller's own, which not all may share: it follows the boundary, if there is one.
    """
    at = next((index for index, element in enumerate(elements) if said(element.text) is not None), None)
    pair = _header_and_rest(elements[at]) if at is not None else None
    if at is None or pair is None:
        return tuple(elements)
    (header, rest), behind = pair, elements[at + 1 :]
    until = next((index + 1 for index, element in enumerate(behind) if element.name == BOUNDARY_NAME), 0)
    return (*elements[:at], header, *behind[:until], rest, *behind[until:])


def _header_and_rest(element: Element) -> tuple[Element, Element] | None:
    """None: it does not begin with a header, or is nothing else."""
    header, _, rest = (element.text or "").lstrip().partition("\n")
    if not header.startswith(HEADER_START) or said(rest) is None:
        return None
    name = ATTRIBUTION_REST_NAME if element.name == ATTRIBUTION_HEADER_NAME else element.name
    return (
        replace(element, name=ATTRIBUTION_HEADER_NAME, text=header.removesuffix("\r")),
        replace(element, name=name, text=rest.strip("\r\n")),
    )


def cut(elements: Sequence[Element], mode: CacheMode) -> tuple[Block, ...]:
    """The blocks of ``system`` in order. Absent elements, blank texts and the boundary become none.

    An attribution header, of which `parted` has taken what stood behind it, and a prefix stay blocks of their own.
    """
    present = [element for element in elements if said(element.text) is not None]
    seats = [_seat(index, element) for index, element in enumerate(present)]
    headers, prefixes, rest = (
        [element for element, taken in zip(present, seats, strict=True) if taken == seat]
        for seat in ("header", "prefix", "rest")
    )
    shared, own = _halves(rest) if mode == "global" else ([], rest)
    org: Scope | None = None if mode in ("global", "off") else "org"
    groups: tuple[tuple[list[Element], Scope | None], ...] = (
        (headers, None),
        (prefixes, org),
        (shared, "global"),
        (own, org),
    )
    return tuple(block for group, scope in groups for block in joined(group, scope))


def _seat(index: int, element: Element) -> Literal["header", "prefix", "rest"]:
    if index == 0 and (element.name == ATTRIBUTION_HEADER_NAME or (element.text or "").startswith(HEADER_START)):
        return "header"
    return "prefix" if element.name == PREFIX_NAME else "rest"


def _halves(elements: list[Element]) -> tuple[list[Element], list[Element]]:
    """What stands before the boundary, and the rest; without a boundary nothing is shared."""
    at = next((index for index, element in enumerate(elements) if element.name == BOUNDARY_NAME), 0)
    return elements[:at], elements[at:]


def joined(elements: Iterable[Element], scope: Scope | None) -> Iterator[Block]:
    """One block, or none."""
    texts = [(element.name, element.text) for element in elements if element.text and element.text != BOUNDARY]
    if not texts:
        return
    parts = tuple((name, utf16_length(text) + (len(JOINT) if index else 0)) for index, (name, text) in enumerate(texts))
    yield Block(JOINT.join(text for _, text in texts), scope, tuple(name for name, _ in texts), parts)
