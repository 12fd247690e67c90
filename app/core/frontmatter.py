"""Frontmatter: where it begins and ends, what it says, and what looks like it and is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.core.lenient_yaml import FIRST_LINE, Unread, opens_pair, parse_yaml, parsed_by_key

MOST_LINES = 50
"""Lines of a file among which misplaced or unclosed frontmatter is looked for."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_NEWLINE = re.compile(r"\r\n|\r|\n")
_NOT_WHITE = re.compile(r"\S")
_NEAR = re.compile(r"[\s\"'-]*+paths[\"']?[ \t]*+[:=]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """``values`` is empty when there is none or it cannot be read; ``lines`` is how many lines were taken away.

    ``unreadable``: some or all of it; ``unread`` names the places, and is empty where none was tried. ``near`` is a
    line, from 1, that looks like ``paths`` where there is none. ``keyless``: what was taken away holds something, but
    no keys.
    """

    body: str
    values: Mapping[str, Any]
    lines: int = 0
    unreadable: bool = False
    unread: tuple[Unread, ...] = ()
    near: int | None = None
    keyless: bool = False
    displaced: bool = False
    unclosed: bool = False


def split_frontmatter(text: str) -> Frontmatter:
    """Takes the frontmatter and the white space after it from the front of ``text``."""
    lines = _LINE.findall(text)
    if not _is_fence(lines[0]):
        return Frontmatter(body=text, values={}, displaced=_is_displaced(lines))
    end = next((at for at in range(1, len(lines)) if _is_fence(lines[at])), None)
    if end is None:
        return Frontmatter(body=text, values={}, unclosed=_has_condition(lines[1:MOST_LINES]))
    block = "".join(lines[1:end])
    values = parse_yaml(block)
    kept, unread = parsed_by_key(lines[1:end]) if values is None else (values, ())
    told = {*kept, *(one.key for one in unread)}
    body = "".join(lines[end + 1 :]).lstrip()
    return Frontmatter(
        body=body,
        values=kept,
        lines=len(_NEWLINE.findall(text[: len(text) - len(body)])),
        unreadable=values is None,
        unread=unread,
        near=_near(lines[1:end]) if "paths" not in told and (told or values is not None) else None,
        keyless=values == {} and bool(block.strip()),
    )


def _is_fence(line: str) -> bool:
    return line.rstrip() == "---"


def _is_displaced(lines: list[str]) -> bool:
    """Whether frontmatter stands below the top: after blank lines or comments, or after text if it has ``paths``."""
    first = next((at for at, line in enumerate(lines) if _is_fence(line)), None)
    if first is None:
        return False
    end = next((at for at in range(first + 1, len(lines)) if _is_fence(lines[at])), None)
    block = [line for line in lines[first + 1 : end] if line.strip()]
    if end is None or not block or not opens_pair(block[0].rstrip()):
        return False
    before = lines[:first]
    in_text = first < MOST_LINES and not any(line.lstrip().startswith(("```", "~~~")) for line in before)
    return _is_preamble("".join(before)) or (in_text and _has_condition(block))


def _has_condition(lines: list[str]) -> bool:
    return any(line.startswith("paths:") for line in lines)


def _is_preamble(text: str) -> bool:
    """Whether ``text`` is blank but for comments."""
    at = _past_white_space(text, 0)
    while text.startswith("<!--", at):
        end = text.find("-->", at)
        if end < 0:
            return False
        at = _past_white_space(text, end + 3)
    return at == len(text)


def _past_white_space(text: str, at: int) -> int:
    found = _NOT_WHITE.search(text, at)
    return found.start() if found else len(text)


def _near(lines: list[str]) -> int | None:
    return next((FIRST_LINE + at for at, line in enumerate(lines) if _NEAR.match(line)), None)
