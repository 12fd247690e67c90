"""``strata serve``: listening, saying so, and serving here or in workers."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any

import typer
import uvicorn
from uvicorn.supervisors import Multiprocess

from app import __version__
from app.cli.asking import INVALID, failed
from app.main import create_app
from app.settings import Settings

NOT_SERVING = 1
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
    if settings.workers > 1:
        typer.echo(
            f"strata: {settings.workers} workers keep sessions of their own: a session that another worker began is "
            "new to the one that is asked. Use one worker where sessions matter.",
            err=True,
        )


def serve_here(settings: Settings, listening: socket.socket) -> None:
    server = uvicorn.Server(_uvicorn(create_app(settings)))
    with suppress(KeyboardInterrupt):  # the server has ended by then
        server.run(sockets=[listening])


def serve_in_workers(settings: Settings, given: dict[str, Any], listening: socket.socket) -> None:
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
        proxy_headers=False,
        timeout_graceful_shutdown=10,
        ws="none",
    )


def _environment(given: dict[str, Any]) -> dict[str, str]:
    roots = [str(root) for root in given.get("roots", ())]
    unfit = next((root for root in roots if os.pathsep in root), None)
    if unfit is not None:
        raise failed(f"several workers cannot be given a root with {os.pathsep} in it: {unfit}", INVALID)
    named = {name: str(value) for name, value in given.items() if name != "roots"}
    if roots:
        named["roots"] = os.pathsep.join(roots)
    return {f"STRATA_{name.upper()}": value for name, value in named.items()}
