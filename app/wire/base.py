"""What every model of the wire shares."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Discriminator


class Strict(BaseModel):
    """Unknown fields are refused, so that a misspelt option is never silently ignored."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, ser_json_inf_nan="null")


def alternative(**kinds: type) -> Discriminator:
    """Chooses one alternative of a union by the JSON type of the value, so that a fault has one message."""

    def tag(value: object) -> str | None:
        return next((f"as:{name}" for name, kind in kinds.items() if isinstance(value, kind)), None)

    expected = " or ".join(name.replace("_", " ") for name in kinds)
    return Discriminator(tag, custom_error_type="wrong_type", custom_error_message=f"this must be {expected}")
