"""The tables that ship with the service, read from the package."""

from __future__ import annotations

from importlib.resources import files

import yaml

from app.core.models import ModelTable


def load_models() -> ModelTable:
    """The table of ``models.yaml``. A fresh value at every call: whoever builds the service keeps it."""
    text = files("app.data").joinpath("models.yaml").read_text(encoding="utf-8")
    return ModelTable.from_rows(yaml.load(text, Loader=yaml.CSafeLoader))
