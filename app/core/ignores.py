"""What git ignores in a tree: its ``.gitignore`` files and ``info/exclude``, nested as git nests them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import re2

from app.core.facts import Kind, Node
from app.core.flow import Flow, look, read
from app.core.ignore_patterns import FILE, FOLDER, IgnoreRule, ignore_rules
from app.core.paths import Paths

IGNORE_FILE = ".gitignore"
GIT = ".git"
LARGEST = 131_072
"""Bytes of an ignore file: RE2 gives up simplifying what is several times as large."""

Refusal = Literal["ignore_bytes", "ignore_file_bytes", "ignore_rules", "ignore_unreadable"]


@dataclass(frozen=True, slots=True)
class IgnoreList:
    """The rules of one file. All are matched at once; the last that fits decides."""

    rules: tuple[IgnoreRule, ...]
    matcher: re2.Set

    def verdict(self, subject: bytes) -> bool | None:
        """Whether ``subject`` (FOLDER or FILE, and a path as seen from the list's folder) is ignored; None: unsaid."""
        fitting = self.matcher.Match(subject)
        return self.rules[max(fitting)].ignored if fitting else None


def ignore_list(rules: tuple[IgnoreRule, ...], size: int) -> IgnoreList:
    """The rules of a file of ``size`` bytes, at most LARGEST; there must be some."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.dot_nl = True
    options.log_errors = False
    options.max_mem = 131_072 + 512 * size  # enough for any rules, and little for many small files
    matcher = re2.Set.FullMatchSet(options)
    for rule in rules:
        matcher.Add(rule.regex)
    matcher.Compile()
    return IgnoreList(rules, matcher)


@dataclass(frozen=True, slots=True)
class Ignores:
    """The lists in force in one folder, strongest first, each with the folder's path as seen from the list's own."""

    lists: tuple[tuple[IgnoreList, bytes], ...] = ()

    @property
    def size(self) -> int:
        """How many rules are in force."""
        return sum(len(each.rules) for each, _ in self.lists)

    def ignores(self, name: str, *, is_folder: bool) -> bool:
        """Whether git ignores this name of the folder. A link is no folder, whatever it leads to."""
        start, end = FOLDER if is_folder else FILE, _bytes(name)
        for each, prefix in self.lists:
            verdict = each.verdict(start + prefix + end)
            if verdict is not None:
                return verdict
        return False

    def and_list(self, stronger: IgnoreList) -> Ignores:
        return Ignores(((stronger, b""), *self.lists))

    def below(self, name: str) -> Ignores:
        """The same lists as seen from the folder ``name``."""
        return Ignores(tuple((each, b"%s%s/" % (prefix, _bytes(name))) for each, prefix in self.lists))


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


class IgnoreFiles:
    """Reads ignore files: ``most_bytes`` of them altogether, ``file_bytes`` of each, ``most_rules`` in force at once.

    ``refused`` lists the files that had no effect for these or other reasons.
    """

    def __init__(self, paths: Paths, most_bytes: int, file_bytes: int, most_rules: int) -> None:
        self.paths = paths
        self.bytes_left = most_bytes
        self.file_bytes = min(file_bytes, LARGEST)
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
        rules = ignore_rules(content.data)
        if ignores.size + len(rules) > self.most_rules:
            return self._refuse(ignores, path, "ignore_rules")
        return ignores.and_list(ignore_list(rules, len(content.data))) if rules else ignores

    def _refuse(self, ignores: Ignores, path: str, reason: Refusal) -> Ignores:
        self.refused.append((path, reason))
        return ignores
