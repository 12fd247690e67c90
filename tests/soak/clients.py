"""Those who use the service as they should: editors, builds with linters, and gateways."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx

from app.wire.schema import ContextAnswer
from tests.asking import inline, local
from tests.compacting import talk
from tests.soak.calling import SHED, Caller, Got
from tests.soak.ground import Project, Text

OPENING = SHED | {"git-unavailable"}
AWAY = frozenset({"session-store-away"})
GONE = frozenset({"session-not-found", "nothing-asked"})
EVENTS = {"watching", "memory_changed", "rules_changed", "settings_changed", "missed", "session_ended"}
EVENTS |= {"dropped", "closing"}
TURNS = 12
VALIDATED_EVERY = 10
"""Of so many answers one is held to the whole contract."""


@dataclass(slots=True)
class Seen:
    """What a session's texts may be, by name; a version that was left must not come back.

    ``since`` is when the session was last known for certain, ``born`` when it began.
    """

    since: float
    born: float
    versions: dict[str, set[int]] = field(default_factory=dict)
    system: str | None = None


class Editor:
    """A session in a folder whose files change, polled and listened to; then the next one."""

    def __init__(self, caller: Caller, project: Project, draw: random.Random, name: str) -> None:
        self.caller, self.project, self.draw = caller, project, draw
        self.names = (f"{name}-{number}" for number in count())
        self.numbers = count()

    async def live(self) -> None:
        while True:
            await self._session(next(self.names))

    async def _session(self, name: str) -> None:
        async with asyncio.TaskGroup() as beside:
            listening = beside.create_task(listen(self.caller, name))
            await self._turns(name)
            listening.cancel()
        if self.draw.random() < 0.5:
            path, legal = f"/v1/sessions/{quote(name)}", SHED | GONE | AWAY
            await self.caller.call("session deleted", "DELETE", path, legal=legal)

    async def _turns(self, name: str) -> None:
        seen, tag = Seen(time.monotonic(), time.monotonic()), ""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
        for turn in range(TURNS):
            if self.draw.random() < 0.5:
                await asyncio.to_thread(self.project.edit, self.draw.randrange(2))
            freshness = "session" if turn == 0 else self.draw.choice(["session", "validate", "validate", "reload"])
            body = local(self.project.folder, session_id=name, messages=messages, freshness=freshness)
            got = await self.caller.call("editor turn", "POST", "/v1/context", json=body, legal=OPENING)
            if got is not None and got.problem is None:
                self._hold(seen, got, fresh=freshness != "session" or turn == 0)
                tag = got.headers["etag"]
            elif got is None:
                seen.versions = {}
            messages = [*messages, {"role": "assistant", "content": "Done."}, {"role": "user", "content": f"{turn}?"}]
            await self._poll(name, tag)
            await asyncio.sleep(self.draw.uniform(0.2, 1.2))

    async def _poll(self, name: str, tag: str) -> None:
        path = f"/v1/sessions/{quote(name)}/context"
        got = await self.caller.call(
            "editor poll", "GET", path, headers={"if-none-match": tag}, legal=OPENING | GONE | AWAY
        )
        if got is not None and got.status == 200:
            found = self.caller.canaries("editor poll", got)
            self._possible("editor poll", got, found, {text.name: set(range(len(text.since))) for text in self.texts})

    @property
    def texts(self) -> tuple[Text, Text]:
        return self.project.texts

    def _hold(self, seen: Seen, got: Got, *, fresh: bool) -> None:
        """``fresh``: the disk counts in this turn."""
        kind, body = "editor turn", got.body
        if next(self.numbers) % VALIDATED_EVERY == 0:
            ContextAnswer.model_validate_json(got.content)
        found = self.caller.canaries(kind, got)
        certain = not self.caller.ledger.touched({"redis"}, seen.since, got.answered)
        now = {text.name: text.between(got.asked, got.answered) for text in self.texts}
        if fresh or body["session"]["new"]:
            may = now
        elif certain and seen.versions:
            may = seen.versions
        else:
            may = {text.name: text.between(seen.born, got.answered) for text in self.texts}
        if body["session"]["new"] and certain and seen.versions:
            self.caller.wrong(kind, got, "the session was lost although Redis was there all the time")
        self._possible(kind, got, found, may)
        self._hold_system(seen, got, certain=certain and not body["session"]["new"])
        seen.versions = {name: versions for name, versions in found.items() if name != "rule"}
        if not certain:
            seen.since = got.asked

    def _hold_system(self, seen: Seen, got: Got, *, certain: bool) -> None:
        system = "".join(block["text"] for block in got.body["request"]["system"])
        if certain and seen.system is not None and system != seen.system:
            self.caller.wrong("editor turn", got, "the system prompt of a session moved")
        seen.system = system

    def _possible(self, kind: str, got: Got, found: dict[str, set[int]], may: dict[str, set[int]]) -> None:
        for text in self.texts:
            versions = found.get(text.name, set())
            if len(versions) != 1 or not versions <= may[text.name]:
                told = f"{text.name} is {sorted(versions)}, where {sorted(may[text.name])[-5:]} may be"
                self.caller.wrong(kind, got, told)


async def listen(caller: Caller, name: str) -> None:
    """To a session's events, and again when the stream ends."""
    path = f"/v1/sessions/{quote(name)}/events"
    while True:
        began = time.monotonic()
        try:
            async with caller.client.stream("GET", path, timeout=30) as response:
                outcome = str(response.status_code)
                if response.status_code == 200:
                    await _told(caller, response)
        except httpx.TimeoutException:
            outcome = "silent"
            caller.ledger.violate(f"events of {name}: no heartbeat for 30 s")
        except httpx.TransportError as error:
            outcome = type(error).__name__
        caller.ledger.note("events", outcome, time.monotonic() - began)
        await asyncio.sleep(0.5)


async def _told(caller: Caller, response: httpx.Response) -> None:
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if name == "event" and value not in EVENTS:
            caller.ledger.violate(f"events: {line}")
        if name == "event":
            caller.ledger.outcomes["event told"][value] += 1
            caller.ledger.seconds["event told"].append(0.0)


class Unsettled:
    """Asks for a folder whose parts are swapped under way: nothing from outside is ever in an answer."""

    def __init__(self, caller: Caller, project: Project, draw: random.Random) -> None:
        self.caller, self.project, self.draw = caller, project, draw

    async def live(self) -> None:
        for number in count():
            body = local(self.project.folder)
            if number % 3 == 0:
                body |= {"session_id": f"unsettled-{number // 30}", "freshness": "validate"}
            got = await self.caller.call(
                "unsettled", "POST", "/v1/context", json=body, legal=OPENING | {"workspace-not-found"}
            )
            if got is not None and got.problem is None:
                self._hold(got)
            elif got is not None and got.problem == "workspace-not-found":
                self._excused(got)
            await asyncio.sleep(self.draw.uniform(0.05, 0.5))

    def _hold(self, got: Got) -> None:
        found = self.caller.canaries("unsettled", got)
        if not self.caller.ledger.touched({"tree"}, got.asked, got.answered) and "memory" not in found:
            self.caller.wrong("unsettled", got, "the file that stands there is not in the answer")

    def _excused(self, got: Got) -> None:
        if not self.caller.ledger.touched({"tree"}, got.asked, got.answered):
            self.caller.wrong("unsettled", got, "the folder that stands there is not found")


class Build:
    """Asks for the same again and again, without a session: every good answer has the bytes of the first."""

    def __init__(self, caller: Caller, bodies: dict[str, tuple[str, Any]], draw: random.Random) -> None:
        self.caller, self.bodies, self.draw = caller, bodies, draw
        self.first: dict[str, bytes] = {}

    async def live(self) -> None:
        while True:
            kind = self.draw.choice(sorted(self.bodies))
            path, body = self.bodies[kind]
            got = await self.caller.call(kind.partition(" of ")[0], "POST", path, json=body, legal=OPENING)
            if got is not None and got.problem is None and got.content != self.first.setdefault(kind, got.content):
                self.caller.wrong(kind, got, "its bytes are not those of the first answer")
            await asyncio.sleep(self.draw.uniform(0.05, 0.5))


class Gateway:
    """Many short conversations, of which each says what its own files say; some have a name that others use too."""

    def __init__(self, caller: Caller, draw: random.Random, name: str) -> None:
        self.caller, self.draw, self.name = caller, draw, name

    async def live(self) -> None:
        for number in count():
            shared = self.draw.random() < 0.2
            session = f"shared-{number % 7}" if shared else f"{self.name}-{number}"
            folder = f"/srv/{self.caller.owner}/{number % 50}"
            files = {
                f"{folder}/CLAUDE.md": f"canary-{self.caller.owner}-inline-{number}\n" + "Prices are in cents.\n" * 40
            }
            workspace = {"cwd": folder, "home": f"/home/{self.caller.owner}"}
            messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
            for turn in range(self.draw.randrange(1, 5)):
                body = inline(files, workspace=workspace, session_id=session, messages=messages)
                got = await self.caller.call("gateway turn", "POST", "/v1/context", json=body, legal=SHED)
                if got is not None and got.problem is None:
                    self._hold(got, number, shared=shared)
                messages = [*messages, {"role": "assistant", "content": "ok"}, {"role": "user", "content": f"{turn}"}]
                await asyncio.sleep(self.draw.uniform(0.02, 0.3))

    def _hold(self, got: Got, number: int, *, shared: bool) -> None:
        """A name that others use may bring what the session has read before; never another tenant's."""
        found = self.caller.canaries("gateway turn", got).get("inline", set())
        if not shared and found != {number}:
            self.caller.wrong("gateway turn", got, f"it is of {sorted(found)}, where {number} was sent")


def same_bodies(projects: list[Project], owner: str) -> dict[str, tuple[str, Any]]:
    """What a build and a linter ask, by what it is."""
    found: dict[str, tuple[str, Any]] = {}
    for number in range(4):
        files: dict[str, Any] = {
            f"/ci/{number}/CLAUDE.md": f"canary-{owner}-inline-{number}\nSee @docs/a.md\n",
            f"/ci/{number}/docs/a.md": "Tabs.\n" * 50 * (number + 1),
            f"/ci/{number}/.claude/rules/a.md": '---\npaths: "**/*.py"\n---\nNo print.\n',
        }
        found[f"build inline of {number}"] = (
            "/v1/context",
            inline(files, workspace={"cwd": f"/ci/{number}"}, messages=[{"role": "user", "content": "Go."}]),
        )
    for project in projects:
        workspace = {"source": "git", "repository": str(project.folder), "ref": project.commit}
        found[f"build commit of {project.folder.name}"] = (
            "/v1/context",
            {
                "model": "claude-sonnet-4-5",
                "date": "2026-11-30",
                "workspace": workspace,
                "settings": {"include_git_instructions": False},
            },
        )
    request = {"model": "claude-sonnet-4-5", "max_tokens": 9, "system": "Be brief.", "messages": talk(4)}
    longer = json.loads(json.dumps(request | {"messages": talk(5)}))
    found["lint"] = ("/v1/cache/lint", {"requests": [{"body": request}, {"body": longer}]})
    return found
