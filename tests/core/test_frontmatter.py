import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core.frontmatter import LONGEST, parse_yaml, split_commas, split_frontmatter
from app.core.rules import globs_from


def written(block):
    return split_frontmatter(f"---\n{block}\n---\nbody")


@pytest.mark.parametrize(
    ("line", "globs"),
    [
        ("paths: src/**/*.ts", ("src/**/*.ts",)),
        ("paths: **/*.ts", ("**/*.ts",)),
        ("paths: *.md", ("*.md",)),
        ("paths: {src,lib}/**/*.ts", ("src/**/*.ts", "lib/**/*.ts")),
        ("paths: [ab].ts", ("[ab].ts",)),
        ("paths: !src/a.ts", ("!src/a.ts",)),
        ("paths: @scope/a.ts", ("@scope/a.ts",)),
        ("paths: %a", ("%a",)),
        ("paths: `a`", ("`a`",)),
        ("paths: a: b: c", ("a: b: c",)),
        ("paths: src/**, lib/**", ("src", "lib")),
        ("paths: **/*.ts, **/*.tsx", ("**/*.ts", "**/*.tsx")),
        ('paths: "**/*.ts"', ("**/*.ts",)),
        ("paths: '**/*.ts'", ("**/*.ts",)),
        ('"paths": **/*.ts', ("**/*.ts",)),
        ("'paths': **/*.ts", ("**/*.ts",)),
        ("paths : **/*.ts", ("**/*.ts",)),
        ("paths:\t**/*.ts", ("**/*.ts",)),
        ("paths:\t'a.ts'\t", ("a.ts",)),
        ("paths: **/*.ts   ", ("**/*.ts",)),
        ("paths: **/*.ts # only these", ("**/*.ts",)),
        ("paths: a.ts # only this", ("a.ts",)),
        ("paths: [**/*.ts, *.md]", ("**/*.ts", "*.md")),
        ("paths: [**/*.ts, '*.md',]", ("**/*.ts", "*.md")),
        ("paths: ['a', {b,c}.ts]", ("a", "b.ts", "c.ts")),
        ("paths: [**/*.ts] # all", ("**/*.ts",)),
        ("paths:\n  - **/*.ts\n  - src/**", ("**/*.ts", "src")),
        ("paths:\n- **/*.ts\n- !a.ts", ("**/*.ts", "!a.ts")),
        ("paths:\n\t- **/*.ts\n\t- b.ts", ("**/*.ts", "b.ts")),
        ("paths:\n  - {a,b}/*.ts\n  - [ab].md", ("a/*.ts", "b/*.ts", "[ab].md")),
        ("paths:\n  - 'a'\n\n  - \"b\"", ("a", "b")),
        ("paths:\n  - **/*.ts # one\n  # two\n  - b", ("**/*.ts", "b")),
        ("paths: [\n  **/*.ts,\n  'b'\n]", ("**/*.ts", "b")),
        ("paths: [\n  a,\n  b\n]", ("a", "b")),
        ("paths: |\n  src/**\n  lib/**", ("src", "lib")),
        ("paths: >-\n  src/**,\n  lib/**", ("src", "lib")),
        ("title: a: b\npaths: |\n  **/*.ts\n\n  b.ts\nmore: *x", ("**/*.ts", "b.ts")),
        ("description: Rules: all of them\npaths: **/*.ts", ("**/*.ts",)),
        ("description: don't\npaths: **/*.ts", ("**/*.ts",)),
        ('paths: "C:\\\\src/a"', ("C:\\src/a",)),
        ('paths: "open', ('"open',)),
        ("paths: 1:30", ("1:30",)),
        ("paths: 2026-01-01", ("2026-01-01",)),
        ("paths: yes", ("yes",)),
        ("paths: !!python/object:os.system x", ("!!python/object:os.system x",)),
        ("paths: !!timestamp soon", ("!!timestamp soon",)),
        ("paths: !!bool perhaps", ("!!bool perhaps",)),
        ('paths: !!int ""', ('!!int ""',)),
        ("paths: !glob x", ("!glob x",)),
        ("paths: &anchor a.ts", ("a.ts",)),
        ("paths: a\npaths: b", ("b",)),
        ("---x: y\npaths: a", ("a",)),
    ],
)
def test_paths_are_read_as_people_write_them(line, globs):
    front = written(line)
    assert globs_from(front.values["paths"]) == globs
    assert (front.body, front.unreadable) == ("body", False)


@pytest.mark.parametrize(
    "value",
    ["", " ", "[]", "''", "['', '  ']", "7", "1.5", "true", "~", "null", "{a: b}", "'**'", "['**', '**']", "/**"],
)
def test_a_value_without_a_usable_pattern_is_no_condition(value):
    assert globs_from(written(f"paths: {value}").values["paths"]) == ()


@pytest.mark.parametrize(
    ("written_value", "value"),
    [("007", 7), ("-3", -3), ("1.5", 1.5), (".5", 0.5), ("2e3", 2000.0), ("True", True), ("false", False), ("~", None)],
)
def test_plain_scalars_are_those_of_yaml_1_2(written_value, value):
    assert parse_yaml(f"a: {written_value}") == {"a": value}


def test_keys_that_are_no_strings_become_strings():
    assert parse_yaml("2: a\ntrue: b") == {"2": "a", "True": "b"}


def test_merge_keys_are_plain_keys():
    assert parse_yaml("<<: {a: b}") == {"<<": {"a": "b"}}


@pytest.mark.parametrize("block", ["", "just a sentence", "- a\n- b", "# a comment", "42"])
def test_frontmatter_without_a_mapping_has_no_values(block):
    front = written(block)
    assert (front.values, front.body, front.unreadable) == ({}, "body", False)


@pytest.mark.parametrize("block", ["a: b\n  c: d", "? [a]\n: b", "a: [", "a: {\nb: c", "\x01: a\n\x02", "{{a: b}: c}"])
def test_what_cannot_be_read_leaves_the_body_and_says_so(block):
    front = written(block)
    assert (front.values, front.body, front.unreadable) == ({}, "body", True)


def test_an_alias_bomb_is_taken_as_text():
    bomb = "\n".join(
        ["a: &a [x, x]", *(f"{new}: &{new} [*{old}, *{old}]" for old, new in zip("abcdefg", "bcdefgh", strict=True))]
    )
    values = parse_yaml(f"{bomb}\npaths: *h")
    assert (values["h"], values["paths"]) == ("&h [*g, *g]", "*h")


def test_an_alias_is_never_followed():
    assert parse_yaml("a: &a x\npaths: *a")["paths"] == "*a"


def test_frontmatter_beyond_64_kb_is_not_parsed():
    fits = f"a: {'x' * (LONGEST - 4)}\n"
    assert parse_yaml(fits) == {"a": "x" * (LONGEST - 4)}
    assert parse_yaml(fits + "b") is None


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 30_000,
        "a: " + "[" * 900 + "]" * 900,
        "a: " + "{a: " * 5_000,
        "- " * 20_000,
        "? " * 5_000,
        "!" * 60_000,
        "a: x" + " " * 60_000 + "y: *",
        "a: *" + " " * 60_000 + "#",
        "a: [" + "*," * 30_000 + "]",
        "a: b: c\n" * 7_000,
    ],
)
def test_hostile_frontmatter_ends(text):
    front = written(text)
    assert front.body == "body"
    globs_from(front.values.get("a"))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_line_ends_are_read(end):
    front = split_frontmatter(end.join(["---", "paths: **/*.ts", "---", "", "body", "more"]))
    assert front.values == {"paths": "**/*.ts"}
    assert front.body == f"body{end}more"
    assert front.lines == 4


def test_white_space_after_the_last_line_goes_too():
    front = split_frontmatter("---\na: b\n--- \t\n\n \t\n  body \n")
    assert (front.body, front.lines) == ("body \n", 5)


def test_frontmatter_alone_leaves_nothing():
    front = split_frontmatter("---\na: b\n---")
    assert (front.body, front.values, front.lines) == ("", {"a": "b"}, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "---\n",
        "---\npaths: a\nbody",
        "----\npaths: a\n----\n",
        "--- # x\npaths: a\n---\n",
        " ---\npaths: a\n---\n",
        "--\npaths: a\n--\n",
        "...\npaths: a\n...\n",
        "---\npaths: a\n ---\n",
        "---\npaths: a\n...\nbody",
    ],
)
def test_without_both_fences_everything_is_body(text):
    front = split_frontmatter(text)
    assert (front.body, front.values, front.lines, front.unreadable) == (text, {}, 0, False)


@pytest.mark.parametrize(
    "text",
    [
        "\n---\npaths: a\n---\nbody",
        "\r\n \r\n---\r\npaths: a\r\n---\r\nbody",
        "<!-- generated -->\n---\npaths: a\n---\nbody",
        "<!-- one -->\n\n<!-- two\nlines -->\n---\n\n'paths': a\n---\n",
    ],
)
def test_frontmatter_below_blank_lines_or_comments_is_body_and_is_noticed(text):
    front = split_frontmatter(text)
    assert (front.body, front.values, front.displaced) == (text, {}, True)


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\n---\n\nnote: this\n\n---\n",
        "text\n---\nkey: value\n---\n",
        "\n---\njust text\n---\n",
        "\n---\n\n---\n",
        "\n---\nkey: value\n",
        "<!-- open\n---\nkey: value\n---\n",
        "<!-- c --> text\n---\nkey: value\n---\n",
        "no fence",
    ],
)
def test_a_thematic_break_is_not_taken_for_displaced_frontmatter(text):
    assert not split_frontmatter(text).displaced


def test_a_long_preamble_of_comments_is_read():
    assert split_frontmatter("<!-- x -->" * 20_000 + "\n---\na: b\n---\n").displaced


FRONTLIKE = st.lists(
    st.sampled_from(
        [
            "---",
            "--- ",
            "paths:",
            " a",
            "- *",
            "[",
            "]",
            "{",
            "}",
            ":",
            "\t",
            "\r",
            "\n",
            "#",
            "'",
            '"',
            "&a",
            "*a",
            "!!x",
            ",",
            "|",
            ">",
            "a: b",
            "<!--",
            "-->",
            "\ufeff",
            "\x85",
            "\u2028",
            "\ud800",
            "\0",
        ]
    )
).map("".join)


@given(st.text() | FRONTLIKE | FRONTLIKE.map(lambda text: f"---\n{text}\n---\n"))
@example("---\n\ud800: a\n---\n")
def test_any_text_is_read_and_ends_as_it_was(text):
    front = split_frontmatter(text)
    assert text.endswith(front.body)
    assert (front.lines == 0) is (front.body == text)
    globs_from(front.values.get("paths"))


@given(st.text().filter(lambda text: not text.startswith("---")))
def test_text_without_frontmatter_is_unchanged(text):
    front = split_frontmatter(text)
    assert (front.body, front.values, front.lines) == (text, {}, 0)


@given(st.lists(st.text("ab{},")))
def test_commas_cut_only_outside_braces(parts):
    text = ",".join(parts)
    cut = split_commas(text)
    assert ",".join(cut) == text
    assert all("," not in part or "{" in part for part in cut)


@pytest.mark.parametrize("before", ["# Title\n\n", "Intro text.\n", "# Title\n<!-- x -->\n"])
def test_frontmatter_with_a_condition_below_text_is_displaced(before):
    assert split_frontmatter(before + "---\npaths: '*.ts'\n---\nbody").displaced


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n---\nname: x\n---\nbody",
        "# Title\n```\n---\npaths: a\n---\n```\n",
        "line\n" * 60 + "---\npaths: a\n---\n",
        "# Title\n---\npaths: a\nnever closed",
    ],
)
def test_other_lines_between_breaks_are_text(text):
    assert not split_frontmatter(text).displaced


@pytest.mark.parametrize(
    ("text", "unclosed"), [("---\npaths: a\nbody", True), ("---\ntitle: x\nbody", False), ("---\n", False)]
)
def test_a_condition_in_frontmatter_that_never_closes_is_seen(text, unclosed):
    front = split_frontmatter(text)
    assert (front.body, front.unclosed) == (text, unclosed)


@pytest.mark.parametrize(
    "odd",
    [
        "key.dotted: *.ts",
        "key with spaces: x: y",
        '"quoted key": *x',
        "1: *x",
        "a/b: *x",
        "a:b: *x",
        "ключ: *x",
        'é: "',
        "🚀: *x",
        "spaced : *x",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_line_with_any_key_that_yaml_cannot_read_spoils_no_other(odd: str, first: bool) -> None:
    lines = [odd, "paths: src/**"] if first else ["paths: src/**", odd]
    values = parse_yaml("\n".join(lines))
    assert values is not None
    assert values["paths"] == "src/**"
    assert len(values) == 2


def test_empty_items_of_a_list_that_yaml_refuses_are_left_out() -> None:
    assert parse_yaml("paths: [src/**, , lib/**]") == {"paths": ["src/**", "lib/**"]}


def test_a_long_line_without_a_colon_costs_no_more_than_its_length() -> None:
    assert parse_yaml("a" + " " * (LONGEST - 20) + "b\npaths: *.ts") is None
