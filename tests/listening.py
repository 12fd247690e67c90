"""Services whose events are listened to, and streams as a reader sees them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from app.building import build_contexts
from app.main import build_app
from app.notifying import Notifier, WatchRefusedError
from app.settings import Settings
from app.watching import Watchers
from tests.asking import ask, local
from tests.serving import serve

NEVER = 24 * 3600
PATIENCE = httpx.Timeout(60)


@dataclass(frozen=True, slots=True)
class Told:
    """One server-sent event. ``comment`` is that of an event which is none."""

    name: str | None
    data: Any
    id: str | None
    retry: str | None
    comment: str | None

    @property
    def paths(self) -> list[tuple[str, str]]:
        return [(Path(row["path"]).name, row["kind"]) for row in self.data["paths"]]


def parsed(lines: Iterator[str]) -> Iterator[Told]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
        elif fields:
            data = fields.get("data")
            yield Told(
                fields.get("event"),
                None if data is None else json.loads(data),
                fields.get("id"),
                fields.get("retry"),
                fields.get(""),
            )
            fields = {}


class Reader:
    """An open stream. Reading waits for the next event, and fails when none comes for a minute."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._told = parsed(response.iter_lines())

    def next(self) -> Told:
        """The next event that is no comment."""
        return next(told for told in self._told if told.comment is None)

    def rest(self) -> list[Told]:
        """All events until the service ends the stream."""
        return list(self._told)

    def comment(self) -> str:
        return next(told.comment for told in self._told if told.comment is not None)


def wait_until(holds: Callable[[], bool]) -> None:
    """Fails when it does not hold within a minute."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def address(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}/events"


@contextmanager
def listening(client: httpx.Client, session: str, last: str | None = None) -> Iterator[Reader]:
    headers = {} if last is None else {"last-event-id": last}
    with client.stream("GET", address(session), headers=headers, timeout=PATIENCE) as response:
        assert response.status_code == 200, response.read()
        yield Reader(response)


class Breaking:
    """A watch that ends by itself once ``broken`` is set."""

    def __init__(self, broken: threading.Event) -> None:
        self._broken = broken

    def watch(self, stop: threading.Event) -> frozenset[str]:
        while not self._broken.wait(0.01):
            if stop.is_set():
                return frozenset()
        raise WatchRefusedError("too_many_watches")

    def close(self) -> None:
        pass


def refuse(folders: tuple[str, ...]) -> Notifier:
    raise WatchRefusedError("too_many_watches")


class Deaf:
    """A watch that never notices anything."""

    def watch(self, stop: threading.Event) -> frozenset[str]:
        stop.wait()
        return frozenset()

    def close(self) -> None:
        pass


def deaf(folders: tuple[str, ...]) -> Notifier:
    return Deaf()


def quick(root: Path, **more: Any) -> Settings:
    return Settings(roots=(root,), **({"watched_seconds": NEVER, "polled_seconds": 0.05} | more))


@contextmanager
def telling(root: Path, watchers: Watchers | None = None, **more: Any) -> Iterator[httpx.Client]:
    """A service that may read ``root``. Where the platform watches it does not look by itself."""
    settings = quick(root, **more)
    with (
        serve(build_app(settings, build_contexts(settings), watchers)) as url,
        httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False, limits=httpx.Limits()) as client,
    ):
        yield client


def project(root: Path) -> Path:
    """A repository with an include, a rule and settings."""
    folder = root / "shop"
    for name, text in {
        ".git/HEAD": "ref: refs/heads/main\n",
        "CLAUDE.md": "See @docs/api.md",
        "docs/api.md": "JSON.",
        ".claude/rules/sql.md": "No SELECT *.",
        ".claude/settings.json": "{}",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def turn(client: httpx.Client, folder: Path, session: str | None = None, **more: Any) -> str:
    """A turn of a session, a new one unless it is named."""
    session = session or uuid4().hex
    ask(client, local(folder, session_id=session, **more))
    return session


def figure(client: httpx.Client, name: str) -> float:
    """Of the service's figures; 0 for one that is not there yet."""
    rows = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return sum(float(row.rpartition(" ")[2]) for row in rows)
