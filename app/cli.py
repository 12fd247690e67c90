"""The command line: ``strata serve``, ``strata context PATH``, ``strata openapi``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvicorn
import yaml
from pydantic import ValidationError

from app import __version__
from app.errors import Problem
from app.main import build_contexts, create_app, server_facts
from app.settings import Settings
from app.wire.answers import context_answer, to_bytes
from app.wire.requests import parse_context_request, to_ask

INVALID = 2
NO_WORKSPACE = 3
INCOMPLETE = 4

cli = typer.Typer(
    name="strata",
    help="Context assembly for calls to Claude models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """The command's entry point."""
    cli()


@cli.callback(invoke_without_command=True)
def strata(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"strata {__version__}")
        raise typer.Exit


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; another than loopback needs keys.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 takes a free one.")] = None,
    root: Annotated[
        list[Path] | None, typer.Option(help="A folder that workspaces may be read from; repeatable.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that share the port.")] = None,
) -> None:
    """Serves the HTTP contract."""
    given = {"host": host, "port": port, "roots": tuple(root) if root else None, "workers": workers}
    settings = _settings({name: value for name, value in given.items() if value is not None})
    uvicorn.run(create_app(settings), host=settings.host, port=settings.port, access_log=False, server_header=False)


@cli.command()
def context(
    path: Annotated[Path, typer.Argument(help="The working directory.")],
    model: Annotated[str, typer.Option(help="Model id or alias.")] = "sonnet",
    touched: Annotated[list[str] | None, typer.Option(help="A file the model read; repeatable.")] = None,
    request: Annotated[
        Path | None, typer.Option(help="JSON with more fields of POST /v1/context; - reads standard input.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Exit with 4 when an include or a settings file did not load.")] = False,
) -> None:
    """Prints the JSON that POST /v1/context answers for a folder. No server is needed.

    Exit codes: 0 assembled; 2 the request is not valid; 3 the folder cannot be opened; 4 with --strict, something that
    was asked for did not load.
    """
    body = _merged(_given(request), path, model, touched)
    folder = Path(body["workspace"]["cwd"])
    settings = _settings({"roots": (*Settings().roots, folder)})
    values = _answered(settings, body)
    sys.stdout.buffer.write(to_bytes(values) + b"\n")
    sys.stdout.buffer.flush()
    missing = _missing(values)
    for row in missing:
        typer.echo(f"{row['path']}: {row['reason']}. {row['hint'] or ''}".rstrip(), err=True)
    if strict and missing:
        raise typer.Exit(INCOMPLETE)


@cli.command()
def openapi() -> None:
    """Prints the contract as YAML: what openapi.yaml holds."""
    typer.echo(contract_yaml(), nl=False)


def contract_yaml() -> str:
    """The OpenAPI document of this version."""
    document = json.loads(json.dumps(create_app(Settings()).openapi()))
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = ".".join(map(str, fault["loc"]))
            typer.echo(f"strata: {name + ': ' if name else ''}{fault['msg'].removeprefix('Value error, ')}", err=True)
        raise typer.Exit(INVALID) from error


def _given(request: Path | None) -> dict[str, Any]:
    if request is None:
        return {}
    try:
        text = sys.stdin.buffer.read() if str(request) == "-" else request.read_bytes()
        values = orjson.loads(text)
    except (OSError, orjson.JSONDecodeError) as error:
        raise _failed(f"{request} cannot be read: {error}", INVALID) from error
    if not isinstance(values, dict):
        raise _failed(f"{request} must hold a JSON object", INVALID)
    return values


def _merged(values: dict[str, Any], path: Path, model: str, touched: Sequence[str] | None) -> dict[str, Any]:
    workspace = {"source": "local", "cwd": str(path.absolute()), **values.get("workspace", {})}
    body = {"model": model, **values, "workspace": workspace}
    if touched:
        body["touched"] = [*body.get("touched", []), *({"path": str(Path(one).absolute())} for one in touched)]
    return body


def _answered(settings: Settings, body: dict[str, Any]) -> dict[str, Any]:
    try:
        ask = to_ask(parse_context_request(orjson.dumps(body)), server_facts(settings), ())
        answer = asyncio.run(build_contexts(settings).answer(ask))
    except Problem as problem:
        code = NO_WORKSPACE if problem.status in {404, 503} else INVALID
        raise _failed(problem.detail, code) from problem
    return context_answer(answer.assembly, asdict(answer.session), answer.notices)


def _missing(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of what somebody asked for by name and did not get: includes, and settings files that cannot be read."""
    wanted = {"not_found", "external", "unreadable", "too_deep", "not_text", "budget", "is_directory", "dangling_link"}
    return [
        row
        for row in values["memory"]["report"]
        if (row["parent"] and row["reason"] in wanted) or row["reason"] == "settings_unreadable"
    ]


def _failed(message: str, code: int) -> typer.Exit:
    typer.echo(f"strata: {message}", err=True)
    return typer.Exit(code)
