from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import facts
from app.errors import InvalidRequest, Problem
from app.wire.requests import Ask, ContextRequest, Server, parse_context_request, to_ask
from app.workspaces.opening import CommitSource, InlineSource, LocalSource
from tests.asking import CWD, inline

SERVER = Server("macos", "/Users/server", "2026-01-02")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def asked(body: Any) -> Ask:
    return to_ask(parse_context_request(json.dumps(body).encode()), SERVER, ("a-beta",))


def pointers(body: Any) -> list[str]:
    with pytest.raises(InvalidRequest) as raised:
        parse_context_request(json.dumps(body).encode())
    return [error["pointer"] for error in raised.value.errors]


def reached(document: Any, pointer: str) -> Any:
    """What RFC 6901 finds at ``pointer``."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("workspace", "files", "/a~b/c"), 3),
        (("messages", 0, "content"), {}),
        (("messages", 0, "content", 0), 1),
        (("messages", 0, "meta"), "x"),
        (("messages", 0, "meta", "compact_boundary"), 3),
        (("workspace", "git", "log", 0), 1),
        (("memory", "trigger_events", 0), "look"),
        (("setting_sources", 0), "managed"),
    ],
)
def test_a_pointer_leads_to_what_is_wrong(place: tuple[str | int, ...], wrong: Any) -> None:
    body = inline(
        {"/a~b/c": "x"},
        workspace={"git": {"log": ["a"]}},
        messages=[{"role": "user", "content": [{"type": "text"}], "meta": {"compact_boundary": True}}],
        memory={"trigger_events": ["read"]},
        setting_sources=["user"],
    )
    inner = body
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = wrong
    (pointer,) = pointers(body)
    assert reached(body, pointer) == wrong


def test_a_list_of_faults_ends_somewhere() -> None:
    assert len(pointers(inline() | {f"field{number}": 1 for number in range(200)})) == 50


def outcome(body: Any) -> Ask | Problem:
    try:
        return asked(body)
    except Problem as problem:
        return problem


@given(st.sampled_from(sorted(ContextRequest.model_fields)), JSON)
def test_whatever_stands_in_a_field_is_taken_or_refused_as_a_problem(name: str, value: Any) -> None:
    found = outcome(inline() | {name: value})
    assert isinstance(found, Ask) or (found.status in {400, 422} and found.detail)


@given(st.binary())
def test_whatever_bytes_come_are_taken_or_refused_as_a_problem(body: bytes) -> None:
    with pytest.raises(Problem) as raised:
        parse_context_request(body)
    assert raised.value.status in {400, 422}


def test_what_the_caller_leaves_out_is_the_contracts() -> None:
    ask = asked({"model": "m", "workspace": {"source": "inline", "cwd": "/p"}})
    assert ask == Ask(
        source=InlineSource("/p"),
        request=facts.Request(
            client=facts.Client(cwd="/p", platform="linux", managed_dir="/etc/claude-code"),
            model="m",
            date="2026-01-02",
            betas=("a-beta",),
        ),
        session_id=None,
        freshness="validate",
    )


def test_a_session_is_kept_as_it_is_unless_the_caller_says_otherwise() -> None:
    assert asked(inline(session_id="s")).freshness == "session"
    assert asked(inline(session_id="s", freshness="reload")).freshness == "reload"


def test_a_local_workspace_is_on_the_servers_machine() -> None:
    ask = asked({"model": "m", "workspace": {"source": "local", "cwd": "/p"}})
    assert ask.source == LocalSource("/p")
    assert (ask.request.client.home, ask.request.client.platform) == ("/Users/server", "macos")
    assert ask.request.client.config_dir == "/Users/server/.claude"


@pytest.mark.parametrize("source", ["inline", "git"])
def test_other_workspaces_have_no_home_unless_they_name_one(source: str) -> None:
    described = {"source": source, "cwd": "/repo", **({"repository": "/r"} if source == "git" else {})}
    client = asked({"model": "m", "workspace": described}).request.client
    assert (client.home, client.config_dir, client.platform) == (None, None, "linux")


def test_a_commit_is_named_in_full() -> None:
    described = {"source": "git", "repository": "/r", "ref": "v1", "mount": "/mnt/x/"}
    ask = asked({"model": "m", "workspace": described})
    assert ask.source == CommitSource("/r", "v1", None, mount="/mnt/x")
    assert ask.request.client.cwd == "/mnt/x"
    bare = asked({"model": "m", "workspace": {"source": "git", "repository": "/r"}})
    assert bare.source == CommitSource("/r", "HEAD", None)
    assert bare.request.client.cwd == "/repo"


def test_every_option_reaches_the_core() -> None:
    body = inline(
        provider="vertex",
        tools=[{"name": "a"}],
        mcp_servers=[{"name": "s", "status": "failed", "instructions": "i"}, {"name": "t", "instructions": None}],
        messages=[
            {"role": "user", "content": "a"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "b"}],
                "id": "msg",
                "usage": {"input_tokens": 1, "output_tokens": None, "cache_read_input_tokens": 2, "other": {}},
            },
            {"role": "user", "content": "c", "meta": {"compact_boundary": True}},
            {"role": "user", "content": "d", "meta": True},
        ],
        touched=[{"path": "x", "event": "edit"}],
        system_prompt={"custom": "c", "append": "a", "prefix": "p", "simple": True},
        settings={"output_style": "o", "language": "l", "include_git_instructions": False, "cache_breaker": "b"},
        setting_sources=["local", "user", "local"],
        memory={"exclude": ["a"], "trigger_events": ["edit"], "agents_md": "both", "walk_stop": "/home"},
        cache={"ttl": "1h", "scope": "org"},
        tokens={"percent_override": 50, "max_context_tokens": 7},
    )
    request = asked(body).request
    assert request.provider == "vertex"
    assert request.mcp_servers == (facts.McpServer("s", "failed", "i"), facts.McpServer("t", "connected", ""))
    assert request.messages == (
        facts.Message("user", "a"),
        facts.Message(
            "assistant",
            ({"type": "text", "text": "b"},),
            response_id="msg",
            usage=facts.Usage(input_tokens=1, cache_read_input_tokens=2),
        ),
        facts.Message("user", "c", boundary=True),
        facts.Message("user", "d"),
    )
    assert request.touched == (facts.Touch("x", "edit"),)
    assert request.prompt == facts.PromptOptions(custom="c", append="a", prefix="p", simple=True)
    assert request.overrides == facts.Overrides("o", "l", include_git_instructions=False)
    assert request.settings.cache_breaker == "b"
    assert request.setting_sources == ("local", "user")
    assert request.memory == facts.MemoryOptions(
        exclude=("a",), trigger_events=("edit",), agents_md="both", walk_stop="/home"
    )
    assert request.cache == facts.CacheOptions(ttl="1h", scope="org")
    assert request.tokens == facts.TokenOptions(percent_override=50, max_context_tokens=7)


def test_the_contract_and_the_core_have_the_same_defaults() -> None:
    request = asked({"model": "m", "workspace": {"source": "inline", "cwd": CWD}}).request
    assert request.memory == facts.MemoryOptions()
    assert request.cache == facts.CacheOptions()
    assert request.tokens == facts.TokenOptions()
    assert request.prompt == facts.PromptOptions()
    assert request.settings == facts.SessionSettings()
