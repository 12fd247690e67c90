"""Every target: a function that takes any bytes and raises when something does not hold."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz import bodies, conversations, edges, texts

TARGETS: dict[str, Callable[[bytes], None]] = {
    **texts.TARGETS,
    **conversations.TARGETS,
    **bodies.TARGETS,
    **edges.TARGETS,
}
