"""What CommonMark says about a memory file: which block comments it holds, and where it mentions other files."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from markdown_it.token import Token

from app.core.parsers import A_LINE, A_REST, A_TOKEN, LEFT, TakesTooLongError, parser, spend

LONGEST_RUN = 8 * 1024
"""Characters that the inline parser is given at once."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_HEADING = re.compile(r"#{1,6}[ \t]")
_TELLING = re.compile(r"[@<]|```|~~~|\]:")
"""In a section without any of these there is no mention, comment, fence or definition of a link."""

_DELIMITERS = "*_~"
"""Each is tried against those before it."""

_MENTION = re.compile(r"(?:^|(?<=\s))@(?P<path>(?:\\ |\S)+)")
_SPACED = re.compile(r"[^\S\r\n]+(?P<more>[^\s@]\S*\.\w+)")


@dataclass(frozen=True, slots=True)
class Mention:
    """``@PATH`` in text: ``path`` as written, without the ``@``; ``line`` counts from 1; ``after`` is the next word."""

    path: str
    line: int
    after: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """A text without its block comments, and what it mentions, in order.

    From ``unread_line`` on nothing was looked for: that would take too long.
    """

    text: str
    mentions: tuple[Mention, ...] = ()
    open_comment_line: int | None = None
    open_fence_line: int | None = None
    long_line: int | None = None
    unread_line: int | None = None


class MarkdownReader:
    """Parses memory files. Stateless between calls, which may come from several threads; one per process is enough."""

    def __init__(self) -> None:
        self._whole = parser()
        self._blocks = parser().disable("inline")
        for one in (self._whole, self._blocks):
            one.parse("text")  # the first call fills the parser's tables, and no other thread may see them half full

    def read(self, text: str) -> Reading:
        if "<!--" not in text and "@" not in text:
            return Reading(text=text)
        env: dict[str, Any] = {}
        lines: list[str] = _LINE.findall(text)
        tokens, unread = self._blocks_in(lines, env)
        mentions, unheard = self._mentions(tokens, env) if "@" in text else ((), None)
        return Reading(
            text=_without_comments(lines, tokens) if "<!--" in text else text,
            mentions=mentions,
            open_comment_line=_open_comment(tokens),
            open_fence_line=_open_fence(lines, tokens),
            long_line=_long_line(tokens),
            unread_line=unread if unheard is None else unheard,
        )

    def _blocks_in(self, lines: Sequence[str], env: dict[str, Any]) -> tuple[list[Token], int | None]:
        """The blocks of those sections that can hold something to be told, and the line where that took too long."""
        tokens: list[Token] = []
        for start, end in _telling(lines):
            try:
                spend(env, A_LINE)
                found = self._blocks.parse("".join(lines[start:end]), env)
                if end < len(lines) and _runs_on(found, end - start):
                    return tokens + _moved(self._blocks.parse("".join(lines[start:]), env), start), None
            except TakesTooLongError:
                env[LEFT] = A_REST
                return tokens, start + 1
            tokens += _moved(found, start)
        return tokens, None

    def _mentions(self, tokens: Sequence[Token], env: dict[str, Any]) -> tuple[tuple[Mention, ...], int | None]:
        """What the blocks mention, and the line where looking for it took too long."""
        found: list[Mention] = []
        for token in tokens:
            if "@" not in token.content or token.map is None:
                continue
            try:
                found.extend(tuple(self._mentions_of(token, token.map[0] + 1, env)))
            except TakesTooLongError:
                return tuple(found), token.map[0] + 1
        return tuple(found), None

    def _mentions_of(self, token: Token, line: int, env: dict[str, Any]) -> Iterator[Mention]:
        if token.type == "inline":
            for start, run in _runs(token.content):
                children = self._whole.parseInline(run, env)[0].children or []
                spend(env, A_TOKEN * sum(map(run.count, _DELIMITERS)))
                for mention in _placed(_mentions_inline(children, 0), run):
                    yield replace(mention, line=line + start + mention.line)
        elif token.type == "html_block" and _is_comment(token.content) and "-->" in token.content:
            yield from _mentions_in("".join(_around_comments(token.content, keep_lines=True)), line)


def _telling(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Runs of sections worth parsing, as first line and the one after the last.

    A section begins with a heading after an empty line, which ends every block but an open fence or HTML.
    """
    starts = [at for at in range(1, len(lines)) if _HEADING.match(lines[at]) and not lines[at - 1].strip("\r\n")]
    begun: int | None = None
    for start, end in pairwise((0, *starts, len(lines))):
        if any(map(_TELLING.search, lines[start:end])):
            begun = start if begun is None else begun
        elif begun is not None:
            yield begun, start
            begun = None
    if begun is not None:
        yield begun, len(lines)


def _runs_on(tokens: Sequence[Token], lines: int) -> bool:
    """Whether the last block is one that what follows may belong to, too."""
    last = tokens[-1] if tokens else None
    return last is not None and last.type in {"fence", "html_block"} and last.map is not None and last.map[1] >= lines


def _moved(tokens: list[Token], lines: int) -> list[Token]:
    for token in tokens:
        if token.map is not None:
            token.map = [token.map[0] + lines, token.map[1] + lines]
    return tokens


def _is_comment(content: str) -> bool:
    return content.lstrip().startswith("<!--")


def _without_comments(lines: Sequence[str], tokens: Sequence[Token]) -> str:
    kept: list[str] = []
    at = 0
    for token in tokens:
        if token.type != "html_block" or token.level != 0 or token.map is None or not _is_comment(token.content):
            continue
        start, end = token.map
        block = "".join(lines[start:end])
        rest = "".join(_around_comments(block, keep_lines=False))
        if rest == block:
            continue
        kept.extend(lines[at:start])
        at = end
        if rest.strip():
            kept.append(rest)
            continue
        while at < len(lines) and not lines[at].strip():
            at += 1
    kept.extend(lines[at:])
    return "".join(kept)


def _around_comments(text: str, *, keep_lines: bool) -> Iterator[str]:
    """The text with its closed comments cut out; ``keep_lines``: their line ends stay."""
    at = 0
    while True:
        start = text.find("<!--", at)
        end = text.find("-->", start + len("<!--")) if start >= 0 else -1
        if end < 0:
            break
        yield text[at:start]
        at = end + len("-->")
        if keep_lines:
            yield "\n" * text.count("\n", start, at)
    yield text[at:]


def _runs(text: str) -> Iterator[tuple[int, str]]:
    """A paragraph in runs of whole lines, none longer than LONGEST_RUN, each with its first line from 0.

    The inline parser's cost is not linear. What spans two runs, such as a code span, is not seen; a line that is
    longer by itself is left out.
    """
    run: list[str] = []
    start = size = 0
    for index, line in enumerate(text.split("\n")):
        if run and size + _weight(line) > LONGEST_RUN:
            yield start, "\n".join(run)
            run, start, size = [], index, 0
        run.append(line if _weight(line) <= LONGEST_RUN else "")
        size += _weight(run[-1]) + 1
    yield start, "\n".join(run)


def _weight(line: str) -> int:
    """Characters, with opening brackets counted for what they cost: each is tried against all that follow."""
    return len(line) + 15 * line.count("[")


def _long_line(tokens: Sequence[Token]) -> int | None:
    """The first line of text that is too long to be looked through for includes."""
    for token in tokens:
        if token.type == "inline" and token.map and _weight(token.content) > LONGEST_RUN:
            for index, line in enumerate(token.content.split("\n")):
                if _weight(line) > LONGEST_RUN and "@" in line:
                    return token.map[0] + 1 + index
    return None


def _open_comment(tokens: Sequence[Token]) -> int | None:
    """The line of a block comment that nothing closes, when it swallows more than itself."""
    for token in tokens:
        if token.type == "html_block" and token.map and _is_comment(token.content) and "-->" not in token.content:
            return token.map[0] + 1
    return None


def _open_fence(lines: Sequence[str], tokens: Sequence[Token]) -> int | None:
    """The line of a code fence at the top level that runs to the end of the text."""
    for token in tokens:
        if token.type != "fence" or token.level or token.map is None:
            continue
        start, end = token.map
        last = lines[min(end, len(lines)) - 1].strip() if end > start + 1 else ""
        if end >= len(lines) and not (last and set(last) == {token.markup[0]} and len(last) >= len(token.markup)):
            return start + 1
    return None


def _placed(mentions: Iterator[Mention], content: str) -> Iterator[Mention]:
    """The mentions on their lines (from 0): the parser loses line ends inside code spans and link titles."""
    starts = [0, *(found.end() for found in re.finditer("\n", content))]
    lost = at = 0
    for mention in mentions:
        at = content.find(f"@{mention.path}", max(at, starts[mention.line + lost]))
        lost = bisect_right(starts, at) - 1 - mention.line
        yield replace(mention, line=mention.line + lost)


def _mentions_inline(tokens: Sequence[Token], line: int) -> Iterator[Mention]:
    run, begins = "", line
    for token in tokens:
        if token.type in {"text", "text_special"}:
            begins = begins if run else line
            run += token.markup if token.type == "text_special" else token.content
            continue
        yield from _mentions_in(run, begins)
        run = ""
        if token.type in {"softbreak", "hardbreak"}:
            line += 1
        else:
            line += token.content.count("\n")
    yield from _mentions_in(run, begins)


def _mentions_in(text: str, line: int) -> Iterator[Mention]:
    at = 0
    for found in _MENTION.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        after = _SPACED.match(text, found.end())
        yield Mention(found["path"], line, after["more"] if after else "")
