"""Events of a session: what changes on disk of what its answer was built from, as it is told to those who listen."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from app.events import KEPT
from app.watching import Watchers
from tests.asking import ask, inline, local, refused
from tests.listening import (
    NEVER,
    Reader,
    address,
    deaf,
    figure,
    listening,
    project,
    refuse,
    telling,
    turn,
    wait_until,
)

Change = Callable[[Path], object]


def rename_over(path: Path, text: str) -> None:
    other = path.with_name("other.tmp")
    other.write_text(text)
    other.rename(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def shop(root: Path) -> Path:
    return project(root)


@pytest.fixture(params=["notify", "poll"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(root: Path, mode: str) -> Iterator[httpx.Client]:
    """By the platform's watch alone, and by looking alone."""
    with telling(root, None if mode == "notify" else Watchers(refuse)) as client:
        yield client


@pytest.fixture
def watching(root: Path) -> Iterator[httpx.Client]:
    with telling(root) as client:
        yield client


def test_the_first_event_says_how_changes_are_noticed(client: httpx.Client, shop: Path, mode: str) -> None:
    session = turn(client, shop)
    with listening(client, session) as reader:
        told = reader.next()
        assert reader.response.headers["content-type"].startswith("text/event-stream")
        assert reader.response.headers["cache-control"] == "no-store"
    reason, seconds = (None, NEVER) if mode == "notify" else ("too_many_watches", 0.05)
    assert (told.name, told.retry) == ("watching", "2000")
    assert told.data == {"session": session, "mode": mode, "reason": reason, "seconds": seconds}


@pytest.mark.parametrize(
    ("change", "kind", "path"),
    [
        (lambda shop: (shop / "CLAUDE.md").write_text("New."), "memory_changed", ("CLAUDE.md", "modified")),
        (lambda shop: (shop / "docs/api.md").write_text("XML."), "memory_changed", ("api.md", "modified")),
        (lambda shop: (shop / "CLAUDE.local.md").write_text("Mine."), "memory_changed", ("CLAUDE.local.md", "created")),
        (lambda shop: (shop.parent / "CLAUDE.md").write_text("Above."), "memory_changed", ("CLAUDE.md", "created")),
        (lambda shop: (shop / "CLAUDE.md").unlink(), "memory_changed", ("CLAUDE.md", "deleted")),
        (lambda shop: rename_over(shop / "CLAUDE.md", "Other."), "memory_changed", ("CLAUDE.md", "modified")),
        (lambda shop: shutil.rmtree(shop / "docs"), "memory_changed", ("api.md", "deleted")),
        (lambda shop: (shop / ".claude/rules/new.md").write_text("New."), "rules_changed", ("new.md", "created")),
        (lambda shop: (shop / ".claude/rules/sql.md").write_text("New."), "rules_changed", ("sql.md", "modified")),
        (lambda shop: (shop / ".claude/rules/sub").mkdir(), "rules_changed", ("sub", "created")),
        (
            lambda shop: (shop / ".claude/settings.json").write_text('{"language": "German"}'),
            "settings_changed",
            ("settings.json", "modified"),
        ),
        (
            lambda shop: (shop / ".claude/settings.local.json").write_text("{}"),
            "settings_changed",
            ("settings.local.json", "created"),
        ),
    ],
    ids=[
        *("edit", "include", "local", "above", "delete", "rename", "folder"),
        *("new-rule", "rule", "rules-folder", "settings", "local-settings"),
    ],
)
def test_a_change_is_told_by_its_kind(
    client: httpx.Client, shop: Path, change: Change, kind: str, path: tuple[str, str]
) -> None:
    session = turn(client, shop)
    with listening(client, session) as reader:
        reader.next()
        change(shop)
        told = reader.next()
        while path not in told.paths:
            told = reader.next()
    assert (told.name, told.data["session"]) == (kind, session)
    assert told.data["at"].endswith("+00:00")


def test_what_came_to_stand_in_a_new_folder_is_told_too_and_so_are_its_edits(client: httpx.Client, root: Path) -> None:
    folder = root / "bare"
    folder.mkdir()
    session = turn(client, folder)
    with listening(client, session) as reader:
        reader.next()
        (folder / ".claude/rules/sub").mkdir(parents=True)
        _until(reader, "rules_changed", ("sub", "created"))
        (folder / ".claude/rules/sub/a.md").write_text("A.")
        _until(reader, "rules_changed", ("a.md", "created"))
        (folder / ".claude/rules/sub/a.md").write_text("Another.")
        _until(reader, "rules_changed", ("a.md", "modified"))
        (folder / ".claude/settings.json").write_text("{}")
        _until(reader, "settings_changed", ("settings.json", "created"))


def _until(reader: Reader, name: str, path: tuple[str, str]) -> None:
    told = reader.next()
    while told.name != name or path not in told.paths:
        told = reader.next()


def test_a_repository_that_was_replaced_is_watched_further(client: httpx.Client, shop: Path, root: Path) -> None:
    session = turn(client, shop)
    with listening(client, session) as reader:
        reader.next()
        shop.rename(root / "old")
        project(root)
        (shop / "CLAUDE.md").write_text("Of the new one.")
        _until(reader, "memory_changed", ("CLAUDE.md", "modified"))
        (shop / "docs/api.md").write_text("Of the new one.")
        _until(reader, "memory_changed", ("api.md", "modified"))


def test_what_the_watch_misses_is_found_by_looking(root: Path, shop: Path) -> None:
    with telling(root, Watchers(deaf), watched_seconds=0.05) as client, listening(client, turn(client, shop)) as reader:
        assert reader.next().data["mode"] == "notify"
        (shop / "CLAUDE.md").write_text("New.")
        assert reader.next().paths == [("CLAUDE.md", "modified")]


def test_the_target_of_a_link_that_lies_elsewhere_is_followed(client: httpx.Client, shop: Path, root: Path) -> None:
    target = root / "elsewhere" / "house.md"
    target.parent.mkdir()
    target.write_text("House rules.")
    (shop / ".claude/rules/house.md").symlink_to(target)
    with listening(client, turn(client, shop)) as reader:
        reader.next()
        target.write_text("Other rules.")
        told = reader.next()
    assert (told.name, told.paths) == ("rules_changed", [("house.md", "modified")])


def test_two_readers_of_one_session_are_told_the_same(client: httpx.Client, shop: Path) -> None:
    session = turn(client, shop)
    with listening(client, session) as one, listening(client, session) as other:
        one.next(), other.next()
        (shop / "CLAUDE.md").write_text("New.")
        told = one.next()
        assert told == other.next()
        assert told.name == "memory_changed"


def test_sessions_of_one_repository_are_each_told(client: httpx.Client, shop: Path) -> None:
    one, other = turn(client, shop), turn(client, shop)
    with listening(client, one) as first, listening(client, other) as second:
        first.next(), second.next()
        (shop / "CLAUDE.md").write_text("New.")
        assert [first.next().data["session"], second.next().data["session"]] == [one, other]


def test_what_differs_already_is_told_on_connecting(client: httpx.Client, shop: Path) -> None:
    session = turn(client, shop)
    (shop / "CLAUDE.md").write_text("New.")
    (shop / ".claude/rules/sql.md").unlink()
    with listening(client, session) as reader:
        told = [reader.next() for _ in range(3)]
    assert [event.name for event in told] == ["watching", "memory_changed", "rules_changed"]
    assert [event.id is None for event in told] == [True, True, False]


def test_a_reader_goes_on_behind_its_last_event(client: httpx.Client, shop: Path) -> None:
    session = turn(client, shop)
    with listening(client, session) as reader:
        begun = reader.next().id
        (shop / "CLAUDE.md").write_text("One.")
        first = reader.next()
        (shop / "docs/api.md").unlink()
        second = reader.next()
    (shop / ".claude/settings.json").unlink()
    with listening(client, session, first.id) as reader:
        assert reader.next().name == "watching"
        assert reader.next() == second
        third = reader.next()
        assert (third.name, third.paths) == ("settings_changed", [("settings.json", "deleted")])
    with listening(client, session, begun) as reader:
        assert [reader.next() for _ in range(4)][1:] == [first, second, third]


@pytest.mark.parametrize("last", ["0123456789ab-1", "nonsense", "-", "0123456789ab-" + "9" * 5_000])
def test_after_an_id_that_is_not_known_the_state_is_told(last: str, watching: httpx.Client, shop: Path) -> None:
    session = turn(watching, shop)
    (shop / "CLAUDE.md").write_text("New.")
    with listening(watching, session, last) as reader:
        told = [reader.next() for _ in range(3)]
    assert [event.name for event in told] == ["watching", "missed", "memory_changed"]
    assert "ask for the context again" in told[1].data["reason"]
    assert told[2].paths == [("CLAUDE.md", "modified")]


def test_an_empty_id_is_none(watching: httpx.Client, shop: Path) -> None:
    session = turn(watching, shop)
    (shop / "CLAUDE.md").write_text("New.")
    with listening(watching, session, "") as reader:
        assert [reader.next().name for _ in range(2)] == ["watching", "memory_changed"]


def test_an_id_too_long_ago_is_not_known(root: Path, shop: Path) -> None:
    with telling(root, Watchers(refuse), polled_seconds=0.01) as client:
        session = turn(client, shop)
        with listening(client, session) as reader:
            begun = reader.next().id
            for number in range(KEPT + 1):
                (shop / "CLAUDE.md").write_text(f"{number}.")
                reader.next()
        with listening(client, session, begun) as reader:
            assert [reader.next().name for _ in range(2)] == ["watching", "missed"]


@pytest.mark.parametrize("freshness", ["validate", "reload"])
def test_what_a_turn_has_read_is_not_told_again(client: httpx.Client, shop: Path, freshness: str) -> None:
    session = turn(client, shop)
    with listening(client, session) as reader:
        reader.next()
        (shop / "CLAUDE.md").write_text("New.")
        reader.next()
        turn(client, shop, session, freshness=freshness)
        (shop / "CLAUDE.local.md").write_text("Mine.")
        assert reader.next().paths == [("CLAUDE.local.md", "created")]
    turn(client, shop, session, freshness=freshness)
    with listening(client, session) as reader:
        assert reader.next().id is not None
        (shop / "CLAUDE.local.md").unlink()
        assert reader.next().paths == [("CLAUDE.local.md", "deleted")]


def test_what_a_turn_reads_newly_is_followed_from_then_on(client: httpx.Client, shop: Path) -> None:
    session = turn(client, shop)
    (shop / "docs/more.md").write_text("More.")
    with listening(client, session) as reader:
        reader.next()
        (shop / "CLAUDE.md").write_text("See @docs/more.md")
        reader.next()
        turn(client, shop, session, freshness="validate")
        with listening(client, session) as other:  # whoever connects has it looked at
            other.next()
        (shop / "docs/more.md").write_text("Even more.")
        assert reader.next().paths == [("more.md", "modified")]


def test_buffers_that_are_not_saved_change_nothing(client: httpx.Client, shop: Path) -> None:
    session = turn(client, shop)
    unsaved = local(shop, session_id=session, freshness="validate")
    unsaved["workspace"]["files"] = {str(shop / "CLAUDE.md"): "Not saved."}
    with listening(client, session) as reader:
        reader.next()
        ask(client, unsaved)
        (shop / ".claude/settings.json").unlink()
        assert reader.next().paths == [("settings.json", "deleted")]


def test_a_session_that_is_deleted_ends_its_streams(root: Path, shop: Path) -> None:
    with telling(root, watched_seconds=0.05) as client:
        session = turn(client, shop)
        with listening(client, session) as reader:
            reader.next()
            client.delete(address(session).removesuffix("/events"))
            assert [told.name for told in reader.rest()] == ["session_ended"]
        refused(client.get(address(session)), 404, "session-not-found")


def test_a_session_that_gives_way_to_another_ends_its_streams(root: Path, shop: Path) -> None:
    with (
        telling(root, watched_seconds=0.05, max_sessions=1) as client,
        listening(client, turn(client, shop)) as reader,
    ):
        reader.next()
        turn(client, shop)
        assert [told.name for told in reader.rest()] == ["session_ended"]


def test_a_session_that_is_listened_to_is_not_idle(root: Path, shop: Path) -> None:
    with telling(root, watched_seconds=0.05, heartbeat_seconds=0.25, session_idle_seconds=0.5) as client:
        session = turn(client, shop)
        with listening(client, session) as reader:
            for _ in range(4):
                reader.comment()
            assert client.get(address(session).removesuffix("/events")).status_code == 200


@pytest.mark.parametrize("reason", ["clear", "compact"])
def test_a_session_that_was_cleared_is_watched_again_from_its_next_turn(root: Path, shop: Path, reason: str) -> None:
    with telling(root, watched_seconds=0.05) as client:
        session = turn(client, shop)
        with listening(client, session) as reader:
            assert reader.next().data["mode"] == "notify"
            client.post(address(session).replace("/events", "/clear"), json={"reason": reason})
            cleared = reader.next()
            assert (cleared.name, cleared.data["mode"], cleared.data["reason"]) == ("watching", "none", "cleared")
            turn(client, shop, session)
            assert reader.next().data["mode"] == "notify"
            (shop / "CLAUDE.md").write_text("New.")
            assert reader.next().paths == [("CLAUDE.md", "modified")]


def test_files_of_a_request_are_not_watched_but_the_stream_lives(root: Path) -> None:
    with telling(root) as client:
        session = uuid4().hex
        ask(client, inline({}, session_id=session))
        with listening(client, session) as reader:
            assert (told := reader.next()).data["mode"] == "none"
            assert told.data["reason"] == "inline"
            client.delete(address(session).removesuffix("/events"))
            assert [told.name for told in reader.rest()] == ["session_ended"]


def test_a_quiet_stream_has_heartbeats(root: Path, shop: Path) -> None:
    with telling(root, heartbeat_seconds=0.05) as client, listening(client, turn(client, shop)) as reader:
        assert [reader.comment(), reader.comment()] == ["ping", "ping"]


def test_readers_of_one_session_are_limited(root: Path, shop: Path) -> None:
    with telling(root, max_session_listeners=1) as client:
        one, other = turn(client, shop), turn(client, shop)
        with listening(client, one), listening(client, other):
            problem = refused(client.get(address(one)), 503, "too-many-listeners")
        assert "STRATA_MAX_SESSION_LISTENERS" in problem["detail"]


def test_readers_in_all_are_limited_and_a_place_is_free_again(root: Path, shop: Path) -> None:
    with telling(root, max_listeners=1) as client:
        one, other = turn(client, shop), turn(client, shop)
        with listening(client, one):
            assert "STRATA_MAX_LISTENERS" in refused(client.get(address(other)), 503, "too-many-listeners")["detail"]
        wait_until(lambda: figure(client, "strata_event_listeners") == 0)
        with listening(client, other) as reader:
            assert reader.next().name == "watching"


def test_streams_that_are_gone_leave_nothing_behind(root: Path, shop: Path) -> None:
    watchers = Watchers()
    with telling(root, watchers, max_session_listeners=50) as client, ExitStack() as streams:
        sessions = [turn(client, shop) for _ in range(4)]
        readers = [streams.enter_context(listening(client, sessions[number % 4])) for number in range(200)]
        assert {reader.next().name for reader in readers} == {"watching"}
        assert figure(client, "strata_event_listeners") == 200
        assert str(shop) in watchers.roots
        streams.close()
        wait_until(lambda: figure(client, "strata_event_listeners") == 0)
        assert watchers.roots == ()
        wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "watching"])


def test_an_encoded_slash_is_part_of_the_name(watching: httpx.Client, shop: Path) -> None:
    session = turn(watching, shop, f"a/b {uuid4().hex}")
    with listening(watching, session) as reader:
        assert reader.next().data["session"] == session


def test_a_name_that_no_session_can_have_is_refused(watching: httpx.Client) -> None:
    refused(watching.get(address("x" * 129)), 422, "invalid-request")
    refused(watching.get(address("x" * 128)), 404, "session-not-found")


def test_events_and_open_streams_are_counted(watching: httpx.Client, shop: Path) -> None:
    with listening(watching, turn(watching, shop)) as reader:
        reader.next()
        assert figure(watching, "strata_event_listeners") == 1
        (shop / "CLAUDE.md").write_text("New.")
        reader.next()
        assert figure(watching, 'strata_events_total{event="memory_changed"}') == 1
