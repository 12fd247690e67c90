"""What is told of frontmatter that does not say what its author meant, in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.core.frontmatter import Frontmatter
from app.core.lenient_yaml import LONGEST, MOST_ENTRIES, MOST_LINES, Unread
from app.core.rules import short

MOST_TOLD = 3
"""Of the places that cannot be read."""

MEANT = frozenset(
    f"{word}{more}" for word in ("path", "glob", "file", "pattern", "filepath", "filepattern") for more in ("", "s")
) | {"applyto", "alwaysapply", "filematchpattern"}
"""Keys, in small letters, that are written where ``paths`` is meant."""

_NO_LETTER = re.compile(r"[^a-z]")

_TOO_LONG = (
    f"The frontmatter is too long to be read and was ignored: it may have {LONGEST:,} characters, and {MOST_LINES:,} "
    f"lines with {MOST_ENTRIES} keys where a line is not valid YAML."
)
_NO_KEYS = "What stands between the first two lines of --- holds no keys and was left out: is it text?"
_LISTED = "so that paths has no effect: write each pattern in quotes, on a line after a dash, all with the same indent."
_QUOTED = "Put its value in quotes."
_EMPTY = "paths is empty, so that the rule loads always: name a pattern, or leave the key out."


def front_advice(front: Frontmatter) -> list[str]:
    """What holds in any file."""
    if front.unreadable and not front.unread:
        return [_TOO_LONG]
    places = sorted((one for one in front.unread if one.line != front.near), key=lambda one: one.key != "paths")
    told = [_unread(one) for one in places[:MOST_TOLD]]
    left = len(places) - len(told)
    return [*told, *([f"So it is with {left:,} more lines."] if left else []), *([_NO_KEYS] if front.keyless else [])]


def _unread(place: Unread) -> str:
    wrong = f"Line {place.line} is not valid YAML"
    if place.key is None:
        return f"{wrong} and was left out: write KEY: VALUE."
    return f"{wrong}, {_LISTED}" if place.key == "paths" else f"{wrong}: {short(place.key)} was left out. {_QUOTED}"


def rule_advice(front: Frontmatter) -> list[str]:
    """What holds in a rule: why it has no condition, or less of one than it was given."""
    advice = []
    if front.unclosed:
        advice.append("The frontmatter never closes, so that it is text: end it with a line of ---.")
    if front.displaced:
        advice.append("Frontmatter only counts at the very top of the file: move it before everything else.")
    if "paths" in front.values:
        return [*advice, *_on_paths(front.values["paths"])]
    lost = [one.key for one in front.unread if one.key is not None]
    foreign = None if "paths" in lost else _foreign(front.values, lost)
    if foreign:
        advice.append(f"The key {short(foreign)} has no effect here: write paths: to make the rule conditional.")
    elif front.near is not None:
        wrong = f"Line {front.near} looks like a condition and is none"
        advice.append(f"{wrong}: write paths: at the start of a line, with a blank after it.")
    return advice


def _foreign(values: Mapping[str, Any], lost: Iterable[str]) -> str | None:
    """The first key that would set a condition elsewhere; none in a rule that is to load always."""
    if values.get("alwaysApply") is True:
        return None
    filled = [key for key, value in values.items() if value not in (None, "", [])]
    return next((key for key in (*filled, *lost) if _plain(key) in MEANT), None)


def _plain(key: str) -> str:
    return _NO_LETTER.sub("", key.lower())


def _on_paths(paths: object) -> list[str]:
    if isinstance(paths, dict):
        return [f"The value of paths {_as_mapping(paths)} and was ignored: write patterns, in quotes."]
    items = paths if isinstance(paths, list) else [paths]
    mapping = next((one for one in items if isinstance(one, dict)), None)
    if mapping is not None:
        return [f"A value of paths {_as_mapping(mapping)} and was ignored: put it in quotes."]
    if any(not isinstance(one, str | None) for one in items):
        return ["A value of paths that is not text was ignored: put it in quotes."]
    return [_EMPTY] if all(map(_is_empty, items)) else []


def _as_mapping(mapping: Iterable[object]) -> str:
    first = next((f" ({short(str(key))}: …)" for key in mapping), "")
    return f"reads as a mapping{first}"


def _is_empty(item: str | None) -> bool:
    return item is None or not item.replace(",", " ").strip()
