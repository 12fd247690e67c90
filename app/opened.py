"""From a request to its workspace, open, with every folder of the client's resolved in it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from app.core.facts import Client
from app.errors import InvalidRequest, WorkspaceNotFound
from app.wire.requests import Ask
from app.workspaces.inline import TreeConflictError
from app.workspaces.opening import CommitSource, Ground, Opened, Source, open_workspace


def opened_for(ask: Ask, ground: Ground) -> tuple[Client, Opened]:
    """The request's client, and its workspace, for the caller to close."""
    opened = open_source(ask.source, ground)
    with ExitStack() as on_failure:
        on_failure.callback(opened.workspace.close)
        client = _settled(ask.request.client, opened)
        on_failure.pop_all()
    return client, opened


def open_source(source: Source, ground: Ground) -> Opened:
    """Opens a request's workspace; the problems point into the request."""
    try:
        return open_workspace(source, ground)
    except TreeConflictError as error:
        errors = [{"pointer": "/workspace/files", "message": str(error)}]
        raise InvalidRequest(f"/workspace/files: {error}", errors=errors) from error
    except (InvalidRequest, WorkspaceNotFound) as problem:
        pointer = "/workspace" if isinstance(source, CommitSource) else "/workspace/cwd"
        problem.errors.append({"pointer": pointer, "message": problem.detail})
        raise


def _settled(client: Client, opened: Opened) -> Client:
    """The client with every folder's links resolved, as far as the workspace knows them."""
    look, paths = opened.workspace.look, opened.workspace.paths

    def real(path: str | None) -> str | None:
        return look(path).real if path else None

    more = tuple(paths.join(opened.cwd, folder) for folder in client.additional_directories)
    return replace(
        client,
        cwd=opened.cwd,
        home=real(client.home),
        config_dir=real(client.config_dir),
        managed_dir=real(client.managed_dir),
        additional_directories=tuple(look(folder).real for folder in more),
        given=tuple(folder for folder in (client.cwd, client.home, client.config_dir, *more) if folder),
    )
