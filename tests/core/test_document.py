import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.document import MOST_LINES, MOST_UNITS, DocumentReader, EveryDocument, is_text_name, limited
from app.core.markdown import MarkdownReader, Mention
from app.core.tokens import utf16_length

READER = MarkdownReader()


def read(data):
    return DocumentReader(MarkdownReader()).read(data)


def test_frontmatter_and_comments_go_and_mentions_keep_their_lines():
    document = read(b"---\r\npaths: '*.c'\r\n---\r\n\r\n<!-- c -->\r\nsee @a.md\r\n@b d.md")
    assert document.text == "see @a.md\r\n@b d.md"
    assert document.globs == ("*.c",)
    assert document.mentions == (Mention("a.md", 6), Mention("b", 7, "d.md"))
    assert document.advice == ()


def test_a_byte_order_mark_is_dropped_before_the_frontmatter():
    document = read("\ufeff---\npaths: a\n---\nbody".encode())
    assert (document.raw, document.text, document.globs) == ("---\npaths: a\n---\nbody", "body", ("a",))


def test_only_one_byte_order_mark_is_dropped():
    assert read("\ufeff\ufeffa".encode()).text == "\ufeffa"


def test_bad_bytes_become_replacement_characters():
    assert read(b"a\xff\xc3b").text == "a\ufffd\ufffdb"


def test_bytes_with_a_nul_are_no_text():
    assert read(b"text\0") is None


def test_each_content_is_read_once():
    reader = DocumentReader(MarkdownReader())
    assert reader.read(b"@a") is reader.read(b"@a")
    assert reader.read(b"\0") is reader.read(b"\0") is None


def test_patterns_that_cannot_be_read_are_found_once():
    reader = DocumentReader(MarkdownReader())
    found = reader.unreadable(("*.c", "a" * 2000))
    assert found == ("a" * 2000,)
    assert reader.unreadable(("*.c", "a" * 2000)) is found


def test_readers_that_share_what_they_keep_read_each_content_once():
    kept = EveryDocument()
    assert DocumentReader(READER, kept).read(b"@a") is DocumentReader(READER, kept).read(b"@a")
    assert DocumentReader(READER).read(b"@a") is not DocumentReader(READER).read(b"@a")


def test_advice_counts_lines_from_the_top_of_the_file():
    document = read(b"---\na: b\n---\n\ntext\n\n<!-- open\n")
    assert document.advice == ("Line 7: a comment opens and never closes; add -->.",)
    assert read(b"---\na: b\n---\n```\n@a\n").advice == ("Line 4: a code fence never closes; what follows is code.",)


def test_a_line_too_long_to_look_for_includes_in_is_told_with_its_number():
    text = f"---\na: b\n---\nShort.\n{'[@a ' * 5000}\n@b"
    assert read(text.encode()).advice == ("Line 5 is too long: includes in it are not looked for.",)


def test_paths_in_a_file_that_is_no_rule_is_told():
    assert read(b"---\npaths: '*.c'\n---\n").advice_for(is_rule=True) == ()
    assert ["paths has no effect" in one for one in read(b"---\npaths: '*.c'\n---\n").advice_for(is_rule=False)] == [
        True
    ]
    assert read(b"---\npaths: 7\n---\n").advice_for(is_rule=False) == ()


@pytest.mark.parametrize(
    "extension", ["", ".", ".md", ".mdc", ".jsonc", ".tf", ".j2", ".jl", ".sol", ".lock", ".cmake", ".prisma"]
)
def test_text_extensions(extension):
    assert is_text_name(extension)


@pytest.mark.parametrize(
    "extension", [".png", ".svg", ".pdf", ".docx", ".ipynb", ".wasm", ".pem", ".key", ".gz", ".xyz", ".MD"]
)
def test_other_extensions(extension):
    assert not is_text_name(extension)


def test_an_index_within_its_limits_is_only_trimmed():
    text = "\n".join("x" * 100 for _ in range(MOST_LINES))
    assert limited(f"\n{text}\n\n") == text
    assert limited("y" * MOST_UNITS) == "y" * MOST_UNITS


def test_an_index_of_too_many_lines_is_cut_at_a_line_end_and_says_so():
    kept, note = limited("\n".join(f"line {n}" for n in range(1234))).split("\n\n")
    assert kept == "\n".join(f"line {n}" for n in range(200))
    assert note.startswith("> Note: this memory index has 1,234 lines and ")
    assert "the limit is 200 lines. Only the part above was loaded." in note


def test_an_index_of_too_many_characters_is_cut_at_a_line_end_and_says_so():
    kept, note = limited("\n".join("x" * 999 for _ in range(30))).split("\n\n")
    assert kept == "\n".join("x" * 999 for _ in range(25))
    assert "30 lines and 29,999 characters; the limit is 25,000 characters." in note


def test_an_index_beyond_both_limits_names_both():
    kept, note = limited("\n".join("x" * 200 for _ in range(300))).split("\n\n")
    assert kept == "\n".join("x" * 200 for _ in range(124))
    assert "the limit is 200 lines and 25,000 characters." in note


def test_a_line_that_ends_at_the_limit_is_kept_whole():
    kept = limited("x" * MOST_UNITS + "\nmore").split("\n\n")[0]
    assert kept == "x" * MOST_UNITS


def test_one_line_that_is_too_long_is_cut_at_a_character():
    assert limited("x" + "🙂" * MOST_UNITS).split("\n\n")[0] == "x" + "🙂" * (MOST_UNITS // 2 - 1)


@given(st.text(alphabet="a\n🙂", max_size=20).map(lambda text: text * 2_000))
def test_what_is_kept_of_an_index_is_its_start_within_the_limits(text):
    whole = text.strip()
    kept = limited(text).split("\n\n> Note:")[0]
    assert whole.startswith(kept)
    assert utf16_length(kept) <= MOST_UNITS
    assert kept.count("\n") < MOST_LINES


@given(st.binary(max_size=200))
def test_any_bytes_are_read(data):
    document = read(data)
    assert (document is None) is (b"\0" in data)


def test_a_rule_whose_frontmatter_never_closes_is_told():
    found = DocumentReader(MarkdownReader()).read(b"---\npaths: src/**\nBody.")
    assert found.globs == ()
    assert [advice for advice in found.rule_advice if "never closes" in advice]


def test_a_text_that_takes_too_long_is_told_with_its_line():
    document = read(("---\npaths: a\n---\n@a.md\n\n# P\n\nplain\n\n# B\n\n" + "- @b.md\n" * 30_000).encode())
    assert [one.path for one in document.mentions] == ["a.md"]
    assert [advice[:19] for advice in document.advice] == ["From line 10 on thi"]
