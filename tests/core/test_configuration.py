import json

import pytest

from app.core.excludes import ExcludeGlob
from app.core.facts import GitRoots
from app.workspaces.inline import Link
from tests.core.tree import FOLDER, PROJECT, Tree, project

USER = "/home/dev/.claude/settings.json"
SHARED = f"{PROJECT}/.claude/settings.json"
LOCAL = f"{PROJECT}/.claude/settings.local.json"
MANAGED = "/etc/claude-code/managed-settings.json"
ROOT_SHARED = "/home/.claude/settings.json"
ROOT_LOCAL = "/home/.claude/settings.local.json"
WEAKEST_FIRST = [USER, ROOT_SHARED, SHARED, ROOT_LOCAL, LOCAL, MANAGED]


def told(value):
    return json.dumps(value)


def test_later_files_are_stronger_and_managed_settings_strongest():
    files = {path: told({"language": path}) for path in WEAKEST_FIRST}
    for count in range(1, len(files) + 1):
        tree = project(dict(list(files.items())[:count]), roots=GitRoots("/home"))
        assert tree.configuration().language == WEAKEST_FIRST[count - 1]


def test_excludes_of_all_files_are_put_together_weakest_first():
    files = {path: told({"claudeMdExcludes": [path, f"{path}2"]}) for path in WEAKEST_FIRST}
    assert project(files, roots=GitRoots("/home")).configuration().excludes == tuple(
        ExcludeGlob(f"{path}{end}", path, shared=path in {USER, MANAGED}) for path in WEAKEST_FIRST for end in ("", "2")
    )


@pytest.mark.parametrize(
    ("sources", "read"),
    [
        (("user",), [USER, MANAGED]),
        (("project",), [ROOT_SHARED, SHARED, MANAGED]),
        (("local",), [ROOT_LOCAL, LOCAL, MANAGED]),
        ((), [MANAGED]),
    ],
)
def test_sources_that_are_off_are_not_read_and_managed_settings_always_are(sources, read):
    files = {path: told({"claudeMdExcludes": [path]}) for path in WEAKEST_FIRST}
    found = project(files, roots=GitRoots("/home"), sources=sources).configuration()
    assert [glob.origin for glob in found.excludes] == read


def test_outside_a_repository_only_the_working_directory_is_read():
    assert project({ROOT_SHARED: told({"language": "x"})}).configuration().language is None


def test_without_a_home_and_a_managed_folder_their_files_are_not_read():
    files = {USER: told({"language": "u"}), MANAGED: told({"language": "m"})}
    assert project(files, home=None, config_dir=None, managed_dir=None).configuration().language is None


@pytest.mark.parametrize(
    ("tree", "language"),
    [
        (Tree({USER: told({"language": "home"})}, cwd="/home/dev", config_dir="/home/dev/.alt"), None),
        (Tree({USER: told({"language": "home"})}, cwd="/home/dev", sources=("project", "local")), None),
        (Tree({USER: told({"language": "home"})}, cwd="/home/dev"), "home"),
        (Tree({"/home/dev/.claude/.claude/settings.json": told({"language": "c"})}, cwd="/home/dev/.claude"), None),
        (
            Tree(
                {"/c/.claude/settings.json": told({"language": "c"})},
                cwd="/c",
                config_dir="/c/.claude",
                sources=("project",),
            ),
            None,
        ),
        (Tree({"/c/.claude/settings.local.json": told({"language": "c"})}, cwd="/c", config_dir="/c/.claude"), None),
    ],
)
def test_the_users_own_folders_hold_no_project_settings(tree, language):
    assert tree.configuration().language == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        "{'a': 1}",
        '{"a": 1,}',
        "// comment\n{}",
        b"\xff{}",
        '{"a": ' + "[" * 100_000,
        '{"a": ' + "9" * 5_000 + "}",
        '{"language": "\\ud800"}',
        '{"a": {"\\udc00": 1}}',
    ],
)
def test_a_broken_file_is_told_and_ignored(text):
    found = project({SHARED: text, USER: told({"language": "de"})}).configuration()
    assert found.language == "de"
    (row,) = found.rows
    assert (row.path, row.verdict, row.reason) == (SHARED, "skipped", "settings_unreadable")
    assert row.hint.endswith("The file was ignored.")
    assert [(notice.code, notice.where, notice.message) for notice in found.notices] == [
        ("settings_unreadable", SHARED, row.hint)
    ]


def test_a_file_too_large_to_be_read_is_told():
    (row,) = project({SHARED: told({"language": "x" * 100})}, largest=50).configuration().rows
    assert row.hint == "It cannot be read (budget). The file was ignored."


def test_a_folder_of_the_name_is_no_file():
    assert project({SHARED: FOLDER}).configuration().rows == ()


def test_a_byte_order_mark_is_no_fault():
    assert project({SHARED: "\ufeff" + told({"language": "de"})}).configuration().language == "de"


KINDS = {
    "claudeMdExcludes": ("a list of strings", [True, "x", 7, None, {}, ["a", 1]]),
    "autoMemoryEnabled": ("true or false", ["true", 1, 0, None, []]),
    "autoMemoryDirectory": ("a string", [True, 7, None, []]),
    "includeGitInstructions": ("true or false", ["no", 0, None]),
    "language": ("a string", [True, 7, None, []]),
    "outputStyle": ("a string", [True, 7, None, {}]),
}


@pytest.mark.parametrize(
    ("key", "kind", "value"), [(key, kind, value) for key, (kind, values) in KINDS.items() for value in values]
)
def test_a_value_of_the_wrong_kind_is_told_and_a_weaker_files_counts(key, kind, value):
    good = {"a list of strings": ["/x"], "true or false": False, "a string": "/x"}[kind]
    found = project({USER: told({key: good}), SHARED: told({key: value})}).configuration()
    weaker = project({USER: told({key: good})}).configuration()
    messages = [notice.message for notice in found.notices]
    assert messages == [f"{key} must be {kind}; it was ignored."]
    assert found.excludes[:1] == weaker.excludes[:1]
    assert (found.auto_memory, found.auto_memory_dir) == (weaker.auto_memory, weaker.auto_memory_dir)
    assert (found.include_git_instructions, found.language) == (weaker.include_git_instructions, weaker.language)
    assert found.output_style == weaker.output_style


def test_strings_beside_other_values_in_a_list_of_excludes_count():
    found = project({SHARED: told({"claudeMdExcludes": ["/a", 1, None, "/b"]})}).configuration()
    assert [glob.glob for glob in found.excludes] == ["/a", "/b"]


def test_other_keys_are_nobodys_business_here():
    assert project({SHARED: told({"permissions": {}, "model": 7})}).configuration().notices == ()


@pytest.mark.parametrize(
    ("written", "folder"),
    [("/abs/./mem/", "/abs/mem"), ("~/mem", "/home/dev/mem"), ("./mem", None), ("mem", None), ("~", None)],
)
def test_memory_moves_to_absolute_and_home_folders_only(written, folder):
    found = project({USER: told({"autoMemoryDirectory": written})}).configuration()
    assert found.auto_memory_dir == folder
    assert [notice.code for notice in found.notices] == ([] if folder else ["settings_ignored"])


def test_without_a_home_memory_does_not_move_to_it():
    assert project({LOCAL: told({"autoMemoryDirectory": "~/m"})}, home=None).configuration().auto_memory_dir is None


@pytest.mark.parametrize(("path", "moves"), [(USER, True), (SHARED, False), (LOCAL, True), (MANAGED, True)])
def test_a_projects_own_settings_do_not_move_memory(path, moves):
    found = project({path: told({"autoMemoryDirectory": "/evil"})}).configuration()
    assert found.auto_memory_dir == ("/evil" if moves else None)
    assert [notice.where for notice in found.notices] == ([] if moves else [path])


def test_a_projects_settings_do_not_hide_managed_files_or_turn_on_agents_files():
    files = {
        SHARED: told({"claudeMdExcludes": ["**"], "agents_md": "both", "allow_external_includes": True}),
        "/etc/claude-code/CLAUDE.md": "managed",
        "AGENTS.md": "a",
    }
    assert project(files).paths() == ["/etc/claude-code/CLAUDE.md"]


def test_managed_settings_have_the_last_word_on_memory():
    files = {USER: told({"autoMemoryEnabled": True}), MANAGED: told({"autoMemoryEnabled": False})}
    assert project(files).configuration().auto_memory is False


ADDED = "additionalDirectories"


def test_additional_directories_come_from_user_local_and_managed_settings_relative_to_the_working_directory():
    files = {
        USER: told({ADDED: ["../lib", "~/notes"]}),
        LOCAL: told({"permissions": {ADDED: ["/srv/x", "../lib"]}}),
        MANAGED: told({ADDED: "/no/list"}),
    }
    found = project(files).configuration()
    assert found.additional_directories == ("/home/dev/lib", "/home/dev/notes", "/srv/x")
    assert found.notices == ()


def test_a_projects_own_settings_name_no_additional_directory():
    found = project({SHARED: told({ADDED: ["../lib"]})}).configuration()
    assert found.additional_directories == ()
    assert [notice.code for notice in found.notices] == ["settings_ignored"]


@pytest.mark.parametrize("claim", [{ADDED: ["/evil"]}, {"autoMemoryDirectory": "/evil"}])
@pytest.mark.parametrize("path", [LOCAL, ROOT_LOCAL])
def test_local_settings_that_came_with_a_clone_may_say_what_a_projects_may(claim, path):
    files = {path: told({"language": "de", **claim})}
    carried = project(files, roots=GitRoots("/home", carried=(path,))).configuration()
    assert (carried.additional_directories, carried.auto_memory_dir, carried.language) == ((), None, "de")
    assert [(notice.code, notice.where) for notice in carried.notices] == [("settings_ignored", path)]
    assert "git tracks" in carried.notices[0].message
    own = project(files, roots=GitRoots("/home")).configuration()
    assert own.notices == ()
    assert (own.additional_directories, own.auto_memory_dir) != ((), None)


def test_settings_that_lead_into_git_are_not_read():
    files = {f"{PROJECT}/.git/settings.json": told({"language": "de"}), SHARED: Link("../.git/settings.json")}
    found = project(files).configuration()
    assert found.language is None
    assert [row.hint for row in found.rows] == ["It leads into .git, which is not read. The file was ignored."]
