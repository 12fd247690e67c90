import pytest

from app.core.advice import link_in_words, memory_key, same_key
from app.core.paths import Paths
from app.gather import Answers
from app.workspaces.inline import Folder, InlineWorkspace, Link, Text


def asked(flow, files, windows=False):
    workspace = InlineWorkspace(files, None, Paths(windows=windows), 1_000_000)
    return Answers(workspace).drive(flow)


@pytest.mark.parametrize("text", ["AGENTS.md", "AGENTS.md\n", "../p/AGENTS.md", "./AGENTS.md", "/p/AGENTS.md"])
def test_a_file_that_holds_only_another_files_path_is_a_link_that_was_not_made(text):
    hint = asked(link_in_words(text, "/p", Paths()), {"/p/AGENTS.md": Text("rules")})
    assert hint is not None
    assert "core.symlinks" in hint
    assert f"@{text.strip()}" in hint


@pytest.mark.parametrize(
    "text", ["gone.md", "docs", "@AGENTS.md", "See AGENTS.md", "AGENTS.md\nAGENTS.md", "", " ", "a" * 2000]
)
def test_other_texts_are_no_links(text):
    assert asked(link_in_words(text, "/p", Paths()), {"/p/AGENTS.md": Text("x"), "/p/docs/a": Text("x")}) is None


@pytest.mark.parametrize(
    ("folder", "other"),
    [
        ("/t/a-b", "/t/a_b"),
        ("/t/a-b", "/t/a/b"),
        ("/t/a/b", "/t/a-b"),
        ("/t/a/b", "/t/a.b"),
        ("/t/a.b/c", "/t/a/b-c"),
        ("/t/新聞", "/t/暫存"),
        ("/t-a/b", "/t/a/b"),
        ("/t/🦊", "/t/新聞"),
        ("/t/新聞", "/t/🦊"),
        ("/t/🦊-a", "/t/新聞/a"),
        ("/t/新聞-a", "/t/🦊/a"),
        ("/t/a-🦊/b", "/t/a/🦊-b"),
    ],
)
def test_another_folder_with_the_same_key_is_found(folder, other):
    assert memory_key(folder) == memory_key(other)
    files = {folder: Folder(), other: Folder(), "/t/zzz": Folder(), "/t/a-file": Text("x")}
    assert asked(same_key(folder, Paths()), files) == other


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"/t/a_c": Folder()},
        {"/t/a_b": Text("a file")},
        {"/t/a/c": Folder()},
        {"/t/A-b": Folder()},
        {"/t/a🦊b": Folder()},
        {"/t/a_b": Link("/gone")},
    ],
)
def test_a_folder_that_nobody_can_be_mistaken_for_is_alone(files):
    assert asked(same_key("/t/a-b", Paths()), {"/t/a-b/x": Text("x"), **files}) is None


def test_the_search_ends_after_so_many_folders():
    nested = "/t" + "/a" * 60
    files = {f"/t{'/a' * depth}-{'a-' * (60 - depth)}x/y": Text("") for depth in range(1, 59)}
    assert asked(same_key(nested, Paths()), {nested: Folder(), **files}) is None


def test_windows_paths_have_keys_too():
    files = {"C:\\t\\a-b": Folder(), "C:\\t\\a_b": Folder()}
    assert asked(same_key("C:\\t\\a-b", Paths(windows=True)), files, windows=True) == "C:\\t\\a_b"
