"""The README names everything, and the answer it shows is the real one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import errors
from app.core.levels import LEVELS
from app.core.report import REASONS
from app.core.scan_names import NAMES
from app.core.sections import SECTIONS
from app.settings import Settings

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def problems() -> list[type[errors.Problem]]:
    return errors.Problem.__subclasses__()


def row_of(name: str) -> str | None:
    """The table row that begins with ``name`` in code letters."""
    found = re.search(rf"^\| `{re.escape(name)}`.*$", README, re.MULTILINE)
    return found[0] if found else None


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_every_section_has_a_row_that_says_whether_it_is_cached(section: Any) -> None:
    row = row_of(section.name)
    assert row
    assert section.kind in row
    assert section.reason is None or section.reason in row


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.type)
def test_every_level_has_a_row(level: Any) -> None:
    assert row_of(level.type)


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_has_a_row_with_its_meaning(reason: str) -> None:
    row = row_of(reason)
    assert row
    assert REASONS[reason].split(";")[0].replace("`", "") in row.replace("`", "")


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_has_a_row(name: str) -> None:
    own = Settings.model_fields[name].validation_alias
    assert row_of(str(own or f"STRATA_{name.upper()}"))


@pytest.mark.parametrize("problem", problems(), ids=lambda problem: problem.type)
def test_every_problem_is_named_with_its_status(problem: type[errors.Problem]) -> None:
    assert re.search(rf"^\|[^|]*`{problem.type}`[^|]*\|[^|]*{problem.status}", README, re.MULTILINE)


@pytest.mark.parametrize("tool", sorted({known.tool for known in NAMES}))
def test_every_tool_that_a_scan_knows_is_named(tool: str) -> None:
    section = README.partition("\n## Other tools' files\n")[2].partition("\n## ")[0]
    assert re.search(rf"[:,] {re.escape(tool)}[,.]", section.replace("\n", " "))


def test_every_warning_code_in_the_source_is_named() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (Path(__file__).parents[1] / "app").rglob("*.py"))
    codes = set(re.findall(r'Notice\(\s*"([a-z_0-9]+)"', source))
    assert codes
    assert [code for code in sorted(codes) if f"`{code}`" not in README] == []


def test_the_answer_it_shows_is_what_the_service_answers(service_url: str) -> None:
    body = re.search(r"-d '(\{.*?\n\})'", README, re.DOTALL)
    shown = re.search(r"<!-- answer -->\n```json\n(.*?)\n```", README, re.DOTALL)
    assert body
    assert shown
    answer = httpx.post(
        f"{service_url}/v1/context", content=body[1], headers={"content-type": "application/json"}
    ).json()
    assert_shows(json.loads(shown[1]), answer)


def assert_shows(shown: Any, real: Any) -> None:
    """What is shown is a part of what is real; rows of lists may be left out, but not their order."""
    if isinstance(shown, dict):
        assert set(shown) <= set(real)
        for key, value in shown.items():
            assert_shows(value, real[key])
    elif isinstance(shown, list) and shown and isinstance(shown[0], dict):
        places = [next(at for at, row in enumerate(real) if shows(one, row)) for one in shown]
        assert places == sorted(places)
    else:
        assert shown == real


def shows(shown: dict[str, Any], real: dict[str, Any]) -> bool:
    return all(real.get(key) == value for key, value in shown.items())


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:tests|app|deploy)/[a-z_/.0-9-]+)`", README))))
def test_every_place_that_it_names_exists(path: str) -> None:
    assert (Path(__file__).parents[1] / path).exists()
