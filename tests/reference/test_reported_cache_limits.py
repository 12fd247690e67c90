"""Reported faults of cache markers: which ones are taken by whom, what is worth one, and how long they last."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import anthropic
import httpx
import pytest

from tests.asking import ask
from tests.reference.caching import (
    LONG,
    MANY,
    MODES,
    PROVIDERS,
    SHORT,
    assembled,
    marks,
    read,
    request,
    send,
    text,
    told,
    tool,
    turns,
    user,
    written,
)

SCOPED = {"type": "ephemeral", "scope": "global"}
SCOPE_BETA = "prompt-caching-scope-2026-01-05"


# E08: a scope only where it is taken


@pytest.mark.parametrize("on_wire", [True, False])
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("mode", MODES)
def test_e08_a_scope_is_sent_only_to_the_first_party_api_and_only_when_asked_for(
    mode: str, provider: str, on_wire: bool, service: httpx.Client
) -> None:
    said = [user(text("One.", cache_control=SCOPED))]
    changes = MODES[mode], {"provider": provider, "cache": {"scope_on_wire": on_wire}, "messages": said}
    answer = assembled(service, request(*changes), **{"anthropic-beta": SCOPE_BETA})
    scoped = any("scope" in marker for _, marker in marks(answer))
    assert scoped is (provider == "anthropic" and on_wire and mode != "no cache")
    named = answer["headers"].get("anthropic-beta", "").split(",")
    assert (SCOPE_BETA in named) is scoped
    if not scoped:
        assert {"marker_scope_removed", "marker_dropped"} & set(told(answer))


def test_e08_asked_for_the_static_block_is_global_and_the_beta_value_is_named(
    service: httpx.Client, client: anthropic.Anthropic
) -> None:
    answer = assembled(service, request(cache={"scope_on_wire": True}))
    assert marks(answer) == [("system/0", SCOPED), ("messages/1/content/0", SHORT)]
    assert answer["headers"] == {"anthropic-beta": SCOPE_BETA}
    send(client, answer)


# E10: no marker on what changes from turn to turn


CHANGING = {
    "the addition": lambda turn: {"system_prompt": {"append": f"It is turn {turn}."}},
    "the memory's mechanics": lambda turn: {"system_prompt": {"memory_mechanics": f"It is turn {turn}."}},
    "a server's words": lambda turn: {"mcp_servers": [{"name": "clock", "instructions": f"It is turn {turn}."}]},
}
JOINED = ("tool_based", "org by the provider", "org by choice")


@pytest.mark.parametrize("what", CHANGING)
@pytest.mark.parametrize("mode", JOINED)
def test_e10_our_marker_leaves_a_block_that_changes_and_that_is_told(
    mode: str, what: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    session, reads = uuid4().hex, []
    stable = [tool("mcp__docs__find", 3000), tool("read_file", 3000)]
    for turn in (1, 2, 3, 4):
        changing = CHANGING[what](turn)
        body = request(MODES[mode], changing, session_id=session, tools=stable, messages=turns(turn))
        answer = assembled(service, body)
        places = [where for where, _ in marks(answer)]
        moved = [row["where"] for row in answer["warnings"] if row["code"] == "marker_moved"]
        assert ("system/0" in places) is (turn < 3)
        assert ("tools/1" in places) is (turn > 1)
        assert moved == ([] if turn < 3 else ["system[0]"])
        reads.append(read(send(client, answer)))
    assert reads[2] > 0
    assert reads[3] > 0
    assert answer["cache"]["previous"]["cause"] == "system_changed"


@pytest.mark.parametrize("what", CHANGING)
def test_e10_the_static_block_keeps_its_marker_when_the_one_behind_it_changes(
    what: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    session, reads = uuid4().hex, []
    for turn in (1, 2, 3):
        body = request(CHANGING[what](turn), session_id=session, messages=turns(turn))
        answer = assembled(service, body)
        assert next(where for where, _ in marks(answer)) == "system/0"
        reads.append(read(send(client, answer)))
    assert reads[0] == 0 < reads[1] == reads[2]


def test_e10_with_nothing_in_front_the_marker_goes_and_that_is_told(service: httpx.Client) -> None:
    session = uuid4().hex
    for turn in (1, 2, 3):
        changes = {"custom": "You review code. " * 500, "append": f"It is turn {turn}."}
        answer = assembled(service, request(session_id=session, system_prompt=changes, messages=turns(turn)))
    assert [where for where, _ in marks(answer)] == ["messages/5/content/0"]
    assert ("marker_dropped", "system[0]") in [(row["code"], row["where"]) for row in answer["warnings"]]


# E12: each model has its own minimum


def _custom(tokens: int) -> dict[str, Any]:
    """A system prompt of so many rough tokens, and nothing else to cache."""
    return {"system_prompt": {"custom": "word" * tokens}, "messages": []}


def _rough(tokens: int, tokenizer: int) -> int:
    """The fewest rough tokens that are so many of the model's: the newer tokenizer makes 30 % more of a text."""
    return tokens if tokenizer == 1 else next(n for n in range(tokens) if n * 13 >= tokens * 10)


def test_e12_a_marker_stands_from_the_models_own_minimum_on(service: httpx.Client) -> None:
    rows = service.get("/v1/models").json()["models"]
    assert {row["tokenizer"] for row in rows} == {1, 2}
    for row in rows:
        least = _rough(row["min_cache"], row["tokenizer"])
        for tokens, cached in ((least, True), (least - 1, False)):
            body = request(_custom(tokens), model=row["id"], memory={"enabled": False}, workspace={"files": {}})
            answer = assembled(service, body)
            (at_the_system,) = (one for one in answer["cache"]["breakpoints"] if one["at"] == "system[0]")
            assert (at_the_system["sent"], at_the_system["below_minimum"]) == (cached, not cached)
            assert (("system/0", SHORT) in marks(answer)) is cached
            assert ("prefix_below_minimum" in told(answer)) is not cached


@pytest.mark.parametrize(
    ("model", "tokens", "cached"),
    [("claude-opus-4-6", 1500, False), ("claude-opus-4-8", 1154, True), ("claude-opus-5-5", 462, True)],
)
def test_e12_the_reported_sizes(model: str, tokens: int, cached: bool, service: httpx.Client) -> None:
    answer = assembled(service, request(_custom(tokens), model=model))
    assert (("system/0", SHORT) in marks(answer)) is cached
    below = [row["where"] for row in answer["warnings"] if row["code"] == "prefix_below_minimum"]
    assert ("system[0]" in below) is not cached


# E18, E19: caching off, and how long it lasts


@pytest.mark.parametrize("layout", ["classic", "late"])
@pytest.mark.parametrize("where", MANY)
def test_e18_a_cache_that_is_off_leaves_no_marker_of_anybody_and_tells_each(
    where: str, layout: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    body = request(MANY[where], cache={"enabled": False, "layout": layout})
    body["model"] = "claude-haiku-4-5"
    answer = assembled(service, body)
    assert marks(answer) == []
    assert "cache_control" not in repr(answer["request"])
    assert told(answer).count("marker_dropped") == repr(body).count("cache_control")
    assert (answer["cache"]["mode"], answer["cache"]["breakpoints"]) == ("off", [])
    usage = send(client, answer)
    assert (read(usage), written(usage)) == (0, 0)


@pytest.mark.parametrize(("ttl", "marker"), [("5m", SHORT), ("1h", LONG)])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_e19_markers_last_as_long_as_asked(
    provider: str, ttl: str, marker: dict[str, Any], service: httpx.Client, client: anthropic.Anthropic
) -> None:
    answer = assembled(service, request(provider=provider, cache={"ttl": ttl}))
    assert [one for _, one in marks(answer)] == [marker, marker]
    assert told(answer) == []
    kept = send(client, answer).cache_creation
    assert kept is not None
    assert (kept.ephemeral_1h_input_tokens > 0) is (ttl == "1h")
    assert (kept.ephemeral_5m_input_tokens > 0) is (ttl == "5m")


@pytest.mark.parametrize("theirs", [{}, {"cache_control": LONG}], ids=["ours", "the caller's too"])
@pytest.mark.parametrize(
    ("model", "hour"),
    [
        ("claude-opus-4-1", False),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", False),
        ("anthropic.claude-opus-4-20250514-v1:0", False),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", False),
        ("claude-sonnet-4-5", True),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", True),
        ("claude-opus-5-5", True),
    ],
)
def test_e19_an_hour_on_bedrock_needs_generation_4_5_and_what_is_lowered_is_told(
    model: str, hour: bool, theirs: dict[str, Any], service: httpx.Client
) -> None:
    tools = [tool("a", 5000, **theirs)]
    answer = ask(service, request(tools=tools, cache={"ttl": "1h"}, provider="bedrock", model=model))
    places = [*(["tools[0]"] if theirs else []), "system[0]", "messages[1]"]
    assert [marker for _, marker in marks(answer)] == [LONG if hour else SHORT] * len(places)
    lowered = [row["where"] for row in answer["warnings"] if row["code"] == "marker_ttl_changed"]
    assert lowered == ([] if hour else places)


@pytest.mark.parametrize("what", ["append", "memory_mechanics"])
def test_e10_in_the_late_layout_an_addition_that_changes_is_named_for_what_it_is(
    what: str, service: httpx.Client
) -> None:
    session = uuid4().hex
    for turn in (1, 2):
        said_now = {"system_prompt": {what: f"It is turn {turn}."}, "cache": {"layout": "late"}}
        answer = assembled(service, request(said_now, session_id=session, messages=turns(turn)))
    assert answer["cache"]["previous"]["first_change"]["section"] == what
    assert answer["cache"]["previous"]["cause"] == "system_changed"
