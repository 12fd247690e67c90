from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest


@pytest.fixture
def client(upstream_url: str) -> Iterator[anthropic.Anthropic]:
    """The official SDK, talking to the stand-in."""
    with anthropic.Anthropic(base_url=upstream_url, api_key="test", max_retries=0) as made:
        yield made
