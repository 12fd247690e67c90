"""Markdown parsers that count their steps, so that a text which takes too long is given up."""

from __future__ import annotations

from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_block import StateBlock, blockquote, fence, list_block, table
from markdown_it.rules_inline import StateInline, text

DEEPEST = 100
"""Blocks nested deeper than this are read as text: the parser is recursive."""

MOST_STEPS = 2_000_000
"""Of one document. A step takes a microsecond or two."""

A_LINE = 40
"""Steps that it takes to try the rules of blocks at one line, and to make the block."""

A_PLACE = 12
"""Steps that it takes to try the rules of text at one place."""

A_TOKEN = 6

A_REST = MOST_STEPS // 10
"""Steps for the blocks that were read before one took too long."""

LEFT = "steps_left"
"""In the environment that goes with one document from call to call."""

INTERRUPTS = ["paragraph", "reference", "blockquote", "list"]
"""Blocks that a fence or a quote ends."""


class TakesTooLongError(Exception):
    """A document has had all its steps."""


def parser() -> MarkdownIt:
    """CommonMark with GFM's tables and deletions; escapes stay apart from text and entities stay as written.

    It counts in the environment that it is given. Raises TakesTooLongError.
    """
    made = MarkdownIt("commonmark")
    made.inline = _Inline()
    made.configure("commonmark", {"maxNesting": DEEPEST})
    made.enable(["table", "strikethrough"]).disable(["text_join", "entity"])
    made.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    made.block.ruler.at("fence", _fence, {"alt": INTERRUPTS})
    made.block.ruler.at("blockquote", _quote, {"alt": INTERRUPTS})
    made.block.ruler.at("list", _list, {"alt": ["paragraph", "reference", "blockquote"]})
    made.inline.ruler.at("text", _text)
    return made


def spend(env: Any, steps: int) -> None:
    """Takes steps that are left to the document. Raises TakesTooLongError."""
    env[LEFT] = env.get(LEFT, MOST_STEPS) - steps
    if env[LEFT] < 0:
        raise TakesTooLongError


class _Inline(ParserInline):
    def skipToken(self, state: StateInline) -> None:  # noqa: N802 - the name is the parser's
        spend(state.env, 1)
        super().skipToken(state)


def _text(state: StateInline, silent: bool) -> bool:
    """The first rule at every place of a paragraph."""
    spend(state.env, A_PLACE)
    return text(state, silent)


def _fence(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """One of the first rules at every line, and among those that may end the block before it."""
    spend(state.env, A_LINE)
    return fence(state, start, end, silent)


def _quote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    return blockquote(state, start, end, silent) and _paid(state, silent, state.line - start)


def _list(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Each list looks through all that it holds."""
    before = len(state.tokens)
    return list_block(state, start, end, silent) and _paid(state, silent, (len(state.tokens) - before) // A_TOKEN)


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A short line makes as many cells as the table is wide."""
    before = len(state.tokens)
    return table(state, start, end, silent) and _paid(state, silent, A_TOKEN * (len(state.tokens) - before))


def _paid(state: StateBlock, silent: bool, steps: int) -> bool:
    if not silent:
        spend(state.env, max(0, steps))
    return True
