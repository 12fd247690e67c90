"""What a start does not do yet."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.starting import ROOT

HEAVY = ("anthropic", "httpx", "httpx2", "matplotlib", "pygments", "redis", "rich", "structlog")
STARTED = "import sys, app.cli.commands, app.main; app.main.create_app(); print(*sys.modules)"


@pytest.fixture(scope="module")
def imported() -> frozenset[str]:
    done = subprocess.run([sys.executable, "-c", STARTED], cwd=ROOT, capture_output=True, check=True, text=True)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("module", HEAVY)
def test_a_start_does_not_import_what_few_requests_need(module: str, imported: frozenset[str]) -> None:
    assert module not in imported


def test_a_start_imports_what_it_serves_with(imported: frozenset[str]) -> None:
    assert {"fastapi", "uvicorn", "app.main", "app.cli.serving"} <= imported
