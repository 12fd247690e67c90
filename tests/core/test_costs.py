import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.cache_report import Comparison
from app.core.costs import Cost, Price, PricedTwiceError, Prices, cost, priced
from app.data.tables import load_models

MODELS = load_models()
TOKENS = st.integers(0, 10**7)


def broken(written_5m=0, written_1h=0, unwritten=0):
    return Comparison(False, 0, 0, written_5m, written_1h, unwritten, None, "tools_changed")


@pytest.mark.parametrize(
    ("tokens", "amount"),
    [
        ((1_000_000, 0, 0), 3.75),
        ((0, 1_000_000, 0), 6.0),
        ((0, 0, 1_000_000), 3.0),
        ((100_000, 10_000, 1_000), 0.438),
        ((1, 0, 0), 0.000004),
        ((0, 0, 0), 0.0),
    ],
)
def test_writes_cost_their_rate_and_the_rest_the_plain_price(tokens, amount):
    prices = Prices({"own": Price(3.0)}, "EUR")
    assert cost(broken(*tokens), "own", prices) == Cost(amount, "EUR")


def test_rough_tokens_are_paid_as_the_tokens_that_the_model_makes_of_them():
    prices = priced({"claude-sonnet-5-5": 2.0, "claude-sonnet-4-5": 2.0}, "USD", MODELS)
    assert cost(broken(1_000_000), "claude-sonnet-5-5", prices) == Cost(3.25, "USD")
    assert cost(broken(1_000_000), "claude-sonnet-4-5", prices) == Cost(2.5, "USD")


def test_without_a_price_nothing_is_told():
    assert cost(broken(9), "claude-sonnet-5-5", Prices()) is None
    assert cost(broken(9), "other", Prices({"own": Price(1.0)})) is None


@pytest.mark.parametrize("key", ["sonnet", "claude-sonnet-5-5", "claude-sonnet-5-5[1m]", "anthropic/claude-sonnet-5-5"])
@pytest.mark.parametrize("asked", ["claude-sonnet-5-5", "us.anthropic.claude-sonnet-5-5-20260901-v1:0"])
def test_any_spelling_of_a_model_has_its_price(key, asked):
    assert priced({key: 3.0}, "USD", MODELS).of(asked) == Price(3.0, 1.3)


def test_a_model_that_is_not_in_the_table_is_taken_as_it_is_spelt():
    prices = priced({"My-Model": 3.0}, "USD", MODELS)
    assert prices.of("My-Model") == Price(3.0)
    assert prices.of("my-model") is None


def test_two_prices_of_one_model_are_refused():
    with pytest.raises(PricedTwiceError, match="sonnet and claude-sonnet-5-5 are one model: give it one price"):
        priced({"sonnet": 1.0, "claude-sonnet-5-5": 2.0}, "USD", MODELS)


@given(TOKENS, TOKENS, TOKENS, st.floats(0.01, 100))
def test_more_tokens_never_cost_less(written_5m, written_1h, unwritten, price):
    prices = Prices({"own": Price(price)})
    least = cost(broken(written_5m, 0, unwritten), "own", prices)
    assert 0 <= least.amount <= cost(broken(written_5m, written_1h, unwritten), "own", prices).amount
