from importlib.resources import files

import pytest
import yaml

from app.core.facts import TokenOptions
from app.core.models import window
from app.data.tables import load_models


@pytest.fixture(scope="module")
def table():
    return load_models()


@pytest.fixture(scope="module")
def page():
    return yaml.safe_load(files("app.data").joinpath("models.yaml").read_text(encoding="utf-8"))


def test_the_table_has_a_row_for_every_model_on_the_page_in_its_order(table, page):
    assert [row.id for row in table.rows] == list(page["models"])
    assert len(table.rows) == 20


def test_every_row_says_what_the_page_says(table, page):
    for row in table.rows:
        stated = {field: value for field, value in page["models"][row.id].items() if value is not None}
        assert {field: getattr(row, field) for field in stated} == stated


def test_every_id_and_every_alias_names_a_known_model(table):
    assert all(table.find(row.id) == row for row in table.rows)
    assert {alias: table.find(alias).family for alias in table.aliases} == {
        "opus": "opus",
        "sonnet": "sonnet",
        "haiku": "haiku",
        "fable": "fable",
    }
    assert all(table.find(alias).known for alias in table.aliases)


@pytest.mark.parametrize("spelling", ["claude-sonnet-4-7", "claude-opus-4-15", "claude-opus-4-9"])
def test_a_later_minor_version_is_not_taken_for_an_earlier_one(table, spelling):
    model = table.find(spelling)
    assert (model.known, model.name, model.cutoff, model.max_output) == (False, None, None, 32_000)


def test_a_date_is_not_taken_for_a_minor_version(table):
    assert table.find("claude-opus-4-20250514").name == "Opus 4"
    assert table.find("claude-sonnet-4-20250514").name == "Sonnet 4"


def test_a_model_without_a_published_cutoff_has_none(table):
    assert table.find("claude-mythos-5").cutoff is None


@pytest.mark.parametrize(
    ("spelling", "disable_1m", "tokens"),
    [
        ("claude-opus-4-6[1m]", False, 1_000_000),
        ("claude-opus-4-6", False, 200_000),
        ("claude-sonnet-4-6", False, 200_000),
        ("claude-sonnet-5", False, 1_000_000),
        ("claude-sonnet-5", True, 200_000),
    ],
)
def test_the_clients_window_counts_and_not_the_apis(table, spelling, disable_1m, tokens):
    assert window(table.find(spelling), TokenOptions(disable_1m=disable_1m)).tokens == tokens


def test_the_two_windows_of_a_model_are_both_kept(table):
    model = table.find("claude-opus-4-6")
    assert (model.api_window, model.client_window) == (1_000_000, 200_000)
