"""Faults that hostile sessions and bodies have shown, each as it was."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.asking import CWD, ask, bare, inline, refused

PATH = f"{CWD}/src/new.py"
FILES = {f"{CWD}/CLAUDE.md": "Use tabs.", f"{CWD}/src/CLAUDE.md": "Nested."}
SKILL = {"name": "Skill", "input_schema": {"type": "object"}}
READ = {"name": "Read", "input_schema": {"type": "object"}}


def used(number: str, name: str) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": number, "name": name, "input": {"file_path": PATH}}
    result = {"type": "tool_result", "tool_use_id": number, "content": "ok"}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def talk(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "assistant" if index % 2 else "user", "content": text} for index, text in enumerate(texts)]


def codes(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["code"], row["where"]) for row in body["warnings"]]


def test_an_attachment_never_joins_what_was_sent_before(service: httpx.Client) -> None:
    session, messages = uuid4().hex, [*talk("go " + "x" * 9000), *used("1", "Write")]
    ask(service, inline(FILES, session_id=session, messages=messages, touched=[{"path": PATH, "event": "write"}]))
    messages += talk("", "a", "b", "a", "b")[1:]
    before = ask(service, inline(FILES, session_id=session, messages=messages))
    messages += used("2", "Read")
    after = ask(service, inline(FILES, session_id=session, messages=messages, touched=[{"path": PATH}]))
    sent = bare(before["request"]["messages"])
    assert bare(after["request"]["messages"])[: len(sent)] == sent
    assert (after["cache"]["previous"]["hit"], after["cache"]["previous"]["cause"]) == (True, None)
    assert "Nested." in after["request"]["messages"][-1]["content"][0]["text"]


@pytest.mark.parametrize("boundary", ["two", "three"])
def test_each_compaction_reads_memory_again_whatever_the_caller_still_sends(
    boundary: str, service: httpx.Client
) -> None:
    def summary(text: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": text, "meta": {"compact_boundary": True}}]

    session, touched = uuid4().hex, [{"path": PATH}]
    for text, messages in (("one", talk("go")), ("two", summary("one")), ("three", summary(boundary))):
        files = FILES | {f"{CWD}/CLAUDE.md": f"Rule {text}."}
        body = ask(
            service, inline(files, session_id=session, messages=[*messages, *used("1", "Read")], touched=touched)
        )
        assert f"Rule {text}." in body["user_context"]["text"]
        assert [file["content"] for file in body["memory"]["attachments"]] == ["Nested."]
        assert "session_memory_kept" not in [code for code, _ in codes(body)]


@pytest.mark.parametrize(
    ("then", "section"),
    [
        ({"settings": {"cache_breaker": "2"}}, "system_context"),
        ({"settings": {"include_git_instructions": False}}, "system_context"),
        ({"settings": {"interactive": True}}, "session_guidance"),
        ({"settings": {"language": "German"}}, "language"),
    ],
)
def test_what_a_session_does_not_take_up_is_told(then: Any, section: str, service: httpx.Client) -> None:
    session, git = uuid4().hex, {"toplevel": CWD, "branch": "main", "status": "", "log": ["a1 b"]}
    first = ask(service, inline(session_id=session, workspace={"git": git}))
    second = ask(service, inline(session_id=session, workspace={"git": git}, **then))
    assert second["request"]["system"] == first["request"]["system"]
    assert ("section_kept", section) in codes(second)


def test_a_repository_that_was_not_told_of_is_not_said_to_have_changed(service: httpx.Client) -> None:
    session, git = uuid4().hex, {"toplevel": CWD, "branch": "main", "status": "", "log": ["a1 b"]}
    off = {"settings": {"include_git_instructions": False}}
    ask(service, inline(session_id=session, workspace={"git": git}, messages=talk("a"), **off))
    body = ask(
        service, inline(session_id=session, workspace={"git": git | {"branch": "b"}}, messages=talk("a", "b", "c"))
    )
    assert "has changed since" not in str(body["request"]["messages"])
    assert ("section_kept", "system_context") in codes(body)


def test_a_tool_that_comes_later_brings_its_guidance_because_its_cache_is_gone_anyway(service: httpx.Client) -> None:
    session, files = uuid4().hex, {f"{CWD}/.claude/skills/deploy/SKILL.md": "---\ndescription: Ships it.\n---\n"}
    ask(service, inline(files, session_id=session, tools=[READ]))
    body = ask(service, inline(files, session_id=session, tools=[READ, SKILL]))
    assert "- deploy: Ships it." in str(body["request"]["system"])


def test_servers_of_one_name_and_text_leave_no_part_below_zero(service: httpx.Client) -> None:
    session, one = uuid4().hex, {"name": "a", "instructions": "z" * 500}
    for servers in ([one], [one, one], [one, one, one]):
        body = ask(service, inline(session_id=session, mcp_servers=servers, cache={"layout": "late"}))
        assert [part for part in body["tokens"]["parts"] if part["tokens"] < 0] == []


def test_usage_of_another_conversation_says_nothing_of_this_one(service: httpx.Client) -> None:
    session = uuid4().hex
    ask(service, inline(session_id=session, messages=talk("a" * 9000, "b", "c")))
    ask(service, inline(session_id=session, messages=talk("a" * 9000, "b", "c", "d", "e")))
    other = talk("x" * 9000, "y", "z", "w", "v", "u", "t")
    other[5]["usage"] = {"input_tokens": 9, "cache_read_input_tokens": 0}
    previous = ask(service, inline(session_id=session, messages=other))["cache"]["previous"]
    assert (previous["agreed"], previous["read_tokens"]) == (None, None)


def test_a_late_text_stands_before_an_answer_in_fragments_that_the_model_goes_on_with(service: httpx.Client) -> None:
    session, messages = uuid4().hex, [*talk("a", "frag"), {"role": "assistant", "content": "prefill"}]
    ask(service, inline(session_id=session, messages=messages))
    body = ask(service, inline(session_id=session, messages=messages) | {"date": "2026-12-01"})
    assert [message["role"] for message in body["request"]["messages"]] == [
        "user",
        "user",
        "user",
        "assistant",
        "assistant",
    ]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1E+400"])
@pytest.mark.parametrize("path", ["/v1/context", "/v1/tokens", "/v1/cache/lint"])
def test_what_is_no_number_of_json_is_refused(path: str, number: str, service: httpx.Client) -> None:
    body = f'{{"model": "m", "tools": [{{"name": "a", "x": {number}}}]}}'
    answer = service.post(path, content=body, headers={"content-type": "application/json"})
    assert "no number of JSON" in refused(answer, 400, "not-json")["detail"]


@pytest.mark.parametrize("text", ["NaN", "1e999 Infinity", "9" * 400])
def test_words_and_large_whole_numbers_are_no_such_thing(text: str, service: httpx.Client) -> None:
    assert ask(service, inline(messages=talk(text)))["request"]["messages"][1]["content"][0]["text"] == text
    ask(service, inline(tools=[READ | {"x": int("9" * 400)}]))


def test_a_switch_of_layout_keeps_a_replacing_style_whole(service: httpx.Client) -> None:
    files = {f"{CWD}/.claude/output-styles/poet.md": "---\nname: poet\n---\nIn verse."}
    session, poet = uuid4().hex, {"output_style": "poet"}
    ask(service, inline(files, session_id=session, settings=poet))
    late = ask(service, inline(files, session_id=session, settings=poet, cache={"layout": "late"}))
    assert "takes the place of the section `# Doing tasks`" in str(late["request"]["messages"])
    assert "section_kept" not in [code for code, _ in codes(late)]


def test_a_request_too_large_to_be_remembered_says_so(service: httpx.Client) -> None:
    blocks = [{"type": "text", "text": "x"}] * 4_001
    body = ask(service, inline(session_id=uuid4().hex, messages=[{"role": "user", "content": blocks}]))
    assert ("comparison_unavailable", "messages") in codes(body)


@pytest.mark.parametrize("provider", ["bedrock", "custom"])
def test_a_callers_message_of_the_system_is_the_users_where_none_is_taken(provider: str, service: httpx.Client) -> None:
    messages = [*talk("a"), {"role": "system", "content": "Mind the gap."}, *talk("b")]
    body = ask(service, inline(messages=messages, provider=provider, model="claude-sonnet-5-5"))
    assert {message["role"] for message in body["request"]["messages"]} == {"user"}
    assert ("system_message_as_reminder", "messages[1]") in codes(body)
    assert "Mind the gap." in str(body["request"]["messages"])
