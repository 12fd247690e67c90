"""The commands, their options and their exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from app import __version__
from app.cli.asking import (
    DEFAULT_MODEL,
    INVALID,
    NO_WORKSPACE,
    answered,
    failed,
    merged,
    missing,
    named_folders,
    put,
    read_request,
    read_settings,
    scanned,
    told,
)
from app.cli.finding import listed
from app.cli.lint_files import read_rows
from app.cli.linting import is_to_mend, linted_lines, linted_rows
from app.cli.serving import listen, serve_here, serve_in_workers
from app.cli.telling import STYLES, Line, explained, printable
from app.core.keys import digest_in, hashed
from app.keys_file import NAME
from app.main import create_app
from app.settings import CONFIG, Settings
from app.wire.answers import to_bytes

INCOMPLETE = 4

KEY_BYTES = 32
"""Of chance in a key that is made."""

Path_ = Annotated[Path, typer.Argument(help="The working directory.")]
Model_ = Annotated[str | None, typer.Option("--model", help=f"Model id or alias; {DEFAULT_MODEL} by default.")]
Touched_ = Annotated[
    list[str] | None, typer.Option("--touched", help="A file the model read, seen from here or from PATH; repeatable.")
]
Request_ = Annotated[
    Path | None, typer.Option("--request", help="JSON with more fields of POST /v1/context; - reads standard input.")
]

cli = typer.Typer(
    name="strata",
    help="Context assembly for calls to Claude models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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

    Exit codes: 1 the address cannot be listened on, or it cannot start to serve; 2 the settings are not valid.
    """
    if config is not None:
        os.environ[CONFIG] = str(config.absolute())
    given = {"host": host, "port": port, "roots": tuple(root) if root else None, "workers": workers}
    given = {name: value for name, value in given.items() if value is not None}
    settings = read_settings(given)
    with listen(settings) as listening:
        (serve_here if settings.workers == 1 else serve_in_workers)(settings, listening)


@cli.command()
def context(
    path: Path_,
    model: Model_ = None,
    touched: Touched_ = None,
    request: Request_ = None,
    strict: Annotated[bool, typer.Option(help="Exit with 4 when an include or a settings file did not load.")] = False,
) -> None:
    """Prints the JSON that POST /v1/context answers for a folder. No server is needed.

    Exit codes: 0 assembled; 2 the request is not valid; 3 the folder cannot be opened; 4 with --strict, something that
    was asked for did not load.
    """
    values, _ = _asked(path, model, touched, request)
    put(to_bytes(values) + b"\n")
    rows = missing(values)
    for row in rows:
        typer.echo(told(row), err=True)
    if strict and rows:
        raise typer.Exit(INCOMPLETE)


@cli.command()
def explain(
    path: Path_,
    model: Model_ = None,
    touched: Touched_ = None,
    request: Request_ = None,
    everything: Annotated[bool, typer.Option("--all", help="Also list usual places where there is no file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer's JSON instead.")] = False,
) -> None:
    """Tells what loads for a folder, in order and with its cost, what does not and why, and when compaction comes."""
    values, folder = _asked(path, model, touched, request)
    if as_json:
        put(to_bytes(values) + b"\n")
        return
    _tell(explained(values, folder, everything=everything))


@cli.command()
def scan(
    path: Annotated[Path, typer.Argument(help="The folder to look through.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON that POST /v1/scan answers.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print only the prompt that makes a CLAUDE.md.")] = False,
) -> None:
    """Lists files of other tools, manifests and pipelines in a folder, and what was cut.

    Exit codes: 0 scanned; 2 the settings or the options are not valid; 3 the folder cannot be opened.
    """
    if as_json and prompt:
        raise typer.BadParameter("give --json or --prompt: the JSON holds the prompt")
    body: dict[str, Any] = {"workspace": {"source": "local", "cwd": str(path.absolute())}}
    values = scanned(read_settings({"roots": (*read_settings({}).roots, *named_folders(body))}), body)
    if as_json or prompt:
        put(to_bytes(values) + b"\n" if as_json else f"{values['prompt']}\n".encode())
        return
    _tell(listed(values))


@cli.command("lint-cache")
def lint_cache(
    requests: Annotated[list[Path], typer.Argument(help="Files of JSON or JSON lines, in the order sent.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON that POST /v1/cache/lint answers.")] = False,
) -> None:
    """Tells what a series of requests of any client does to the prompt cache, and what to mend.

    A file holds Messages API bodies, or rows {"body", "usage", "started"} with the response's usage and the time it
    was sent at, in seconds: one, a list, {"requests": [...]}, or one on each line.

    Exit codes: 0 nothing to mend; 2 a file cannot be read, or holds something else; 4 a request missed what was
    cached, or something is to be mended.
    """
    rows = read_rows(requests)
    values = linted_rows(rows)
    if as_json:
        put(to_bytes(values) + b"\n")
    else:
        _tell(linted_lines(values, rows))
    if is_to_mend(values):
        raise typer.Exit(INCOMPLETE)


@cli.command()
def key(
    name: Annotated[str, typer.Argument(help="What the key is called in logs and in the file of keys.")],
) -> None:
    """Makes an API key: prints it, which is the only time, and the row for the file that STRATA_KEYS_FILE names."""
    if re.fullmatch(NAME, name) is None:
        raise failed("a name has small letters, digits, '.', '_' and '-', and begins with a letter or digit", INVALID)
    made = f"strata-{secrets.token_urlsafe(KEY_BYTES)}"
    typer.echo("# The key, for its caller; it is kept nowhere:", err=True)
    typer.echo(made)
    typer.echo("# The row for the file of keys:", err=True)
    typer.echo(f'\n[[keys]]\nname = "{name}"\nsha256 = "{digest_in(hashed(made)).hex()}"', err=True)


@cli.command()
def openapi() -> None:
    """Prints the contract as YAML: what openapi.yaml holds."""
    put(contract_yaml(read_settings({})).encode())


def _tell(lines: Iterable[Line]) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal may not have every letter of a path
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        text = printable(line.text)
        typer.echo(typer.style(text, **STYLES[line.style]) if colour else text)


def _asked(
    path: Path, model: str | None, touched: list[str] | None, request: Path | None
) -> tuple[dict[str, Any], str]:
    """The answer's JSON for a folder, and the folder."""
    if path.is_file():
        raise failed(f"{path} is a file: give its folder", NO_WORKSPACE)
    body = merged(read_request(request), path, model, touched)
    settings = read_settings({"roots": (*read_settings({}).roots, *named_folders(body))})
    return answered(settings, body), str(body["workspace"].get("cwd", path))


def contract_yaml(settings: Settings) -> str:
    """The OpenAPI document of this version, which no setting changes."""
    document = json.loads(json.dumps(create_app(settings).openapi()))
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
