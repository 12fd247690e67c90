"""Exclude globs: matched against absolute paths, ``*`` within a folder, ``**`` across folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from app.core.flow import Flow, look
from app.core.globs import Pattern, compiled, expanded
from app.core.paths import Paths
from app.core.pauses import PAUSE, Steps, at_once

MOST_EXPANDED = 1000
MOST_CHARACTERS = 128 * 1024
"""Of all patterns that count, in every form they are read in: what reading one costs goes by its characters."""

MOST_VIEWS = 8
"""Of one file: paths by which the folder it stands in was given."""

MOST_FORMS = 4
"""Of one pattern: as written and with its links resolved, each also for the folder it may name."""

LONGEST = 4096

_WILD = re.compile(r"[*?{\[]")
_WILD_OR_ESCAPE = re.compile(r"[*?\[\\]")
_EXTENDED = re.compile(r"[@?]\((?P<choices>[^()]*)\)")
_UNSUPPORTED = re.compile(r"[*+!]\(")


@dataclass(frozen=True, slots=True)
class ExcludeGlob:
    """A pattern as written, and where: a settings file's path, or ``memory.exclude``.

    ``shared``: it was written for many projects, so that it need not fit anything in this one.
    """

    glob: str
    origin: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Excludes:
    """``dead`` patterns can match nothing; each comes with a hint. ``views`` are links and the real folders behind."""

    paths: Paths
    patterns: tuple[tuple[Pattern, ExcludeGlob], ...] = ()
    dead: tuple[tuple[ExcludeGlob, str, str], ...] = ()
    views: tuple[tuple[str, str], ...] = ()

    def match(self, candidates: Iterable[str]) -> ExcludeGlob | None:
        """The first pattern that one of the paths fits: any of a file's names counts, link or target."""
        return at_once(self.comparing(candidates))

    def comparing(self, candidates: Iterable[str]) -> Steps[ExcludeGlob | None]:
        """The same, with pauses."""
        left = PAUSE
        for path in self._as_seen(candidates) if self.patterns else ():
            anchored = self.paths.slashed(path).lstrip("/")
            for pattern, written in self.patterns:
                left -= len(anchored)
                if left < 0:
                    yield
                    left = PAUSE
                if pattern.matches(anchored):
                    return written
        return None

    def _as_seen(self, candidates: Iterable[str]) -> Iterable[str]:
        """The paths, and behind them those by which somebody sees the same files who goes by the links in use."""
        names = dict.fromkeys(candidates)
        below = ((link, self.paths.relative(name, real)) for name in names for link, real in self.views)
        seen = (self.paths.join(link, rest) for link, rest in below if rest)
        return dict.fromkeys((*names, *islice(seen, MOST_VIEWS)))


def excludes(globs: Iterable[ExcludeGlob], paths: Paths, given: Iterable[str] = ()) -> Flow[Excludes]:
    """Compiles the patterns, each also with its existing prefix resolved through links.

    ``given`` are folders by the paths that were asked for.
    """
    live: list[tuple[Pattern, ExcludeGlob]] = []
    dead: list[tuple[ExcludeGlob, str, str]] = []
    beyond: dict[str, list[ExcludeGlob]] = {}
    left, characters = MOST_EXPANDED, MOST_CHARACTERS
    for written in globs:
        if left <= 0 or characters <= 0:
            beyond.setdefault(written.origin, []).append(written)
            continue
        found = yield from _compiled(written.glob, paths, left, characters // MOST_FORMS)
        if isinstance(found, str):
            left -= 1
            dead.append((written, _REASONS.get(found, "pattern_never_matched"), found))
            continue
        left -= len(found)
        characters -= sum(len(pattern.glob) for pattern in found)
        live.extend((pattern, written) for pattern in found)
    dead.extend((first, "budget", _beyond(len(more))) for first, *more in beyond.values())
    return Excludes(paths, tuple(live), tuple(dead), (yield from _views(given, paths)) if live else ())


def _views(given: Iterable[str], paths: Paths) -> Flow[tuple[tuple[str, str], ...]]:
    """Each link on the way to the folders, as it was written, and what it leads to."""
    found: dict[tuple[str, str], None] = {}
    for folder in given:
        if (yield from look(folder)).real == folder:
            continue
        above = None
        for step in paths.chain(folder):
            real = (yield from look(step)).real
            if real != paths.join(above or paths.parent(step), paths.name(step)):
                found[step, real] = None
            above = real
    return tuple(found)


def _beyond(more: int) -> str:
    return f"{_TOO_MANY} So it is with the {more:,} behind it." if more else _TOO_MANY


_RELATIVE = "Excludes are matched against absolute paths: begin the pattern with / or **/."
_NEGATED = "Excludes cannot be negated: list only what should not load."
_TOO_MANY = "There are too many exclude patterns, or too long ones: the first 1,000 count, braces expanded."
_UNREADABLE = "This pattern cannot be read: use *, **, ?, [ab] and {a,b}."


_REASONS = {_UNREADABLE: "pattern_invalid", _TOO_MANY: "budget"}


def _compiled(glob: str, paths: Paths, most: int, characters: int) -> Flow[list[Pattern] | str]:
    text = paths.slashed(glob.strip())
    if text.startswith("!"):
        return _NEGATED
    if not text or len(text) > LONGEST or _UNSUPPORTED.search(text):
        return _UNREADABLE
    text = _EXTENDED.sub(_as_braces, text)
    every: list[str] = []
    each = expanded(text, most, characters)
    if each is None:
        return _TOO_MANY
    for one in each:
        absolute = one.removeprefix("./") if one.startswith("./**") else one
        if absolute != "**" and not absolute.startswith("**/") and not paths.is_absolute(absolute):
            return _RELATIVE
        every.append(absolute)
        resolved = yield from _resolved(absolute, paths)
        every.extend([resolved] if resolved else [])
    found = [compiled(anchored) for one in every for anchored in _anchored(one)]
    return [pattern for pattern in found if pattern] if all(found) else _UNREADABLE


def _as_braces(found: re.Match[str]) -> str:
    choices = found["choices"].replace("|", ",")
    if found[0].startswith("?"):
        choices = f",{choices}"
    return f"{{{choices}}}" if "," in choices else choices


def _resolved(glob: str, paths: Paths) -> Flow[str | None]:
    """The pattern with the folder before its first wildcard resolved, when that makes a difference."""
    if glob.startswith("**"):
        return None
    wild = _WILD.search(glob)
    static = glob[: wild.start()] if wild else glob
    folder = static[: static.rfind("/")]
    if not folder:
        return None
    node = yield from look(paths.normal(folder))
    real = paths.slashed(node.real)
    return _WILD_OR_ESCAPE.sub(r"\\\g<0>", real) + glob[len(folder) :] if real != folder else None


def _anchored(glob: str) -> Iterator[str]:
    """The pattern as git-ignore patterns that begin at the root."""
    # `[!a]` is a class that holds `!` here, and a folder's own name fits `folder/**`: as the client matches.
    literal = glob.replace("[!", "[\\!")
    yield literal if literal.startswith(("/", "**")) else f"/{literal}"
    folder = literal.removesuffix("/**")
    if folder not in {literal, "", "**"}:
        yield folder if folder.startswith(("/", "**")) else f"/{folder}"


def is_wild(glob: str) -> bool:
    return _WILD.search(glob) is not None


def static_folder(glob: str, paths: Paths) -> str | None:
    """What an absolute pattern names before its first wildcard: a folder, or the whole path when it has none."""
    text = paths.slashed(glob.strip())
    wild = _WILD.search(text)
    static = text[: text.rfind("/", 0, wild.start())] if wild else text
    return paths.normal(static) if static and paths.is_absolute(static) else None
