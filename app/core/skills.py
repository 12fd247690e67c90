"""Skills: what one SKILL.md says, and how the prompt lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from app.core.facts import Skill, Skills
from app.core.frontmatter import Frontmatter, split_frontmatter
from app.core.markdown import MarkdownReader
from app.core.tokens import utf16_length
from app.core.units import first_units

SKILL_TOOL = "Skill"
SKILL_FILE = "SKILL.md"
SWITCH = "disable-model-invocation"

HEAD = 4 * 1024
"""Characters of a SKILL.md that are looked at: its frontmatter has to end within them, since YAML is slow to read."""

MOST_LISTED = 100
LONGEST_NAME = 100
LONGEST_DESCRIPTION = 250
LONGEST_LIST = 8_000
"""What the prompt takes: skills, then UTF-16 units of a name, of a description with its mark, and of all lines."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f]|</?\s*system-reminder\s*>", re.IGNORECASE)
"""What could end the line, or the reminder in which the late layout may put it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a SKILL.md says. ``skill`` None: it cannot be listed. ``faults`` are sentences."""

    skill: Skill | None
    hidden: bool = False
    faults: tuple[str, ...] = ()


def read_skill(data: bytes, folder: str, markdown: MarkdownReader) -> Reading:
    """The skill that a file's bytes describe; ``folder`` is its name where the file gives none."""
    text = data.decode("utf-8-sig", "replace")
    front = split_frontmatter(text[:HEAD])
    hidden = _switched(front.values)
    name, *wrong = _text_of(front.values, "name")
    name = name or _folded(folder)
    fault = _fault(text, front, name)
    if fault or hidden is None:
        return Reading(None, faults=(fault or f"{SWITCH} has to be true or false.",))
    description, *more = _text_of(front.values, "description")
    description = description or _first_line(markdown.read(front.body).text)
    return Reading(Skill(name, _shortened(description)), hidden, (*wrong, *more))


def _fault(text: str, front: Frontmatter, name: str) -> str | None:
    """Why nothing can be listed: frontmatter that cannot be read may say that the model must not run the skill."""
    top = "Its frontmatter only counts at the very top of the file: move it before everything else."
    faults = (
        ("\0" in text, "It is not text: save it as UTF-8."),
        (not text.strip(), "It is empty: write what the skill does."),
        (front.unreadable, "Its frontmatter is not valid YAML: put its values in quotes."),
        (front.displaced, top),
        (_is_open(front), f"Its frontmatter does not end within {HEAD:,} characters: end it with a line of ---."),
        (
            not 1 <= utf16_length(name) <= LONGEST_NAME,
            f"Its name has to have 1 to {LONGEST_NAME} characters: set name in its frontmatter.",
        ),
    )
    return next((told for wrong, told in faults if wrong), None)


def _is_open(front: Frontmatter) -> bool:
    return not front.lines and front.body.startswith("---") and front.body.splitlines()[0].rstrip() == "---"


def _switched(values: Mapping[str, Any]) -> bool | None:
    """Whether the model must not run the skill; None when the file does not say it clearly."""
    value = values.get(SWITCH)
    return {"true": True, "false": False, "none": False}.get(str(value).strip().lower())


def _text_of(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The text on one line, empty where there is none, and a sentence if what is there is no text."""
    value = values.get(key)
    if value is None or isinstance(value, str):
        return (_folded(value or ""),)
    return "", f"The value of {key} is not text and was ignored: put it in quotes."


def _folded(text: str) -> str:
    return " ".join(_UNSAFE.sub(" ", text).split())


def _first_line(text: str) -> str:
    """The first line with words in it that is no heading."""
    for line, below in pairwise((*text.splitlines(), "")):
        if any(map(str.isalnum, line)) and not line.lstrip().startswith("#") and not _underlines(below):
            return _folded(line)
    return ""


def _underlines(line: str) -> bool:
    return line.strip() != "" and set(line.strip()) in ({"="}, {"-"})


def _shortened(text: str) -> str:
    if utf16_length(text) <= LONGEST_DESCRIPTION:
        return text
    return first_units(text, LONGEST_DESCRIPTION - len("…")).rstrip() + "…"


def listing(skills: Skills) -> tuple[str, ...]:
    """The paragraph that lists skills; none without any."""
    if not skills.listed:
        return ()
    opening = f"You can run these skills with {SKILL_TOOL} when they fit the task:"
    return ("\n".join((opening, *map(_line, skills.listed), *_more(skills.more))),)


def _line(skill: Skill) -> str:
    return f"- {skill.name}: {skill.description}" if skill.description else f"- {skill.name}"


def _more(count: int) -> Iterator[str]:
    if count == 1:
        yield "\n1 more skill is not listed; it counts as listed when the user names it."
    elif count:
        yield f"\n{count:,} more skills are not listed; one of them counts as listed when the user names it."


def fitting(skills: Sequence[Skill]) -> int:
    """How many of ``skills`` the list takes, from the first on."""
    units = 0
    for count, skill in enumerate(skills[:MOST_LISTED]):
        units += utf16_length(_line(skill)) + len("\n")
        if units > LONGEST_LIST + len("\n"):
            return count
    return min(len(skills), MOST_LISTED)
