"""What varies between people and folders: in the late layout one prefix serves all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import anthropic
import httpx
import pytest

from tests.reference.caching import (
    MODEL,
    PROVIDERS,
    assembled,
    read,
    request,
    role_taking_client,
    said,
    send,
    server,
    system,
    tool,
    turns,
    wire,
    written,
)

LATE = {"cache": {"layout": "late"}}
STYLE = "---\nname: Terse\nkeep-coding-instructions: {keep}\n---\nUse few words.\n"
SKILL = tool("Skill")


@pytest.fixture
def client() -> Iterator[anthropic.Anthropic]:
    with role_taking_client() as made:
        yield made


# One prefix for all


DIFFERENT: tuple[dict[str, Any], ...] = (
    {},
    {"settings": {"language": "French"}, "date": "2027-02-03"},
    {"settings": {"output_style": "Explanatory"}, "memory": {"auto_memory": False}},
    {"settings": {"output_style": "Learning", "interactive": True}},
    {"settings": {"output_style": "Terse"}, "mcp_servers": [server("docs"), server("search")]},
    {"mcp_servers": [server("mail", "x" * 5000)], "system_prompt": {"append": "Be kind."}},
    {"system_prompt": {"memory_mechanics": "Remember all."}, "settings": {"scratchpad_dir": "/scratch/6"}},
    {"settings": {"function_result_clearing": 3, "summarize_tool_results": True}, "memory": {"enabled": False}},
    {"settings": {"model_override": "You are fast.", "include_git_instructions": False}, "agent": "subagent"},
    {"settings": {"cache_breaker": "9"}, "agent": "explorer", "cache": {"ttl": "1h", "layout": "late"}},
)
"""What ten people ask for."""


def place(number: int) -> dict[str, Any]:
    """The workspace of one of them."""
    home, cwd = f"/home/user{number}", f"/home/user{number}/project{number}"
    return {
        "cwd": cwd,
        "home": home,
        "platform": ("linux", "macos")[number % 2],
        "shell": ("zsh", "bash", "fish")[number % 3],
        "os_version": f"System {number}",
        "additional_directories": [f"/srv/{number}"] * (number % 2),
        "git": {"toplevel": cwd, "branch": f"b{number}", "status": f"?? {number}.txt", "log": [f"a{number} start"]},
        "files": {
            f"{cwd}/CLAUDE.md": f"Project {number}.",
            f"{cwd}/.claude/output-styles/terse.md": STYLE.format(keep="true" if number % 2 else "false"),
            f"{cwd}/.claude/skills/skill{number}/SKILL.md": f"Skill {number}.",
            f"{home}/.claude/CLAUDE.md": f"User {number}.",
        },
    }


def everyone(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [request(LATE, one, *changes, workspace=place(number)) for number, one in enumerate(DIFFERENT)]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-5", "some-model"])
def test_late_the_system_prompt_is_the_same_bytes_for_everyone(
    model: str, provider: str, service: httpx.Client
) -> None:
    tools = [SKILL, tool("read_file")]
    answers = [assembled(service, body | {"model": model}) for body in everyone({"provider": provider, "tools": tools})]
    assert len({wire(system(answer)) for answer in answers}) == 1
    five = [answer for answer, one in zip(answers, DIFFERENT, strict=True) if "cache" not in one]
    assert len({wire([answer["request"]["tools"], answer["request"]["system"]]) for answer in five}) == 1
    assert len({answer["cache"]["prefix_sha256"] for answer in five}) == 1
    assert len({answer["digest"] for answer in answers}) == len(answers)


def test_late_nothing_of_a_person_or_a_folder_is_in_the_system_prompt_and_all_is_told(service: httpx.Client) -> None:
    for number, body in enumerate(everyone({"tools": [SKILL]})):
        answer = assembled(service, body)
        whole = wire(system(answer))
        assert not any(word in whole for word in (f"user{number}", f"project{number}", f"System {number}"))
        behind = wire(said(answer))
        assert f"/home/user{number}/project{number}" in behind
        assert f"System {number}" in behind
        assert all(
            section["place"] == ("system" if section["kind"] == "static" else "message")
            for section in answer["sections"]
            if section["present"] and section["name"] not in {"append", "memory_mechanics"}
        )


def test_late_what_one_wrote_all_others_read(service: httpx.Client, client: anthropic.Anthropic) -> None:
    bodies = [body for body in everyone() if body["cache"] == {"layout": "late"}]
    answers = [assembled(service, body) for body in bodies]
    usages = [send(client, answer) for answer in answers]
    assert read(usages[0]) == 0
    reads = {read(usage) for usage in usages[1:]}
    assert len(reads) == 1
    assert reads.pop() > sum(block["tokens"] for block in answers[0]["system_blocks"]) * 0.9


def test_late_what_the_message_says_is_what_the_system_prompt_says_in_the_classic_layout(
    service: httpx.Client,
) -> None:
    body = request(DIFFERENT[5], workspace=place(5), tools=[SKILL])
    classic, late = (assembled(service, body | {"cache": {"layout": layout}}) for layout in ("classic", "late"))
    names = [[row["name"] for row in answer["sections"] if row["present"]] for answer in (classic, late)]
    assert names[0] == names[1]
    assert said(late)[1][1][0].partition("\n\n")[2] == system(classic)[1]


TAKES = [(MODEL, "anthropic"), (MODEL, "foundry"), ("claude-opus-4-8", "anthropic"), ("claude-fable-5", "foundry")]
TAKES_NOT = [
    *((MODEL, provider) for provider in ("bedrock", "vertex", "custom")),
    *((model, "anthropic") for model in ("claude-sonnet-4-5", "claude-opus-4-7", "claude-haiku-4-5", "unheard-of")),
    ("claude-sonnet-4-5", "foundry"),
]


@pytest.mark.parametrize(("model", "provider"), TAKES)
def test_late_a_model_that_takes_the_role_system_is_given_the_second_message_in_it(
    model: str, provider: str, service: httpx.Client
) -> None:
    answer = assembled(service, request(LATE, model=model, provider=provider, mcp_servers=[server("docs")]))
    (first, context), (second, back), (third, _) = said(answer)
    assert (first, second, third) == ("user", "system", "user")
    assert "PELICAN" in context[0]
    assert "Ask docs first." in back[0]
    assert "<system-reminder>" not in back[0]


@pytest.mark.parametrize(("model", "provider"), TAKES_NOT)
def test_late_others_are_given_a_reminder_in_the_first_message(
    model: str, provider: str, service: httpx.Client
) -> None:
    answer = assembled(service, request(LATE, model=model, provider=provider, mcp_servers=[server("docs")]))
    (first, (context, back)), (second, _) = said(answer)
    assert (first, second) == ("user", "user")
    assert "PELICAN" in context
    assert back.startswith("<system-reminder>\n")
    assert back.endswith("\n</system-reminder>")
    assert "Ask docs first." in back


@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-6"])
def test_late_a_session_reads_on_each_turn_what_the_one_before_wrote(
    model: str, service: httpx.Client, client: anthropic.Anthropic
) -> None:
    session, held = uuid4().hex, 0
    for turn in (1, 2, 3, 4):
        body = request(LATE, DIFFERENT[4], model=model, session_id=session, messages=turns(turn), workspace=place(4))
        answer = assembled(service, body)
        usage = send(client, answer)
        assert read(usage) == held
        held = read(usage) + written(usage)
        assert answer["cache"]["previous"]["hit"] is (None if turn == 1 else True)
