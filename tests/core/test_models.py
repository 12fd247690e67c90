from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.facts import TokenOptions
from app.core.models import Model, ModelTable, Window, bare_id, untagged, window

BETA = ("context-1m-2025-08-07",)
TABLE = ModelTable.from_rows(
    MappingProxyType(
        {
            "default": {
                "api_window": 200_000,
                "client_window": 200_000,
                "max_output": 32_000,
                "min_cache": 4096,
                "tokenizer": 1,
            },
            "models": {
                "claude-opus-5-5": {
                    "name": "Opus 5.5",
                    "client_window": 1_000_000,
                    "max_output": 128_000,
                    "family": "opus",
                },
                "claude-opus-4-6": {"name": "Opus 4.6", "api_window": 1_000_000, "client_window": 200_000},
                "claude-sonnet-4-5": {"name": "Sonnet 4.5", "cutoff": "January 2025", "supports_1m": True},
                "claude-opus-4-1": {"name": "Opus 4.1", "min_cache": None, "cutoff": None},
                "claude-opus-4": {"name": "Opus 4"},
                "claude-sonnet-4": {"name": "Sonnet 4"},
                "claude-3-5-haiku": {"name": "Haiku 3.5", "max_output": 8192},
                "claude-small": {"client_window": 64_000, "supports_1m": True},
            },
            "aliases": {"opus": "claude-opus-5-5"},
        }
    )
)


@pytest.mark.parametrize(
    ("spelling", "id_"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("CLAUDE-Sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@default", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-latest", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@latest", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-20241022", "claude-3-5-haiku"),
        ("claude-opus-4-20250514", "claude-opus-4"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1"),
        ("anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-1-20250805-v1:0",
            "claude-opus-4-1",
        ),
        ("publishers/anthropic/models/claude-opus-4-1@20250805", "claude-opus-4-1"),
        ("projects/p/locations/l/publishers/anthropic/models/claude-opus-4", "claude-opus-4"),
        ("opus", "claude-opus-5-5"),
        ("Opus", "claude-opus-5-5"),
    ],
)
def test_every_spelling_names_its_model(spelling, id_):
    model = TABLE.find(spelling)
    assert (model.id, model.known, model.tagged_1m) == (id_, True, False)


@pytest.mark.parametrize(
    "spelling",
    [
        "claude-sonnet-4-7",
        "claude-opus-4-15",
        "claude-opus-4-2025051",
        "claude-opus-4-202505141",
        "my-claude-opus-4",
        "claude-opus-4-preview",
        "opus-20250514",
        "anthropic/opus",
        "gpt-5",
        "",
    ],
)
def test_an_id_that_is_not_in_the_table_is_unknown_and_has_the_default_figures(spelling):
    assert TABLE.find(spelling) == Model(
        id=spelling,
        name=None,
        api_window=200_000,
        client_window=200_000,
        max_output=32_000,
        cutoff=None,
        min_cache=4096,
        tokenizer=1,
        family=None,
        known=False,
    )


@pytest.mark.parametrize("tag", ["[1m]", "[1M]"])
@pytest.mark.parametrize(
    ("spelling", "wire"),
    [
        ("claude-opus-4-6", "claude-opus-4-6"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", "us.anthropic.claude-opus-4-1-20250805-v1:0"),
        ("Opus", "claude-opus-5-5"),
        ("My-Model", "My-Model"),
    ],
)
def test_the_tag_is_read_and_not_sent(spelling, wire, tag):
    assert TABLE.wire_id(spelling + tag) == TABLE.wire_id(spelling) == wire
    assert TABLE.find(spelling + tag).tagged_1m
    assert not TABLE.find(spelling).tagged_1m


@pytest.mark.parametrize("spelling", ["My-Model", " My-Model[1m]", "My-Model [1M][1m] "])
def test_without_tags_a_spelling_is_what_was_asked_for(spelling):
    assert untagged(spelling) == "My-Model"


def test_an_unknown_model_keeps_its_spelling_without_the_tag():
    model = TABLE.find("My-Model[1m]")
    assert (model.id, model.known, model.tagged_1m) == ("My-Model", False, True)


def test_a_tag_that_is_not_at_the_end_is_part_of_the_id():
    assert TABLE.find("claude-opus-4[1m]-x").id == "claude-opus-4[1m]-x"


def test_what_a_row_lacks_or_has_as_null_the_default_row_gives():
    model = TABLE.find("claude-opus-4-1")
    assert (model.min_cache, model.max_output, model.cutoff, model.family) == (4096, 32_000, None, None)


def test_rows_keep_the_order_of_the_table():
    assert [row.id for row in TABLE.rows][:3] == ["claude-opus-5-5", "claude-opus-4-6", "claude-sonnet-4-5"]


def test_a_model_takes_system_messages_only_when_its_row_says_so():
    row = {**_default(), "system_messages": True}
    table = ModelTable.from_rows({"default": _default(), "models": {"m": row, "n": {}}})
    assert [one.system_messages for one in (*table.rows, table.default)] == [True, False, False]


@pytest.mark.parametrize(
    ("spelling", "near"),
    [("claude-sonet-4-5", "claude-sonnet-4-5"), ("claude-opus-4.1", "claude-opus-4-1"), ("x", None)],
)
def test_an_unknown_spelling_has_at_most_one_model_near_it(spelling, near):
    assert TABLE.nearest(spelling) == near


def test_a_table_without_aliases_has_none():
    table = ModelTable.from_rows({"default": _default(), "models": {}})
    assert (table.rows, dict(table.aliases)) == ((), {})


def test_a_row_with_an_unknown_field_is_refused():
    with pytest.raises(TypeError, match="windw"):
        ModelTable.from_rows({"default": _default(), "models": {"m": {"windw": 1}}})


def _default():
    return {"api_window": 1, "client_window": 1, "max_output": 1, "min_cache": 1, "tokenizer": 1}


@given(st.text())
def test_any_text_names_a_model(spelling):
    model = TABLE.find(spelling)
    assert model.known or model.id == TABLE.wire_id(spelling)


@given(
    st.sampled_from(TABLE.rows), st.sampled_from(["", "anthropic/", "eu.anthropic."]), st.sampled_from(["", "-v1:0"])
)
def test_a_table_id_is_found_behind_every_prefix_and_suffix(row, prefix, suffix):
    assert TABLE.find(f"{prefix}{row.id}{suffix}") == row
    assert bare_id(row.id) == row.id


@pytest.mark.parametrize(
    ("spelling", "options", "service_override", "betas", "expected"),
    [
        (
            "claude-opus-4-6[1m]",
            TokenOptions(max_context_tokens=5_000),
            9_000,
            (),
            Window(5_000, "override", 1_000_000),
        ),
        ("claude-opus-4-6", TokenOptions(), 9_000, (), Window(9_000, "override", 200_000)),
        ("claude-opus-4-6", TokenOptions(max_context_tokens=0), 9_000, (), Window(9_000, "override", 200_000)),
        ("claude-opus-4-6", TokenOptions(max_context_tokens=-1), 0, (), Window(200_000, "model table")),
        ("claude-opus-4-6[1m]", TokenOptions(), None, (), Window(1_000_000, "[1m] tag")),
        ("gpt-5[1M]", TokenOptions(), None, (), Window(1_000_000, "[1m] tag")),
        ("opus", TokenOptions(), None, (), Window(1_000_000, "model table")),
        ("claude-opus-4-6", TokenOptions(), None, (), Window(200_000, "model table")),
        ("claude-sonnet-4-5", TokenOptions(), None, BETA, Window(1_000_000, "1M beta")),
        ("claude-opus-4-6", TokenOptions(), None, BETA, Window(200_000, "model table")),
        ("claude-small", TokenOptions(), None, ("other", *BETA), Window(1_000_000, "1M beta")),
        ("claude-small", TokenOptions(), None, ("other",), Window(200_000, "default")),
        ("gpt-5", TokenOptions(), None, BETA, Window(200_000, "default")),
    ],
)
def test_the_first_rule_that_applies_gives_the_window(spelling, options, service_override, betas, expected):
    assert window(TABLE.find(spelling), options, service_override, betas) == expected


@pytest.mark.parametrize(
    ("spelling", "betas"),
    [("claude-opus-5-5", ()), ("claude-opus-4-6[1m]", ()), ("claude-small", BETA)],
)
def test_disable_1m_holds_every_rule_to_200k(spelling, betas):
    held = Window(200_000, "held to 200,000 by disable_1m")
    assert window(TABLE.find(spelling), TokenOptions(disable_1m=True), None, betas) == held


def test_disable_1m_holds_an_override_too_and_leaves_smaller_windows_alone():
    model = TABLE.find("claude-opus-5-5")
    large = window(model, TokenOptions(disable_1m=True, max_context_tokens=400_000))
    small = window(model, TokenOptions(disable_1m=True, max_context_tokens=50_000))
    assert large == Window(200_000, "held to 200,000 by disable_1m", 200_000)
    assert small == Window(50_000, "override", 200_000)
    assert window(TABLE.find("claude-opus-4"), TokenOptions(disable_1m=True)) == Window(200_000, "model table")
