"""Footprints that grow by what came to stand where nothing was."""

from __future__ import annotations

import pytest

from app.core.footprint import Change, FileMark, FolderMark, Footprint
from app.core.grown import grown

RULES = frozenset({"/p/.claude/rules"})
PROJECT = FolderMark("/p", None, settled=False, entries=((".claude", "absent"), ("z.md", "file")))
FILE = FileMark("/p/z.md", None, settled=False, sha256="0")
BEFORE = Footprint((FILE,), (PROJECT,))


def created(*paths: str) -> list[Change]:
    return [Change(path, "created") for path in paths]


@pytest.mark.parametrize("kind", ["modified", "deleted"])
def test_only_what_is_new_lets_it_grow(kind: str) -> None:
    assert grown(BEFORE, [Change("/p/a.md", kind)], RULES) is BEFORE


def test_a_new_file_is_in_it_where_it_belongs() -> None:
    after = grown(BEFORE, created("/p/a.md"), RULES)
    assert [mark.path for mark in after.files] == ["/p/a.md", "/p/z.md"]
    assert after.folders == BEFORE.folders


def test_what_is_known_is_not_there_twice() -> None:
    assert grown(BEFORE, created("/p/z.md"), RULES) is BEFORE
    again = grown(BEFORE, created("/p"), RULES)
    assert again.folders == BEFORE.folders


def test_of_a_new_private_folder_only_some_names_are_looked_at() -> None:
    private = grown(BEFORE, created("/p/.claude"), RULES).folders[1]
    assert private.names is None
    assert {name for name, _ in private.entries} >= {"CLAUDE.md", "rules", "settings.json"}


def test_all_below_a_folder_of_rules_is_looked_at() -> None:
    after = grown(BEFORE, created("/p/.claude/rules/sub"), RULES)
    assert after.folders[1] == FolderMark("/p/.claude/rules/sub", None, settled=False, entries=(), names=())


def test_nothing_below_any_other_folder_is_looked_at() -> None:
    assert grown(BEFORE, created("/p/node_modules"), RULES).folders == BEFORE.folders


def test_there_is_an_end_to_its_growth() -> None:
    assert grown(BEFORE, created("/p/a.md"), RULES, most=1) is BEFORE
