from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import orjson
import pytest

from app.wire.answers import to_bytes
from tests.asking import CWD, ask, inline
from tests.core.api_rules import marked, violations

READ = {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}
MCP = {"name": "mcp__docs__find", "description": "Finds.", "input_schema": {"type": "object"}}
LONG = "word " * 4000
CALLERS = {"type": "text", "text": "Mine.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}


def scopes(body: dict[str, Any]) -> list[str | None]:
    return [block["cache_scope"] for block in body["system_blocks"]]


def markers(body: dict[str, Any]) -> list[tuple[str, Any]]:
    request = body["request"]
    rows = marked(request.get("tools", []), request.get("system", []), request["messages"])
    return [(where, marker) for where, _, marker in rows]


def parts(body: dict[str, Any]) -> dict[str, int]:
    return {part["part"]: part["tokens"] for part in body["tokens"]["parts"]}


# Bytes


@pytest.mark.parametrize(
    "value",
    [
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        10**400,
        [10**30, {"a": [-(10**30), True, None, 1.5, "x"]}],
    ],
)
def test_whole_numbers_are_written_whatever_their_size(value: Any) -> None:
    assert json.loads(to_bytes(value)) == value


def test_what_utf_8_cannot_hold_is_replaced() -> None:
    assert orjson.loads(to_bytes({"a\ud800": ["\udfff", ("b",)]})) == {"a?": ["?", ["b"]]}


def test_plain_values_are_written_without_spaces() -> None:
    assert to_bytes({"ä": [1, "🦊"]}) == '{"ä":[1,"🦊"]}'.encode()


# Layers


def test_global_scope_separates_what_all_share_from_what_is_ones_own(service: httpx.Client) -> None:
    body = ask(
        service,
        inline(
            tools=[READ],
            system_prompt={"attribution_header": "x-anthropic-billing-header: a", "prefix": "You are X."},
        ),
    )
    assert body["cache"]["mode"] == "global"
    assert scopes(body) == [None, None, "global", None]
    assert [block["sections"][0] for block in body["system_blocks"]] == [
        "attribution_header",
        "prefix",
        "intro",
        "memory",
    ]
    assert markers(body)[0][0] == "system/2"
    assert CWD not in body["system_blocks"][2]["text"]


def test_the_shared_block_is_the_same_for_everybody(service: httpx.Client) -> None:
    one = ask(service, inline(tools=[READ]))
    other = ask(
        service,
        inline(
            {"/q/CLAUDE.md": "Other."},
            workspace={"cwd": "/q", "home": "/home/ada", "platform": "macos", "git": {"branch": "b", "status": "?? c"}},
            tools=[READ],
            model="claude-opus-5",
            date="2025-01-01",
            settings={"language": "Latin"},
            mcp_servers=[{"name": "s", "instructions": "Say so."}],
        ),
    )
    assert other["system_blocks"][0] == one["system_blocks"][0]
    assert other["system_blocks"][0]["cache_scope"] == "global"
    assert other["system_blocks"][1] != one["system_blocks"][1]


def test_mcp_tools_keep_the_whole_prompt_within_the_organisation(service: httpx.Client) -> None:
    body = ask(service, inline(tools=[READ, MCP], system_prompt={"prefix": "You are X."}))
    assert (body["cache"]["mode"], scopes(body)) == ("tool_based", ["org", "org"])


@pytest.mark.parametrize(
    "more",
    [
        {"provider": "bedrock"},
        {"provider": "vertex"},
        {"provider": "foundry"},
        {"provider": "custom"},
        {"cache": {"scope": "org"}},
        {"system_prompt": {"custom": "Mine. " * 1000}},
    ],
    ids=str,
)
def test_elsewhere_all_is_one_block_of_the_organisation(more: Any, service: httpx.Client) -> None:
    body = ask(service, inline(tools=[READ], **more))
    assert (body["cache"]["mode"], scopes(body)) == ("org", ["org"])
    assert body["request"]["system"][0]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("prompt", [{"custom": "Mine."}, {"simple": True}])
def test_a_prompt_that_is_too_short_to_be_cached_gets_no_marker_and_that_is_told(
    prompt: Any, service: httpx.Client
) -> None:
    body = ask(service, inline(tools=[READ], system_prompt=prompt))
    assert (body["cache"]["mode"], scopes(body)) == ("org", ["org"])
    assert "cache_control" not in body["request"]["system"][0]
    (row,) = [row for row in body["cache"]["breakpoints"] if row["at"] == "system[0]"]
    assert (row["below_minimum"], row["sent"]) == (True, False)
    assert ("prefix_below_minimum", "system[0]") in [(one["code"], one["where"]) for one in body["warnings"]]


@pytest.mark.parametrize("cache", [{"enabled": False}, {"scope": "off"}])
def test_switched_off_the_system_carries_no_marker(cache: Any, service: httpx.Client) -> None:
    body = ask(service, inline(tools=[READ], cache=cache))
    assert body["cache"]["mode"] == "off"
    assert scopes(body) == [None]
    assert [where for where, _ in markers(body) if where.startswith("system")] == []


def test_caching_switched_off_leaves_no_marker_at_all(service: httpx.Client) -> None:
    talk = [{"role": "user", "content": [CALLERS]}]
    body = ask(service, inline(tools=[READ], cache={"enabled": False}, messages=talk))
    assert markers(body) == []
    assert body["cache"]["breakpoints"] == []
    assert [warning["code"] for warning in body["warnings"]] == ["marker_dropped"]


@pytest.mark.parametrize(("ttl", "marker"), [("5m", {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})])
def test_markers_last_as_long_as_was_asked(ttl: str, marker: Any, service: httpx.Client) -> None:
    body = ask(service, inline(cache={"ttl": ttl}, messages=[{"role": "user", "content": "Hello"}]))
    assert [one for _, one in markers(body)] == [marker, marker]


@pytest.mark.parametrize("talk", [[], [{"role": "user", "content": "Hello"}], [{"role": "user", "content": [CALLERS]}]])
@pytest.mark.parametrize("more", [{}, {"tools": [READ, MCP]}, {"cache": {"ttl": "1h", "scope_on_wire": True}}], ids=str)
def test_every_answer_obeys_the_rules_of_the_api(talk: Any, more: Any, service: httpx.Client) -> None:
    files = {f"{CWD}/src/CLAUDE.md": "Nested."}
    body = ask(service, inline(files, messages=talk, touched=[{"path": "src/a"}], **more))
    request = body["request"]
    scoped = more.get("cache", {}).get("scope_on_wire", False)
    assert violations(request.get("tools", []), request["system"], request["messages"], scope_allowed=scoped) == []


def test_breakpoints_are_the_markers_with_what_stands_before_them(service: httpx.Client) -> None:
    talk = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "World"}]
    body = ask(service, inline(tools=[READ], messages=talk, system_prompt={"append": LONG}))
    points = body["cache"]["breakpoints"]
    assert [point["at"] for point in points] == ["system[0]", "messages[2]"]
    whole = body["tokens"]["used"]
    assert points[0]["tokens"] < points[1]["tokens"]
    assert abs(points[1]["tokens"] - whole) <= 5
    assert points[1]["below_minimum"] is False
    below = [warning["where"] for warning in body["warnings"] if warning["code"] == "prefix_below_minimum"]
    assert below == [point["at"] for point in points if point["below_minimum"]]


def test_a_prefix_too_short_to_be_cached_is_told(service: httpx.Client) -> None:
    body = ask(service, inline(model="claude-opus-4-5", system_prompt={"custom": "Short."}))
    assert [(point["at"], point["below_minimum"]) for point in body["cache"]["breakpoints"]] == [
        ("system[0]", True),
        ("messages[0]", True),
    ]
    assert [warning["where"] for warning in body["warnings"]] == ["system[0]", "messages[0]"]


# Headers and models


@pytest.mark.parametrize(
    ("more", "betas"),
    [
        ({}, None),
        ({"model": "claude-sonnet-4-5[1m]"}, "context-1m-2025-08-07"),
        ({"model": "claude-sonnet-4-5-20250929[1M]"}, "context-1m-2025-08-07"),
        ({"model": "claude-opus-5[1m]"}, None),
        ({"model": "gpt-4[1m]"}, None),
        ({"model": "claude-sonnet-4-5[1m]", "tokens": {"disable_1m": True}}, None),
        ({"model": "claude-sonnet-4-5[1m]", "provider": "bedrock"}, "context-1m-2025-08-07"),
        ({"model": "claude-sonnet-4-5[1m]", "provider": "custom"}, None),
        ({"cache": {"scope_on_wire": True}}, "prompt-caching-scope-2026-01-05"),
        ({"cache": {"scope_on_wire": True}, "provider": "vertex"}, None),
        ({"cache": {"scope_on_wire": True, "scope": "org"}}, None),
        ({"cache": {"scope_on_wire": True, "enabled": False}}, None),
        ({"cache": {"scope_on_wire": True}, "tools": [MCP]}, None),
        (
            {"cache": {"scope_on_wire": True}, "model": "claude-sonnet-4-5[1m]"},
            "context-1m-2025-08-07,prompt-caching-scope-2026-01-05",
        ),
    ],
    ids=str,
)
def test_a_beta_is_named_only_when_the_request_needs_it(more: Any, betas: str | None, service: httpx.Client) -> None:
    body = ask(service, inline(**more))
    assert body["headers"] == ({"anthropic-beta": betas} if betas else {})
    sent = [marker for _, marker in markers(body) if "scope" in marker]
    assert bool(sent) == ("scope" in (betas or ""))


@pytest.mark.parametrize(
    ("spelling", "wire"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4-5"),
        ("sonnet", "claude-sonnet-5-5"),
        ("Opus[1M]", "claude-opus-5-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("my-own[1m]", "my-own"),
    ],
)
def test_the_model_is_sent_without_tag_and_alias(spelling: str, wire: str, service: httpx.Client) -> None:
    assert ask(service, inline(model=spelling))["request"]["model"] == wire


@pytest.mark.parametrize(
    ("model", "beta", "window"),
    [
        ("claude-sonnet-4-5", "context-1m-2025-08-07", 1_000_000),
        ("claude-sonnet-4-5", "other-beta, context-1m-2025-08-07", 1_000_000),
        ("claude-sonnet-4-5", "other-beta", 200_000),
        ("claude-opus-4-5", "context-1m-2025-08-07", 200_000),
    ],
)
def test_the_beta_for_a_million_tokens_widens_the_window_of_a_model_that_takes_it(
    model: str, beta: str, window: int, service: httpx.Client
) -> None:
    body = ask(service, inline(model=model), **{"anthropic-beta": beta})
    assert body["compaction"]["window"] == window
    assert body["headers"] == ({"anthropic-beta": "context-1m-2025-08-07"} if window == 1_000_000 else {})


# Tokens


USAGE = {
    "input_tokens": 10_000,
    "cache_creation_input_tokens": 2000,
    "cache_read_input_tokens": 500,
    "output_tokens": 7,
}


def test_every_part_of_the_request_has_a_row(service: httpx.Client) -> None:
    body = ask(
        service,
        inline(
            {f"{CWD}/CLAUDE.md": "Top.", f"{CWD}/src/CLAUDE.md": "Nested."},
            tools=[READ],
            mcp_servers=[{"name": "docs", "instructions": "Ask."}],
            touched=[{"path": "src/a"}],
            messages=[{"role": "user", "content": "Hello"}],
        ),
    )
    assert set(parts(body)) == {
        *(f"system:{row['name']}" for row in body["sections"] if row["present"]),
        "tool:Read",
        "mcp:docs",
        f"memory:{CWD}/CLAUDE.md",
        "user_context",
        "messages[0]",
        f"attachment:{CWD}/src/CLAUDE.md",
    }
    assert parts(body)["system:mcp_instructions"] > 0
    assert body["tokens"]["anchored_on"] is None


def test_usage_is_taken_and_what_came_later_is_added(service: httpx.Client) -> None:
    talk = [
        {"role": "user", "content": "a" * 400},
        {"role": "assistant", "content": "b" * 400, "id": "m", "usage": USAGE},
        {"role": "user", "content": "c" * 400},
    ]
    body = ask(service, inline(messages=talk))
    assert body["tokens"]["used"] == sum(USAGE.values()) + 100
    assert body["tokens"]["anchored_on"] == 1
    assert "usage_difference" in parts(body)


def test_an_attachment_behind_the_usage_is_added_and_one_before_it_is_not(service: httpx.Client) -> None:
    files = {f"{CWD}/src/CLAUDE.md": "n" * 4000}
    talk = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": "Yes", "id": "m", "usage": USAGE},
        {"role": "user", "content": "On"},
    ]
    more: dict[str, Any] = {"session_id": "usage and attachments", "messages": talk}
    first = ask(service, inline(files, touched=[{"path": "src/a"}], **more))
    attachment = parts(first)[f"attachment:{CWD}/src/CLAUDE.md"]
    assert attachment > 1000
    assert first["tokens"]["used"] == sum(USAGE.values()) + attachment + parts(first)["messages[2]"]

    talk.append({"role": "assistant", "content": "Done", "id": "n", "usage": USAGE | {"input_tokens": 20_000}})
    later = ask(service, inline(files, **more))
    assert later["tokens"]["used"] == sum(USAGE.values()) + 10_000
    assert later["tokens"]["anchored_on"] == 3
    assert parts(later)[f"attachment:{CWD}/src/CLAUDE.md"] == attachment


def test_usage_before_a_compaction_does_not_count(service: httpx.Client) -> None:
    talk = [
        {"role": "assistant", "content": "b", "usage": USAGE},
        {"role": "user", "content": "Summary", "meta": {"compact_boundary": True}},
    ]
    body = ask(service, inline(messages=talk))
    assert body["tokens"]["anchored_on"] is None
    assert body["tokens"]["used"] < 10_000


def test_the_state_of_the_window_follows_from_what_is_used(service: httpx.Client) -> None:
    usage = {"input_tokens": 167_000}
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "usage": usage}]
    state = ask(service, inline(messages=talk))["compaction"]
    assert (state["window"], state["effective_window"], state["threshold"]) == (200_000, 180_000, 167_000)
    assert (state["percent_left"], state["is_above_auto_compact"], state["should_compact"]) == (0, True, True)
    assert state["is_at_blocking_limit"] is False
    assert state["breaker"] == {"state": "closed", "consecutive_failures": 0}


def test_without_a_key_what_was_to_be_exact_is_estimated_and_that_is_told(service: httpx.Client) -> None:
    body = ask(service, inline(tokens={"method": "exact"}))
    assert (body["tokens"]["method"], body["tokens"]["calibration"]) == ("estimate", 1.0)
    assert "exact_count_unavailable" in [warning["code"] for warning in body["warnings"]]


# The rest of the answer


def test_blocks_and_request_say_the_same(service: httpx.Client) -> None:
    body = ask(service, inline(tools=[READ], mcp_servers=[{"name": "a", "instructions": "b"}]))
    blocks = body["system_blocks"]
    assert [block["text"] for block in blocks] == [block["text"] for block in body["request"]["system"]]
    for block in blocks:
        assert block["sha256"] == hashlib.sha256(block["text"].encode()).hexdigest()
    named = [name for block in blocks for name in block["sections"]]
    assert named == [row["name"] for row in body["sections"] if row["present"]]
    rows = {row["name"]: row for row in body["sections"]}
    assert [row["name"] for row in body["sections"] if row["kind"] == "uncached"] == ["mcp_instructions"]
    assert rows["mcp_instructions"]["reason"] == "servers connect and disconnect within a session"
    assert rows["language"]["present"] is False
    assert rows["language"]["sha256"] is None


def test_the_digest_is_of_what_reaches_the_model(service: httpx.Client) -> None:
    one = ask(service, inline(session_id="digest"))
    again = ask(service, inline(session_id="digest"))
    assert one["session"] != again["session"]
    assert one["digest"] == again["digest"]
    assert ask(service, inline(date="2026-12-01"))["digest"] != one["digest"]
    assert ask(service, inline(model="claude-sonnet-4-5[1m]"))["digest"] != one["digest"]


def test_the_prefix_is_of_tools_and_system_alone(service: httpx.Client) -> None:
    one = ask(service, inline(tools=[READ]))["cache"]
    other = ask(service, inline({f"{CWD}/CLAUDE.md": "x"}, tools=[READ], messages=[{"role": "user", "content": "a"}]))
    assert other["cache"]["prefix_sha256"] == one["prefix_sha256"]
    assert ask(service, inline(tools=[MCP]))["cache"]["prefix_sha256"] != one["prefix_sha256"]
    assert set(one["previous"].values()) == {None, 0}


def test_tools_are_absent_when_there_are_none_and_sorted_otherwise(service: httpx.Client) -> None:
    assert "tools" not in ask(service, inline())["request"]
    body = ask(service, inline(tools=[MCP, READ, {"name": "Bash"}]))
    assert [tool["name"] for tool in body["request"]["tools"]] == ["Bash", "Read", "mcp__docs__find"]


def test_an_empty_custom_prompt_leaves_no_system(service: httpx.Client) -> None:
    body = ask(service, inline(system_prompt={"custom": ""}))
    assert "system" not in body["request"]
    assert body["system_blocks"] == []


def test_raw_content_is_there_on_request(service: httpx.Client) -> None:
    files = {f"{CWD}/CLAUDE.md": "<!-- a -->\nText.", f"{CWD}/src/CLAUDE.md": "<!-- b -->\nMore."}
    for raw in (False, True):
        memory = ask(service, inline(files, touched=[{"path": "src/a"}], memory={"include_raw": raw}))["memory"]
        (file,), (attachment,) = memory["files"], memory["attachments"]
        assert (file["content"], file["content_differs_from_disk"]) == ("Text.", True)
        assert file.get("raw_content") == (files[f"{CWD}/CLAUDE.md"] if raw else None)
        assert attachment.get("raw_content") == (files[f"{CWD}/src/CLAUDE.md"] if raw else None)
        assert attachment["trigger"] == "src/a"


def test_an_attachment_says_why_it_came(service: httpx.Client) -> None:
    files = {
        f"{CWD}/src/CLAUDE.md": "Nested. @b.md",
        f"{CWD}/src/b.md": "Included.",
        f"{CWD}/.claude/rules/r.md": "---\npaths: src/**\n---\nRule.",
    }
    memory = ask(service, inline(files, touched=[{"path": "src/a"}]))["memory"]
    assert [(one["content"], one["reason"], one["globs"]) for one in memory["attachments"]] == [
        ("Nested. @b.md", "nested", None),
        ("Included.", "include", None),
        ("Rule.", "conditional_rule", ["src"]),
    ]
    assert memory["attachments"][0]["text"] == (
        f"<system-reminder>\nContents of {CWD}/src/CLAUDE.md:\n\nNested. @b.md\n</system-reminder>"
    )


def test_no_candidate_is_reported_twice(service: httpx.Client) -> None:
    files = {f"{CWD}/CLAUDE.md": "@a.md @a.md @gone.md", f"{CWD}/a.md": "A", f"{CWD}/src/CLAUDE.md": "@../a.md"}
    report = ask(service, inline(files, touched=[{"path": "src/x"}, {"path": "src/y"}]))["memory"]["report"]
    keys = [(row["path"], row["parent"], row["line"]) for row in report]
    assert len(keys) == len(set(keys))
