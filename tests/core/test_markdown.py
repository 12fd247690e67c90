import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core.markdown import MarkdownReader, Mention

READER = MarkdownReader()


def mentioned(text):
    return [mention.path for mention in READER.read(text).mentions]


def lines(text):
    return [(mention.path, mention.line) for mention in READER.read(text).mentions]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<!-- a -->\ntext", "text"),
        ("text\n\n<!-- a -->\n\n\nmore", "text\n\nmore"),
        ("<!--\na\n\nb\n-->\ntext", "text"),
        ("<!-- a -->\n<!-- b -->\n# Heading", "# Heading"),
        ("<!-- a --><!-- b -->\ntext", "text"),
        ("<!-- a -->\n \t\n\ntext", "text"),
        ("   <!-- three spaces -->\ntext", "text"),
        ("<!-- a --> tail\ntext", " tail\ntext"),
        ("<!-- a --> middle <!-- b --> tail\n\ntext", " middle  tail\n\ntext"),
        ("<!-- a\nb --> tail\n\n\ntext", " tail\n\n\ntext"),
        ("paragraph\n<!-- a -->\nmore", "paragraph\nmore"),
        ("# Heading\n<!-- a -->\n- item", "# Heading\n- item"),
        ("<!---->\ntext", "text"),
        ("<!-- a --> <!-- b", " <!-- b"),
        ("<!-- only -->", ""),
        ("a\r\n\r\n<!-- x -->\r\n\r\nb\r\nc\r\n", "a\r\n\r\nb\r\nc\r\n"),
        ("<!-- x\r\ny --> tail\r\nb\rc", " tail\r\nb\rc"),
        ("a\r<!-- x -->\rb", "a\rb"),
    ],
)
def test_block_comments_go_and_the_rest_keeps_its_bytes(text, left):
    assert READER.read(text).text == left


@pytest.mark.parametrize(
    "text",
    [
        "text <!-- inline --> more",
        "text\nmore <!--\nrule\n-->",
        "- <!-- in a list -->",
        "1. a\n\n   <!-- in a list -->\n",
        "> <!-- in a quote -->",
        "```\n<!-- in a fence -->\n```",
        "~~~\n<!-- in a fence -->\n~~~",
        "    <!-- indented code -->",
        "\t<!-- indented code -->",
        "<div>\n<!-- in other HTML -->\n</div>",
        "<!-- never closed\nRULE",
        "<!-->\nshort",
        "<!DOCTYPE html>",
        "<? php ?>",
        "\\<!-- escaped -->",
    ],
)
def test_other_comments_stay(text):
    assert READER.read(text).text == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<!-- never closed\nRULE", 1),
        ("a\n\n<!-- b -->\n\n<!-- open\n\nc", 5),
        ("<!-- closed -->", None),
        ("x <!-- y", None),
    ],
)
def test_a_block_comment_that_never_closes_is_told_by_its_line(text, line):
    assert READER.read(text).open_comment_line == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("@a\n```\ncode\n", 2),
        ("@a\n```", 2),
        ("@a\n~~~~\ncode\n~~~\n", 2),
        ("@a\n```\n````\n", None),
        ("@a\n```\ncode\n```", None),
        ("@a\n```\ncode\n  ``` \n", None),
        ("@a\n```\ncode\n```\n\nmore\n", None),
        ("@a\n```\n~~~\n", 2),
        ("- @a\n\n  ```\n  code\n", None),
    ],
)
def test_a_fence_that_runs_to_the_end_is_told_by_its_line(text, line):
    assert READER.read(text).open_fence_line == line


@pytest.mark.parametrize(
    "text",
    [
        "# @a.md",
        "Title @a.md\n===",
        "See @a.md now",
        "@a.md",
        "- @a.md",
        "- one\n- two\n  @a.md",
        "1. @a.md",
        "* x\n\n  @a.md",
        "> @a.md",
        "> - @a.md",
        "| h |\n|---|\n| @a.md |",
        "| @a.md |\n|---|\n",
        "*@a.md*",
        "**see @a.md**",
        "~~@a.md~~",
        "_ @a.md _",
        "[@a.md](https://example.org)",
        "[see @a.md][r]\n\n[r]: https://example.org",
        "text  \n@a.md",
        "text\\\n@a.md",
        "<b> @a.md </b>",
        "<!-- c --> @a.md",
        "<!-- c\nd --> @a.md",
        "`code` @a.md",
        "a ` lone backtick @a.md",
        "```\ncode\n```\n@a.md",
        "<div>\nhtml\n</div>\n\n@a.md",
    ],
)
def test_text_of_every_kind_can_include(text):
    assert mentioned(text) == ["a.md"]


@pytest.mark.parametrize(
    "text",
    [
        "`@a.md`",
        "`` @a.md ``",
        "`one\n@a.md`",
        "- `@a.md`\n- `b @a.md`",
        "1. x `@a.md` y",
        "> `@a.md`",
        "| `@a.md` |\n|---|\n",
        "```\n@a.md\n```",
        "~~~ @a.md\n~~~",
        "```\n@a.md",
        "- ```\n  @a.md\n  ```",
        "> ```\n> @a.md\n> ```",
        "    @a.md",
        "\t@a.md",
        "- x\n\n      @a.md",
        "<div>\n@a.md\n</div>",
        "<pre>\n@a.md\n\n@a.md\n</pre>",
        "<?php @a.md ?>",
        '<a title=" @a.md">x</a>',
        "text <!-- @a.md --> more",
        "<!-- @a.md -->",
        "<!--\n@a.md\n-->",
        "- <!-- @a.md -->",
        "<!-- @a.md never closed",
        "![@a.md](x.png)",
        "![x @a.md][r]\n\n[r]: x.png",
        "[r]: @a.md",
        '[r]: x " @a.md"',
        "[x](@a.md)",
        "[x](y ' @a.md')",
        "<https://example.org/@a.md>",
        "\\@a.md",
        "me@a.md",
        "(@a.md)",
        "&#64;a.md",
        "@",
        "@ a.md",
    ],
)
def test_code_html_and_addresses_never_include(text):
    assert mentioned(text) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("@docs/my\\ file.md x", "docs/my\\ file.md"),
        ("@C:\\Users\\me\\rules.md", "C:\\Users\\me\\rules.md"),
        ("@a\\*b\\*.md", "a\\*b\\*.md"),
        ("@a_b_c.md", "a_b_c.md"),
        ("@a&amp;b.md", "a&amp;b.md"),
        ("@文档.md", "文档.md"),
        ("@guide.md#setup", "guide.md#setup"),
        ("@a.md,", "a.md,"),
        ("@@a", "@a"),
        ("x\u00a0@a.md", "a.md"),
    ],
)
def test_a_path_is_kept_as_it_is_written(text, path):
    assert mentioned(text) == [path]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("@a\n@b\n\n\n@c", [("a", 1), ("b", 2), ("c", 5)]),
        ("@a\r\n@b\r@c", [("a", 1), ("b", 2), ("c", 3)]),
        ("x\\\n@a  \n@b", [("a", 2), ("b", 3)]),
        ("Set @a\n@b\n---\n@c", [("a", 1), ("b", 2), ("c", 4)]),
        ("> - @a\n>   @b\n>\n> @c", [("a", 1), ("b", 2), ("c", 4)]),
        ("| h |\n|---|\n| @a |\n| @b |", [("a", 3), ("b", 4)]),
        ("<b\nc> @a\n@b", [("a", 2), ("b", 3)]),
        ("`x\ny` @a\n@b", [("a", 2), ("b", 3)]),
        ('[t](u\n"v") @a\n@b', [("a", 2), ("b", 3)]),
        ("`@a`\n@a", [("a", 2)]),
        ("@a @a\n@a", [("a", 1), ("a", 1), ("a", 2)]),
        ("<!-- x\ny --> @a\n\n@b", [("a", 2), ("b", 4)]),
        ("- `x\n  y`\n  @a", [("a", 3)]),
    ],
)
def test_lines_count_from_one_in_the_text_as_written(text, places):
    assert lines(text) == places


def test_the_next_word_is_kept_when_it_could_be_the_rest_of_a_path():
    assert READER.read("@my file.md and @b c @d\nnew.md @e @f.md").mentions == (
        Mention("my", 1, "file.md"),
        Mention("b", 1),
        Mention("d", 1),
        Mention("e", 2),
        Mention("f.md", 2),
    )


def test_deep_nesting_is_read():
    assert mentioned("> " * 20 + "@a.md") == ["a.md"]
    assert mentioned("> " * 2_000 + "@a.md") == []
    assert READER.read("- " * 2_000 + "<!-- x -->").text == "- " * 2_000 + "<!-- x -->"


def test_many_mentions_in_one_paragraph_are_read():
    assert len(mentioned("@a \n" * 5_000)) == 5_000


MARKDOWN = st.lists(
    st.sampled_from(
        [
            "<!--",
            "-->",
            "@a.md",
            "@b",
            " ",
            "    ",
            "\t",
            "\n",
            "\r\n",
            "\r",
            "\n\n",
            "```",
            "~~~",
            "`",
            "- ",
            "> ",
            "1. ",
            "*",
            "[",
            "](",
            ")",
            "![",
            "]: ",
            "<div>",
            "</div>",
            "<b\n",
            ">",
            "| ",
            "\n|---|\n",
            "\\",
            "# ",
            "===",
            "text",
            "\0",
            "é",
        ]
    )
).map("".join)


@given(st.text() | MARKDOWN)
@example("a\x0b<!-- x -->\x0cb\u2028\x85")
def test_what_is_left_of_any_text_stood_in_it_in_that_order(text):
    reading = READER.read(text)
    at = 0
    for character in reading.text:
        at = text.index(character, at) + 1
    assert "<!--" in text or reading.text == text


@given(st.text(alphabet="ab\r\n -@#>*", max_size=60), st.text(alphabet="xy \r\n@`", max_size=30))
def test_a_comment_between_blank_lines_goes_with_the_blank_lines_after_it(before, inside):
    text = f"{before}\n\n<!-- {inside} -->\n\n\nafter"
    assert READER.read(text).text == f"{before}\n\nafter"


@given(MARKDOWN)
def test_every_mention_stands_on_its_line(text):
    written = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd").split("\n")
    for mention in READER.read(text).mentions:
        assert f"@{mention.path}" in written[mention.line - 1]


def test_one_reader_gives_the_same_to_eight_threads_as_to_one():
    texts = [
        f"# @h{n}.md\n\n- `@no` @i{n}.md\n\n[@l{n}.md](x) <!-- c{n} -->\n\n<!-- b{n} -->\n\n| @t{n}.md |\n|---|\n" * 5
        for n in range(60)
    ]
    alone = [MarkdownReader().read(text) for text in texts]
    for _ in range(3):
        shared = MarkdownReader()
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(shared.read, texts)) == alone


def test_a_long_paragraph_is_read_in_runs_of_lines_with_its_line_numbers():
    text = "\n".join(f"word {'x' * 100} @f{number}.md" for number in range(300))
    assert [(mention.path, mention.line) for mention in READER.read(text).mentions] == [
        (f"f{number}.md", number + 1) for number in range(300)
    ]


def test_a_line_too_long_for_the_parser_is_told_and_the_lines_around_it_are_read():
    found = READER.read("@a.md\n" + "[" * 9000 + " @b.md\n@c.md")
    assert [mention.path for mention in found.mentions] == ["a.md", "c.md"]
    assert found.long_line == 2


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 250_000,
        "<!-- -->" + "<!--" * 250_000,
        "@a " + "[" * 1_000_000,
        ("@a " + "[" * 4000 + "\n") * 20,
        ("@a " + "![" * 4000 + "\n") * 20,
        " ".join(f"@{number:x}" for number in range(1500)),
        ("@a " + "`" * 4000 + "\n") * 50,
    ],
)
def test_texts_made_to_be_slow_are_read_to_their_end(text):
    assert READER.read(text).text is not None


LINES_OF_BLOCKS = st.sampled_from(
    [
        *r"""# a
## b @h.md
####### no
#no
 # in
text
@a.md
see @b.md
[x @c.md]
[x @c.md][x]
[x]: /y
> q @d.md
- i
- i @e.md
  more
    code @f
1. n
```
~~~~
   ```
> ```
- ```
<!-- c
-->
<!-- c --> @g.md
<script>
</script>
<div>
<?php
?>
<![CDATA[
]]>
===
---
| @t | b |
|---|---|
- <!-- l
> <!-- q
\
<https://x@y.z>""".splitlines(),
        *("", "", "", " ", "\t"),
    ]
)
SECTIONED = st.lists(st.lists(LINES_OF_BLOCKS, max_size=5).map("\n".join), min_size=1, max_size=8).map("\n\n# n\n".join)


@given(SECTIONED, st.sampled_from(["\n", "\r\n", "\r"]))
@example("```\n\n# plain\n\n# a\n@a\n```\n\n# b\n@b", "\n")
@example("<!-- c\n\n# plain\n\n# a\n@a\n-->\n\n# b\n@b", "\n")
@example("[x @a][x]\n\n# plain\n\n# c\n[x]: /y", "\n")
def test_a_text_read_by_its_sections_reads_as_the_whole(written, line_end):
    text = written.replace("\n", line_end)
    whole = READER._blocks.parse(text, defined := {})
    read = READER._blocks_in(lines_of(text), known := {})[0]
    assert telling(read) == telling(whole)
    assert known.get("references", {}).keys() == defined.get("references", {}).keys()


def lines_of(text):
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)


def telling(tokens):
    kinds = {"html_block", "fence"}
    return [(one.type, one.map, one.level, one.content) for one in tokens if one.type in kinds or "@" in one.content]


def test_sections_without_anything_to_tell_are_not_parsed():
    text = "# A\n\n- plain\n\n# B\n\nsee @b.md\n\n# C\n\n> plain\n\n# D\n\n<!-- d\n"
    assert [one.map for one in READER._blocks_in(lines_of(text), {})[0] if one.type == "heading_open"] == [
        [4, 5],
        [12, 13],
    ]
    assert lines(text) == [("b.md", 7)]
    assert READER.read(text).open_comment_line == 15


def test_from_where_a_text_takes_too_long_nothing_is_looked_for():
    reading = READER.read("@a.md <!-- c -->\n\n# P\n\nplain\n\n# B\n\n" + "- @b.md\n" * 30_000)
    assert [one.path for one in reading.mentions] == ["a.md"]
    assert reading.unread_line == 7


def test_mentions_in_a_paragraph_that_takes_too_long_are_not_looked_for():
    reading = READER.read("@a.md\n\n" + "*a **b @b.md\n" * 20_000)
    assert [one.path for one in reading.mentions] == ["a.md"]
    assert reading.unread_line == 3
