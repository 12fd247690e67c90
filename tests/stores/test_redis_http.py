"""Several services on one Redis, over HTTP: one session, one answer."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.building import build_contexts
from app.disk_checks import DiskChecks
from app.looking import Looks
from app.main import create_app
from app.settings import Settings
from app.wire.requests import Server, asked_as
from tests.asking import CWD, ask, bare, inline, refused
from tests.compacting import KEY, asking, talk
from tests.serving import serve
from tests.standin.server import Hold, StandIn
from tests.stores.redis_server import RedisServer

FILES = {f"{CWD}/CLAUDE.md": "Use tabs.", f"{CWD}/src/CLAUDE.md": "Nested 😀."}
OTHERS = {f"{CWD}/CLAUDE.md": "Use spaces."}


@contextmanager
def services(redis: RedisServer, number: int = 2, **more: Any) -> Iterator[list[httpx.Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(_client(redis, **more)) for _ in range(number)]


@contextmanager
def _client(redis: RedisServer, **more: Any) -> Iterator[httpx.Client]:
    settings = Settings(roots=(), redis_url=redis.url, redis_seconds=2, **more)
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        yield client


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(texts)]


def codes(answer: dict[str, Any]) -> list[str]:
    return [row["code"] for row in answer["warnings"] if row["code"].startswith("session_")]


def until_ready(client: httpx.Client) -> None:
    """A service asks once a second."""
    for _ in range(300):
        if client.get("/readyz").status_code == 200:
            return
        threading.Event().wait(0.1)
    pytest.fail("the service does not see that Redis is back")


def figure(client: httpx.Client, name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = [sample for family in families for sample in family.samples]
    return {tuple(sample.labels.values()): sample.value for sample in samples if sample.name == name}


def test_the_second_turn_is_the_same_bytes_on_whichever_service_it_is_asked(redis: RedisServer) -> None:
    with services(redis) as (one, other):
        answers = {}
        for session, second in (("stays", one), ("moves", other)):
            ask(one, inline(FILES, session_id=session, messages=said("Go.")))
            turn = inline(OTHERS, session_id=session, messages=said("Go.", "Done.", "Again."))
            touched = {"touched": [{"path": f"{CWD}/src/a.py"}]}
            answers[session] = second.post("/v1/context", json=turn | touched)
        stays, moves = (answers[session].content.replace(session.encode(), b"s") for session in answers)
        assert moves == stays
        assert answers["moves"].json()["session"]["new"] is False
        assert "Use tabs." in answers["moves"].json()["user_context"]["text"]


def test_many_turns_of_one_session_that_wander_never_change_what_was_sent(redis: RedisServer) -> None:
    with services(redis, 3) as clients:
        texts, sent = ["Go."], []
        for at in range(9):
            answer = ask(clients[at % 3], inline(OTHERS if at else FILES, session_id="s", messages=said(*texts)))
            front = bare(answer["request"]["messages"])
            assert front[: len(sent)] == sent
            assert answer["session"]["new"] is (at == 0)
            texts += ["Done.", f"Again {at}."]
            sent = front


def test_first_turns_at_once_on_all_services_give_one_answer(redis: RedisServer) -> None:
    with services(redis, 3) as clients, ThreadPoolExecutor(12) as pool:
        bodies = [inline({f"{CWD}/CLAUDE.md": f"Rule {at}."}, session_id="s", messages=said("Go.")) for at in range(12)]
        answers = list(pool.map(lambda at: ask(clients[at % 3], bodies[at]), range(12)))
        assert len({answer["user_context"]["text"] for answer in answers}) == 1
        assert [answer["session"]["new"] for answer in answers].count(True) == 1


def test_clearing_and_deleting_on_one_service_is_seen_on_the_other(redis: RedisServer) -> None:
    with services(redis) as (one, other):
        for client in (one, other):
            ask(client, inline(FILES, session_id="s"))
        assert other.post("/v1/sessions/s/clear", json={"reason": "clear"}).status_code == 200
        assert "Use spaces." in ask(one, inline(OTHERS, session_id="s"))["user_context"]["text"]
        assert one.delete("/v1/sessions/s").status_code == 204
        refused(other.get("/v1/sessions/s"), 404, "session-not-found")
        assert ask(other, inline(FILES, session_id="s"))["session"]["new"]


def test_a_session_outlives_the_service(redis: RedisServer) -> None:
    with services(redis, 1) as (one,):
        ask(one, inline(FILES, session_id="s"))
        version = one.get("/v1/sessions/s").json()["version"]
    with services(redis, 1) as (other,):
        assert other.get("/v1/sessions/s").json()["version"] == version
        assert ask(other, inline(FILES, session_id="s"))["session"]["new"] is False


def test_a_service_does_not_compact_what_the_other_is_compacting(
    redis: RedisServer, upstream: StandIn, upstream_url: str
) -> None:
    released = threading.Event()
    upstream.answer_next(Hold(released))
    with (
        services(redis, upstream_url=upstream_url, anthropic_api_key=KEY) as (one, other),
        ThreadPoolExecutor(1) as pool,
    ):
        body = asking(session_id="s") | {"messages": talk()}
        for client in (one, other):
            ask(client, {name: value for name, value in body.items() if name in inline() or name == "session_id"})
        first = pool.submit(one.post, "/v1/compactions", json=body)
        assert upstream.asked.wait(60)
        second = other.post("/v1/compactions", json=body)
        released.set()
        refused(second, 409, "compacting-already")
        assert first.result().status_code == 200


def test_while_redis_is_away_the_service_goes_on_and_says_so_everywhere(own_redis: RedisServer) -> None:
    with services(own_redis) as (one, other):
        first = ask(one, inline(FILES, session_id="s"))
        assert (one.get("/readyz").status_code, figure(one, "strata_store_reachable")) == (200, {(): 1})
        own_redis.kill()
        second = ask(one, inline(OTHERS, session_id="s"))
        assert (codes(first), codes(second)) == ([], ["session_memory_kept", "session_store_unavailable"])
        assert second["request"] == first["request"]
        assert codes(ask(one, inline(FILES))) == []
        unready = one.get("/readyz")
        assert (unready.status_code, unready.json()["status"]) == (503, "unavailable")
        assert unready.json()["checks"] == {"store": False}
        assert figure(one, "strata_store_reachable") == {(): 0}
        assert figure(one, "strata_store_failures_total")["gone",] >= 1
        own_redis.start()
        until_ready(one)
        assert ask(other, inline(OTHERS, session_id="s"))["request"] == first["request"]
        assert codes(ask(one, inline(FILES, session_id="s"))) == []
        assert figure(one, "strata_sessions_written_back_total")[()] >= 1


def test_turns_of_a_service_that_was_alone_give_way_to_what_the_other_wrote(own_redis: RedisServer) -> None:
    with services(own_redis) as (one, other):
        ask(one, inline(FILES, session_id="s", messages=said("Go.")))
        own_redis.say("CONFIG", "SET", "min-replicas-to-write", "1")
        ask(one, inline(FILES, session_id="s", messages=said("Go.", "Done.", "Alone.")))
        own_redis.say("CONFIG", "SET", "min-replicas-to-write", "0")
        ask(other, inline(FILES, session_id="s", messages=said("Go.", "Done.", "There.")))
        until_ready(one)
        last = inline(FILES, session_id="s", messages=said("Go.", "Done.", "There.", "Done.", "Here."))
        assert codes(ask(one, last)) == ["session_diverged"]
        assert codes(ask(one, last)) == []
        assert figure(one, "strata_sessions_diverged_total") == {(): 1}


@pytest.mark.parametrize("garbage", ["x", "{}"])
def test_what_cannot_be_read_begins_anew_and_is_told(garbage: str, redis: RedisServer) -> None:
    with services(redis) as (one, other):
        ask(one, inline(FILES, session_id="s"))
        redis.say(
            "EVAL",
            f"return redis.call('HSET', redis.call('KEYS', 'strata:*:s')[1], 'version', '7', 'body', '{garbage}')",
            "0",
        )
        answer = ask(other, inline(OTHERS, session_id="s"))
        assert (codes(answer), answer["session"]["new"]) == (["session_unreadable"], True)
        assert figure(other, "strata_store_unreadable_total") == {(): 1}


@pytest.mark.parametrize("last", ["the one that clears", "the other"])
@pytest.mark.parametrize("reason", ["clear", "compact"])
def test_a_session_that_is_emptied_while_redis_is_away_stays_empty(redis: RedisServer, last: str, reason: str) -> None:
    redis.keep()
    with services(redis) as (one, other):
        for client in (other, one) if last == "the one that clears" else (one, other):
            ask(client, inline(FILES, session_id="s"))
        redis.pause()
        assert one.post("/v1/sessions/s/clear", json={"reason": reason}).status_code == 200
        redis.resume()
        for client in (one, other):
            until_ready(client)
        told = ask(other, inline(OTHERS, session_id="s"))
        assert "Use spaces." in told["user_context"]["text"]
        assert "Use spaces." in ask(one, inline(OTHERS, session_id="s"))["user_context"]["text"]


def test_what_a_service_does_not_remember_while_redis_is_away_is_not_said_to_be_gone(redis: RedisServer) -> None:
    with services(redis) as (one, other):
        ask(one, inline(FILES, session_id="s"))
        redis.pause()
        report = {"outcome": "failed", "trigger": "automatic"}
        answers = [
            other.get("/v1/sessions/s"),
            other.get("/v1/sessions/s/context"),
            other.get("/v1/sessions/s/events"),
            other.post("/v1/sessions/s/clear", json={"reason": "clear"}),
            other.post("/v1/sessions/s/compactions", json=report),
        ]
        for answer in answers:
            refused(answer, 503, "session-store-away")
            assert answer.headers["retry-after"] == "1"
        assert one.get("/v1/sessions/s/context").status_code == 200
        redis.resume()
        until_ready(other)
        assert other.get("/v1/sessions/s/context").status_code == 200


def test_a_session_that_was_deleted_twice_stays_deleted(redis: RedisServer) -> None:
    with services(redis) as (one, other):
        for client in (one, other):
            ask(client, inline(FILES, session_id="s"))
        for _ in range(2):
            assert one.delete("/v1/sessions/s").status_code == 204
            assert ask(one, inline(FILES, session_id="s"))["session"]["new"]
        assert one.delete("/v1/sessions/s").status_code == 204
        refused(other.get("/v1/sessions/s"), 404, "session-not-found")
        assert ask(other, inline(OTHERS, session_id="s"))["session"]["new"]


def test_who_floods_redis_ends_no_session_of_another_and_redis_holds_no_more(redis: RedisServer) -> None:
    keys = {name: {"authorization": f"Bearer {name}"} for name in ("flooder", "other")}
    with services(redis, 1, api_keys=tuple(keys), max_sessions=5) as (one,):
        one.headers.update(keys["other"])
        first = ask(one, inline(FILES, session_id="s"))
        one.headers.update(keys["flooder"])
        for at in range(12):
            ask(one, inline(FILES, session_id=f"s{at}"))
        assert figure(one, "strata_store_evicted_total") == {(): 7}
    with services(redis, 1, api_keys=tuple(keys), max_sessions=5) as (fresh,):
        fresh.headers.update(keys["other"])
        again = ask(fresh, inline(OTHERS, session_id="s"))
        assert (again["session"]["new"], again["request"]) == (False, first["request"])
        fresh.headers.update(keys["flooder"])
        there = [fresh.get(f"/v1/sessions/s{at}").status_code for at in range(12)]
        assert there == [404] * 7 + [200] * 5


def test_listeners_of_a_session_that_redis_lost_go_on(redis: RedisServer) -> None:
    async def looked() -> bool:
        contexts = build_contexts(Settings(roots=(), redis_url=redis.url, redis_seconds=2))
        body = json.dumps(inline(FILES, session_id="s")).encode()
        await contexts.answer(asked_as(body, Server("linux", None, "2026-11-30"), ()))
        checks = DiskChecks(contexts.sessions, Looks(contexts.footprints))
        seen = await checks.first("s", contexts.ground.fence)
        redis.say("FLUSHALL")
        found = await checks.again("s", seen)
        await contexts.close()
        return found is not None

    assert asyncio.run(looked())
