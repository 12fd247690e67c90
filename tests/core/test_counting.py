"""What is asked to count, and what answers are worth."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.counting import (
    PLACEHOLDER,
    fallback_model,
    has_thinking,
    is_count,
    parts_of,
    to_count,
    to_small_model,
    used_tokens,
    without,
)
from app.core.models import ModelTable
from app.core.providers import Provider

MODELS = ModelTable.from_rows(
    {
        "default": {
            "api_window": 1,
            "client_window": 1,
            "max_output": 1,
            "min_cache": 1,
            "tokenizer": 1,
            "cutoff": None,
        },
        "models": {},
        "aliases": {"haiku": "the-haiku", "sonnet": "the-sonnet"},
    }
)
MARK = {"type": "ephemeral"}
USER = {"role": "user", "content": "Hello."}
ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
THOUGHT = {
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, *ANSWER["content"]],
}
TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {"cache_control": {"type": "string"}}}}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text} | more


def asked(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)} | more


def small(request: dict[str, Any], *betas: str) -> dict[str, Any]:
    return to_small_model(request, betas, "s").body


@pytest.mark.parametrize(
    ("provider", "region", "thinking", "model"),
    [
        ("anthropic", None, True, "the-haiku"),
        ("anthropic", "global", True, "the-haiku"),
        ("vertex", "global", False, "the-sonnet"),
        ("vertex", "us-east5", True, "the-haiku"),
        ("vertex", None, True, "the-haiku"),
        ("bedrock", "us-east-1", True, "the-sonnet"),
        ("bedrock", "global", False, "the-haiku"),
        ("foundry", "global", True, "the-haiku"),
        ("custom", None, True, "the-haiku"),
    ],
)
def test_the_small_model_of_each_place(provider: Provider, region: str | None, thinking: bool, model: str) -> None:
    assert fallback_model(provider, region, thinking, MODELS) == model


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([USER, ANSWER], False),
        ([USER, THOUGHT, USER], True),
        ([USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}], True),
        ([{"role": "user", "content": ["nonsense"]}], False),
        ([], False),
    ],
)
def test_thoughts_are_found_in_any_message(messages: list[Any], found: bool) -> None:
    assert has_thinking(asked(*messages)) is found


def test_the_endpoint_is_asked_with_markers_and_thinking_and_nothing_it_does_not_take() -> None:
    taken = {
        "system": [said("s", cache_control=MARK)],
        "tools": [TOOL | {"cache_control": MARK}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
        "cache_control": MARK,
    }
    question = to_count(asked(USER | {"id": "x", "usage": {}}, **taken, max_tokens=9, stream=True, top_p=1), ())
    assert question.body == asked(USER, **taken)
    assert not question.filled


def test_the_endpoint_is_asked_for_edits_only_with_a_beta_value() -> None:
    request = asked(USER, context_management={"edits": []})
    assert to_count(request, ()).body == asked(USER)
    assert to_count(request, ("context-management-2025",)).body == request


def test_what_is_empty_is_not_sent() -> None:
    assert to_count(asked(USER, system="", tools=[], tool_choice={"type": "auto"}), ()).body == asked(USER)
    assert small(asked(USER, system=[], tools=[])) == asked(USER) | {"model": "s"}


def test_no_messages_become_one_of_a_character() -> None:
    for question in (to_count({"model": "m"}, ()), to_small_model({"model": "m"}, (), "m")):
        assert question.body == asked(PLACEHOLDER)
        assert question.filled


def test_a_question_without_a_part_lacks_what_needs_it() -> None:
    whole = to_count(asked(USER, system="s", tools=[TOOL], tool_choice={"type": "any"}), ("b",))
    assert parts_of(whole) == ("tools", "system")
    assert without(whole, "tools").body == asked(USER, system="s")
    assert without(whole, "system").body == asked(USER, tools=[TOOL], tool_choice={"type": "any"})
    assert without(whole, "tools").betas == ("b",)


def test_markers_go_from_everywhere_but_the_caller_s_own_json() -> None:
    own = {
        "type": "tool_use",
        "id": "t",
        "name": "look",
        "input": {"cache_control": "word", "content": [{"cache_control": 1}]},
    }
    result = {"type": "tool_result", "tool_use_id": "t", "content": [said("x", cache_control=MARK), "nonsense"]}
    document = {"type": "document", "source": {"type": "content", "content": [said("d", cache_control=MARK)]}}
    image = {"type": "image", "source": {"type": "url", "url": "u"}, "cache_control": MARK}
    plain = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    request = asked(
        USER,
        {"role": "assistant", "content": [own | {"cache_control": MARK}]},
        {"role": "user", "content": [result | {"cache_control": MARK}, plain, document, image]},
        tools=[TOOL | {"cache_control": MARK}],
        system=[said("s", cache_control=MARK)],
        cache_control=MARK,
    )
    kept = copy.deepcopy(request)
    assert small(request) == {
        "model": "s",
        "system": [said("s")],
        "tools": [TOOL],
        "messages": [
            USER,
            {"role": "assistant", "content": [own]},
            {
                "role": "user",
                "content": [
                    result | {"content": [said("x"), "nonsense"]},
                    plain,
                    {"type": "document", "source": {"type": "content", "content": [said("d")]}},
                    {"type": "image", "source": {"type": "url", "url": "u"}},
                ],
            },
        ],
    }
    assert request == kept


REMINDER = said("<system-reminder>\nlate\n</system-reminder>")


@pytest.mark.parametrize("content", ["late", [said("late", cache_control=MARK)]])
@pytest.mark.parametrize(
    ("before", "after", "turns"),
    [
        ([], [USER], [{"role": "user", "content": [said("Hello."), REMINDER]}]),
        ([USER], [], [USER, {"role": "user", "content": [REMINDER]}]),
        ([USER], [ANSWER, USER], [USER, {"role": "user", "content": [REMINDER]}, ANSWER, USER]),
        ([USER, ANSWER], [USER], [USER, ANSWER, {"role": "user", "content": [said("Hello."), REMINDER]}]),
    ],
)
def test_a_system_message_is_a_reminder_behind_the_next_user_message(
    before: list[Any], after: list[Any], turns: list[Any], content: Any
) -> None:
    assert small(asked(*before, {"role": "system", "content": content}, *after))["messages"] == turns


def test_the_next_turn_of_the_model_gets_no_reminder_twice() -> None:
    late = {"role": "system", "content": "late"}
    assert [one["role"] for one in small(asked(USER, late, ANSWER, USER))["messages"]] == [
        "user",
        "user",
        "assistant",
        "user",
    ]


@pytest.mark.parametrize(("last", "filled"), [(USER, False), (ANSWER, True)])
def test_a_conversation_that_ends_with_an_answer_gets_one_more_message(last: Any, filled: bool) -> None:
    question = to_small_model(asked(USER, last), (), "s")
    assert question.filled is filled
    assert question.body["messages"][-1] == (PLACEHOLDER if filled else last)


def test_thoughts_need_thinking_and_room_for_it() -> None:
    question = to_small_model(asked(USER, THOUGHT, USER, thinking={"type": "adaptive"}), (), "s")
    assert question.body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert question.max_tokens == 2048
    plain = to_small_model(asked(USER, thinking={"type": "adaptive"}), (), "s")
    assert "thinking" not in plain.body
    assert plain.max_tokens == 1


def test_beta_values_for_what_is_dropped_are_dropped() -> None:
    dropped = ("context-1m-2025-08-07", "prompt-caching-scope-2026-01-05", "mid-conversation-system-2026")
    assert to_small_model(asked(USER), (*dropped, "a-tool-2026"), "s").betas == ("a-tool-2026",)


COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS | st.none(), COUNTS | st.none())
def test_used_tokens_are_all_input_tokens(new: int, written: int | None, read: int | None) -> None:
    usage = {"input_tokens": new, "cache_creation_input_tokens": written, "cache_read_input_tokens": read}
    assert used_tokens({"usage": usage | {"output_tokens": 5}}) == (new + (written or 0) + (read or 0) or None)


@pytest.mark.parametrize("usage", [None, [], {}, {"input_tokens": None}, {"input_tokens": "9"}, {"input_tokens": -1}])
def test_a_usage_that_tells_no_number_is_none(usage: Any) -> None:
    assert used_tokens({"usage": usage}) is None


@pytest.mark.parametrize(
    ("value", "counts"), [(0, True), (9, True), (-1, False), (True, False), (1.0, False), ("1", False)]
)
def test_a_count_is_an_integer_that_is_not_negative(value: Any, counts: bool) -> None:
    assert is_count(value) is counts
