from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.building import build_contexts
from app.context import Contexts
from app.core.remembered import Remembered
from app.settings import Settings
from app.stores.forms import UnreadableError
from app.stores.process import ProcessStore
from app.stores.records import MOST_GROWTH, Records
from app.stores.sessions import Sessions
from app.stores.socket import Held
from app.wire.answers import context_answer
from app.wire.requests import Server, parse_context_request, to_ask
from tests.asking import CWD, inline
from tests.stores.opening import Clock, session
from tests.stores.values import REMEMBERED

RECORDS = Records(10**7)
KEY = "strata:1:a"
WRITTEN = RECORDS.written(KEY, session(size=1_000))
HEAD, BODY = WRITTEN[: WRITTEN.index(b"\n") + 1], WRITTEN[WRITTEN.index(b"\n") + 1 :]

ANY_SPEED = settings(deadline=None, suppress_health_check=list(HealthCheck))


@given(REMEMBERED)
@example(Remembered("\ud83d\ude00", "", {"\udc00": "\ud800"}))
@settings(ANY_SPEED, max_examples=200)
def test_what_is_read_is_what_was_written(one: Remembered) -> None:
    assert RECORDS.read(KEY, RECORDS.written(KEY, one)) == one


@given(REMEMBERED)
@settings(ANY_SPEED, max_examples=50)
def test_a_session_is_written_as_the_same_bytes_once_more(one: Remembered) -> None:
    written = RECORDS.written(KEY, one)
    assert RECORDS.written(KEY, RECORDS.read(KEY, written)) == written


def compressed(text: bytes) -> bytes:
    return HEAD + zstandard.compress(text)


@given(st.binary(max_size=200))
@settings(ANY_SPEED)
def test_garbage_is_unreadable_and_nothing_else(garbage: bytes) -> None:
    for record in (garbage, HEAD + garbage, compressed(garbage)):
        with pytest.raises(UnreadableError):
            RECORDS.read(KEY, record)


@given(st.data())
@settings(ANY_SPEED)
def test_a_record_with_a_byte_changed_or_cut_is_unreadable(data: Any) -> None:
    at = data.draw(st.integers(0, len(WRITTEN) - 1))
    changed = WRITTEN[:at] + bytes([WRITTEN[at] ^ data.draw(st.integers(1, 255))]) + WRITTEN[at + 1 :]
    for record in (WRITTEN[:at], WRITTEN + b"x"):
        with pytest.raises(UnreadableError):
            RECORDS.read(KEY, record)
    with suppress(UnreadableError):  # but for a bit that means nothing to zstd
        assert RECORDS.read(KEY, changed) == session(size=1_000)


@pytest.mark.parametrize(
    "text",
    [b"null", b"{}", b"[]", b'["w"]', b"[" * 100_000, b"\xff", b"1" * 5_000, b'"\\ud800"', b"NaN"],
)
def test_json_that_is_no_session_is_unreadable(text: bytes) -> None:
    with pytest.raises(UnreadableError):
        RECORDS.read(KEY, compressed(text))


def test_a_few_bytes_do_not_become_more_than_a_session_may_take() -> None:
    small = Records(100)
    record = RECORDS.written(KEY, session(size=100 * MOST_GROWTH))
    with pytest.raises(UnreadableError, match="size"):
        small.read(KEY, record)


def test_a_record_of_another_shape_is_unreadable() -> None:
    shape = HEAD.split()[1]
    with pytest.raises(UnreadableError, match="format"):
        RECORDS.read(KEY, HEAD.replace(shape, shape[::-1]) + BODY)


def test_a_text_that_is_there_many_times_is_written_in_little_room() -> None:
    text = "".join(map(str, range(2_000)))
    one = replace(session(), sections={str(at): text for at in range(50)})
    assert len(RECORDS.written(KEY, one)) < 2 * len(text)


class Travelling(ProcessStore):
    """A store whose sessions go through their bytes each time."""

    async def load(self, key: str) -> Held:
        held = await super().load(key)
        return Held(held.version, held.remembered and RECORDS.read(KEY, RECORDS.written(KEY, held.remembered)))


FILES = {
    f"{CWD}/CLAUDE.md": "Rules \u00e9\U0001f600. @docs/a.md",
    f"{CWD}/docs/a.md": "Included.",
    f"{CWD}/src/CLAUDE.md": "Nested.",
    f"{CWD}/.claude/rules/py.md": "---\npaths: '**/*.py'\n---\nTypes.",
    f"{CWD}/.claude/settings.json": json.dumps({"language": "German", "claudeMdExcludes": ["**/x.md"]}),
}
TURNS = st.lists(
    st.fixed_dictionaries(
        {
            "model": st.sampled_from(["claude-sonnet-5-5", "claude-opus-4-8", "unknown"]),
            "touched": st.sampled_from([[], [{"path": f"{CWD}/src/a.py"}]]),
            "freshness": st.sampled_from(["session", "validate", "reload"]),
            "files": st.sampled_from([FILES, {**FILES, f"{CWD}/CLAUDE.md": "Others."}]),
            "tools": st.sampled_from([[], [{"name": "Read", "input_schema": {"type": "object"}}]]),
            "boundary": st.booleans(),
        }
    ),
    min_size=2,
    max_size=5,
)


def contexts_over(store: ProcessStore) -> Contexts:
    contexts = build_contexts(Settings(roots=()))
    known = replace(contexts.known, now=lambda: 1_000.0)
    return replace(contexts, known=known, sessions=Sessions(store, "v"))


async def answers(contexts: Contexts, turns: Any) -> list[Any]:
    messages: list[Any] = []
    said = []
    for at, turn in enumerate(turns):
        if turn["boundary"]:
            messages = [{"role": "user", "content": f"Summary {at}.", "meta": {"compact_boundary": True}}]
        messages += [{"role": "user", "content": f"Go {at}."}]
        more = {name: turn[name] for name in ("model", "touched", "freshness", "tools")}
        body = inline(turn["files"], session_id="s", messages=messages, **more)
        ask = to_ask(parse_context_request(json.dumps(body).encode()), Server("linux", None, "2026-11-30"), ())
        answer = await contexts.answer(ask)
        said.append(context_answer(answer.assembly, {}, answer.notices))
        messages += [{"role": "assistant", "content": "Done."}]
    await contexts.close()
    return said


@given(TURNS)
@settings(ANY_SPEED, max_examples=25)
def test_a_session_that_travelled_gives_the_answers_that_it_would_have_given(turns: Any) -> None:
    stores = [kind(9, 10**8, 1_000, Clock()) for kind in (ProcessStore, Travelling)]
    stayed, travelled = (asyncio.run(answers(contexts_over(store), turns)) for store in stores)
    assert travelled == stayed
