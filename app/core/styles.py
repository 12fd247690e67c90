"""Output styles: two that are built in, and those that people write as Markdown files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.core.facts import OutputStyle

DEFAULT_STYLE = "default"
BUILT_IN_STYLES = ("Explanatory", "Learning")


def built_in_style(name: str, prose: Mapping[str, str]) -> OutputStyle | None:
    """The built-in style of that name, in any case; None for ``default`` and for every other name."""
    found = next((style for style in BUILT_IN_STYLES if style.lower() == name.strip().lower()), None)
    if found is None:
        return None
    return OutputStyle(name=found, text=prose[found.lower()], keep_coding_instructions=True)


def is_default_style(name: str) -> bool:
    """Whether ``name`` asks for no style at all."""
    return name.strip().lower() in ("", DEFAULT_STYLE)


def parse_style(file_name: str, text: str, frontmatter: Mapping[str, Any]) -> OutputStyle:
    """The style that a file describes.

    Args:
        file_name: the file's name without its folder; without ``.md`` it is the style's name where none is given.
        text: what follows the frontmatter.
        frontmatter: ``name`` and ``keep-coding-instructions`` (default false) count.
    """
    given = frontmatter.get("name")
    name = given.strip() if isinstance(given, str) else ""
    return OutputStyle(
        name=name or file_name.removesuffix(".md"),
        text=text.strip(),
        keep_coding_instructions=_is_true(frontmatter.get("keep-coding-instructions")),
    )


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")
