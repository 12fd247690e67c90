"""Compactions over HTTP, with the real SDK against the stand-in: what is sent, and what each answer leads to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.core.summary import REPLACED
from tests.asking import ask, bare, refused
from tests.compacting import KEY, LONG, READ, asking, compacting, plan, run, talk, text, words
from tests.standin.rules import Call, check
from tests.standin.server import Cut, Ending, Failure, Scripted, Stall, StandIn, Words

TOO_LONG = "prompt is too long: 21000 tokens > 20000 maximum"
SUMMARY = f"{REPLACED}\n\nUnderstood."


@pytest.fixture(scope="module")
def serving(running_upstream: tuple[StandIn, str]) -> Iterator[httpx.Client]:
    with compacting(running_upstream[1]) as found:
        yield found


@pytest.fixture
def client(serving: httpx.Client, upstream: StandIn) -> httpx.Client:
    """A service, whose upstream is as new."""
    return serving


def in_session(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"session_id": uuid4().hex}


def context_of(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in {"mode", "trigger", "instructions"}}


def sent(upstream: StandIn) -> list[dict[str, Any]]:
    return [seen.body for seen in upstream.seen]


def test_a_run_brings_the_conversation_that_goes_on(client: httpx.Client, upstream: StandIn) -> None:
    found = run(client, in_session(asking()))
    assert (found["outcome"], found["summary"], found["tries"], found["dropped"]) == ("ok", "Understood.", 1, 0)
    boundary, pending = found["messages"]
    assert boundary["content"] == SUMMARY
    assert boundary["meta"]["compact_boundary"] is True
    assert pending == {"role": "user", "content": "And now?"}
    assert found["tokens_after"] < found["tokens_before"]
    assert found["context"]["tokens"]["used"] == found["tokens_after"]
    assert found["usage"]["output_tokens"] == 2
    assert found["breaker"] == {"state": "closed", "consecutive_failures": 0}


def test_a_run_needs_no_session(client: httpx.Client) -> None:
    found = run(client, asking())
    assert (found["outcome"], found["repeated"]) == ("ok", False)
    assert found["context"]["session"]["id"] is None


def test_the_summary_is_asked_for_behind_the_context_as_it_would_be_sent(
    client: httpx.Client, upstream: StandIn
) -> None:
    body = in_session(asking(instructions="Keep the file names."))
    context = ask(client, context_of(body))
    run(client, body)
    [request] = sent(upstream)
    more = request.pop("messages")
    assert more[:-1] == context["request"]["messages"]
    assert more[-1]["content"][-1]["text"].endswith("Keep the file names.")
    assert {name: request[name] for name in ("tools", "system")} == {
        name: context["request"][name] for name in ("tools", "system")
    }
    assert (request["max_tokens"], request["stream"]) == (20_000, True)


def test_a_run_behind_a_turn_reads_its_prefix_from_the_cache(client: httpx.Client, upstream_url: str) -> None:
    body = in_session(asking())
    turn = ask(client, context_of(body))["request"] | {"max_tokens": 9}
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    written = httpx.post(f"{upstream_url}/v1/messages", json=turn, headers=headers).json()["usage"]
    used = run(client, body)["usage"]
    assert used["cache_read_input_tokens"] == written["cache_creation_input_tokens"] > 5_000
    assert used["cache_creation_input_tokens"] == 0


def test_a_plan_is_the_request_that_a_run_sends(client: httpx.Client, upstream: StandIn) -> None:
    body = in_session(asking())
    planned = plan(client, body | {"mode": "plan"})
    assert upstream.seen == []
    run(client, body)
    assert sent(upstream) == [planned["request"] | {"stream": True}]
    assert (planned["hopeless"], planned["headers"], planned["warnings"]) == (None, {}, [])
    assert planned["tokens"]["parts"][-1]["part"] == "summary_instruction"
    check(Call(planned["request"]))


def test_a_plan_needs_no_key(upstream_url: str) -> None:
    with compacting(upstream_url, key=None) as client:
        plan(client, asking("plan"))
        problem = refused(client.post("/v1/compactions", json=asking()), 424, "upstream-key-missing")
        assert "ANTHROPIC_API_KEY" in problem["detail"]
        assert run(client, asking(), **{"x-upstream-api-key": KEY})["outcome"] == "ok"


def test_what_keeps_the_model_from_writing_is_told(client: httpx.Client) -> None:
    body = asking("plan", tool_choice={"type": "any"})
    assert [one["code"] for one in plan(client, body)["warnings"]] == ["tool_choice_changed"]
    assert "tool_choice_changed" in [one["code"] for one in run(client, body | {"mode": "run"})["warnings"]]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"mode": "guess"}, "/mode"),
        ({"messages": []}, "/messages"),
        ({"trigger": "sometimes"}, "/trigger"),
        ({"instruction": "x"}, "/instruction"),
        ({"model": 3}, "/model"),
    ],
)
@pytest.mark.parametrize("mode", ["plan", "run"])
def test_what_is_no_request_is_refused(mode: str, changed: Any, pointer: str, client: httpx.Client) -> None:
    refused(client.post("/v1/compactions", json=asking(mode) | changed), 422, "invalid-request", pointer)


@pytest.mark.parametrize("mode", ["plan", "run"])
def test_automatic_compaction_that_is_off_is_a_problem(mode: str, client: httpx.Client, upstream: StandIn) -> None:
    body = asking(mode, trigger="automatic", tokens={"auto_compact": False})
    refused(client.post("/v1/compactions", json=body), 409, "auto-compact-off")
    assert upstream.seen == []
    assert client.post("/v1/compactions", json=body | {"trigger": "manual"}).status_code == 200


@pytest.mark.parametrize("failures", [1, 3, 5])
@pytest.mark.parametrize("told", [TOO_LONG, "Prompt is too long"])
def test_oldest_rounds_go_until_the_request_fits(
    told: str, failures: int, client: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(*[Failure(400, told)] * failures)
    body = in_session(asking(messages=talk(20)))
    found = run(client, body)
    assert (found["outcome"], found["tries"]) == ("ok", failures + 1)
    lengths = [len(request["messages"]) for request in sent(upstream)]
    assert lengths == sorted(set(lengths), reverse=True)
    assert found["dropped"] == lengths[0] - lengths[-1]
    for request in sent(upstream):
        check(Call({name: value for name, value in request.items() if name != "stream"}))
        assert bare(request["messages"])[0] == bare(sent(upstream)[0]["messages"])[0]
        assert bare(request["messages"])[-2] == bare(sent(upstream)[0]["messages"])[-2]
        assert bare(request["messages"])[-1][1][0] == bare(sent(upstream)[0]["messages"])[-1][1][0]
    dropped = found["dropped"]
    assert f"The first {dropped} messages of the conversation are not above" in str(sent(upstream)[-1]["messages"][-1])
    assert f"Of the first {dropped} messages it knows nothing" in found["messages"][0]["content"]
    assert "oldest_left_out" in [warning["code"] for warning in found["warnings"]]
    assert found["messages"][1]["content"] == "And now?"


def test_by_the_figures_as_much_goes_as_is_over_and_a_tenth_more(client: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(400, "prompt is too long: 20900 tokens > 20000 maximum"))
    found = run(client, asking(messages=talk(20), tokens={"method": "estimate"}))
    first, second = sent(upstream)
    gone = len(json.dumps(first["messages"])) - len(json.dumps(second["messages"]))
    assert found["dropped"] == 4
    assert gone > len(LONG) * 3


def test_attachments_stay_behind_the_result_that_brought_them(client: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(Failure(400, "Prompt is too long"))
    files = {"/home/dev/p/a5/CLAUDE.md": "Nested."}
    messages = talk(6)
    messages[21]["content"][0]["input"]["path"] = "a5/b.py"
    body = in_session(asking(files=files, messages=messages, touched=[{"path": "a5/b.py"}]))
    assert run(client, body)["dropped"] > 0
    for request in sent(upstream):
        nested = [at for at, one in enumerate(request["messages"]) if "Nested." in json.dumps(one)]
        assert nested == [len(request["messages"]) - 4]


def test_what_stays_too_long_is_a_failure(client: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(*[Failure(400, "Prompt is too long")] * 9)
    found = run(client, asking(messages=talk(20)))
    assert (found["failure"]["reason"], found["tries"], len(upstream.seen)) == ("too_long", 6, 6)
    upstream.forget()
    upstream.answer_next(*[Failure(400, "Prompt is too long")] * 9)
    found = run(client, asking(messages=[{"role": "user", "content": LONG}]))
    assert (found["failure"]["reason"], found["tries"], found["dropped"]) == ("too_long", 1, 0)


FAILURES: list[tuple[Scripted, str]] = [
    (words(), "empty"),
    (words(text("  ")), "empty"),
    (words(text("No."), stop_reason="refusal"), "refused"),
    (Ending("refusal"), "refused"),
    (Ending("max_tokens"), "cut"),
    (Ending("model_context_window_exceeded"), "cut"),
    (words(text("a"), {"type": "tool_use", "id": "t", "name": "Read", "input": {}}), "tool_use"),
    (Words(b"[]"), "unreadable"),
    (Words(b'{"type": "error", "error": {"type": "api_error", "message": "no"}}'), "server_error"),
    (Failure(400, "messages: nonsense"), "invalid"),
    (Failure(401, f"invalid x-api-key {KEY}"), "unauthorized"),
    (Failure(404, "model: none"), "not_found"),
    (Failure(429, "slow down"), "rate_limited"),
    (Failure(500, "oh"), "server_error"),
    (Failure(529, "Overloaded"), "overloaded"),
    (Cut(4, "severed"), "broken_stream"),
    (Cut(4, "ended"), "broken_stream"),
]


@pytest.mark.parametrize(("told", "reason"), FAILURES)
def test_a_failure_has_a_reason_and_leaves_the_conversation(
    told: Scripted, reason: str, client: httpx.Client, upstream: StandIn
) -> None:
    body = in_session(asking())
    before = ask(client, context_of(body))
    upstream.answer_next(told)
    found = run(client, body)
    assert (found["outcome"], found["failure"]["reason"], found["summary"]) == ("failed", reason, None)
    assert found["failure"]["message"]
    assert (found["failure"]["parts"], found["tokens_after"], found["tries"]) == ([], None, 1)
    assert found["breaker"] == {"state": "closed", "consecutive_failures": 0}
    after = ask(client, context_of(body))
    assert (after["request"], after["session"]["new"]) == (before["request"], False)


def test_a_summary_that_was_paid_for_and_is_none_has_a_usage(client: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(words())
    assert run(client, asking())["usage"]["input_tokens"] == 7


@pytest.mark.parametrize("told", [Stall(), Cut(4, "silent")])
@pytest.mark.parametrize("limit", [{"upstream_seconds": 0.3}, {"compact_seconds": 0.3}])
def test_silence_ends_with_the_time_allowed(limit: Any, told: Scripted, upstream: StandIn, upstream_url: str) -> None:
    upstream.answer_next(told)
    with compacting(upstream_url, **limit) as client:
        assert run(client, asking())["failure"]["reason"] == "timeout"


def test_an_upstream_that_is_not_there_is_a_failure() -> None:
    with compacting("http://127.0.0.1:9") as client:
        assert run(client, asking())["failure"]["reason"] == "unreachable"


def test_a_summary_that_frees_too_little_is_a_failure_that_names_the_fixed_parts(
    client: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(words(text(LONG * 18)))
    found = run(client, asking())
    assert found["failure"]["reason"] == "did_not_help"
    assert "memory:/home/dev/p/CLAUDE.md" in [part["part"] for part in found["failure"]["parts"]]
    assert found["tokens_after"] > 0


@pytest.mark.parametrize("trigger", ["manual", "automatic"])
def test_what_cannot_help_is_told_before_any_call(trigger: str, client: httpx.Client, upstream: StandIn) -> None:
    files = {"/home/dev/p/CLAUDE.md": "Be careful with this. " * 5_000}
    body = in_session(asking(files=files, trigger=trigger, tokens={"max_context_tokens": 20_000}))
    assert plan(client, body | {"mode": "plan"})["hopeless"]["reason"] == "fixed_parts_too_large"
    found = run(client, body)
    assert (found["failure"]["reason"], found["tries"], upstream.seen) == ("fixed_parts_too_large", 0, [])
    assert found["failure"]["parts"][0]["part"] == "memory:/home/dev/p/CLAUDE.md"
    assert found["breaker"]["consecutive_failures"] == (trigger == "automatic")


def test_what_cannot_help_is_not_asked_for_and_the_part_to_blame_is_named(client: httpx.Client) -> None:
    files = {"/home/dev/p/CLAUDE.md": "Be careful with this. " * 5_000}
    body = asking("plan", files=files, tokens={"max_context_tokens": 20_000})
    raw = {"model": body["model"], "messages": talk(), "tokens": body["tokens"]}
    tools, system = {"tools": [READ | {"description": "x" * 4 * 20_000}]}, {"system": "x" * 4 * 20_000}
    for told, part in (
        (ask(client, context_of(body)), "memory:/home/dev/p/CLAUDE.md"),
        (client.post("/v1/tokens", json=raw | tools).json(), "tool:Read"),
        (client.post("/v1/tokens", json=raw | system).json(), "system[0]"),
    ):
        state = told["compaction"]
        assert (state["is_above_auto_compact"], state["should_compact"]) == (True, False)
        assert f"stay whatever is compacted: {part} " in state["explain"][-1]


@pytest.mark.parametrize("times", [0, 1_000, 3_000, 5_000])
@pytest.mark.parametrize("usage", [None, 21_000, 60_000])
@pytest.mark.parametrize("method", ["rough", "estimate"])
def test_what_is_asked_for_is_what_a_plan_has_hope_for(
    times: int, usage: int | None, method: str, client: httpx.Client
) -> None:
    messages = talk(1)
    messages[3] |= {} if usage is None else {"usage": {"input_tokens": usage}}
    files = {"/home/dev/p/CLAUDE.md": "Be careful with this. " * times}
    body = asking("plan", files=files, messages=messages, tokens={"max_context_tokens": 20_000, "method": method})
    state, planned = ask(client, context_of(body))["compaction"], plan(client, body)
    assert state["should_compact"] is (state["is_above_auto_compact"] and planned["hopeless"] is None)


def test_calls_that_are_owed_results_are_left_out(client: httpx.Client) -> None:
    call = {"type": "tool_use", "id": "t9", "name": "Read", "input": {}}
    found = run(client, asking(messages=[*talk(), {"role": "assistant", "content": [call]}], tools=[READ]))
    assert "owed_calls_left_out" in [one["code"] for one in found["warnings"]]
    assert [one["content"] for one in found["messages"]] == [SUMMARY, "And now?"]


@pytest.mark.parametrize(("reply", "codes"), [("Understood.", ["summary_unstructured"]), ("## Requests\n\nOne.", [])])
def test_a_summary_without_headings_is_taken_and_told(
    reply: str, codes: list[str], client: httpx.Client, upstream: StandIn
) -> None:
    upstream.answer_next(words(text(reply)))
    found = run(client, asking())
    assert found["outcome"] == "ok"
    assert [warning["code"] for warning in found["warnings"]] == codes


@pytest.mark.parametrize(
    ("tokens", "most"), [({}, 20_000), ({"max_context_tokens": 60_000}, 6_000), ({"max_context_tokens": 9_000}, 1_000)]
)
def test_the_summary_has_the_room_that_the_window_keeps_for_it(tokens: Any, most: int, client: httpx.Client) -> None:
    planned = client.post("/v1/compactions", json=asking("plan", tokens=tokens)).json()
    assert planned["request"]["max_tokens"] == most
    assert f"Stay below {most // 2:,} tokens" in str(planned["request"]["messages"][-1])


def test_thinking_gives_way_where_the_window_has_no_room_for_it(client: httpx.Client) -> None:
    thinking = {"type": "enabled", "budget_tokens": 20_000}
    used = {"input_tokens": 175_000, "output_tokens": 1}
    full = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "ok", "usage": used}, *talk(1)]
    roomy = client.post("/v1/compactions", json=asking("plan", thinking=thinking)).json()["request"]
    tight = client.post("/v1/compactions", json=asking("plan", thinking=thinking, messages=full)).json()["request"]
    assert (roomy["thinking"], roomy["max_tokens"]) == (thinking, 40_000)
    assert "thinking" not in tight
    assert tight["max_tokens"] <= 20_000


def test_a_plan_that_the_api_would_refuse_says_so(client: httpx.Client) -> None:
    used = {"input_tokens": 260_000, "output_tokens": 1}
    full = [{"role": "user", "content": LONG}, {"role": "assistant", "content": "ok", "usage": used}, *talk(1)]
    planned = client.post("/v1/compactions", json=asking("plan", messages=full)).json()
    assert "summary_request_too_long" in [warning["code"] for warning in planned["warnings"]]


def test_a_plan_tells_the_conversation_that_goes_on(client: httpx.Client) -> None:
    body = in_session(asking())
    planned = client.post("/v1/compactions", json=body | {"mode": "plan"}).json()
    first, pending = planned["then"]
    assert first["content"] == f"{REPLACED}\n\n{{summary}}"
    assert first["meta"] == {"compact_boundary": True, "tokens": None}
    assert pending == {"role": "user", "content": "And now?"}
    messages = [first | {"content": first["content"].replace("{summary}", "All is well.")}, pending]
    context = client.post("/v1/context", json=context_of(body) | {"messages": messages})
    assert context.status_code == 200
    assert "All is well." in str(context.json()["request"]["messages"])
