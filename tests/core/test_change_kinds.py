"""What a changed path is to a session."""

from __future__ import annotations

import pytest

from app.core.change_kinds import by_kind, kind_of, rules_folders
from app.core.footprint import Change, FolderMark, Footprint


def folder(path: str, **entries: str) -> FolderMark:
    """A folder in which these names were looked for, with ``dot_`` for a dot before a name and ``_`` for one in it."""
    named = tuple((name.replace("dot_", ".").replace("_", "."), state) for name, state in entries.items())
    return FolderMark(path, None, settled=False, entries=named)


PRIVATE = folder("/p/.claude", CLAUDE_md="absent", rules="directory")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/p/CLAUDE.md", "memory_changed"),
        ("/p/.claude/rules", "rules_changed"),
        ("/p/.claude/rules/a.md", "rules_changed"),
        ("/p/.claude/rules/sub/settings.json", "rules_changed"),
        ("/p/.claude/settings.json", "settings_changed"),
        ("/p/.claude/settings.local.json", "settings_changed"),
        ("/etc/claude-code/managed-settings.json", "settings_changed"),
        ("/p/.claude/rules.md", "memory_changed"),
        ("C:\\p\\.claude\\settings.json", "settings_changed"),
    ],
)
def test_a_path_is_of_one_kind(path: str, kind: str) -> None:
    assert kind_of(path, rules_folders(Footprint(folders=(PRIVATE,)))) == kind


def test_rules_of_a_configuration_folder_stand_right_in_it() -> None:
    config = folder("/x/conf", CLAUDE_md="file", rules="absent", settings_json="absent")
    assert rules_folders(Footprint(folders=(config,))) == {"/x/conf/rules"}


def test_a_folder_of_a_project_that_is_named_rules_is_nothing_special() -> None:
    project = folder("/p", CLAUDE_md="file", rules="directory", dot_claude="absent")
    assert rules_folders(Footprint(folders=(project,))) == frozenset()


def test_what_links_to_rules_and_in_them_lead_to_are_rules() -> None:
    private = folder("/p/.claude", CLAUDE_md="absent", rules="link:../house")
    house = folder("/p/house", a_md="link:/far/a.md", sub="directory")
    other = folder("/p", b_md="link:/far/b.md")
    folders = rules_folders(Footprint(folders=(private, house, other)))
    assert kind_of("/p/house/new.md", folders) == "rules_changed"
    assert kind_of("/far/a.md", folders) == "rules_changed"
    assert kind_of("/far/b.md", folders) == "memory_changed"


def test_links_in_a_circle_come_to_an_end() -> None:
    circle = folder("/p/.claude/rules", again="link:../rules")
    assert rules_folders(Footprint(folders=(PRIVATE, circle))) == {"/p/.claude/rules"}


def test_each_kind_stands_once_with_its_paths_sorted() -> None:
    changes = [Change(path, "modified") for path in ("/p/b.md", "/p/.claude/rules/x.md", "/p/a.md")]
    told = by_kind(changes, frozenset({"/p/.claude/rules"}))
    assert [(kind, [change.path for change in ones]) for kind, ones in told] == [
        ("memory_changed", ["/p/a.md", "/p/b.md"]),
        ("rules_changed", ["/p/.claude/rules/x.md"]),
    ]
