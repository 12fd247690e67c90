"""Bodies of compactions in, their answers out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.core.budget import Breaker
from app.core.compaction_end import Failed, Ran, Reported, Told
from app.core.facts import Message, Notice
from app.core.summary import Summary
from app.core.tokens import Part
from app.errors import CompactingAlready, InvalidRequest
from app.wire.compactions import (
    CompactionReport,
    CompactionRequest,
    ReportAnswer,
    RunAnswer,
    compaction_ask,
    report_answer,
    run_answer,
)
from app.wire.parsing import parsed
from app.wire.requests import ContextRequest, Server, to_ask
from tests.compacting import asking

SERVER = Server("linux", "/home/dev", "2026-11-30")
FAILED = Failed("did_not_help", "It did not.", (Part("memory:/p/CLAUDE.md", 9),))


def test_a_compactions_body_is_a_contexts_with_what_to_do() -> None:
    body = asking(instructions="Short.", trigger="automatic")
    found = compaction_ask(parsed(CompactionRequest, json.dumps(body).encode()), SERVER, ("b",), "k")
    context = {name: body[name] for name in body.keys() - {"mode", "trigger", "instructions"}}
    assert found.context == to_ask(parsed(ContextRequest, json.dumps(context).encode()), SERVER, ("b",), "k")
    assert (found.trigger, found.instructions) == ("automatic", "Short.")
    assert "'k'" not in repr(found)


def test_a_person_asks_unless_it_says_otherwise() -> None:
    assert parsed(CompactionRequest, json.dumps(asking()).encode()).trigger == "manual"
    assert parsed(CompactionReport, b'{"outcome": "failed"}').trigger == "automatic"


@pytest.mark.parametrize(
    "told", [{"tokens_before": 1}, {"tokens_after": 1}, {"tokens_before": 1, "tokens_after": None}]
)
def test_a_success_tells_both_figures_or_none(told: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="tokens_before and tokens_after"):
        parsed(CompactionReport, json.dumps({"outcome": "ok"} | told).encode())


@pytest.mark.parametrize("outcome", ["ok", "failed", "aborted"])
@pytest.mark.parametrize("told", [{}, {"tokens_before": None, "tokens_after": None}])
def test_a_report_needs_no_figures(outcome: str, told: dict[str, Any]) -> None:
    assert parsed(CompactionReport, json.dumps({"outcome": outcome} | told).encode()).freed is None


def test_a_failure_may_tell_one_figure_and_then_freed_nothing_that_is_known() -> None:
    assert parsed(CompactionReport, b'{"outcome": "failed", "tokens_before": 9}').freed is None


@pytest.mark.parametrize(("before", "after", "freed"), [(9, 4, 5), (9, 9, 0), (4, 9, 0)])
def test_what_was_freed_follows_from_both_figures(before: int, after: int, freed: int) -> None:
    told = {"outcome": "ok", "tokens_before": before, "tokens_after": after}
    assert parsed(CompactionReport, json.dumps(told).encode()).freed == freed


def test_a_new_conversation_is_written_as_it_is_sent_next_time() -> None:
    block = {"type": "text", "text": "And now?"}
    messages = (Message("user", "S", boundary=True, boundary_tokens=7), Message("user", (block,)))
    told = Told(Summary("S"), 2, 3, {"input_tokens": 1}, (Notice("a", "b", "c"),))
    found = run_answer(Ran(told, None, messages, 9, 8, Breaker(), repeated=True), {"digest": "x"})
    assert found["messages"] == [
        {"role": "user", "content": "S", "meta": {"compact_boundary": True, "tokens": 7}},
        {"role": "user", "content": [block]},
    ]
    assert (found["outcome"], found["context"], found["dropped"], found["tries"]) == ("ok", {"digest": "x"}, 2, 3)
    assert found["warnings"] == [{"code": "a", "message": "b", "where": "c"}]
    assert found["repeated"] is True


def test_a_failure_is_written_with_the_parts_to_blame() -> None:
    found = run_answer(Ran(Told(FAILED), FAILED, None, 9, None, Breaker("open", 3)), None)
    RunAnswer.model_validate_json(json.dumps(found))
    assert (found["outcome"], found["summary"]) == ("failed", None)
    assert found["failure"]["parts"] == [{"part": "memory:/p/CLAUDE.md", "tokens": 9}]


def test_a_report_is_answered_with_how_it_counts() -> None:
    found = report_answer(Reported("failed", FAILED, Breaker("closed", 1), 7))
    ReportAnswer.model_validate_json(json.dumps(found))
    assert (found["outcome"], found["failure"]["reason"], found["freed"]) == ("failed", "did_not_help", 7)


@pytest.mark.parametrize(("seconds", "told"), [(0.2, "1"), (1.0, "1"), (59.5, "60")])
def test_when_to_ask_again_is_told_in_whole_seconds(seconds: float, told: str) -> None:
    assert CompactingAlready(seconds=seconds).headers == {"retry-after": told}
