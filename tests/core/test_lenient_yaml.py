import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.lenient_yaml import LONGEST, MOST_LINES, parse_yaml, parsed_by_key, split_commas


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


@given(st.lists(st.text("ab{},")))
def test_commas_cut_only_outside_braces(parts):
    text = ",".join(parts)
    cut = split_commas(text)
    assert ",".join(cut) == text
    assert all("," not in part or "{" in part for part in cut)


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


def test_many_lines_that_yaml_reads_are_no_reason_to_refuse() -> None:
    found = parse_yaml("paths:\n" + "- a\n" * (MOST_LINES + 1))
    assert found is not None
    assert len(found["paths"]) == MOST_LINES + 1


@pytest.mark.parametrize("begins", ["a: " + "[" * 32_000, "a: [" + "{" * 3_000, "a: '", "a: b"])
def test_of_more_lines_than_are_mended_nothing_is_read(begins: str) -> None:
    lines = [f"{begins}\n", *["x\n"] * MOST_LINES]
    assert parse_yaml("".join(lines)) is None
    assert parsed_by_key(lines) == ({}, ())
