from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from tests.reference.trees import Tree


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """An empty folder that stands for ``/``."""
    return Tree(tmp_path_factory.mktemp("tree").resolve())


@pytest.fixture
def client(upstream_url: str) -> Iterator[anthropic.Anthropic]:
    """The official SDK, talking to the stand-in."""
    with anthropic.Anthropic(base_url=upstream_url, api_key="test", max_retries=0) as made:
        yield made
