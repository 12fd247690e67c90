"""A running service and a stand-in for the Messages API, both on free loopback ports, once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import settings

from app.main import create_app
from app.settings import Settings
from tests.serving import serve
from tests.standin.server import StandIn

settings.register_profile("any speed", settings.default, deadline=None)
settings.load_profile("any speed")


@pytest.fixture(scope="session")
def service_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service may read what tests put into their temporary folders, and nothing else."""
    root = tmp_path_factory.getbasetemp().resolve()
    with serve(create_app(Settings(roots=(root,)))) as address:
        yield address


@pytest.fixture(scope="session")
def service(service_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service_url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="session")
def running_upstream() -> Iterator[tuple[StandIn, str]]:
    stand_in = StandIn(minimum=20)
    with serve(stand_in.app) as address:
        yield stand_in, address


@pytest.fixture
def upstream(running_upstream: tuple[StandIn, str]) -> StandIn:
    """The stand-in, as new."""
    running_upstream[0].forget()
    return running_upstream[0]


@pytest.fixture
def upstream_url(upstream: StandIn, running_upstream: tuple[StandIn, str]) -> str:
    return running_upstream[1]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home for a service in a process of its own."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder
