"""What stands in ``system``, and what behind the instructions so that one prefix serves a whole organisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.core.blocks import Block, joined
from app.core.message import inert
from app.core.registry import ATTRIBUTION_REST_NAME, Element, said

Layout = Literal["classic", "late"]

CALLERS_OWN = frozenset({ATTRIBUTION_REST_NAME, "memory_mechanics", "append"})
"""Texts of the caller that differ between users."""

OPENING = (
    "These instructions go on from the system prompt and count as much. They are about this session and its workspace."
)
CLOSING = "</system-reminder>"


@dataclass(frozen=True, slots=True)
class Laid:
    """The prompt's list in two: ``front`` is cut into the blocks of ``system``, ``back`` follows the instructions."""

    front: tuple[Element, ...]
    back: tuple[Element, ...] = ()

    def message(self, *, of_system: bool) -> Block | None:
        """The back as one text, for a message of the role ``system`` or wrapped for a user's. None: it is empty."""
        told = [element for element in self.back if said(element.text) is not None]
        if not told:
            return None
        opening = OPENING if of_system else f"<system-reminder>\n{OPENING}"
        closing = () if of_system else (Element("late_closing", CLOSING, "static"),)
        told = told if of_system else [replace(element, text=inert(element.text or "")) for element in told]
        (block,) = joined((Element("late_opening", opening, "static"), *told, *closing), None)
        return block


def laid_out(elements: Sequence[Element], layout: Layout) -> Laid:
    """In the late layout the front holds what is the same for everyone, in the classic one everything."""
    if layout == "classic":
        return Laid(tuple(elements))
    return Laid(
        tuple(element for element in elements if not _varies(element)),
        tuple(element for element in elements if _varies(element)),
    )


def _varies(element: Element) -> bool:
    return element.kind != "static" or element.name in CALLERS_OWN
