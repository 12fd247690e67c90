from __future__ import annotations

from collections.abc import Iterator

import anthropic
import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.reference.tallies import stranger
from tests.reference.trees import Tree
from tests.serving import serve
from tests.standin.server import StandIn


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """An empty folder that stands for ``/``."""
    return Tree(tmp_path_factory.mktemp("tree").resolve())


@pytest.fixture
def client(upstream_url: str) -> Iterator[anthropic.Anthropic]:
    """The official SDK, talking to the stand-in."""
    with anthropic.Anthropic(base_url=upstream_url, api_key="test", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def counting_url(running_upstream: tuple[StandIn, str]) -> Iterator[str]:
    own = Settings(upstream_url=running_upstream[1], anthropic_api_key=None, upstream_retries=0)
    with serve(create_app(own)) as address:
        yield address


@pytest.fixture
def counting(counting_url: str, upstream: StandIn) -> Iterator[httpx.Client]:
    """A caller of a service that asks the stand-in, which is as new."""
    with stranger(counting_url) as client:
        yield client
