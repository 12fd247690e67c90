from dataclasses import replace
from typing import get_args

import pytest

from app.core.providers import PROVIDERS, Provider, provider_row
from app.data.tables import load_models

TABLE = load_models()
BETA_1M, BETA_SCOPE = "context-1m-2025-08-07", "prompt-caching-scope-2026-01-05"


def names(column):
    return [row.name for row in PROVIDERS if column(row)]


def test_every_provider_has_one_row_with_a_reason():
    assert tuple(row.name for row in PROVIDERS) == get_args(Provider)
    assert all(row.reason.endswith(".") for row in PROVIDERS)
    assert [provider_row(row.name) for row in PROVIDERS] == list(PROVIDERS)


def test_a_provider_that_is_not_in_the_table_is_an_error():
    with pytest.raises(KeyError, match="abacus"):
        provider_row("abacus")


def test_scopes_are_for_the_first_party_api():
    assert names(lambda row: row.scope) == ["anthropic"]


def test_a_marker_at_the_top_is_for_the_first_party_api_and_foundry():
    assert names(lambda row: row.top_level) == ["anthropic", "foundry"]


@pytest.mark.parametrize(
    ("spelling", "hour"),
    [
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", True),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", True),
        ("claude-opus-4-8", True),
        ("opus", True),
        ("anthropic.claude-opus-4-1-20250805-v1:0", False),
        ("claude-opus-4", False),
        ("claude-sonnet-4", False),
        ("claude-3-5-haiku", False),
        ("llama-7", False),
    ],
)
def test_only_bedrock_has_models_without_an_hour(spelling, hour):
    model = TABLE.find(spelling)
    assert names(lambda row: not row.takes_hour(model)) == ([] if hour else ["bedrock"])


@pytest.mark.parametrize(
    ("beta", "taken"),
    [
        (BETA_1M, ["anthropic", "bedrock", "vertex", "foundry"]),
        (BETA_SCOPE, ["anthropic"]),
        ("files-api-2025-04-14", []),
    ],
)
def test_only_beta_values_that_a_provider_is_known_to_take_are_added(beta, taken):
    assert names(lambda row: row.takes_beta(beta)) == taken


def test_system_messages_need_a_provider_and_a_model_that_take_them():
    model = TABLE.find("claude-opus-4-8")
    assert names(lambda row: row.takes_system_messages(model)) == ["anthropic", "foundry"]
    assert names(lambda row: row.takes_system_messages(replace(model, system_messages=False))) == []


def test_models_from_opus_4_8_on_take_system_messages():
    assert [row.id for row in TABLE.rows if row.system_messages] == [
        "claude-fable-5-1",
        "claude-mythos-5-1",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "claude-fable-5",
        "claude-mythos-5",
        "claude-opus-5",
        "claude-opus-4-8",
        "claude-sonnet-5",
    ]
    assert not TABLE.default.system_messages
