"""One memory file: bytes in; text without frontmatter and block comments, conditions and mentions out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from app.core.front_advice import front_advice, rule_advice
from app.core.frontmatter import split_frontmatter
from app.core.markdown import MarkdownReader, Mention
from app.core.rules import condition, globs_from
from app.core.tokens import utf16_length
from app.core.units import first_units

MOST_LINES = 200
MOST_UNITS = 25_000
"""Limits of a memory index, the second in UTF-16 units."""

_ENDINGS = """
    md markdown mdx mdc txt text rst adoc asciidoc org tex latex bib
    json json5 jsonc jsonl ndjson yaml yml toml ini cfg conf config env properties xml xsd xsl xslt csv tsv
    log lock diff patch
    html htm xhtml css scss sass less styl js jsx mjs cjs ts tsx mts cts vue svelte astro hbs ejs pug j2 jinja jinja2
    tpl jade tmpl mustache liquid erb
    py pyi pyx pyw rb rake php go rs java kt kts scala sc groovy clj cljs cljc edn swift m mm c h cc cxx cpp hh hxx hpp
    inl cs fs fsx fsi vb dart lua r rmd jl pl pm raku ex exs erl hrl hs lhs elm ml mli re nim zig sol v sv vhd vhdl asm
    s pas d f for f90 f95 cob lisp el scm rkt tcl
    sh bash zsh fish ksh csh bat cmd ps1 psm1 awk sed
    sql graphql gql proto thrift avsc prisma
    gradle sbt cmake make makefile mk bazel bzl nix tf tfvars hcl dockerfile containerfile
    editorconfig gitignore gitattributes dockerignore npmrc
"""
TEXT_EXTENSIONS = frozenset(_ENDINGS.split())


def is_text_name(extension: str) -> bool:
    """Whether a file of this ending (lower case, with its dot; empty for none) is taken for text."""
    return extension in {"", "."} or extension[1:] in TEXT_EXTENSIONS


@dataclass(frozen=True, slots=True)
class Document:
    """``raw`` is the decoded text without a byte order mark; ``text`` what reaches the model, not yet trimmed.

    ``globs`` come from ``paths`` in the frontmatter. ``advice`` holds what one edit would mend, in sentences;
    ``rule_advice`` what would if the document is a rule.
    """

    raw: str
    text: str
    globs: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    advice: tuple[str, ...] = ()
    rule_advice: tuple[str, ...] = ()

    def advice_for(self, *, is_rule: bool, included: bool = False) -> tuple[str, ...]:
        pointless = (_INCLUDED if included else _POINTLESS) if self.globs else ()
        return (*(self.rule_advice if is_rule else pointless), *self.advice)


_INCLUDED = ("Its own paths has no effect: it comes with the file that includes it, whatever is touched.",)
_POINTLESS = ("The key paths has no effect here: only files in a rules folder wait for a touched file.",)


Parse = Callable[[bytes], Document | None]


Faults = Callable[[tuple[str, ...]], tuple[str, ...]]


class Documents(Protocol):
    """Where documents are kept, by the bytes of their files, and what is wrong with their patterns."""

    def document(self, data: bytes, parse: Parse) -> Document | None:
        """What ``parse`` makes of ``data``, kept from an earlier call where it is."""

    def unreadable(self, globs: tuple[str, ...], find: Faults) -> tuple[str, ...]:
        """What ``find`` finds among ``globs``, kept from an earlier call where it is."""


@dataclass(frozen=True, slots=True)
class EveryDocument:
    """Keeps all documents, as long as it lives."""

    known: dict[bytes, Document | None] = field(default_factory=dict)
    faults: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def document(self, data: bytes, parse: Parse) -> Document | None:
        if data not in self.known:
            self.known[data] = parse(data)
        return self.known[data]

    def unreadable(self, globs: tuple[str, ...], find: Faults) -> tuple[str, ...]:
        if globs not in self.faults:
            self.faults[globs] = find(globs)
        return self.faults[globs]


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads documents, each content once while it is kept."""

    markdown: MarkdownReader
    documents: Documents = field(default_factory=EveryDocument)

    def read(self, data: bytes) -> Document | None:
        """The document, or None when the bytes are not text."""
        return self.documents.document(data, self._parsed)

    def unreadable(self, globs: tuple[str, ...]) -> tuple[str, ...]:
        """Those patterns of a condition that cannot be read."""
        return self.documents.unreadable(globs, _unreadable)

    def _parsed(self, data: bytes) -> Document | None:
        if b"\0" in data:
            return None
        raw = data.decode("utf-8", "replace").removeprefix("\ufeff")
        front = split_frontmatter(raw)
        reading = self.markdown.read(front.body)
        advice = front_advice(front)
        if reading.open_comment_line is not None:
            advice.append(f"Line {reading.open_comment_line + front.lines}: a comment opens and never closes; add -->.")
        if reading.open_fence_line is not None:
            advice.append(
                f"Line {reading.open_fence_line + front.lines}: a code fence never closes; what follows is code."
            )
        if reading.long_line is not None:
            line = reading.long_line + front.lines
            advice.append(f"Line {line} is too long: includes in it are not looked for.")
        if reading.unread_line is not None:
            advice.append(
                f"From line {reading.unread_line + front.lines} on this text takes too long to look through: includes "
                "and comments there do not count. Make it shorter, or its Markdown plainer."
            )
        return Document(
            raw=raw,
            text=reading.text,
            globs=globs_from(front.values.get("paths")),
            mentions=tuple(
                Mention(mention.path, mention.line + front.lines, mention.after) for mention in reading.mentions
            ),
            advice=tuple(advice),
            rule_advice=tuple(rule_advice(front)),
        )


def _unreadable(globs: tuple[str, ...]) -> tuple[str, ...]:
    return condition(globs).invalid


def limited(text: str) -> str:
    """A memory index within its limits; what is cut is told in a line at its end."""
    whole = text.strip()
    lines = whole.split("\n")
    units = utf16_length(whole)
    if len(lines) <= MOST_LINES and units <= MOST_UNITS:
        return whole
    kept = "\n".join(lines[:MOST_LINES])
    if utf16_length(kept) > MOST_UNITS:
        kept = _cut(kept)
    limits = []
    if len(lines) > MOST_LINES:
        limits.append(f"{MOST_LINES} lines")
    if units > MOST_UNITS:
        limits.append(f"{MOST_UNITS:,} characters")
    return (
        f"{kept}\n\n> Note: this memory index has {len(lines):,} lines and {units:,} characters; the limit is "
        f"{' and '.join(limits)}. Only the part above was loaded. Keep one short line per entry and move details to "
        "files of their own."
    )


def _cut(text: str) -> str:
    """``text`` up to the last line end within the limit, or to a whole character where one line is longer."""
    within = first_units(text, MOST_UNITS)
    if text[len(within) : len(within) + 1] == "\n":
        return within
    line_end = within.rfind("\n")
    return within[:line_end] if line_end > 0 else within
