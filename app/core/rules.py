"""Conditions of rules: ``paths`` in frontmatter, and whether a touched file meets them: git-ignore's patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.core.globs import Pattern, compiled, expanded
from app.core.lenient_yaml import split_commas
from app.core.pauses import PAUSE, Steps, at_once

MOST_PATTERNS = 1000
MOST_CHARACTERS = 4 * 1024 * 1024
"""Of one file's patterns once braces are expanded."""

MOST_NAMED = 3
LONGEST_NAMED = 100
"""How many faulty patterns of a rule a hint names, and how many characters of each."""

_BACKSLASHED = re.compile(r"\w\\[\w*]")
_SLASH = re.compile("/")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_TWO = re.compile(r"\*[^\s;/*]*(?:(?P<blank>\s)|;)[\s;]*[^\s;]")


def globs_from(paths: object) -> tuple[str, ...]:
    """The patterns that ``paths`` means, expanded; empty: no condition.

    Strings are split at commas outside braces, braces expand as in bash within a budget per file (a pattern beyond it
    stays as written), and a trailing ``/**`` goes where the pattern is not negated.
    """
    budget = _Budget(MOST_PATTERNS, MOST_CHARACTERS)
    globs = [glob for entry in _entries(paths) if entry for glob in budget.expand(entry)]
    kept = tuple(one for glob in globs if (one := glob if glob.startswith("!") else glob.removesuffix("/**")))
    return () if all(glob == "**" for glob in kept) else kept


def _entries(paths: object) -> Iterator[str]:
    for item in paths if isinstance(paths, list) else [paths]:
        if isinstance(item, str):
            yield from (_bare(entry.strip()) for entry in split_commas(item))


def _bare(entry: str) -> str:
    """Without quotes of its own: who lists patterns after ``paths:`` may have quoted each."""
    quoted = len(entry) > 1 and entry[0] == entry[-1] and entry[0] in "\"'"
    return entry[1:-1].strip() if quoted else entry


@dataclass(slots=True)
class _Budget:
    patterns: int
    characters: int

    def expand(self, pattern: str) -> tuple[str, ...]:
        found = expanded(pattern, self.patterns, self.characters) or (pattern,)
        self.patterns -= len(found)
        self.characters -= sum(map(len, found))
        return found


@dataclass(frozen=True, slots=True)
class Condition:
    """Git-ignore matching of one rule's patterns, upper and lower case alike. ``invalid`` patterns match nothing.

    The last pattern that fits a file or a folder above it decides. Git itself takes nothing back out of a folder that
    it ignores as a whole, so that ``src`` beside ``!src/gen/**`` would keep ``src/gen``; here that is taken out.
    """

    patterns: tuple[Pattern, ...]
    invalid: tuple[str, ...]

    def met_by(self, relative: str) -> bool:
        """Whether the file at ``relative`` (to the rule's base, ``/`` separators) meets the condition."""
        return at_once(self.comparing(relative))

    def comparing(self, relative: str) -> Steps[bool]:
        """The same, with pauses."""
        left, decided, met = PAUSE, -1, False
        for level in _levels(relative.lower()):
            for at in range(len(self.patterns) - 1, decided, -1):
                left -= len(level)
                if left < 0:
                    yield
                    left = PAUSE
                if self.patterns[at].matches(level):
                    if met or self.patterns[at].include:
                        decided, met = at, self.patterns[at].include
                    break
        return met


def _levels(path: str) -> Iterator[str]:
    """The folders above ``path``, outermost first, each with a slash at its end, and ``path`` itself."""
    for found in _SLASH.finditer(path):
        yield path[: found.end()]
    yield path


def condition(globs: tuple[str, ...]) -> Condition:
    patterns: list[Pattern] = []
    invalid: list[str] = []
    for glob in globs:
        pattern = compiled(glob.lower())
        if pattern is None:
            invalid.append(glob)
        else:
            patterns.append(pattern)
    return Condition(tuple(patterns), tuple(invalid))


def can_never_match(glob: str, base: str) -> bool:
    """Whether no path below ``base`` (``/`` separators) can fit: ``glob`` is absolute or has dots in front."""
    bare = glob.removeprefix("!")
    inside = base.rstrip("/")
    return (
        bare.startswith(("./", "../", "~/"))
        or _BACKSLASHED.search(bare) is not None
        or (bool(inside) and bare.startswith(f"{inside}/"))
        or "/../" in bare
        or bare in {".", ".."}
        or _DRIVE.match(bare) is not None
    )


def _instead(glob: str, base: str) -> str:
    bare = glob.removeprefix("!")
    if _BACKSLASHED.search(bare):
        return "folders are parted by / here"
    if bare.startswith("./") and not can_never_match(bare[2:], base):
        return f"write {short(bare[2:])}"
    return f"write it relative to {base}, without dots"


def short(glob: str) -> str:
    """As much of a pattern, or of a key, as a hint names."""
    return glob if len(glob) <= LONGEST_NAMED else f"{glob[:LONGEST_NAMED]}…"


def _oddity(glob: str) -> str | None:
    """What makes the pattern look like something else than one pattern."""
    if glob.startswith("- "):
        return "begins with a dash: write each pattern on a line of its own below paths"
    if any(glob.startswith(quote) != glob.endswith(quote) for quote in "\"'"):
        return "has a quote too few"
    two = _TWO.search(glob)
    return f"has a {'blank' if two['blank'] else ';'} in it: where it is two, put a comma between them" if two else None


def waiting(globs: tuple[str, ...], invalid: tuple[str, ...], base: str) -> tuple[str, tuple[str, ...]]:
    """Why a rule whose condition is not met waits, and what is wrong with its patterns: a reason and sentences."""
    hopeless = tuple(glob for glob in globs if glob not in invalid and can_never_match(glob, base))
    faulty = {*invalid, *hopeless}
    odd = tuple((glob, why) for glob in globs if glob not in faulty and (why := _oddity(glob)))
    advice = (
        *(f"The pattern {short(glob)} cannot be read." for glob in invalid[:MOST_NAMED]),
        *(f"The pattern {short(glob)} never matches: {_instead(glob, base)}." for glob in hopeless[:MOST_NAMED]),
        *(f"The pattern {short(glob)} {why}." for glob, why in odd[:MOST_NAMED]),
    )
    left = sum(len(wrong[MOST_NAMED:]) for wrong in (invalid, hopeless, odd))
    if left:
        advice = (*advice, f"So it is with {left:,} more.")
    if globs and all(glob.startswith("!") for glob in globs):
        return "pattern_never_matched", (*advice, "Only negated patterns take nothing out of nothing: name what fits.")
    if len(invalid) == len(globs):
        return "pattern_invalid", advice
    return ("pattern_never_matched" if len(invalid) + len(hopeless) == len(globs) else "condition_not_met"), advice
