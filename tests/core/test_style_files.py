import pytest

from app.core.facts import GitRoots, OutputStyle
from app.core.style_files import find_style
from app.workspaces.inline import Link
from tests.core.tree import FOLDER, Tree, project

PROSE = {"explanatory": "Explain.", "learning": "Teach."}


def found(tree, name):
    return tree.drive(find_style(name, tree.plan(), PROSE))


def text(tree, name):
    style, _ = found(tree, name)
    return style and style.text


@pytest.mark.parametrize("name", ["default", "Default", "", " "])
def test_the_default_style_is_none_and_no_fault(name):
    assert found(project({".claude/output-styles/default.md": "x"}), name) == (None, ())


def test_a_file_describes_a_style():
    tree = project(
        {".claude/output-styles/brief.md": "\ufeff---\nname: Terse\nkeep-coding-instructions: true\n---\n\nBe brief.\n"}
    )
    assert found(tree, "terse") == (OutputStyle("Terse", "Be brief.", keep_coding_instructions=True), ())
    assert text(tree, "brief") is None


def test_a_file_without_a_name_is_called_by_its_own():
    assert text(project({".claude/output-styles/Brief.md": "Be brief."}), "brief") == "Be brief."


def test_the_nearest_file_wins_then_the_users_then_the_built_in_one():
    files = {
        "/home/dev/p/.claude/output-styles/learning.md": "cwd",
        "/home/.claude/output-styles/learning.md": "repository",
        "/home/dev/.claude/output-styles/learning.md": "user",
    }
    for contents in (["cwd", "repository", "user"], ["repository", "user"], ["user"], []):
        left = {path: content for path, content in files.items() if content in contents}
        assert text(Tree(left, roots=GitRoots("/home")), "Learning") == (contents[0] if contents else "Teach.")


@pytest.mark.parametrize(("sources", "expected"), [(("user",), "user"), (("project",), "project"), (("local",), None)])
def test_sources_hold(sources, expected):
    files = {".claude/output-styles/s.md": "project", "/home/dev/.claude/output-styles/s.md": "user"}
    assert text(project(files, sources=sources), "s") == expected


def test_the_homes_own_folder_holds_no_project_styles():
    tree = Tree({"/home/dev/.claude/output-styles/s.md": "user"}, cwd="/home/dev", sources=("project",))
    assert text(tree, "s") is None


def test_without_a_configuration_folder_the_user_has_no_styles():
    assert text(project({"/home/dev/.claude/output-styles/s.md": "user"}, config_dir=None), "s") is None


def test_an_unknown_style_is_told_and_the_default_is_used():
    style, (notice,) = found(project({".claude/output-styles/a.md": "a"}), "b")
    assert (style, notice.code, notice.where) == (None, "output_style_unknown", "settings.output_style")


@pytest.mark.parametrize(("name", "file"), [("s.txt", "x"), ("s.md", FOLDER), ("s.md", Link("gone"))])
def test_what_is_no_readable_markdown_file_is_no_style(name, file):
    assert text(project({f".claude/output-styles/{name}": file}), "s") is None
