"""The prompt's prose, read from the package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType


def load_prose() -> Mapping[str, str]:
    """Each text of the package by its file's name without ``.md``, white space around it removed. Read-only."""
    return MappingProxyType(
        {
            text.name.removesuffix(".md"): text.read_text(encoding="utf-8").strip()
            for text in sorted(files("app.core.prose").iterdir(), key=lambda entry: entry.name)
            if text.name.endswith(".md")
        }
    )
