"""Folders that are asked for through links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.asking import ask, local


def paths(answer: dict[str, Any]) -> list[str]:
    return [file["path"] for file in answer["memory"]["files"]]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder with ``real/CLAUDE.md``, and ``link-a`` that leads there."""
    top = tmp_path.resolve()
    (top / "real").mkdir()
    (top / "real" / "CLAUDE.md").write_text("text")
    (top / "link-a").symlink_to("real")
    return top


@pytest.mark.parametrize(
    ("glob", "left"), [("**/link*/CLAUDE.md", 0), ("**/real/CLAUDE.md", 0), ("**/other*/CLAUDE.md", 1)]
)
def test_an_exclude_fits_a_file_by_the_link_that_was_asked_for(
    glob: str, left: int, linked: Path, service: httpx.Client
) -> None:
    answer = ask(service, local(linked / "link-a", memory={"exclude": [glob]}))
    assert paths(answer) == [f"{linked}/real/CLAUDE.md"] * left


def test_an_exclude_fits_a_file_of_a_linked_configuration_folder_by_its_usual_name(
    linked: Path, service: httpx.Client
) -> None:
    (linked / "home").mkdir()
    (linked / "home" / ".claude").symlink_to("../real")
    (linked / "p").mkdir()
    body = local(linked / "p", memory={"exclude": ["**/.claude/CLAUDE.md"]})
    body["workspace"]["home"] = str(linked / "home")
    assert paths(ask(service, body)) == []
    assert paths(ask(service, body | {"memory": {}})) == [f"{linked}/real/CLAUDE.md"]


@pytest.mark.parametrize("by", ["the request", "a settings file"])
def test_an_exclude_fits_a_file_of_a_linked_additional_directory_by_the_link(
    by: str, linked: Path, service: httpx.Client
) -> None:
    (linked / "p" / ".claude").mkdir(parents=True)
    body = local(linked / "p", memory={"from_additional_directories": True, "exclude": ["**/link*/**"]})
    if by == "the request":
        body["workspace"]["additional_directories"] = ["../link-a"]
    else:
        told = {"permissions": {"additionalDirectories": [str(linked / "link-a")]}}
        (linked / "p" / ".claude" / "settings.local.json").write_text(json.dumps(told))
    assert paths(ask(service, body)) == []
    body["memory"]["exclude"] = []
    assert paths(ask(service, body)) == [f"{linked}/real/CLAUDE.md"]
