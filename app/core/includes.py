"""What an ``@PATH`` means: the paths it can stand for, best first, how far it may reach, and what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from app.core.document import is_text_name
from app.core.facts import Client, GitRoots, Kind, MemoryOptions
from app.core.flow import Flow, carries, look
from app.core.levels import Level
from app.core.markdown import Mention
from app.core.paths import Paths

MOST_LEVELS = 5
"""The file that starts a chain is level 1: four includes deep."""

LONGEST = 4096
"""A longer word is no path."""

MOST_SHORTER = 8
"""Of a long run of punctuation, so many names are tried before the one without any."""

TRAILING = ".,;:!?)]'\"}>。，；：！？）】」』”’、"  # noqa: RUF001 - punctuation of other scripts ends words too
_MARK_WITHIN = re.compile("[。，；：！？）】」』”’、]")  # noqa: RUF001 - scripts without spaces go on behind a mark
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far includes may reach without consent."""

    paths: Paths
    folders: tuple[str, ...]
    everywhere: bool

    def holds(self, level: Level, *places: str) -> bool:
        """Whether an include of a ``level`` file may stand at all of ``places`` (as written, and real)."""
        if level.trusted or self.everywhere:
            return True
        return all(any(self.paths.within(place, folder) for folder in self.folders) for place in places)


def reach(client: Client, roots: GitRoots | None, options: MemoryOptions, paths: Paths) -> Reach:
    folders = [client.cwd]
    if roots and options.include_boundary == "repository" and paths.within(client.cwd, roots.toplevel):
        folders.append(roots.toplevel)
    return Reach(paths, tuple(folders), options.allow_external_includes)


def leads_out(reach: Reach, roots: GitRoots | None, path: str, real: str) -> Flow[bool]:
    """Whether ``path`` needs consent: a link that came with the repository, and leads to ``real`` out of reach.

    What a person on the machine has linked is that person's wish.
    """
    if roots is None or roots.bare or real == path or reach.everywhere or not reach.paths.within(path, roots.toplevel):
        return False
    if any(reach.paths.within(real, folder) for folder in reach.folders):
        return False
    return (yield from carries(path, roots.toplevel))


def once_each(mentions: Iterable[Mention]) -> Iterable[Mention]:
    """The first mention of each path, in order."""
    first: dict[str, Mention] = {}
    for mention in mentions:
        first.setdefault(mention.path, mention)
    return first.values()


def targets(mention: Mention, folder: str, home: str | None, paths: Paths) -> Iterator[str]:
    """Absolute paths that ``mention``, written in a file of ``folder``, can mean; none when it is no path.

    The literal name comes first, then the name without backslashes before punctuation, then without what ends a
    sentence, then up to the first mark of a script that is written without spaces.
    """
    if len(mention.path) > LONGEST:
        return
    written = mention.path.split("#", 1)[0].replace("\\ ", " ")
    names = [written]
    if "\\" in written and not paths.windows:
        names.append(_ESCAPED.sub(r"\1", written))
    for name in list(names):
        bare = name.rstrip(TRAILING)
        shorter = [name[:end] for end in range(len(name) - 1, len(bare), -1)]
        names.extend([*shorter[:MOST_SHORTER], bare, _MARK_WITHIN.split(name, maxsplit=1)[0]])
    for name in dict.fromkeys(names):
        path = _absolute(name, folder, home, paths)
        if path is not None:
            yield path


def _absolute(name: str, folder: str, home: str | None, paths: Paths) -> str | None:
    if name.startswith("~/"):
        return paths.join(home, name[2:]) if home and len(name) > len("~/") else None
    if paths.is_absolute(name):
        return None if paths.is_root(paths.normal(name)) else paths.normal(name)
    return paths.join(folder, name) if name[:1].isalnum() or name.startswith((".", "_", "-")) else None


def better_form(
    mention: Mention, folder: str, others: Sequence[str], home: str | None, paths: Paths
) -> Flow[str | None]:
    """A form of a mention that leads nowhere which would have worked, when one is easily found: a sentence.

    ``folder`` is where the mention stands, ``others`` are folders that it may have been written for.
    """
    if mention.after:
        spaced = Mention(f"{mention.path}\\ {mention.after}", mention.line)
        if (yield from _file(spaced, folder, home, paths)):
            return f"The path is cut at a space: write @{spaced.path} with a backslash before the space."
    written = paths.slashed(mention.path).rstrip(TRAILING)
    if mention.path.startswith(("~", "/")) or paths.is_absolute(mention.path) or not {".", "/"}.intersection(written):
        return None  # a word without a dot or a slash is a handle or a decorator sooner than a path
    for other in dict.fromkeys(others):
        found = (yield from _file(mention, other, home, paths)) if other != folder else None
        if found:
            form = paths.slashed(paths.relative_from(found, folder)).replace(" ", "\\ ")
            return f"Includes are relative to the file they stand in: write @{form}."
    return None


def _file(mention: Mention, folder: str, home: str | None, paths: Paths) -> Flow[str | None]:
    for target in targets(mention, folder, home, paths):
        readable = is_text_name(paths.extension(target)) and not is_git_metadata(target, paths)
        if readable and (yield from look(target)).kind is Kind.FILE:
            return target
    return None


def is_git_metadata(path: str, paths: Paths) -> bool:
    return any(part.lower() == ".git" for part in paths.slashed(path).split("/"))
