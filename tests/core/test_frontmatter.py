import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core.frontmatter import split_frontmatter
from app.core.lenient_yaml import LONGEST, MOST_ENTRIES, Unread, parse_yaml
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


@pytest.mark.parametrize("block", ["", "just a sentence", "- a\n- b", "# a comment", "42"])
def test_frontmatter_without_a_mapping_has_no_values(block):
    front = written(block)
    assert (front.values, front.body, front.unreadable) == ({}, "body", False)


@pytest.mark.parametrize("block", ["a: b\n  c: d", "? [a]\n: b", "a: [", "a: {\n b: c", "\x01: a\n\x02", "{{a: b}: c}"])
def test_what_cannot_be_read_leaves_the_body_and_says_so(block):
    front = written(block)
    assert (front.values, front.body, front.unreadable) == ({}, "body", True)


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


def test_a_long_line_without_a_colon_costs_no_more_than_its_length() -> None:
    assert parse_yaml("a" + " " * (LONGEST - 20) + "b\npaths: *.ts") is None
    assert written("a" + " " * (LONGEST - 20) + "b\npaths: *.ts").values == {"paths": "*.ts"}


@pytest.mark.parametrize(
    ("block", "values", "unread"),
    [
        ("description: a\n  note: b\npaths: src/**", {"paths": "src/**"}, [(3, "description")]),
        ("paths: src/**\ndescription: a\n  note: b", {"paths": "src/**"}, [(4, "description")]),
        ("paths: **/*.ts\n'a b': x\n  y: z\nc: d: e", {"paths": "**/*.ts", "c": "d: e"}, [(4, "a b")]),
        ("paths:\n- src/**\n- *.ts\n\na: b\n  c: d", {"paths": ["src/**", "*.ts"]}, [(7, "a")]),
        ("a: b\n  c: d\npaths: [\n**/*.ts,\nb\n]\ne: f", {"paths": ["**/*.ts", "b"], "e": "f"}, [(3, "a")]),
        ("# one\n\na: b\n  c: d\n# two\npaths: x", {"paths": "x"}, [(5, "a")]),
        ("a: b\r\n  c: d\r\npaths: x", {"paths": "x"}, [(3, "a")]),
        ("key\npaths: x", {"paths": "x"}, [(2, None)]),
        ("paths: x\nkey\n  more\na: b", {"paths": "x", "a": "b"}, [(3, None)]),
        ("- a\npaths: x", {"paths": "x"}, [(2, None)]),
        ("paths: x\n...\na: b", {"paths": "x", "a": "b"}, [(3, None)]),
        ("paths:\n  - a\n  b\nc: d", {"c": "d"}, [(4, "paths")]),
        ("paths:\n  - a\n - b", {}, [(4, "paths")]),
        ("paths:\n - a\n- b", {}, [(4, "paths")]),
        ("paths: a\n  b: c", {}, [(3, "paths")]),
        ("paths: [a]\n  - b", {}, [(3, "paths")]),
        ("a: {\nb: c", {"b": "c"}, [(2, "a")]),
        ("a: b\n  c: d\na: e\n  f: g", {}, [(3, "a"), (5, "a")]),
        ("a: b\n  c: d\na: e", {"a": "e"}, [(3, "a")]),
        ("a: \x01\npaths: x", {"paths": "x"}, [(2, "a")]),
        ("\n# \x01", {}, [(3, None)]),
        ("a: \x85b\n c: d\npaths: x", {"paths": "x"}, [(3, "a")]),
    ],
)
def test_what_cannot_be_read_takes_no_other_key_along_and_is_named_by_its_line(block, values, unread):
    front = written(block)
    assert (front.values, front.body, front.unreadable) == (values, "body", True)
    assert front.unread == tuple(Unread(*one) for one in unread)


def test_nothing_is_unread_where_all_can_be_read():
    assert written("a: b: c\npaths: **/*.ts").unread == ()


def test_an_alias_in_what_cannot_be_read_is_never_followed():
    front = written("a: &a [x]\n  b: *a\npaths: *a")
    assert (front.values, front.unread) == ({"paths": "*a"}, (Unread(3, "a"),))


def test_a_long_frontmatter_that_cannot_be_read_is_read_in_no_part():
    many = "\n".join(f"a{number}: b" for number in range(MOST_ENTRIES - 1))
    assert written(f"{many}\nkey").values["a0"] == "b"
    front = written(f"{many}\nc: d\nkey")
    assert (front.values, front.unread, front.unreadable) == ({}, (), True)


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("paths:a", 2),
        ("title: x\nPaths:a", 3),
        ("paths = a", 2),
        ("- paths: a", 2),
        ("meta:\n  paths: a", 3),
        ("paths:a\nb: c\n  d: e", 2),
        ("paths: a", None),
        ("paths:", None),
        ("paths: a\n  b: c", None),
        ("paths: a\nmeta:\n  paths: b", None),
        ("title: paths: a", None),
        ("pathspec: a", None),
    ],
)
def test_a_line_that_looks_like_a_condition_and_is_none_is_named(block, line):
    assert written(block).near == line


@given(FRONTLIKE.filter(lambda before: "---" not in before), FRONTLIKE)
def test_a_condition_at_the_start_of_a_line_is_read_or_named(before, after):
    front = split_frontmatter(f"---\n{before}\npaths: src/**\n{after}\n---\n")
    assert "paths" in front.values or "paths" in [one.key for one in front.unread] or front.near is not None


GOOD = {
    "paths": [
        "paths: src/**",
        "paths: **/*.ts",
        "paths:\n  - a\n  - *.md",
        "paths:\n- a\n- {b,c}",
        "paths: [\na,\nb\n]",
    ],
    "title": ["title: a: b", "title: >-\n  a: b\n\n  c", "'title': \"a\" # c", "title:", "title: {a: b}"],
    "tags": ["tags: [a, b]", "tags:\n  - a: b\n    c: d", "tags: |-\n  - a\n   b", "tags: '*'\n# why"],
}
BROKEN = [
    "bad: b\n  c: d",
    "bad: [",
    "bad:\n  - a\n  b",
    "bad:\n  - a\n - b",
    "just words",
    "bad: a\n- b",
    "bad: 'a' b\n  c: d",
]


@given(st.permutations(sorted(GOOD)), st.data(), st.integers(0, 3), st.sampled_from(BROKEN))
def test_one_key_that_cannot_be_read_takes_none_of_the_others_along(keys, data, at, broken):
    good = [data.draw(st.sampled_from(GOOD[key])) for key in keys]
    sound = written("\n".join(good))
    front = written("\n".join([*good[:at], broken, *good[at:]]))
    assert (sound.unread, sorted(sound.values)) == ((), sorted(GOOD))
    assert (front.values, front.unreadable) == (sound.values, True)
    first = 2 + "\n".join([*good[:at], ""]).count("\n")
    lines = range(first, first + len(broken.splitlines()))
    assert all(one.line in lines for one in front.unread)
    assert front.unread
