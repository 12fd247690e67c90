import pytest

from app.core.facts import OutputStyle
from app.core.styles import built_in_style, is_default_style, parse_style
from app.data.texts import load_prose

PROSE = load_prose()


@pytest.mark.parametrize("name", ["Explanatory", "explanatory", " EXPLANATORY ", "Learning", "learning"])
def test_built_in_styles_are_found_in_any_case_and_keep_the_coding_instructions(name):
    style = built_in_style(name, PROSE)
    assert style is not None
    assert style.name == name.strip().capitalize()
    assert style.text == PROSE[name.strip().lower()]
    assert style.keep_coding_instructions


@pytest.mark.parametrize("name", ["default", "Default", "", "pirate"])
def test_other_names_are_no_built_in_style(name):
    assert built_in_style(name, PROSE) is None


def test_default_and_an_empty_name_ask_for_no_style():
    assert is_default_style("Default")
    assert is_default_style(" ")
    assert not is_default_style("pirate")


def test_a_style_file_gives_name_text_and_flag():
    frontmatter = {"name": " Pirate ", "description": "Arr", "keep-coding-instructions": True}
    assert parse_style("p.md", "\nTalk like one.\n", frontmatter) == OutputStyle("Pirate", "Talk like one.", True)


@pytest.mark.parametrize("name", [None, "", "  ", 7])
def test_a_style_without_a_name_takes_the_files(name):
    assert parse_style("terse one.md", "Short.", {"name": name}) == OutputStyle("terse one", "Short.", False)


@pytest.mark.parametrize(
    ("value", "kept"), [(True, True), ("true", True), (" True ", True), (False, False), ("no", False), (1, False)]
)
def test_the_coding_instructions_are_kept_only_on_a_plain_yes(value, kept):
    assert parse_style("a.md", "x", {"keep-coding-instructions": value}).keep_coding_instructions is kept
