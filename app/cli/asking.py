"""Questions the command line asks without a server: settings and requests read, answers made, failures told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import typer
from pydantic import ValidationError

from app.building import build_contexts, limits_of, scans
from app.cli.telling import printable
from app.context import Answer, Contexts
from app.errors import Problem
from app.main import server_facts
from app.settings import ConfigFileError, Settings
from app.wire.answers import context_answer
from app.wire.parsing import parsed
from app.wire.requests import Ask, parse_context_request, to_ask
from app.wire.scans import ScanRequest, scan_answer

INVALID = 2
NO_WORKSPACE = 3
DEFAULT_MODEL = "sonnet"
WANTED = frozenset(
    {"external", "outside_fence", "unreadable", "too_deep", "not_text", "budget", "is_directory", "dangling_link"}
)
"""Reasons for which an include that was asked for did not load."""


def read_settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except ConfigFileError as error:
        raise failed(str(error), INVALID) from error
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = ".".join(map(str, fault["loc"]))
            said = fault["msg"].removeprefix("Value error, ")
            said = "there is no such setting" if fault["type"] == "extra_forbidden" else said
            typer.echo(f"strata: {name + ': ' if name else ''}{said}", err=True)
        raise typer.Exit(INVALID) from error


def read_request(request: Path | None) -> dict[str, Any]:
    if request is None:
        return {}
    try:
        text = sys.stdin.buffer.read() if str(request) == "-" else request.read_bytes()
        values = orjson.loads(text)
    except (OSError, orjson.JSONDecodeError) as error:
        raise failed(f"{request} cannot be read: {error}", INVALID) from error
    if not isinstance(values, dict):
        raise failed(f"{request} must hold a JSON object", INVALID)
    return values


def merged(values: dict[str, Any], path: Path, model: str | None, touched: Sequence[str] | None) -> dict[str, Any]:
    """What the file says, and what the command line says where the file is silent; its --model wins."""
    workspace = values.get("workspace", {})
    if isinstance(workspace, dict):
        workspace = {"source": "local", "cwd": str(path.absolute()), **workspace}
    body = {**values, "model": model or values.get("model", DEFAULT_MODEL), "workspace": workspace}
    before = body.get("touched", [])
    if touched and isinstance(before, list):
        body["touched"] = [*before, *({"path": _touched(one, path)} for one in touched)]
    return body


def _touched(file: str, folder: Path) -> str:
    """As seen from here where there is such a file, else from the folder that is asked about."""
    here = Path(file).absolute()
    return str(here if here.exists() or not (folder / file).exists() else (folder / file).absolute())


def named_folders(body: dict[str, Any]) -> list[Path]:
    """What whoever runs the command may read anyway."""
    workspace = body["workspace"] if isinstance(body["workspace"], dict) else {}
    named = [workspace.get("cwd"), workspace.get("repository")]
    return [Path(folder) for folder in named if isinstance(folder, str)]


def answered(settings: Settings, body: dict[str, Any]) -> dict[str, Any]:
    written = _written(body)
    with _problems_told():
        ask = to_ask(parse_context_request(written), server_facts(settings), ())
        answer = asyncio.run(_asked(build_contexts(settings), ask))
    return context_answer(answer.assembly, asdict(answer.session), answer.notices)


async def _asked(contexts: Contexts, ask: Ask) -> Answer:
    try:
        return await contexts.answer(ask)
    finally:
        await contexts.close()


def scanned(settings: Settings, body: dict[str, Any]) -> dict[str, Any]:
    written = _written(body)
    with _problems_told():
        source = parsed(ScanRequest, written).workspace.opened_as(limits_of(settings))
        found, prompt = asyncio.run(scans(build_contexts(settings)).scan(source))
    return scan_answer(found, prompt)


def _written(body: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise failed(f"the request cannot be written as JSON: {error}", INVALID) from error


@contextmanager
def _problems_told() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        code = NO_WORKSPACE if problem.status in {404, 503} else INVALID
        raise failed(problem.detail, code) from problem


def missing(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of what somebody asked for by name and did not get: includes, and settings files that cannot be read.

    A bare word such as ``@alice`` or ``@types/node`` may be no path: one that is not there is not counted.
    """
    return [
        row
        for row in values["memory"]["report"]
        if (row["parent"] and row["line"] and _is_missed(row)) or row["reason"] == "settings_unreadable"
    ]


def _is_missed(row: dict[str, Any]) -> bool:
    named = "." in Path(row["path"]).name or row["hint"] is not None
    return row["reason"] in WANTED or (row["reason"] == "not_found" and named)


def told(row: dict[str, Any]) -> str:
    """One line on a row for standard error."""
    place = f"{row['parent']}, line {row['line']}: " if row["line"] else ""
    return printable(f"{place}{row['path']}: {row['reason']}. {row['hint'] or ''}".rstrip())


def put(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def failed(message: str, code: int) -> typer.Exit:
    typer.echo(f"strata: {message}", err=True)
    return typer.Exit(code)
