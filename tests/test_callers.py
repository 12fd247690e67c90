"""Keys and what they allow, without a server."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import Any

import pytest

from app.callers import ANYONE, Caller, Keys, Meters
from app.core.pace import Rate
from app.keys_file import LONGEST_FILE, Key, KeysFile, KeysFileError, read_keys
from app.settings import Settings
from app.workspaces.fence import Fence

SECRET = "strata-known-to-one"


def sha256(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def row(name: str, key: str | None = None, **more: str) -> str:
    lines = [
        f'name = "{name}"',
        f'sha256 = "{sha256(key or name)}"',
        *(f"{name} = {value}" for name, value in more.items()),
    ]
    return "\n".join(["[[keys]]", *lines, ""])


class Scene:
    """Keys in a file, which is looked at when the test says so."""

    def __init__(self, file: Path | None, *keys: str, kept: tuple[Key, ...] | None = None) -> None:
        self.told = list[tuple[str, str, Mapping[str, Any]]]()
        self.keys = Keys(keys, file, Fence.of, lambda *told: self.told.append(told), kept)

    def caller(self, key: str) -> Caller | None:
        return self.keys.ring.caller(key.encode())

    def looks(self, times: int = 2) -> None:
        """As many looks at the file as it takes to read it."""
        for _ in range(times):
            self.keys.look()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


# The file


def test_a_row_says_who_calls_and_what_it_may(file: Path, tmp_path: Path) -> None:
    limits = {"requests_per_minute": "60", "requests_at_once": "4", "event_streams": "2", "max_body_bytes": "1000"}
    file.write_text(row("ci", roots=f'["{tmp_path}"]', tenant='"shop"', **limits))
    caller = Scene(file).caller("ci")
    assert caller is not None
    assert (caller.name, caller.fence, caller.rate) == ("ci", Fence.of([str(tmp_path)]), Rate(60, 60))
    assert (caller.at_once, caller.streams, caller.max_body_bytes) == (4, 2, 1000)
    assert caller.space.startswith("shop/")


def test_a_row_with_no_more_than_a_name_has_the_limits_of_the_service(file: Path) -> None:
    file.write_text(row("ci"))
    assert Scene(file).caller("ci") == Caller("ci", "ci")


def test_keys_of_one_tenant_with_the_same_roots_share_a_space(file: Path, tmp_path: Path) -> None:
    folder, other = tmp_path / "a", tmp_path / "b"
    rows = [
        row("one", tenant='"t"', roots=f'["{folder}", "{other}"]'),
        row("two", tenant='"t"', roots=f'["{other}", "{folder}"]'),
        row("three", tenant='"t"', roots=f'["{folder}"]'),
        row("four", tenant='"t"'),
    ]
    file.write_text("\n".join(rows))
    scene = Scene(file)
    one, two, three, four = (scene.caller(name) for name in ("one", "two", "three", "four"))
    assert one is not None
    assert two is not None
    assert three is not None
    assert four is not None
    assert one.space == two.space
    assert len({one.space, three.space, four.space}) == 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("keys = 3", "keys"),
        ("[[keys]]", "keys.0.name"),
        ("[[keys]", "it is not TOML"),
        ("[[key]]", "key"),
        (row("Ci"), "keys.0.name"),
        (row("ci", roots='["relative"]'), "keys.0.roots: write absolute folders"),
        (row("ci", roots="[]"), "keys.0.roots"),
        (row("ci", requests_per_minute="0"), "keys.0.requests_per_minute"),
        (row("ci", requests_at_once='"4"'), "keys.0.requests_at_once"),
        (row("ci", expires="3"), "keys.0.expires"),
        (row("ci") + row("ci", "another"), "two keys have the name ci"),
        ("keys = " + "[" * 5000, "it is not TOML"),
        (row("ci", roots='["/a\\u0000b"]'), "keys.0.roots: write absolute folders"),
        (row("a", "k") + row("b", "k"), f"two keys have the sha256 {sha256('k')[:8]}…"),
        ('[[keys]]\nname = "a"\nsha256 = "secret-in-clear"', "keys.0.sha256"),
    ],
)
def test_a_fault_is_told_by_its_place_and_without_what_stands_there(text: str, told: str) -> None:
    with pytest.raises(KeysFileError) as raised:
        read_keys(text)
    assert told in str(raised.value)
    assert "secret-in-clear" not in str(raised.value)


def test_a_file_that_is_not_there_or_not_text_is_told(file: Path) -> None:
    with pytest.raises(KeysFileError, match="No such file"):
        Scene(file)
    file.write_bytes(b"\xff")
    with pytest.raises(KeysFileError, match="not UTF-8"):
        Scene(file)
    os.truncate(file, LONGEST_FILE + 1)
    with pytest.raises(KeysFileError, match="longer than"):
        Scene(file)


def test_a_pipe_in_its_place_is_not_waited_for(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(KeysFileError, match="it is no file"):
        Scene(file)


# Keys


def test_without_keys_nobody_needs_one() -> None:
    assert not Scene(None).keys.ring.asks


def test_a_file_without_keys_lets_nobody_in(file: Path) -> None:
    file.touch()
    scene = Scene(file)
    assert scene.keys.ring.asks
    assert scene.caller("") is None
    assert [event for _, event, _ in scene.told] == ["no_keys"]
    file.write_text(row("one"))
    scene.looks()
    file.write_text("")
    scene.looks()
    assert [event for _, event, _ in scene.told[1:]] == ["keys_read", "keys_read", "no_keys"]


def test_a_root_that_is_no_folder_is_told_by_its_number(file: Path, tmp_path: Path) -> None:
    file.write_text(row("one", roots=f'["{tmp_path}", "{tmp_path}/gone"]'))
    scene = Scene(file)
    ((level, event, values),) = scene.told
    assert (level, event, values["key"], values["number"]) == ("warning", "key_root_missing", "one", 2)
    assert str(tmp_path) not in str(values)


def test_keys_of_the_settings_are_tenants_of_their_own() -> None:
    scene = Scene(None, "first", "second")
    first, second = scene.caller("first"), scene.caller("second")
    assert first is not None
    assert second is not None
    assert first.space != second.space
    assert "first" not in repr(first)


def test_a_key_may_be_given_by_its_hash() -> None:
    scene = Scene(None, f"sha256:{sha256('first')}")
    assert scene.caller("first") == Scene(None, "first").caller("first")
    assert scene.caller(f"sha256:{sha256('first')}") is None


# Reading it again


def test_a_new_file_counts_once_it_was_left_alone(file: Path) -> None:
    file.write_text(row("one"))
    scene = Scene(file)
    file.write_text(row("two", requests_at_once="3"))
    scene.looks(1)
    assert scene.caller("one")
    scene.looks(1)
    assert (scene.caller("one"), scene.caller("two")) == (None, Caller("two", "two", at_once=3))
    assert scene.told == [("info", "keys_read", {"keys": 1})]


@pytest.mark.parametrize("fault", ["[[keys", None])
def test_keys_stay_as_they_were_while_the_file_cannot_be_read(fault: str | None, file: Path) -> None:
    file.write_text(row("one"))
    scene = Scene(file)
    if fault is None:
        file.unlink()
    else:
        file.write_text(fault)
    scene.looks(4)
    assert scene.caller("one")
    ((level, event, values),) = scene.told
    assert (level, event, scene.keys.failures) == ("error", "keys_not_read", 1)
    assert "one" not in str(values)
    file.write_text(row("two"))
    scene.looks()
    assert scene.caller("two")


def test_the_same_keys_in_another_file_change_nothing(file: Path) -> None:
    file.write_text(row("one"))
    scene = Scene(file)
    ring = scene.keys.ring
    file.write_text(row("one") + "# a word\n")
    scene.looks()
    assert scene.keys.ring is ring
    assert scene.told == []


def test_another_file_in_its_place_counts(file: Path) -> None:
    file.write_text(row("one"))
    scene = Scene(file)
    other = file.with_suffix(".new")
    other.write_text(row("two"))
    other.replace(file)
    scene.looks()
    assert scene.caller("two")
    assert not scene.caller("one")


class Unsteady(PosixPath):
    """A file of which somebody writes more once it was looked at, or that cannot be opened for now."""

    comes: str | None = None
    is_away = False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        found = os.stat(str(self), follow_symlinks=follow_symlinks)  # noqa: PTH116 - its own name is what may fail
        if self.comes is not None:
            Path(str(self)).write_text(self.comes)
        return found

    def __fspath__(self) -> str:
        if self.is_away:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return str(self)


def test_what_was_written_while_it_was_read_is_not_taken_over_yet(file: Path) -> None:
    file.write_text(row("one"))
    unsteady = Unsteady(file)
    keys = KeysFile(unsteady)
    before = keys.keys
    file.write_text(row("two"))
    keys.look()
    unsteady.comes = row("three")
    assert not keys.look()
    assert keys.keys == before
    unsteady.comes = None
    assert [keys.look() for _ in range(3)] == [False, True, False]
    assert [key.name for key in keys.keys] == ["three"]


def test_a_file_that_could_not_be_opened_is_tried_again_though_it_is_the_same(file: Path) -> None:
    file.write_text(row("one"))
    unsteady = Unsteady(file)
    scene = Scene(unsteady)
    file.write_text(row("two"))
    unsteady.is_away = True
    scene.looks(5)
    assert (scene.told, scene.keys.failures) == ([("error", "keys_not_read", {"reason": "Input/output error"})], 1)
    unsteady.is_away = False
    scene.looks(1)
    assert (scene.caller("one"), scene.caller("two")) == (None, Caller("two", "two"))


# Keys that another process has read


def test_kept_keys_stay_while_the_file_cannot_be_read_and_it_is_looked_at(file: Path) -> None:
    file.write_text(row("one"))
    kept = KeysFile(file).keys
    file.write_text("[[keys")
    scene = Scene(file, kept=kept)
    assert (scene.caller("one"), scene.told) == (Caller("one", "one"), [])
    scene.looks()
    assert [event for _, event, _ in scene.told] == ["keys_not_read"]
    assert scene.caller("one")
    file.write_text(row("two"))
    scene.looks()
    assert (scene.caller("one"), scene.caller("two")) == (None, Caller("two", "two"))


def test_a_file_that_nobody_has_left_alone_yet_takes_no_kept_key_away(file: Path) -> None:
    file.write_text(row("one"))
    kept = KeysFile(file).keys
    scene = Scene(file, kept=kept)
    file.write_text("")
    scene.looks(1)
    assert scene.caller("one")
    scene.looks(1)
    assert not scene.caller("one")


def test_a_kept_key_is_gone_at_the_first_look_at_a_file_that_was_left_alone_since_the_start(file: Path) -> None:
    file.write_text(row("one"))
    kept = KeysFile(file).keys
    file.write_text(row("two"))
    scene = Scene(file, kept=kept)
    assert scene.caller("one")
    scene.looks(1)
    assert (scene.caller("one"), scene.caller("two")) == (None, Caller("two", "two"))


def test_who_is_started_with_keys_gets_hashes_only(file: Path) -> None:
    file.write_text(f"# {SECRET}\n{row('one', SECRET)}")
    given = Settings(roots=(), keys_file=file, api_keys=(SECRET,)), KeysFile(file).keys
    written = pickle.dumps(given)
    assert SECRET.encode() not in written
    assert SECRET not in repr(given)
    scene = Scene(file, kept=pickle.loads(written)[1])  # noqa: S301 - its own
    assert scene.caller(SECRET) == Caller("one", "one")


# Meters


def test_keys_are_metered_apart() -> None:
    meters = Meters(lambda: 0.0)
    one, two = (Caller(name, rate=Rate(1, 1)) for name in ("one", "two"))
    assert [bool(meters.wait(caller)) for caller in (one, two, one)] == [False, False, True]
    assert [meters.wait(ANYONE) for _ in range(3)] == [0, 0, 0]


def test_what_a_key_has_asked_outlives_a_change_of_the_file_and_not_the_key(file: Path) -> None:
    file.write_text(row("one"))
    ring, meters = Scene(file).keys.ring, Meters(lambda: 0.0)
    one, gone = Caller("one", rate=Rate(1, 1)), Caller("gone", rate=Rate(1, 1))
    assert (meters.wait(one), meters.wait(gone)) == (0, 0)
    meters.keep(ring)
    assert meters.wait(one) > 0
    assert meters.wait(gone) == 0
