"""``strata serve``: listening, saying so, and serving here or in workers."""

from __future__ import annotations

import gc
import os
import socket
from contextlib import suppress

import typer

from app import __version__
from app.cli.asking import failed
from app.cli.server import Server
from app.cli.workers import NOT_SERVING, Workers
from app.main import CannotStartError, create_app
from app.settings import Settings

LONGEST_QUEUE = 2048
"""Connections that wait to be taken."""


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=LONGEST_QUEUE)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        message = f"cannot listen on {settings.host}, port {settings.port}: {reason}."
        raise failed(f"{message} Give another --port or --host.", NOT_SERVING) from error


def announce(settings: Settings, port: int) -> None:
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
    if settings.workers > 1 and settings.redis_url is None:
        typer.echo(
            f"strata: {settings.workers} workers keep sessions of their own: a session that another worker began is "
            "new to the one that is asked. Set STRATA_REDIS_URL, or use one worker, where sessions matter.",
            err=True,
        )


def serve_here(settings: Settings, listening: socket.socket) -> None:
    try:
        app = create_app(settings)
    except CannotStartError as error:
        raise failed(str(error), NOT_SERVING) from error
    announce(settings, listening.getsockname()[1])
    gc.freeze()  # what was built until now stays, and need not be looked through again
    with suppress(KeyboardInterrupt):  # the server has ended by then
        Server(app).run(sockets=[listening])


def serve_in_workers(settings: Settings, listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    code = Workers(settings, listening).serve(lambda: announce(settings, port))
    if code:
        raise typer.Exit(code)
