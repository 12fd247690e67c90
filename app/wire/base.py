"""What every model of the wire shares."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field


class Strict(BaseModel):
    """Unknown fields are refused, so that a misspelt option is never silently ignored."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, ser_json_inf_nan="null")


FIRST: Any = Field(fail_fast=True)
"""Of what may hold very many: its first fault is told, so that no body is looked through for a million of them."""


def alternative(**kinds: type) -> Discriminator:
    """Chooses one alternative of a union by the JSON type of the value, so that a fault has one message."""

    def tag(value: object) -> str | None:
        return next((f"as:{name}" for name, kind in kinds.items() if isinstance(value, kind)), None)

    expected = " or ".join(name.replace("_", " ") for name in kinds)
    return Discriminator(tag, custom_error_type="wrong_type", custom_error_message=f"this must be {expected}")
