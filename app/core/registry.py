"""What a section of the system prompt is: a name, how its text comes about, and how long that text holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from app.core.facts import Client, GitFacts, McpServer, OutputStyle, PromptOptions, SessionSettings
from app.core.models import Model

BOUNDARY = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"

ATTRIBUTION_HEADER_NAME = "attribution_header"
ATTRIBUTION_REST_NAME = "attribution_rest"
PREFIX_NAME = "prefix"
BOUNDARY_NAME = "boundary"

SectionKind = Literal["static", "cached", "uncached"]


class ReasonMissingError(ValueError):
    """A section that breaks the cache was declared without saying why."""


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """All that a static section may know: what many users have in common."""

    styled: bool
    style_replaces_coding: bool
    tools: frozenset[str]
    prose: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What the system prompt is made from.

    ``date`` is ``YYYY-MM-DD``. ``memory_dir`` None: auto memory is off. ``global_scope``: the default prompt carries
    the boundary. ``wire_model`` is the model's id as it is sent. ``prose`` maps the name of a text to the text.
    ``late``: what varies stands behind the instructions, so that the static sections may not depend on the output
    style.
    """

    client: Client
    git: GitFacts | None
    model: Model
    wire_model: str
    tools: frozenset[str]
    servers: tuple[McpServer, ...]
    settings: SessionSettings
    prompt: PromptOptions
    date: str
    memory_dir: str | None
    global_scope: bool
    prose: Mapping[str, str]
    late: bool = False

    @property
    def style(self) -> OutputStyle | None:
        """The output style in force: one without text directs nothing."""
        style = self.settings.output_style
        return style if style is not None and style.text.strip() else None

    @property
    def shared(self) -> SharedFacts:
        style = None if self.late else self.style
        replaces = style is not None and not style.keep_coding_instructions
        return SharedFacts(style is not None, replaces, self.tools, self.prose)


@dataclass(frozen=True, slots=True)
class Element:
    """One element of the prompt's list. ``text`` None: the section has nothing to say and is absent.

    ``reason`` says why an uncached section is one. ``origin``: computed now, or remembered by the session.
    """

    name: str
    text: str | None
    kind: SectionKind
    reason: str | None = None
    origin: Literal["computed", "remembered"] = "computed"


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the registry. ``compute`` gives the text, or None (or a blank text) for nothing."""

    name: str
    compute: Callable[[PromptFacts], str | None]
    kind: SectionKind
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "uncached" and not (self.reason or "").strip():
            raise ReasonMissingError(f"section {self.name} is computed every turn: give the reason in words")

    def resolve(self, facts: PromptFacts, remembered: Mapping[str, str | None]) -> Element:
        if self.kind == "cached" and self.name in remembered:
            return Element(self.name, remembered[self.name], "cached", origin="remembered")
        return Element(self.name, said(self.compute(facts)), self.kind, self.reason)

    def kept(self) -> Section:
        """The same section, computed once per session."""
        return replace(self, kind="cached", reason=None)


def static_section(name: str, compute: Callable[[SharedFacts], str | None]) -> Section:
    """A section with the same bytes for all users who share a style flag and a set of tools."""
    return Section(name, lambda facts: compute(facts.shared), "static")


def cached_section(name: str, compute: Callable[[PromptFacts], str | None]) -> Section:
    """A section computed once per session; that it had nothing to say is remembered too."""
    return Section(name, compute, "cached")


def dangerous_uncached_section(name: str, compute: Callable[[PromptFacts], str | None], reason: str) -> Section:
    """A section computed on every turn: each change of its text costs the cache of all that follows.

    Raises:
        ReasonMissingError: ``reason`` is blank.
    """
    return Section(name, compute, "uncached", reason)


def said(text: str | None) -> str | None:
    """``text``, or None when it is blank: the API takes no blank blocks."""
    return text if text is not None and text.strip() else None
