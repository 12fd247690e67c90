"""The command line: ``strata serve``, ``strata context PATH``, ``strata openapi``."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
import uvicorn
import yaml
from pydantic import ValidationError
from uvicorn.supervisors import Multiprocess

from app import __version__
from app.errors import Problem
from app.main import build_contexts, create_app, server_facts
from app.settings import CONFIG, ConfigFileError, Settings
from app.wire.answers import context_answer, to_bytes
from app.wire.requests import parse_context_request, to_ask

NOT_SERVING = 1
INVALID = 2
NO_WORKSPACE = 3
INCOMPLETE = 4

DEFAULT_MODEL = "sonnet"
LONGEST_QUEUE = 2048
"""Connections that wait to be taken."""

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
        list[Path] | None,
        typer.Option(
            help="A folder that workspaces may be read from; repeatable.",
            exists=True,
            file_okay=False,
            resolve_path=True,
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that share the port.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings, for STRATA_CONFIG.")] = None,
) -> None:
    """Serves the HTTP contract.

    Exit codes: 1 the address cannot be listened on; 2 the settings are not valid.
    """
    if config is not None:
        os.environ[CONFIG] = str(config.absolute())
    given = {"host": host, "port": port, "roots": tuple(root) if root else None, "workers": workers}
    given = {name: value for name, value in given.items() if value is not None}
    settings = _settings(given)
    with _listening(settings) as listening:
        _announce(settings, listening.getsockname()[1])
        if settings.workers == 1:
            _serve_here(settings, listening)
        else:
            _serve_in_workers(settings, given, listening)


@cli.command()
def context(
    path: Annotated[Path, typer.Argument(help="The working directory.")],
    model: Annotated[
        str | None, typer.Option(help=f"Model id or alias; {DEFAULT_MODEL} where --request names none.")
    ] = None,
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
    settings = _settings({"roots": (*_settings({}).roots, *_named_folders(body))})
    values = _answered(settings, body)
    _print(to_bytes(values) + b"\n")
    missing = _missing(values)
    for row in missing:
        typer.echo(f"{row['path']}: {row['reason']}. {row['hint'] or ''}".rstrip(), err=True)
    if strict and missing:
        raise typer.Exit(INCOMPLETE)


@cli.command()
def openapi() -> None:
    """Prints the contract as YAML: what openapi.yaml holds."""
    _print(contract_yaml(_settings({})).encode())


def contract_yaml(settings: Settings) -> str:
    """The OpenAPI document of this version, which no setting changes."""
    document = json.loads(json.dumps(create_app(settings).openapi()))
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)


def _settings(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except ConfigFileError as error:
        raise _failed(str(error), INVALID) from error
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            name = ".".join(map(str, fault["loc"]))
            said = fault["msg"].removeprefix("Value error, ")
            said = "there is no such setting" if fault["type"] == "extra_forbidden" else said
            typer.echo(f"strata: {name + ': ' if name else ''}{said}", err=True)
        raise typer.Exit(INVALID) from error


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=LONGEST_QUEUE)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        message = f"cannot listen on {settings.host}, port {settings.port}: {reason}."
        raise _failed(f"{message} Give another --port or --host.", NOT_SERVING) from error


def _announce(settings: Settings, port: int) -> None:
    """Says where it listens, and what to know before the first call."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - to read it
    address = f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"
    key = " -H 'x-api-key: KEY'" if settings.api_keys else ""
    body = '{"model": "sonnet", "workspace": {"source": "inline", "cwd": "/p", "files": {"/p/CLAUDE.md": "Use tabs."}}}'
    typer.echo(f"Strata {__version__} on {address} (Ctrl-C ends it). Try:", err=True)
    typer.echo(f"  curl -s {address}/v1/context -H 'content-type: application/json'{key} -d '{body}'", err=True)
    for folder in settings.roots:
        if not folder.is_dir():
            typer.echo(f"strata: the root {folder} is no folder: nothing is read from it", err=True)
    if settings.workers > 1:
        typer.echo(
            f"strata: {settings.workers} workers keep sessions of their own: a session that another worker began is "
            "new to the one that is asked. Use one worker where sessions matter.",
            err=True,
        )


def _serve_here(settings: Settings, listening: socket.socket) -> None:
    server = uvicorn.Server(_uvicorn(create_app(settings)))
    with suppress(KeyboardInterrupt):  # the server has ended by then
        server.run(sockets=[listening])


def _serve_in_workers(settings: Settings, given: dict[str, Any], listening: socket.socket) -> None:
    """Each worker builds its own application, from the environment: what the flags said goes there first."""
    os.environ.update(_environment(given))
    Multiprocess(_uvicorn("app.main:create_app", settings.workers), sockets=[listening]).run()


def _uvicorn(app: Any, workers: int = 1) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
    )


def _environment(given: dict[str, Any]) -> dict[str, str]:
    roots = [str(root) for root in given.get("roots", ())]
    unfit = next((root for root in roots if os.pathsep in root), None)
    if unfit is not None:
        raise _failed(f"several workers cannot be given a root with {os.pathsep} in it: {unfit}", INVALID)
    named = {name: str(value) for name, value in given.items() if name != "roots"}
    if roots:
        named["roots"] = os.pathsep.join(roots)
    return {f"STRATA_{name.upper()}": value for name, value in named.items()}


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


def _merged(values: dict[str, Any], path: Path, model: str | None, touched: Sequence[str] | None) -> dict[str, Any]:
    """What the file says, and what the command line says where the file is silent; its --model wins."""
    workspace = values.get("workspace", {})
    if isinstance(workspace, dict):
        workspace = {"source": "local", "cwd": str(path.absolute()), **workspace}
    body = {**values, "model": model or values.get("model", DEFAULT_MODEL), "workspace": workspace}
    before = body.get("touched", [])
    if touched and isinstance(before, list):
        body["touched"] = [*before, *({"path": str(Path(one).absolute())} for one in touched)]
    return body


def _named_folders(body: dict[str, Any]) -> list[Path]:
    """What whoever runs the command may read anyway."""
    workspace = body["workspace"] if isinstance(body["workspace"], dict) else {}
    named = [workspace.get("cwd"), workspace.get("repository")]
    return [Path(folder) for folder in named if isinstance(folder, str)]


def _answered(settings: Settings, body: dict[str, Any]) -> dict[str, Any]:
    try:
        written = orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise _failed(f"the request cannot be written as JSON: {error}", INVALID) from error
    try:
        ask = to_ask(parse_context_request(written), server_facts(settings), ())
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


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _failed(message: str, code: int) -> typer.Exit:
    typer.echo(f"strata: {message}", err=True)
    return typer.Exit(code)
