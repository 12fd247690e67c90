"""What fuzzing found, each fault by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.globs import compiled
from app.core.rules import condition
from tests.core.test_globs import ignored
from tests.core.test_globs import repository as repository  # noqa: PLC0414 - a fixture
from tests.fuzz import slow

PATHS = ["a", "b", "a/b", "a/b/c", "a.b", "a0b", "a-b", "a:b", "c", "a ", "a  ", "]/a", "[a/b", "x/y/z", "a]b"]
PATTERNS = {
    "a set that holds a slash and another bracket": ["[{a,.a/[!a]/"],
    "a set with a slash that another set follows": ["/a[+[+-a /[^b]"],
    "a slash in a set ties the pattern to its folder": ["[/b]"],
    "a set whose only bracket is escaped never closes": ["a[+-9\\]b"],
    "a range that ends before it begins is its first character": ["[c-a]"],
    "a star between double stars": ["**/*/**"],
    "a star between runs of stars": ["**/*/***/**"],
    "an escaped slash within is a slash": ["a\\/b"],
    "an escaped slash in front is none": ["\\/a"],
    "an escaped slash at the end is none": ["a\\/"],
    "spaces behind an escaped space go": ["a\\   "],
    "a space behind an escaped backslash goes": ["a\\\\ "],
    "a class of characters in a range is none": ["[[:digit:]-a]"],
}


@pytest.mark.parametrize("patterns", PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_is_read_as_git_reads_it(patterns: list[str], repository: Path) -> None:
    rule = condition(tuple(patterns))
    assert {path for path in PATHS if rule.met_by(path)} == ignored(repository, patterns, PATHS)
    assert {path for path in PATHS if slow.git_ignores(patterns, path)} == ignored(repository, patterns, PATHS)


def test_a_pattern_with_a_nul_fits_nothing_and_cannot_be_read() -> None:
    assert compiled("a\0b") is None
    assert compiled("[a\0]") is None
