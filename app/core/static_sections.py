"""The sections that are the same for everybody. They see `SharedFacts` only: no date, path, model or user."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.registry import SharedFacts


@dataclass(frozen=True, slots=True)
class Advice:
    """A point about a tool. ``tools`` are the names it goes by; the first enabled one takes the place of ``{tool}``."""

    tools: tuple[str, ...]
    text: str

    def apply(self, enabled: frozenset[str]) -> str | None:
        found = next((name for name in self.tools if name in enabled), None)
        return None if found is None else self.text.replace("{tool}", found)


SHELL = "Bash"

DEDICATED = (
    Advice(("Read",), "Read files with {tool}, not with `cat`, `head`, `tail` or `sed`."),
    Advice(("Edit",), "Change files with {tool}, not with `sed` or `awk`."),
    Advice(("Write",), "Create files with {tool}, not with `echo` or a here-document."),
    Advice(("Glob",), "Find files by name with {tool}, not with `find` or `ls`."),
    Advice(("Grep",), "Search contents with {tool}, not with `grep` or `rg`."),
    Advice(("WebFetch",), "Fetch pages from the web with {tool}, not with `curl` or `wget`."),
)
"""What a tool does better than the shell."""

FURTHER = (
    Advice(
        ("TaskCreate", "TodoWrite"),
        "Plan work of several steps with {tool}, and mark each step done when it is done, not at the end.",
    ),
    Advice(
        ("Agent", "Task"),
        "Hand {tool} a search or a piece of work that would fill this conversation with output you will not need "
        "again. Tell it all it must know, and do not do the same work yourself meanwhile.",
    ),
    Advice(
        ("AskUserQuestion",),
        "When the user must choose, ask with {tool}; do not ask what you could find out yourself.",
    ),
)

PARALLEL = (
    "Send calls that do not need each other's results together, in one turn. A call that needs the result of another "
    "waits for it: never guess an argument."
)
SHELL_LAST = (
    "Use a dedicated tool where there is one: the user can follow it and permit it more easily than a command line. "
    f"Keep {SHELL} for what only a shell can do, such as builds, tests and version control."
)


def intro(facts: SharedFacts) -> str:
    task = facts.prose["intro_task_styled" if facts.styled else "intro_task"]
    return f"{facts.prose['intro_identity']} {task}\n\n{facts.prose['intro_security']}"


def doing_tasks(facts: SharedFacts) -> str | None:
    return None if facts.style_replaces_coding else facts.prose["doing_tasks"]


def using_tools(facts: SharedFacts) -> str | None:
    if not facts.tools:
        return None
    dedicated = applying(DEDICATED, facts.tools) if SHELL in facts.tools else ()
    points = (
        *((SHELL_LAST,) if dedicated else ()),
        *dedicated,
        *applying(FURTHER, facts.tools),
        PARALLEL,
    )
    return bulleted("# Using tools", points)


def applying(rows: tuple[Advice, ...], enabled: frozenset[str]) -> tuple[str, ...]:
    """The points of ``rows`` that are about an enabled tool, in order."""
    return tuple(point for row in rows if (point := row.apply(enabled)) is not None)


def bulleted(heading: str, points: tuple[str, ...]) -> str:
    return "\n".join((heading, "", *(f"- {point}" for point in points)))
