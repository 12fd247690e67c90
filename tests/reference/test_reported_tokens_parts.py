"""Reported faults of local counts: tokenizers, scripts, thinking, nested results; and what each part costs."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.asking import CWD
from tests.reference.tallies import BOTH, ESTIMATE, EXACT, READ, assistant, context, count, parts, user
from tests.standin.server import Failure, StandIn

PROSE = "The discount is taken off before the tax is added, and the sum is rounded once. " * 500
CODE = "for (int i = 0; i < n; ++i) { sum[i] += rows[i]->price * (1.0 - rate); }\n" * 540
SCRIPTS = {
    "Chinese": "折扣在加税之前扣除，总和只四舍五入一次。",
    "Japanese": "割引は税を加える前に引かれ、合計は一度だけ丸められます。",
    "Korean": "할인은 세금을 더하기 전에 적용되고 합계는 한 번만 반올림됩니다. ",
    "Hindi": "छूट कर जोड़ने से पहले घटाई जाती है और योग एक बार पूर्णांकित होता है। ",
    "emoji": "😀🚀🎉",
}
ROUGH = {"method": "rough"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 80_000}}
DOCUMENT = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 80_000}}
KEEPERS = ("claude-opus-4-5", "claude-sonnet-4-6", "claude-haiku-5-5", "claude-opus-5-5")
methods = pytest.mark.parametrize("options", [ROUGH, ESTIMATE], ids=["rough", "estimate"])
both = pytest.mark.parametrize("asked", BOTH)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content}


def size(client: httpx.Client, content: Any, **more: Any) -> int:
    """Tokens of one message of the user."""
    found: int = count(client, [user(content)], **more)["tokens"]["used"]
    return found


# F13: what a text costs depends on the model and on the text


@both
@pytest.mark.parametrize("words", [PROSE, CODE, SCRIPTS["Chinese"] * 700], ids=["prose", "code", "Chinese"])
def test_f13_a_later_generation_makes_more_tokens_of_the_same_text(
    asked: Any, words: str, service: httpx.Client
) -> None:
    sizes = [
        parts(asked(service, [user(words)], model=model, tokens=ESTIMATE))["messages[0]"]
        for model in ("claude-sonnet-4-5", "claude-opus-4-6", "claude-sonnet-5-5", "claude-opus-4-7")
    ]
    assert (sizes[0], sizes[2]) == (sizes[1], sizes[3])
    assert sizes[2] / sizes[0] == pytest.approx(1.3, abs=0.01)


def test_f13_the_rough_count_is_by_length_for_every_model(service: httpx.Client) -> None:
    assert {size(service, "x" * 40_000, model=model) for model in ("claude-sonnet-4-5", "opus", "x")} == {10_000}


@pytest.mark.parametrize("script", SCRIPTS)
def test_f13_other_scripts_are_not_estimated_at_four_characters_a_token(script: str, service: httpx.Client) -> None:
    words = SCRIPTS[script] * 100
    assert size(service, words, tokens=ESTIMATE) > len(words) / 2


def test_f13_code_has_more_tokens_than_prose_of_its_length(service: httpx.Client) -> None:
    code, prose = size(service, CODE, tokens=ESTIMATE) / len(CODE), size(service, PROSE, tokens=ESTIMATE) / len(PROSE)
    assert code > 0.3 > prose > 0.18


# F23: old thinking


@methods
@pytest.mark.parametrize("model", KEEPERS)
def test_f23_models_that_keep_old_thinking_are_charged_for_it(
    model: str, options: dict[str, str], service: httpx.Client
) -> None:
    thought = {"type": "thinking", "thinking": PROSE[:8_000], "signature": "S" * 4_000}
    talk = [user("Go on."), assistant([thought, text("Done.")]), user("And now?")]
    with_it = count(service, talk, model=model, tokens=options)["tokens"]["used"]
    talk[1] = assistant([text(PROSE[:8_000]), text("Done.")])
    assert with_it == count(service, talk, model=model, tokens=options)["tokens"]["used"]


@methods
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-5-5"])
def test_f23_the_thinking_of_the_turn_at_hand_counts_for_every_model(
    model: str, options: dict[str, str], service: httpx.Client
) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}
    thought = {"type": "thinking", "thinking": PROSE[:8_000], "signature": "s"}
    with_it, without = (
        count(service, [user("Go on."), assistant(blocks), user([result("r")])], model=model, tokens=options)
        for blocks in ([thought, call], [call])
    )
    assert with_it["tokens"]["used"] > without["tokens"]["used"] + 1_000


# Blocks


@pytest.mark.parametrize(
    ("block", "tokens"),
    [
        (text("x" * 40), 10),
        (IMAGE, 2_000),
        (DOCUMENT, 2_000),
        (result(None), 0),
        (result([]), 0),
        (result("x" * 40), 10),
        (result([text("x" * 40), IMAGE, DOCUMENT]), 4_010),
        (result([result([IMAGE, text("x" * 40)]), result("y" * 40)]), 2_020),
        ({"type": "tool_use", "id": "t", "name": "Read", "input": {"path": "x" * 25}}, 10),
        ({"type": "redacted_thinking", "data": "A" * 362}, 100),
    ],
)
def test_a_block_costs_what_is_in_it(block: dict[str, Any], tokens: int, service: httpx.Client) -> None:
    assert size(service, [block]) == tokens
    assert size(service, [block, block]) == 2 * tokens


@methods
def test_what_is_nested_costs_what_it_costs_bare(options: dict[str, str], service: httpx.Client) -> None:
    blocks = [text(PROSE[:999]), IMAGE, text(CODE[:999]), DOCUMENT]
    nested = size(service, [result([result(blocks)])], tokens=options)
    assert nested == size(service, blocks, tokens=options)


def test_characters_beyond_the_basic_plane_count_twice(service: httpx.Client) -> None:
    assert [size(service, words) for words in ("é" * 40, "😀" * 40)] == [10, 20]


LEAVES = st.one_of(
    st.text(max_size=40).map(text),
    st.just(IMAGE | {"source": {}}),
    st.dictionaries(st.text(max_size=5), st.none() | st.integers(), max_size=3).map(
        lambda given: {"type": "tool_use", "name": "Read", "input": given}
    ),
)
BLOCKS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(result), max_leaves=8)


@settings(max_examples=30, deadline=None)
@given(blocks=st.lists(BLOCKS, max_size=5), method=st.sampled_from(["rough", "estimate"]))
def test_parts_of_any_conversation_add_up_and_more_of_it_never_costs_less(
    service: httpx.Client, blocks: list[Any], method: str
) -> None:
    talk, options = [user("Go on."), assistant("Done."), user(blocks)], {"method": method}
    whole = count(service, talk, tokens=options, system="Be brief.", tools=[READ])
    assert all(tokens >= 0 for tokens in parts(whole).values())
    shorter = count(service, talk[:-1], tokens=options, system="Be brief.", tools=[READ])
    assert whole["tokens"]["used"] - shorter["tokens"]["used"] == parts(whole)["messages[2]"]


# Parts of a context


FILES = {
    "/home/dev/.claude/CLAUDE.md": "The user's.",
    f"{CWD}/CLAUDE.md": "Top. See @notes.md",
    f"{CWD}/notes.md": "Notes.",
    f"{CWD}/sub/CLAUDE.md": "Nested.",
    f"{CWD}/.claude/rules/r.md": '---\npaths: "sub/**"\n---\nA rule.',
}
SERVERS = [
    {"name": "docs", "instructions": "Docs are here."},
    {"name": "more", "instructions": "More is there. " * 400},
    {"name": "quiet"},
    {"name": "off", "status": "failed", "instructions": "Not now."},
]
FULL: dict[str, Any] = {
    "files": FILES,
    "workspace": {"git": {"toplevel": CWD, "branch": "main", "status": "?? a.txt", "log": ["af53 start"]}},
    "tools": [READ, READ | {"name": "mcp__docs__find"}],
    "mcp_servers": SERVERS,
    "touched": [{"path": f"{CWD}/sub/a.py"}],
}


def named(body: dict[str, Any]) -> set[str]:
    """What the rest of the answer says there is."""
    return {
        *(f"system:{one['name']}" for one in body["sections"] if one["present"]),
        *(f"memory:{one['path']}" for one in body["memory"]["files"]),
        *(f"attachment:{one['path']}" for one in body["memory"]["attachments"]),
        *(f"tool:{one['name']}" for one in body["request"]["tools"]),
    }


@pytest.mark.parametrize("layout", ["classic", "late"])
@pytest.mark.parametrize("method", ["rough", "estimate", "auto", "exact", "fallback_model"])
def test_every_part_of_a_context_has_a_row(method: str, layout: str, counting: httpx.Client, upstream: StandIn) -> None:
    upstream.answer_next(*[Failure(500)] * (method == "fallback_model"))
    asks = EXACT if method == "fallback_model" else {"method": method}
    talk = [user("Go on."), assistant("Done."), user("And now?")]
    body = context(counting, talk, tokens=asks, cache={"layout": layout}, **FULL)
    assert body["tokens"]["method"] == {"auto": "estimate"}.get(method, method)
    found = parts(body)
    assert len(body["memory"]["files"]) == 3
    assert len(body["memory"]["attachments"]) == 2
    assert named(body) <= found.keys()
    assert {"mcp:docs", "mcp:more", "messages[0]", "messages[1]", "messages[2]"} <= found.keys()
    assert not {"mcp:quiet", "mcp:off"} & found.keys()
    differences = {"exact": ["count_difference"], "fallback_model": ["count_difference"]}
    assert [name for name in found if name.endswith("_difference")] == differences.get(method, [])


@methods
def test_with_usage_every_part_still_has_a_row(options: dict[str, str], service: httpx.Client) -> None:
    body = context(service, [user("Go on."), assistant("Done.", 50_000), user("And now?")], tokens=options, **FULL)
    assert body["tokens"]["anchored_on"] == 1
    assert named(body) <= parts(body).keys()
    assert "usage_difference" in parts(body)


@methods
def test_what_an_attachment_costs_behind_the_usage_is_added(options: dict[str, str], service: httpx.Client) -> None:
    body = context(service, [user("Go on."), assistant("Done.", 50_000), user("And now?")], tokens=options, **FULL)
    late = [tokens for name, tokens in parts(body).items() if name.startswith("attachment:")]
    assert body["tokens"]["used"] == 50_000 + parts(body)["messages[2]"] + sum(late)


@methods
def test_a_servers_row_is_what_its_instructions_cost(options: dict[str, str], service: httpx.Client) -> None:
    with_it, without = (context(service, [], tokens=options, mcp_servers=servers) for servers in (SERVERS, SERVERS[:1]))
    assert with_it["tokens"]["used"] - without["tokens"]["used"] == pytest.approx(parts(with_it)["mcp:more"], abs=2)
    assert parts(with_it)["mcp:more"] > 300


@pytest.mark.parametrize("options", [{"method": "rough"}, ESTIMATE], ids=["rough", "estimate"])
@pytest.mark.parametrize("model", ["claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-1", "claude-sonnet-4"])
def test_f23_models_that_drop_old_thinking_are_not_charged_for_it(
    model: str, options: dict[str, str], service: httpx.Client
) -> None:
    thought = {"type": "thinking", "thinking": "Let me see. " * 600, "signature": "s"}
    done = {"type": "text", "text": "Done."}
    with_it, without = (
        count(service, [user("Go on."), assistant(blocks), user("And now?")], model=model, tokens=options)
        for blocks in ([thought, done], [done])
    )
    assert with_it["tokens"]["used"] == without["tokens"]["used"]
