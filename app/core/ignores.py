"""What git ignores in a tree: its ``.gitignore`` files and ``info/exclude``, nested as git nests them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import re2
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.base import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from app.core.facts import Kind, Node
from app.core.flow import Flow, look, read
from app.core.paths import Paths

IGNORE_FILE = ".gitignore"
GIT = ".git"

STARRED = 10
"""What a line with a star costs beside one without, for each character it is compared with, at worst."""
FURTHER = 4
"""What each wildcard behind the first star adds to that."""

_ITSELF_OR_BELOW = "(?:(?P<ps_d>/)|$)"
_BELOW = "(?P<ps_d>/)"
_SURROGATE = re.compile("[\ud800-\udfff]")
_WILDCARD = re.compile(r"\*+|\?|\[")
_NEGATED_SET = re.compile(r"\[\^(?=[^]/-])")

Refusal = Literal["ignore_bytes", "ignore_file_bytes", "ignore_rules", "ignore_lines", "ignore_unreadable"]


@dataclass(frozen=True, slots=True)
class IgnoreList:
    """The lines of one file that say something, as matchers, strongest first: one, unless RE2 finds it too large.

    ``weight`` is what a path's character costs at worst, in steps; ``unread`` counts lines that cannot be read.
    """

    specs: tuple[GitIgnoreSpec, ...]
    size: int
    weight: int
    unread: int

    def verdict(self, path: str) -> bool | None:
        """Whether ``path``, as seen from the list's folder, is ignored; None: unsaid. Folders end in a slash."""
        for spec in self.specs:
            include = spec.check_file(path, ()).include
            if include is not None:
                return include
        return None


def ignore_lines(data: bytes) -> tuple[str, ...]:
    """The lines of an ignore file that are neither blank nor comments."""
    text = _plain(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape"))
    return tuple(_trimmed(line) for line in text.split("\n") if line.strip() and not line.startswith("#"))


def _trimmed(line: str) -> str:
    """Without the spaces at its end, but for one behind a backslash, of which pathspec sees only the last."""
    bare = line.removesuffix("\r").rstrip(" ")
    return f"{bare} " if bare.endswith("\\") and line.startswith(f"{bare} ") else bare


def ignore_list(lines: Sequence[str]) -> IgnoreList:
    patterns = [pattern for line in lines if (pattern := _pattern(line)) is not None]
    specs = tuple(_specs(patterns))
    size = sum(len(spec) for spec in specs)
    return IgnoreList(specs, size, sum(map(_weight, lines)), len(lines) - size)


def _pattern(line: str) -> GitIgnoreSpecPattern | None:
    """The line as pathspec translates it, to be matched by RE2; None when it cannot be read or says nothing."""
    options = re2.Options()
    options.log_errors = False
    if not line.strip().removeprefix("!").strip("/"):
        return None
    try:
        regex, include = GitIgnoreSpecPattern.pattern_to_regex(f"{line}*/" if line.endswith("/**/") else line)
        return None if regex is None else GitIgnoreSpecPattern(re2.compile(_whole(regex), options), include)
    except (GitIgnorePatternError, re2.error):
        return None


def _whole(regex: str) -> str:
    """The expression for a path itself. pathspec's fits what is below a path too, and lets that weigh less.

    git asks level by level, so that `*` and then `!*/` keeps every folder. No set holds a slash.
    """
    if regex.endswith(_ITSELF_OR_BELOW):
        regex = regex.removesuffix(_ITSELF_OR_BELOW) + "/?$"
    elif regex.endswith(_BELOW):
        regex = regex.removesuffix(_BELOW) + "/$"
    elif regex.endswith("/"):
        regex += "."
    return "(?s)" + _NEGATED_SET.sub("[^/", regex)


def _specs(patterns: Sequence[GitIgnoreSpecPattern]) -> Iterator[GitIgnoreSpec]:
    """One matcher, or several where RE2 has no room for one; a pattern that is too large alone is left out."""
    try:
        yield GitIgnoreSpec(patterns, backend="re2")
    except re2.error:
        half = len(patterns) // 2
        if half:
            yield from _specs(patterns[half:])
            yield from _specs(patterns[:half])


def _weight(line: str) -> int:
    wildcards = _WILDCARD.findall(line.removeprefix("**/"))
    stars = [at for at, wildcard in enumerate(wildcards) if wildcard[0] == "*"]
    return STARRED + FURTHER * (len(wildcards) - stars[0] - 1) if stars else 1


@dataclass(frozen=True, slots=True)
class Ignores:
    """The lists in force in one folder, strongest first, each with the folder's path as seen from the list's own."""

    lists: tuple[tuple[IgnoreList, str], ...] = ()

    @property
    def size(self) -> int:
        """How many lines are in force."""
        return sum(each.size for each, _ in self.lists)

    def work(self, name: str) -> int:
        """Steps that it takes at worst to ask about this name."""
        return sum(each.weight * (len(prefix) + len(name)) for each, prefix in self.lists)

    def ignores(self, name: str, *, is_folder: bool) -> bool:
        """Whether git ignores this name of the folder. A link is no folder, whatever it leads to."""
        asked = f"{_plain(name)}/" if is_folder else _plain(name)
        for each, prefix in self.lists:
            verdict = each.verdict(prefix + asked)
            if verdict is not None:
                return verdict
        return False

    def and_list(self, stronger: IgnoreList) -> Ignores:
        return Ignores(((stronger, ""), *self.lists)) if stronger.size else self

    def below(self, name: str) -> Ignores:
        """The same lists as seen from the folder ``name``."""
        return Ignores(tuple((each, f"{prefix}{_plain(name)}/") for each, prefix in self.lists))


def _plain(text: str) -> str:
    """Bytes that are not UTF-8 stand as surrogates, which RE2 does not take."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class IgnoreFiles:
    """Reads ignore files: ``most_bytes`` of them altogether, ``file_bytes`` of each, ``most_rules`` in force at once.

    ``refused`` lists the files that had no effect for these or other reasons, and the file of each unread line.
    """

    def __init__(self, paths: Paths, most_bytes: int, file_bytes: int, most_rules: int) -> None:
        self.paths = paths
        self.bytes_left = most_bytes
        self.file_bytes = file_bytes
        self.most_rules = most_rules
        self.refused: list[tuple[str, Refusal]] = []

    def above(self, folder: str) -> Flow[Ignores]:
        """What the repository that holds the real ``folder`` says from above it; nothing where there is none.

        The folder itself is not asked about: whoever names an ignored folder wants to see what is in it.
        """
        chain = self.paths.chain(folder)
        for at in reversed(range(len(chain) - 1)):
            if (yield from self._is_repository(chain[at])):
                return (yield from self._down(chain[at:]))
        return Ignores()

    def inside(self, ignores: Ignores, folder: str, names: Sequence[str]) -> Flow[Ignores]:
        """What is in force in the real ``folder``, which holds ``names``: a repository of its own starts anew."""
        if GIT in names and (yield from self._is_repository(folder)):
            ignores = yield from self._excluded(folder)
        if IGNORE_FILE in names:
            ignores = yield from self._own(ignores, folder)
        return ignores

    def _down(self, chain: Sequence[str]) -> Flow[Ignores]:
        ignores = yield from self._excluded(chain[0])
        for folder, child in pairwise(chain):
            ignores = (yield from self._own(ignores, folder)).below(self.paths.name(child))
        return ignores

    def _is_repository(self, folder: str) -> Flow[bool]:
        node = yield from look(self.paths.join(folder, GIT))
        if node.kind is not Kind.DIRECTORY:
            return node.kind is Kind.FILE
        return (yield from look(self.paths.join(folder, GIT, "HEAD"))).kind is not Kind.MISSING

    def _excluded(self, repository: str) -> Flow[Ignores]:
        path = self.paths.join(repository, GIT, "info", "exclude")
        node = yield from look(path)
        return (yield from self._and_file(Ignores(), path, node)) if node.kind is Kind.FILE else Ignores()

    def _own(self, ignores: Ignores, folder: str) -> Flow[Ignores]:
        path = self.paths.join(folder, IGNORE_FILE)
        node = yield from look(path)
        is_read = node.kind is Kind.FILE and node.real == path  # git does not follow a link here
        return (yield from self._and_file(ignores, path, node)) if is_read else ignores

    def _and_file(self, ignores: Ignores, path: str, node: Node) -> Flow[Ignores]:
        if node.size > min(self.file_bytes, self.bytes_left):
            reason: Refusal = "ignore_bytes" if node.size <= self.file_bytes else "ignore_file_bytes"
            return self._refuse(ignores, path, reason)
        self.bytes_left -= node.size
        content = yield from read(node.real)
        if content.data is None:
            return self._refuse(ignores, path, "ignore_unreadable")
        lines = ignore_lines(content.data)
        if ignores.size + len(lines) > self.most_rules:
            return self._refuse(ignores, path, "ignore_rules")
        found = ignore_list(lines)
        self.refused.extend([(path, "ignore_lines")] * found.unread)
        return ignores.and_list(found)

    def _refuse(self, ignores: Ignores, path: str, reason: Refusal) -> Ignores:
        self.refused.append((path, reason))
        return ignores
