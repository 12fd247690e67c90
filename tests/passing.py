"""A store that passes everything on to another, for stores that do one thing otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.stores.socket import Store


@dataclass
class Passing:
    store: Store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)
