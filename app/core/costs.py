"""What it costs in money that a prompt cache broke. The service knows no prices: they are given to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.core.cache_report import Comparison
from app.core.models import ModelTable, bare_id
from app.core.prefix import model_tokens

WRITE_5M = 1.25
WRITE_1H = 2.0
"""What a written token costs, by the price of one that is not cached."""

TOKENS_PER_PRICE = 1_000_000
PLACES = 6
DEFAULT_CURRENCY = "USD"


class PricedTwiceError(ValueError):
    """Two spellings of one model have a price each."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of a million input tokens. ``per_rough`` is how many tokens the model makes of one in a rough count."""

    amount: float
    per_rough: float = 1.0


@dataclass(frozen=True, slots=True)
class Prices:
    """By model id. ``currency`` is an ISO 4217 code."""

    by_model: Mapping[str, Price] = field(default_factory=dict)
    currency: str = DEFAULT_CURRENCY

    def of(self, model_id: str) -> Price | None:
        """That of a model, under the table's id or as it is sent upstream."""
        return self.by_model.get(model_id) or self.by_model.get(bare_id(model_id))


@dataclass(frozen=True, slots=True)
class Cost:
    amount: float
    currency: str


def priced(given: Mapping[str, float], currency: str, models: ModelTable) -> Prices:
    """Prices of a million input tokens by any spelling of a model; one that is not in the table stays as it is.

    Raises:
        PricedTwiceError: two spellings are of one model.
    """
    found: dict[str, Price] = {}
    spelt: dict[str, str] = {}
    for spelling, amount in given.items():
        model = models.find(spelling)
        if model.id in found:
            raise PricedTwiceError(f"{spelt[model.id]} and {spelling} are one model: give it one price")
        spelt[model.id] = spelling
        found[model.id] = Price(amount, model_tokens(TOKENS_PER_PRICE, model) / TOKENS_PER_PRICE)
    return Prices(found, currency)


def cost(comparison: Comparison, model_id: str, prices: Prices) -> Cost | None:
    """What is paid for sending again what had been cached: writes at their rate, the rest as plain input.

    None: the model has no price.
    """
    price = prices.of(model_id)
    if price is None:
        return None
    weighed = comparison.rewritten_5m * WRITE_5M + comparison.rewritten_1h * WRITE_1H + comparison.unwritten
    return Cost(round(weighed * price.per_rough * price.amount / TOKENS_PER_PRICE, PLACES), prices.currency)
