import pytest

from app.core.document import DocumentReader
from app.core.lenient_yaml import LONGEST, MOST_LINES
from app.core.markdown import MarkdownReader

READER = DocumentReader(MarkdownReader())
PATHS_LOST = (
    "is not valid YAML, so that paths has no effect: write each pattern in quotes, on a line after a dash, all with "
    "the same indent."
)


def read(data):
    return READER.read(data)


def rule_advice(block):
    return read(f"---\n{block}\n---\nR".encode()).advice_for(is_rule=True)


@pytest.mark.parametrize(
    "key",
    [
        "globs",
        "alwaysApply",
        "applyTo",
        "glob",
        "path",
        "fileMatchPattern",
        "Paths",
        "PATHS",
        "Path",
        "Globs",
        "'paths '",
        '"paths:"',
        "\u200bpaths",
        "apply-to",
        "patterns",
        "files",
    ],
)
def test_keys_that_are_not_paths_are_told_unless_paths_is_there(key):
    document = read(f"---\n{key}: x\n---\n".encode())
    (told,) = document.advice_for(is_rule=True)
    assert told.startswith(f"The key {key.strip(chr(34) + chr(39))} has no effect here: write paths: ")
    assert document.advice_for(is_rule=False) == ()
    assert read(f"---\n{key}: x\npaths: y\n---\n".encode()).advice_for(is_rule=True) == ()


@pytest.mark.parametrize(
    "block", ["globs:\nalwaysApply: true", "globs: '*.c'\nalwaysApply: true", "globs: ''", "globs: []", "tags: [a]"]
)
def test_keys_of_other_tools_that_set_no_condition_are_none(block):
    assert rule_advice(block) == ()


@pytest.mark.parametrize("key", ["globs", "Paths"])
def test_a_key_that_is_not_paths_and_cannot_be_read_is_told_as_such_too(key):
    broken, meant = rule_advice(f"{key}: a\n  b: c")[::-1]
    assert meant.startswith(f"The key {key} has no effect here: write paths: ")
    assert broken == f"Line 3 is not valid YAML: {key} was left out. Put its value in quotes."


def test_a_long_key_is_cut_where_it_is_told():
    (told,) = rule_advice(f"{'p a t h s'.replace(' ', ' ' * 200)}: x")
    assert "…" in told
    assert len(told) < 200


@pytest.mark.parametrize("value", ["", " ", "''", "' , '", "[]", "['', ' ']", "[null]", "~", '"\\n"'])
def test_a_condition_without_a_pattern_is_told(value):
    (told,) = rule_advice(f"paths: {value}")
    assert told == "paths is empty, so that the rule loads always: name a pattern, or leave the key out."
    assert read(f"---\npaths: {value}\n---\nR".encode()).advice_for(is_rule=False) == ()


@pytest.mark.parametrize("value", ["'**'", "['**', '']", "/**"])
def test_a_condition_that_everything_meets_is_not_told(value):
    assert rule_advice(f"paths: {value}") == ()


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (
            "description: a\n  note: b\npaths: src/**",
            "Line 3 is not valid YAML: description was left out. Put its value in quotes.",
        ),
        ("paths:\n  - src/**\n  lib/**", f"Line 4 {PATHS_LOST}"),
        ("title: a\nwords", "Line 3 is not valid YAML and was left out: write KEY: VALUE."),
        (
            "title: a\npaths:b",
            "Line 3 looks like a condition and is none: write paths: at the start of a line, with a blank after it.",
        ),
    ],
)
def test_a_line_that_yaml_cannot_read_is_told_with_its_number_and_what_to_write(block, told):
    assert rule_advice(block) == (told,)


def test_of_many_lines_that_cannot_be_read_paths_and_some_others_are_told():
    lines = "\n".join(f"a{number}: b\n  c: d" for number in range(5))
    first, *others, last = rule_advice(f"{lines}\npaths:\n  - a\n  b")
    assert first.startswith("Line 14 is not valid YAML, so that paths has no effect")
    assert [one[:6] for one in others] == ["Line 3", "Line 5"]
    assert last == "So it is with 3 more lines."
    assert rule_advice(lines)[-1] == "So it is with 2 more lines."


def test_a_line_that_cannot_be_read_is_told_with_a_short_key():
    (told,) = rule_advice(f"{'a' * 500}: b\n  c: d")
    assert len(told) < 250


@pytest.mark.parametrize("block", ["a: " + "x" * LONGEST, "paths: b\nb: '\n" + "x\n" * MOST_LINES])
def test_frontmatter_too_long_to_be_read_is_told_as_such(block: str) -> None:
    (told,) = rule_advice(block)
    assert told == (
        "The frontmatter is too long to be read and was ignored: it may have 65,536 characters, and 4,000 lines with "
        "500 keys where a line is not valid YAML."
    )


def test_a_condition_in_no_rule_that_cannot_be_read_is_told():
    (told,) = read(b"---\npaths: a\n  b: c\n---\n").advice_for(is_rule=False)
    assert told.startswith("Line 3 is not valid YAML")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{a: b}", "The value of paths reads as a mapping (a: …) and was ignored: write patterns, in quotes."),
        ("{}", "The value of paths reads as a mapping and was ignored: write patterns, in quotes."),
        ("7", "A value of paths that is not text was ignored: put it in quotes."),
        ("true", "A value of paths that is not text was ignored: put it in quotes."),
        ("[7, '*.c']", "A value of paths that is not text was ignored: put it in quotes."),
        ("['*.c', [a]]", "A value of paths that is not text was ignored: put it in quotes."),
        ("[{'*.c': b}]", "A value of paths reads as a mapping (*.c: …) and was ignored: put it in quotes."),
        ("[7, {a: b}]", "A value of paths reads as a mapping (a: …) and was ignored: put it in quotes."),
        ("[null, '*.c']", None),
        ("'*.c'", None),
    ],
)
def test_values_of_paths_that_are_no_text_are_told(value, told):
    advice = read(f"---\npaths: {value}\n---\nR".encode()).advice_for(is_rule=True)
    assert advice == ((told,) if told else ())


@pytest.mark.parametrize(
    ("text", "word"),
    [("---\npaths: src/**\nBody.", "never closes"), ("<!-- x -->\n---\npaths: src/**\n---\nBody.", "at the very top")],
)
def test_frontmatter_that_is_text_is_told_in_a_rule(text, word):
    document = read(text.encode())
    assert [word in one for one in document.advice_for(is_rule=True)] == [True]
    assert document.advice_for(is_rule=False) == ()
