"""What each provider of the models takes of a request: the first-party API, three clouds, and any other base URL.

``custom`` is a gateway or a server of one's own: of it nothing is known but that it speaks the documented API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.core.models import BETA_1M, Model

BETA_SCOPE = "prompt-caching-scope-"

Provider = Literal["anthropic", "bedrock", "vertex", "foundry", "custom"]

BEFORE_4_5 = frozenset({"claude-3-5-haiku", "claude-sonnet-4", "claude-opus-4", "claude-opus-4-1"})
"""Models older than generation 4.5."""


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A provider, and why its answers are no.

    ``scope``: it takes a marker's ``scope``. ``five_minutes_only`` are the ids of models whose markers may not last an
    hour; ``unknown_last_an_hour`` says it of models that are not in the table. ``top_level``: it takes one marker for
    the whole request. ``betas`` are the beginnings of the beta values that we may add of ourselves.
    ``system_messages``: it takes messages of the role ``system``, for models that do.
    """

    name: Provider
    reason: str
    scope: bool = False
    five_minutes_only: frozenset[str] = frozenset()
    unknown_last_an_hour: bool = True
    top_level: bool = False
    betas: tuple[str, ...] = ()
    system_messages: bool = False

    def takes_hour(self, model: Model) -> bool:
        """Whether a marker may last an hour."""
        return model.id not in self.five_minutes_only and (model.known or self.unknown_last_an_hour)

    def takes_system_messages(self, model: Model) -> bool:
        return self.system_messages and model.system_messages

    def takes_beta(self, beta: str) -> bool:
        """Whether a beta value may be added to what the caller asked for."""
        return beta.startswith(self.betas)


PROVIDERS: tuple[ProviderRow, ...] = (
    ProviderRow(
        name="anthropic",
        reason="The first-party API is where every feature begins.",
        scope=True,
        top_level=True,
        betas=(BETA_1M, BETA_SCOPE),
        system_messages=True,
    ),
    ProviderRow(
        name="bedrock",
        reason="It has markers on blocks only, and an hour only from generation 4.5 on.",
        five_minutes_only=BEFORE_4_5,
        unknown_last_an_hour=False,
        betas=(BETA_1M,),
    ),
    ProviderRow(
        name="vertex",
        reason="It has markers on blocks only, and refuses the beta value for scopes.",
        betas=(BETA_1M,),
    ),
    ProviderRow(
        name="foundry",
        reason="It follows the first-party API, except for scopes, which are not in the public documentation.",
        top_level=True,
        betas=(BETA_1M,),
        system_messages=True,
    ),
    ProviderRow(
        name="custom",
        reason="A gateway may refuse what is not in every version of the API, so it is sent markers on blocks only.",
    ),
)


def provider_row(name: Provider) -> ProviderRow:
    """The row of that name.

    Raises:
        KeyError: there is none.
    """
    for row in PROVIDERS:
        if row.name == name:
            return row
    raise KeyError(name)
