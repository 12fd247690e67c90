"""``strata serve``: listening, saying so, and serving here or in workers."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from contextlib import suppress

import typer
from fastapi import FastAPI

from app import __version__
from app.building import CannotStartError, git_program
from app.cli.asking import failed
from app.cli.lines import Speech, record_everything, speech, tell_of_end
from app.cli.server import Server
from app.cli.workers import Workers
from app.cli.working import NOT_SERVING
from app.log import standard_error_log
from app.main import create_app
from app.settings import Settings

SEND_BUFFER = 512 * 1024
"""Bytes that the system keeps of an answer for a reader who does not take it, where it would keep megabytes."""

LONGEST_QUEUE = 2048
"""Connections that wait to be taken."""

_APART = (
    "workers keep sessions of their own: a session that another worker began is new to the one that is asked. Set "
    "STRATA_REDIS_URL, or use one worker, where sessions matter."
)
_BODY = '{"model": "sonnet", "workspace": {"source": "inline", "cwd": "/p", "files": {"/p/CLAUDE.md": "Use tabs."}}}'
_GIT_CONFINED = "the system keeps git from all files but those of the repository that it is asked about"
_GIT_NOT_CONFINED = (
    "nothing of the system keeps git from files outside: where somebody swaps a folder while git reads it, names from "
    "outside of the roots can show in a status. Use Linux 5.13 or later on x86_64 or arm64 with Landlock switched on, "
    "and git in /usr; or run the service as an account that can read no more than the roots."
)
_ROOT_MISSING = "The root of this number is no folder: nothing is read from it."


def listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=LONGEST_QUEUE)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        message = f"cannot listen on {settings.host}, port {settings.port}: {reason}."
        raise failed(f"{message} Give another --port or --host.", NOT_SERVING) from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    return listening


def announce(settings: Settings, port: int) -> None:
    """Says where it listens, and what to know before the first call."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - to read it
    address = f"http://{f'[{reached}]' if ':' in reached else reached}:{port}"
    said = speech()
    values = {"address": address, "version": __version__}
    said.say("info", "serving", _invitation(settings, address), values, line=f"Strata {__version__} on {address}")
    for number, folder in enumerate(settings.roots, start=1):
        if not folder.is_dir():
            told = f"strata: the root {folder} is no folder: nothing is read from it"
            said.say("warning", "root_missing", told, {"number": number}, line=_ROOT_MISSING)
    if settings.workers > 1 and settings.redis_url is None:
        said.say("warning", "sessions_apart", f"strata: {settings.workers} {_APART}", {"workers": settings.workers})
    _tell_of_git(said, confined=git_program(settings).confined)


def _tell_of_git(said: Speech, *, confined: bool | None) -> None:
    """None: there is no git, of which nothing is to be said."""
    if confined:
        said.say("info", "git_confined", f"strata: {_GIT_CONFINED}")
    elif confined is not None:
        said.say("warning", "git_not_confined", f"strata: {_GIT_NOT_CONFINED}")


def _invitation(settings: Settings, address: str) -> str:
    key = " -H 'x-api-key: KEY'" if settings.asks_for_keys else ""
    return (
        f"Strata {__version__} on {address} (Ctrl-C ends it). Try:\n"
        f"  curl -s {address}/v1/context -H 'content-type: application/json'{key} -d '{_BODY}'"
    )


class LoneServer(Server):
    """The only one of its service, which says when that serves, and when it has ended.

    Signals are its own before it says the first, so that it says the second whenever it is told to end.
    """

    def __init__(self, app: FastAPI, drain_seconds: float, announce: Callable[[], None]) -> None:
        super().__init__(app, drain_seconds)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets=sockets)
        tell_of_end(speech())


def serve_here(settings: Settings, listening: socket.socket) -> None:
    try:
        app = create_app(settings)
    except CannotStartError as error:
        raise failed(str(error), NOT_SERVING) from error
    port = listening.getsockname()[1]
    server = LoneServer(app, settings.drain_seconds, lambda: announce(settings, port))
    record_everything(standard_error_log(settings.log_level))
    gc.freeze()  # what was built until now stays, and need not be looked through again
    with suppress(KeyboardInterrupt):  # the server has ended by then
        server.run(sockets=[listening])


def serve_in_workers(settings: Settings, listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    record_everything(standard_error_log(settings.log_level))
    try:
        workers = Workers(settings, listening)
    except CannotStartError as error:
        raise failed(str(error), NOT_SERVING) from error
    code = workers.serve(lambda: announce(settings, port))
    if code:
        raise typer.Exit(code)
