"""The hub of events: who is told what, who is dropped, and what is left when they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message

from app.building import build_contexts
from app.core.footprint import FolderMark, Footprint
from app.core.remembered import Remembered
from app.core.tenants import name_in
from app.disk_checks import DiskChecks
from app.errors import SessionNotFound, TooManyListeners
from app.event_routes import EventStream
from app.events import KEPT, WAITING, Event, Listener, Log
from app.hub import KEPT_LOGS, Hub, Rhythm, Seats
from app.looking import Looks
from app.metrics import Metrics
from app.settings import Settings
from app.stores.process import ProcessStore
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.watching import Watchers
from tests.listening import parsed, refuse

SESSION = "s"
BEGUN = Remembered("w", "2026-11-30", model="claude-sonnet-4-5", footprint=Footprint())
OFTEN = Rhythm(0.01, 0.01, 0.0)


def running(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within_patience() -> None:
        async with asyncio.timeout(60):
            await scene()

    asyncio.run(within_patience())


class Scene:
    """A hub over the sessions of a process, with one session that was begun with this footprint."""

    def __init__(self, root: Path, *, rhythm: Rhythm = OFTEN, room: Seats | None = None) -> None:
        contexts = build_contexts(Settings(roots=(root,)))
        self.fence = contexts.ground.fence
        self.sessions, self.footprints = contexts.sessions, contexts.footprints
        self.checks = DiskChecks(contexts.sessions, Looks(contexts.footprints))
        self.watchers, self.registry = Watchers(refuse), CollectorRegistry()
        self.hub = Hub(
            self.checks, self.watchers, Metrics(self.registry), now=lambda: "now", rhythm=rhythm, room=room or Seats()
        )

    async def begin(self, footprint: Footprint | None = None, session: str = SESSION, **more: Any) -> None:
        held = await self.sessions.load(session)
        assert await self.sessions.save(session, replace(BEGUN, footprint=footprint, **more), held)


async def left(stage: Scene, session: str) -> str:
    """Begins a session that is listened to for a moment; the id of the last event that its reader had."""
    await stage.begin(Footprint(), session)
    listener = await stage.hub.listen(session, stage.fence)
    [event] = parsed(iter((await listener.take() or b"").decode().split("\n")))
    stage.hub.leave(listener)
    return str(event.id)


def told(*sent: bytes) -> list[tuple[str | None, Any]]:
    return [(event.name, event.data) for event in parsed(iter(b"".join(sent).decode().split("\n")))]


def listing(folder: Path) -> Footprint:
    """Of a folder that was empty when it was listed."""
    return Footprint(folders=(FolderMark(str(folder), None, settled=False, entries=(), names=()),))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def test_a_burst_is_one_event_of_each_kind_with_its_paths_sorted(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(listing(root))
        seen = await stage.checks.first(SESSION, stage.fence)
        for name in ("b.md", "settings.json", "a.md"):
            (root / name).write_text("New.")
        found = await stage.checks.again(SESSION, seen)
        assert found is not None
        assert [(kind, [Path(change.path).name for change in changes]) for kind, changes in found[0]] == [
            ("memory_changed", ["a.md", "b.md"]),
            ("settings_changed", ["settings.json"]),
        ]
        again = await stage.checks.again(SESSION, found[1])
        assert again is not None
        assert again[0] == ()

    running(scene)


def test_a_turn_that_read_nothing_anew_loses_no_change(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(listing(root))
        seen = await stage.checks.first(SESSION, stage.fence)
        (root / "a.md").write_text("New.")
        await stage.begin(listing(root), model="claude-opus-4-5")
        found = await stage.checks.again(SESSION, seen)
        assert found is not None
        assert [kind for kind, _ in found[0]] == ["memory_changed"]
        assert found[1].version != seen.version

    running(scene)


def test_a_change_that_a_turn_has_read_before_it_was_told_is_told_once(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(listing(root))
        seen = await stage.checks.first(SESSION, stage.fence)
        (root / "a.md").write_text("New.")
        _, now = stage.footprints.changes(listing(root), stage.fence)
        await stage.begin(now)
        found = await stage.checks.again(SESSION, seen)
        assert found is not None
        assert [Path(change.path).name for _, changes in found[0] for change in changes] == ["a.md"]
        again = await stage.checks.again(SESSION, found[1])
        assert again is not None
        assert again[0] == await stage.checks.differing(found[1]) == ()

    running(scene)


def test_the_last_events_of_many_sessions_are_kept_but_not_of_all(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        names = [f"{number}" for number in range(KEPT_LOGS + 1)]
        lasts = {name: await left(stage, name) for name in names}
        missed = []
        for name in (names[0], names[-1]):
            listener = await stage.hub.listen(name, stage.fence, lasts[name])
            await listener.take()
            missed.append(listener.offer(b"") and "missed" in (await listener.take() or b"").decode())
            stage.hub.leave(listener)
        assert missed == [True, False]

    running(scene)


def test_of_a_commit_nothing_is_watched(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(None)
        listener = await stage.hub.listen(SESSION, stage.fence)
        [(name, data)] = told(await listener.take() or b"")
        assert (name, data["mode"], data["reason"]) == ("watching", "none", "commit")
        stage.hub.leave(listener)

    running(scene)


def test_who_left_leaves_no_task_behind(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(listing(root))
        listeners = [await stage.hub.listen(SESSION, stage.fence) for _ in range(8)]
        assert len(asyncio.all_tasks()) == 2
        for listener in listeners:
            stage.hub.leave(listener)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
        assert len(asyncio.all_tasks()) == 1
        assert (stage.hub.listeners, stage.watchers.roots) == (0, ())

    running(scene)


def test_who_is_refused_leaves_nothing_behind(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root, room=Seats(2, 1))
        for _ in range(3):
            with pytest.raises(SessionNotFound):
                await stage.hub.listen(SESSION, stage.fence)
        await stage.begin(Footprint())
        await stage.hub.listen(SESSION, stage.fence)
        with pytest.raises(TooManyListeners):
            await stage.hub.listen(SESSION, stage.fence)
        assert stage.hub.listeners == 1
        stage.hub.close()

    running(scene)


def test_a_tenant_that_has_all_streams_makes_room_for_another(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root, room=Seats(3, 3))
        greedy, modest = name_in("anna/1", SESSION), name_in("boris/2", SESSION)
        for session in (greedy, modest):
            await stage.begin(Footprint(), session)
        theirs = [await stage.hub.listen(greedy, stage.fence) for _ in range(3)]
        own = await stage.hub.listen(modest, stage.fence)
        assert stage.hub.listeners == 3
        ended = [one for one in theirs if one.ended.is_set()]
        assert [told(await one.take() or b"") for one in ended] == [
            [("dropped", {"session": SESSION, "reason": "made_room"})]
        ]
        for session in (greedy, modest):
            with pytest.raises(TooManyListeners):
                await stage.hub.listen(session, stage.fence)
        assert not own.ended.is_set()
        stage.hub.close()

    running(scene)


def test_no_room_is_made_for_a_session_that_is_not_there(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root, room=Seats(2, 2))
        greedy, absent = name_in("anna/1", SESSION), name_in("boris/2", SESSION)
        await stage.begin(Footprint(), greedy)
        theirs = [await stage.hub.listen(greedy, stage.fence) for _ in range(2)]
        with pytest.raises(SessionNotFound):
            await stage.hub.listen(absent, stage.fence)
        assert not any(one.ended.is_set() for one in theirs)
        stage.hub.close()

    running(scene)


def test_events_kept_for_readers_who_come_back_are_not_pushed_out_by_another_tenant(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        own = name_in("boris/2", SESSION)
        floods = [name_in("anna/1", f"{number}") for number in range(KEPT_LOGS + 3)]
        lasts = {name: await left(stage, name) for name in (own, *floods)}
        missed = []
        for name in (own, floods[0]):
            listener = await stage.hub.listen(name, stage.fence, lasts[name])
            await listener.take()
            missed.append(listener.offer(b"") and "missed" in (await listener.take() or b"").decode())
        assert missed == [False, True]
        stage.hub.close()

    running(scene)


def test_after_the_end_a_stream_says_so_and_ends(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(listing(root))
        before = await stage.hub.listen(SESSION, stage.fence)
        await before.take()
        stage.hub.close()
        after = await stage.hub.listen(SESSION, stage.fence)
        for listener in (before, after):
            assert told(await listener.take() or b"") == [("closing", {"reason": "shutting_down"})]
            assert await listener.take() is None
        assert stage.watchers.roots == ()

    running(scene)


def test_all_that_waits_for_a_reader_who_is_too_slow_gives_way_to_the_reason(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(listing(root))
        slow, other = await stage.hub.listen(SESSION, stage.fence), await stage.hub.listen(SESSION, stage.fence)
        await other.take()
        for number in range(WAITING + 1):
            (root / f"{number}.md").write_text("New.")
            await other.take()
        assert slow.ended.is_set()
        assert told(await slow.take() or b"") == [("dropped", {"session": SESSION, "reason": "slow_reader"})]
        assert await slow.take() is None
        assert stage.hub.listeners == 1
        labels = {"reason": "slow_reader"}
        assert stage.registry.get_sample_value("strata_event_listeners_dropped_total", labels) == 1
        stage.hub.close()

    running(scene)


def test_a_look_that_fails_is_not_kept_quiet_and_ends_the_streams(root: Path) -> None:
    class Failing(ProcessStore):
        async def version(self, key: str) -> int:
            raise ZeroDivisionError

    async def scene() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        stage = Scene(root)
        sessions = Sessions(Failing(9, 10**6, 60, lambda: 0.0), "1")
        assert await sessions.save(SESSION, BEGUN, Held(0, None))
        checks = DiskChecks(sessions, stage.checks._looks)
        hub = Hub(checks, stage.watchers, Metrics(CollectorRegistry()), now=lambda: "now", rhythm=OFTEN)
        listener = await hub.listen(SESSION, stage.fence)
        await listener.ended.wait()
        await listener.take()
        assert told(await listener.take() or b"") == [("closing", {"reason": "fault"})]
        assert [type(failure["exception"]) for failure in failures] == [ZeroDivisionError]
        assert hub.listeners == 0

    running(scene)


def test_a_session_that_was_looked_at_on_request_is_ended_at_once(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root, rhythm=Rhythm(3600, 3600, 0.0))
        await stage.begin(listing(root))
        listener = await stage.hub.listen(SESSION, stage.fence)
        await listener.take()
        await stage.sessions.forget(SESSION)
        stage.hub.look(SESSION)
        stage.hub.look("nobody listens to this one")
        [(name, _)] = told(await listener.take() or b"")
        assert (name, await listener.take()) == ("session_ended", None)

    running(scene)


def test_a_session_that_began_again_under_its_name_can_be_listened_to(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        for _ in range(2):
            await stage.begin(listing(root))
            listener = await stage.hub.listen(SESSION, stage.fence)
            await stage.sessions.forget(SESSION)
            await listener.ended.wait()
            stage.hub.leave(listener)
        with pytest.raises(SessionNotFound):
            await stage.hub.listen(SESSION, stage.fence)

    running(scene)


def test_readers_who_come_and_go_at_once_lose_nothing_and_leave_nothing(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root, room=Seats(1_000, 1_000))
        await stage.begin(listing(root))

        async def visit(number: int) -> None:
            listener = await stage.hub.listen(SESSION, stage.fence)
            await listener.take()
            (root / f"{number}.md").write_text("New.")
            seen: set[str] = set()
            while f"{number}.md" not in seen:
                [(_, data)] = told(await listener.take() or b"")
                seen |= {Path(row["path"]).name for row in data["paths"]}
            stage.hub.leave(listener)

        await asyncio.gather(*(visit(number) for number in range(40)))
        assert (stage.hub.listeners, stage.watchers.roots) == (0, ())

    running(scene)


def test_a_log_tells_what_came_after_each_of_its_last_events() -> None:
    log = Log()
    begun = log.last
    events = [log.add(Event("e", {"number": number})) for number in range(KEPT + 3)]
    ids = [event.id for event in parsed(iter(b"".join(events).decode().split("\n")))]
    assert [log.since(str(last)) for last in ids[2:]] == [tuple(events[number:]) for number in range(3, KEPT + 4)]
    assert [log.since(str(last)) for last in (begun, *ids[:2])] == [None, None, None]


def test_a_log_does_not_know_what_it_never_told() -> None:
    log = Log()
    log.add(Event("e", {}))
    epoch = log.last.rpartition("-")[0]
    unknown = [f"{epoch}-2", f"{epoch}-", f"{epoch}-x", f"{epoch}-²", f"{epoch}--1", Log().last, "", epoch]
    assert [log.since(last) for last in unknown] == [None] * len(unknown)


def test_a_reader_is_offered_no_more_than_may_wait() -> None:
    async def scene() -> None:
        listener = Listener(SESSION, 2)
        assert listener.offer(b"before it began")
        listener.begin([b"opening"])
        assert [listener.offer(b"x") for _ in range(3)] == [True, True, False]
        assert [await listener.take() for _ in range(3)] == [b"opening", b"x", b"x"]
        assert listener.offer(b"y")
        listener.end(Event("last", {}))
        listener.end(Event("later", {}))
        assert [listener.offer(b"z"), await listener.take(), told(await listener.take() or b"")] == [
            False,
            b"y",
            [("last", {})],
        ]
        assert await listener.take() is None

    running(scene)


async def silent() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_reader_who_takes_nothing_is_not_waited_for(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(Footprint())
        listener = await stage.hub.listen(SESSION, stage.fence)

        async def stuck(message: Message) -> None:
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        stream = asyncio.create_task(EventStream(stage.hub, listener, 60, last=0.01)({}, silent, stuck))
        await asyncio.sleep(0)
        stage.hub.close()
        await stream
        assert asyncio.all_tasks() == {asyncio.current_task()}

    running(scene)


def test_a_reader_who_is_gone_ends_the_stream(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(Footprint())
        for problem in (None, OSError("gone")):
            listener = await stage.hub.listen(SESSION, stage.fence)

            async def send(_: Message, problem: OSError | None = problem) -> None:
                if problem is not None:
                    raise problem

            async def receive() -> Message:
                return {"type": "http.disconnect"}

            await EventStream(stage.hub, listener, 60)({}, silent if problem else receive, send)
            assert stage.hub.listeners == 0

    running(scene)


def test_a_fault_while_it_is_sent_is_not_kept_quiet(root: Path) -> None:
    async def scene() -> None:
        stage = Scene(root)
        await stage.begin(Footprint())
        listener = await stage.hub.listen(SESSION, stage.fence)

        async def send(_: Message) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await EventStream(stage.hub, listener, 60)({}, silent, send)
        assert stage.hub.listeners == 0

    running(scene)
