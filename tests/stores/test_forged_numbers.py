"""Records of sessions that are formed as they should be, with numbers that no service writes: no request fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import zstandard

from app.stores.records import Records
from tests.asking import CWD, ask, inline
from tests.stores.redis_server import RedisServer
from tests.stores.test_redis_http import said, services

FILES = {
    f"{CWD}/CLAUDE.md": "Use tabs. @docs/a.md",
    f"{CWD}/docs/a.md": "Included.",
    f"{CWD}/src/CLAUDE.md": "Nested.",
    f"{CWD}/.claude/rules/py.md": "---\npaths: '**/*.py'\n---\nTypes.",
}
TOOLS = [{"name": "Read", "input_schema": {"type": "object"}}]
USAGE = {"input_tokens": 3, "cache_creation_input_tokens": 9_000, "cache_read_input_tokens": 0, "output_tokens": 9}
TALK = said("Go.", "Done.", "Again.", "Done again.", "And now?")
TALK[1]["usage"] = TALK[3]["usage"] = USAGE
LAST = inline(FILES, session_id="s", messages=TALK, tools=TOOLS)

Place = tuple[int | str, ...]
LARGE: tuple[Any, ...] = (10**400, -(10**400))
NUMBERS: tuple[Any, ...] = (*LARGE, float("inf"), float("nan"), -1e300, 0)


def numbers_in(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where numbers stand, and where nothing does."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield at
    if isinstance(value, list):
        for place, one in enumerate(value):
            yield from numbers_in(one, (*at, place))


def put(value: Any, at: Sequence[Any], number: Any) -> Any:
    if not at:
        return number
    return [put(one, at[1:], number) if place == at[0] else one for place, one in enumerate(value)]


class Forger:
    """Writes what is in one session's place in Redis."""

    def __init__(self, redis: RedisServer) -> None:
        self.redis = redis
        name = redis.say("EVAL", "return redis.call('KEYS', 'strata:*:s')[1]", "0")
        self.key = name.split(b"\r\n")[1].decode()
        self.records = Records(10**9)
        body = redis.say("HGET", self.key, "body").partition(b"\r\n")[2][:-2]
        self.values = json.loads(zstandard.decompress(body.removeprefix(self.records.head(self.key))))
        self.version = 1_000

    def forge(self, values: Any) -> None:
        self.version += 1
        body = self.records.head(self.key) + zstandard.compress(json.dumps(values).encode())
        row = {"version": str(self.version), "lineage": f"{self.version:x}", "count": "1", "by": str(self.version)}
        self.redis.say("DEL", self.key)
        self.redis.say("HSET", self.key, *(part for pair in row.items() for part in pair), "body", body)


def begun(client: Any) -> None:
    for messages in (TALK[:1], TALK[:3]):
        ask(client, {**LAST, "messages": messages, "touched": [{"path": f"{CWD}/src/a.py"}]})
    report = {"outcome": "failed", "trigger": "automatic"}
    for _ in range(3):
        assert client.post("/v1/sessions/s/compactions", json=report).status_code < 300


ASKED: dict[str, Callable[[Any], Any]] = {
    "a turn": lambda client: client.post("/v1/context", json=LAST),
    "its state": lambda client: client.get("/v1/sessions/s"),
    "its last request": lambda client: client.get("/v1/sessions/s/context"),
    "to count": lambda client: client.post(
        "/v1/tokens", json={name: LAST[name] for name in ("model", "messages", "session_id")}
    ),
    "to be emptied": lambda client: client.post("/v1/sessions/s/clear", json={"reason": "compact"}),
    "a report": lambda client: client.post(
        "/v1/sessions/s/compactions", json={"outcome": "failed", "trigger": "automatic"}
    ),
}


@pytest.mark.parametrize("asked", ASKED)
def test_whatever_number_stands_in_a_record_no_request_fails(asked: str, redis: RedisServer) -> None:
    with services(redis, 1) as (client,):
        begun(client)
        forger = Forger(redis)
        places = list(numbers_in(forger.values))
        forger.forge(forger.values)
        assert ask(client, LAST)["session"]["new"] is False
        failed = []
        for number in NUMBERS if asked == "a turn" else LARGE:
            for at in places:
                forger.forge(put(forger.values, at, number))
                answer = ASKED[asked](client)
                if answer.status_code >= 500:
                    failed.append((at, str(number)[:25], answer.status_code))
        assert len(places) > 100
        assert failed == []


def test_numbers_that_a_caller_may_give_make_no_session_unreadable(redis: RedisServer) -> None:
    with services(redis) as (one, other):
        for number in (10**30, int("9" * 4_000), -(10**30)):
            turn = {**LAST, "session_id": f"s{number % 7}", "tokens": {"max_context_tokens": number}}
            ask(one, turn)
            assert ask(other, turn)["session"]["new"] is False
