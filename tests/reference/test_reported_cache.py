"""Reported faults of cache markers: how many, in which order, and on what."""

from __future__ import annotations

from typing import Any

import anthropic
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.caching import (
    CALL,
    LONG,
    MANY,
    MODES,
    PROVIDERS,
    QUESTION,
    SHORT,
    assembled,
    assistant,
    conversation,
    marks,
    request,
    result,
    send,
    text,
    told,
    tool,
    turns,
    user,
)

SCOPED = {"type": "ephemeral", "scope": "global"}
THOUGHT = {"type": "thinking", "thinking": "First the tests.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "b3BhcXVl"}


# E01: four markers at most


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("where", MANY)
def test_e01_too_many_markers_become_four_and_each_that_goes_is_told(
    where: str, provider: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    body = request(MANY[where], provider=provider)
    answer = assembled(service, body)
    asked = repr(body).count("cache_control")
    assert len(marks(answer)) == 4
    assert told(answer).count("marker_dropped") >= asked - 4
    send(client, answer)


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_e01_to_four_markers_of_the_caller_none_is_added_and_none_is_changed(ttl: str, service: httpx.Client) -> None:
    theirs = [tool("a", cache_control=LONG), tool("b", cache_control=LONG)]
    said = [user(text("One.", cache_control=LONG)), assistant(text("Two.")), user(text("Three.", cache_control=SHORT))]
    answer = assembled(service, request(tools=theirs, messages=said, cache={"ttl": ttl}))
    assert [marker for _, marker in marks(answer)] == [LONG, LONG, LONG, SHORT]
    assert "marker_ttl_changed" not in told(answer)
    assert "marker_dropped" in told(answer)


def test_e01_of_too_many_the_last_one_stays(service: httpx.Client) -> None:
    answer = assembled(service, request(messages=conversation(9, SHORT)))
    assert marks(answer)[-1][0] == "messages/9/content/0"


# E02: a longer lifetime never stands behind a shorter one


MIXED: dict[str, dict[str, Any]] = {
    "tools before the system prompt": {"tools": [tool("a", cache_control=SHORT)], "cache": {"ttl": "1h"}},
    "tools before messages": {
        "tools": [tool("a", cache_control=SHORT)],
        "messages": [user(text("One.", cache_control=LONG))],
    },
    "within tools": {"tools": [tool("a", cache_control=SHORT), tool("b", cache_control=LONG)]},
    "within messages": {
        "messages": [user(text("One.", cache_control=SHORT)), assistant(text("Two.")), user(text("Three."))],
        "cache": {"ttl": "1h"},
    },
    "within one message": {"messages": [user(text("One.", cache_control=SHORT), text("Two.", cache_control=LONG))]},
    "the request's own": {"messages": conversation(1, SHORT) + turns(2)[1:], "cache_control": LONG},
    "in a tool's answer": {
        "messages": [
            user(text("Read.", cache_control=SHORT)),
            assistant(CALL),
            user(result(text("pass", cache_control=LONG))),
        ]
    },
    "an explicit five minutes": {
        "tools": [tool("a", cache_control=SHORT | {"ttl": "5m"})],
        "messages": [user(text("One.", cache_control=LONG))],
    },
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("where", MIXED)
def test_e02_of_two_lifetimes_in_conflict_the_later_one_is_lowered_and_told(
    where: str, provider: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    answer = assembled(service, request(MIXED[where], provider=provider))
    assert "marker_ttl_changed" in told(answer)
    send(client, answer)


def test_e02_our_marker_is_lifted_where_the_callers_behind_it_lasts_an_hour(service: httpx.Client) -> None:
    answer = assembled(service, request(messages=[user(text("One.", cache_control=LONG))]))
    assert [marker for _, marker in marks(answer)] == [LONG, LONG]
    assert [warning["where"] for warning in answer["warnings"]] == ["system[0]"]


MARKERS = st.sampled_from([None, SHORT, LONG, SCOPED])


def _with(block: dict[str, Any], marker: dict[str, Any] | None) -> dict[str, Any]:
    return block if marker is None else block | {"cache_control": marker}


ROUTES = st.fixed_dictionaries(
    {
        "provider": st.sampled_from(PROVIDERS),
        "model": st.sampled_from(["claude-sonnet-5-5", "claude-opus-4-1", "claude-haiku-4-5"]),
        "cache": st.fixed_dictionaries(
            {
                "ttl": st.sampled_from(["5m", "1h"]),
                "layout": st.sampled_from(["classic", "late"]),
                "scope_on_wire": st.booleans(),
            }
        ),
        "cache_control": st.sampled_from([None, SHORT, LONG]),
    }
)


@given(
    tools=st.lists(MARKERS, max_size=5),
    messages=st.lists(st.lists(MARKERS, min_size=1, max_size=3), min_size=1, max_size=6),
    route=ROUTES,
    mode=st.sampled_from(list(MODES.values())),
)
@settings(max_examples=60, deadline=None)
def test_e01_e02_whatever_the_caller_marks_the_request_is_legal(
    tools: list[Any], messages: list[Any], route: dict[str, Any], mode: dict[str, Any], service: httpx.Client
) -> None:
    said = [
        (assistant if number % 2 else user)(*(_with(text("words"), marker) for marker in blocks))
        for number, blocks in enumerate(messages)
    ]
    own = [_with(tool(f"t{number}"), marker) for number, marker in enumerate(tools)]
    assembled(service, request(mode, route, messages=said, tools=[*mode.get("tools", []), *own]))


# E04: a thinking block takes no marker


@pytest.mark.parametrize("ttl", ["5m", "1h"])
@pytest.mark.parametrize("last", [(THOUGHT,), (HIDDEN,), (THOUGHT, HIDDEN)], ids=["shown", "hidden", "both"])
@pytest.mark.parametrize("first", [(), (text("I do."),)], ids=["alone", "behind a text"])
def test_e04_thoughts_at_the_end_leave_the_marker_to_another_block(
    first: tuple[Any, ...], last: tuple[Any, ...], ttl: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    answer = assembled(service, request(messages=[QUESTION, assistant(*first, *last)], cache={"ttl": ttl}))
    at = "messages/2/content/0" if first else "messages/1/content/0"
    assert marks(answer)[-1][0] == at
    send(client, answer)


def test_e04_a_marker_of_the_caller_on_a_thought_moves_and_is_told(
    service: httpx.Client, client: anthropic.Anthropic
) -> None:
    said = [QUESTION, assistant(text("I do."), THOUGHT | {"cache_control": LONG})]
    answer = assembled(service, request(messages=said))
    assert marks(answer)[-1] == ("messages/2/content/0", LONG)
    assert "marker_moved" in told(answer)
    send(client, answer)
