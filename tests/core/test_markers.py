from dataclasses import replace

import pytest

from app.core.blocks import Block
from app.core.facts import CacheOptions, Notice
from app.core.markers import SCOPE_BETA, Breakpoint, plan_markers
from app.core.models import Model
from app.data.tables import load_models
from tests.core.api_rules import marked, violations
from tests.standin.prompt_cache import PromptCache, prefixes

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def block(text, scope, *sections):
    return Block(text, scope, sections or ("intro",), ())


SONNET = Model("claude-sonnet-4-5", "Sonnet 4.5", 200_000, 200_000, 64_000, None, 0, 1, "sonnet")
OPUS_4 = Model("claude-opus-4", "Opus 4", 200_000, 200_000, 32_000, None, 0, 1, "opus")
MODEL = Model("claude-opus-4-6", "Opus 4.6", 200_000, 200_000, 32_000, None, 0, 1, "opus")

PREFIX = block("You are P.", "org", "prefix")
REST = block("The rest.", "org", "intro", "env_info")
HEADER = block("x-anthropic-billing-header: 1", None, "attribution_header")
STATIC = block("Static.", "global", "intro")
DYNAMIC = block("Dynamic.", None, "env_info")


def text(words, marker=None):
    plain = {"type": "text", "text": words}
    return plain if marker is None else {**plain, "cache_control": marker}


def user(*content):
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def tool(name, marker=None):
    plain = {"name": name, "input_schema": {"type": "object"}}
    return plain if marker is None else {**plain, "cache_control": marker}


def plan(tools=(), system=(), messages=(), cache=None, **options):
    given_options = {"provider": "anthropic", "model": MODEL} | options
    return plan_markers(tools, system, messages, cache=cache or CacheOptions(), **given_options)


def places(planned):
    return [(point.at) for point in planned.breakpoints]


def codes(planned):
    return [(notice.code, notice.where) for notice in planned.notices]


# --- ours ------------------------------------------------------------------------------------------------------------


def test_scoped_blocks_and_the_end_of_the_conversation_are_marked():
    planned = plan([tool("Read")], [HEADER, PREFIX, REST], [user("hi"), user("more")])
    assert planned.tools == (tool("Read"),)
    assert planned.system == (text(HEADER.text), text(PREFIX.text, SHORT), text(REST.text, SHORT))
    assert planned.messages == (user("hi"), user(text("more", SHORT)))
    assert places(planned) == ["system[1]", "system[2]", "messages[1]"]
    assert planned.notices == ()
    assert planned.betas == ()


def test_the_lifetime_has_a_key_only_when_it_is_not_five_minutes():
    planned = plan(system=[REST], messages=[user("hi")], cache=CacheOptions(ttl="1h"))
    assert planned.system == (text(REST.text, LONG),)
    assert planned.messages == (user(text("hi", LONG)),)


def test_the_end_is_the_last_block_that_takes_a_marker():
    last = [text("answer"), {"type": "tool_use", "id": "1", "name": "x", "input": {}}, {"type": "thinking"}, text(" ")]
    planned = plan(messages=[{"role": "assistant", "content": last}])
    assert [b.get("cache_control") for b in planned.messages[0]["content"]] == [None, SHORT, None, None]
    assert places(planned) == ["messages[0].content[1]"]


def test_a_message_with_nothing_to_mark_leaves_the_marker_to_an_earlier_one():
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}]}
    planned = plan(messages=[user("hi"), thinking, user(" ")])
    assert planned.messages == (user(text("hi", SHORT)), thinking, user(" "))


def test_blocks_within_a_tool_result_are_not_the_end():
    result = {"type": "tool_result", "tool_use_id": "1", "content": [text("inner")]}
    planned = plan(messages=[user(result)])
    assert planned.messages == (user({**result, "cache_control": SHORT}),)


def test_nothing_at_all_gets_no_marker():
    planned = plan()
    assert (planned.tools, planned.system, planned.messages, planned.breakpoints) == ((), (), (), ())


def test_with_caching_off_there_are_none_of_ours():
    messages = [user("hi")]
    planned = plan([tool("Read")], [block("s", None)], messages, CacheOptions(enabled=False))
    assert list(marked(planned.tools, planned.system, planned.messages)) == []
    assert planned.breakpoints == ()


def test_with_caching_off_the_callers_own_are_still_made_legal():
    messages = [user(text("a", SHORT), text("b", LONG))]
    planned = plan(messages=messages, cache=CacheOptions(enabled=False))
    assert planned.messages == (user(text("a", SHORT), text("b", SHORT)),)


# --- scope on the wire -----------------------------------------------------------------------------------------------


def test_a_global_scope_is_sent_only_when_asked_for_and_names_its_beta():
    planned = plan(system=[PREFIX, STATIC, DYNAMIC], cache=CacheOptions(scope_on_wire=True), betas=("files-1",))
    assert planned.system == (
        text(PREFIX.text, SHORT),
        text(STATIC.text, {"type": "ephemeral", "scope": "global"}),
        text(DYNAMIC.text),
    )
    assert planned.betas == ("files-1", SCOPE_BETA)
    assert SCOPE_BETA == "prompt-caching-scope-2026-01-05"


def test_a_global_scope_and_an_hour_go_together():
    planned = plan(system=[STATIC], cache=CacheOptions(scope_on_wire=True, ttl="1h"))
    assert planned.system[0]["cache_control"] == {"type": "ephemeral", "scope": "global", "ttl": "1h"}


@pytest.mark.parametrize(
    ("provider", "asked"),
    [("anthropic", False), ("bedrock", True), ("vertex", True), ("foundry", True), ("custom", True)],
)
def test_no_scope_and_no_beta_reach_those_who_refuse_them(provider, asked):
    theirs = {"type": "ephemeral", "scope": "global"}
    planned = plan(
        system=[STATIC],
        messages=[user(text("a", theirs), text("b"))],
        cache=CacheOptions(scope_on_wire=asked),
        provider=provider,
        betas=(SCOPE_BETA, "files-1"),
    )
    assert planned.system == (text("Static.", SHORT),)
    assert planned.messages == (user(text("a", SHORT), text("b", SHORT)),)
    assert planned.betas == ("files-1",)
    assert codes(planned) == [("marker_scope_removed", "messages[0].content[0]")]


def test_a_callers_scope_is_kept_where_it_is_taken():
    theirs = {"type": "ephemeral", "scope": "global"}
    planned = plan([tool("Read", theirs)], cache=CacheOptions(scope_on_wire=True))
    assert planned.tools == (tool("Read", theirs),)
    assert planned.betas == (SCOPE_BETA,)


# --- at most four ----------------------------------------------------------------------------------------------------


def test_ours_give_way_to_the_callers_the_prefix_first():
    planned = plan([tool("Read", SHORT)], [PREFIX, REST], [user(text("a", SHORT)), user("b")])
    assert places(planned) == ["tools[0]", "system[1]", "messages[0]", "messages[1]"]
    assert codes(planned) == [("marker_dropped", "system[0]")]


def test_the_prefix_is_worth_least_wherever_it_stands():
    planned = plan([tool("Read", SHORT)], [REST, PREFIX], [user(text("a", SHORT)), user("b")])
    assert places(planned) == ["tools[0]", "system[0]", "messages[0]", "messages[1]"]


def test_the_end_of_the_conversation_is_kept_longest():
    theirs = [tool("Bash", SHORT), tool("Read", SHORT), tool("Write", SHORT)]
    planned = plan(theirs, [PREFIX, REST], [user("b")])
    assert places(planned) == ["tools[0]", "tools[1]", "tools[2]", "messages[0]"]
    assert codes(planned) == [("marker_dropped", "system[1]"), ("marker_dropped", "system[0]")]


def test_four_of_the_callers_leave_no_room():
    messages = [user(*(text(str(number), SHORT) for number in range(4))), user("end")]
    planned = plan(system=[REST], messages=messages)
    assert planned.messages == tuple(messages)
    assert codes(planned) == [("marker_dropped", "messages[1]"), ("marker_dropped", "system[0]")]


def test_beyond_four_of_the_callers_the_earliest_in_messages_goes_first():
    messages = [user(*(text(str(number), SHORT) for number in range(4)))]
    planned = plan([tool("Bash", SHORT), tool("Read", SHORT)], messages=messages)
    assert places(planned) == ["tools[0]", "tools[1]", "messages[0].content[2]", "messages[0]"]
    assert planned.messages == (user(text("0"), text("1"), text("2", SHORT), text("3", SHORT)),)
    assert planned.notices == (
        Notice("marker_dropped", "The API takes 4 cache markers in all.", "messages[0].content[0]"),
        Notice("marker_dropped", "The API takes 4 cache markers in all.", "messages[0].content[1]"),
    )


def test_beyond_four_on_tools_the_earliest_tool_loses_its_marker():
    planned = plan([tool(name, SHORT) for name in "abcdef"])
    assert places(planned) == ["tools[2]", "tools[3]", "tools[4]", "tools[5]"]


def test_a_callers_marker_at_the_end_serves_as_ours():
    planned = plan(messages=[user(text("a", LONG))])
    assert planned.messages == (user(text("a", LONG)),)
    assert planned.notices == ()


def test_markers_within_tool_results_count():
    result = {"type": "tool_result", "tool_use_id": "1", "content": [text(str(number), SHORT) for number in range(5)]}
    planned = plan(messages=[user(result)])
    assert violations(planned.tools, planned.system, planned.messages) == []
    assert places(planned) == [f"messages[0].content[0].content[{number}]" for number in range(1, 5)]


# --- longer before shorter -------------------------------------------------------------------------------------------


def test_ours_are_lowered_behind_a_callers_five_minutes():
    planned = plan([tool("Read", SHORT)], [REST], [user("a")], CacheOptions(ttl="1h"))
    assert planned.tools == (tool("Read", SHORT),)
    assert planned.system == (text(REST.text, SHORT),)
    assert planned.messages == (user(text("a", SHORT)),)
    assert codes(planned) == [("marker_ttl_changed", "system[0]"), ("marker_ttl_changed", "messages[0]")]


def test_ours_are_lifted_in_front_of_a_callers_hour():
    planned = plan(system=[REST], messages=[user(text("a", LONG), text("b"))])
    assert planned.system == (text(REST.text, LONG),)
    assert planned.messages == (user(text("a", LONG), text("b", SHORT)),)
    assert codes(planned) == [("marker_ttl_changed", "system[0]")]


def test_of_two_callers_markers_in_conflict_the_later_is_lowered():
    planned = plan([tool("Read", {"type": "ephemeral", "ttl": "5m"})], messages=[user(text("a", LONG))])
    assert planned.tools == (tool("Read", {"type": "ephemeral", "ttl": "5m"}),)
    assert planned.messages == (user(text("a", SHORT)),)
    assert codes(planned) == [("marker_ttl_changed", "messages[0]")]


# --- places that take none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad", [{"type": "thinking", "thinking": "x"}, {"type": "redacted_thinking", "data": "x"}, text(""), text(" \n")]
)
def test_a_marker_on_such_a_block_moves_to_the_nearest_earlier_one_of_its_message(bad):
    message = user(text("a"), text("b"), {**bad, "cache_control": LONG})
    planned = plan(messages=[message], cache=CacheOptions(enabled=False))
    assert planned.messages == (user(text("a"), text("b", LONG), bad),)
    assert planned.notices == (
        Notice("marker_moved", "No marker may stand here: it was moved to messages[0].content[1].", "messages[0]"),
    )


def test_a_marker_never_moves_into_another_message():
    planned = plan(messages=[user("a"), user(text(" ", SHORT), text("b"))], cache=CacheOptions(enabled=False))
    assert planned.messages == (user("a"), user(text(" "), text("b")))
    assert codes(planned) == [("marker_dropped", "messages[1].content[0]")]


def test_two_markers_do_not_share_a_place():
    planned = plan(messages=[user(text("a", LONG), text("", SHORT))])
    assert planned.messages == (user(text("a", LONG), text("")),)
    assert codes(planned) == [("marker_dropped", "messages[0]")]


def test_a_deferred_tool_passes_its_marker_to_the_tool_before_it():
    deferred = {**tool("Later"), "defer_loading": True}
    planned = plan([tool("Bash"), {**deferred, "cache_control": SHORT}])
    assert planned.tools == (tool("Bash", SHORT), deferred)


@pytest.mark.parametrize("marker", [{"type": "eternal"}, {"type": "ephemeral", "ttl": "2h"}, {}, True, {"ttl": "1h"}])
def test_a_marker_of_an_unknown_kind_is_dropped(marker):
    planned = plan([tool("Read", marker)], cache=CacheOptions(enabled=False))
    assert planned.tools == (tool("Read"),)
    assert codes(planned) == [("marker_dropped", "tools[0]")]


def test_a_marker_that_is_null_is_none():
    nothing = {**tool("Read"), "cache_control": None}
    assert plan([nothing]).tools == (nothing,)


# --- breakpoints -----------------------------------------------------------------------------------------------------


def test_breakpoints_tell_how_much_stands_before_them_and_ours_that_would_be_useless_are_left_out():
    model = replace(MODEL, min_cache=30)
    planned = plan([tool("R")], [PREFIX, REST], [user("one"), user("two")], model=model, measure=lambda piece: 10)
    assert planned.breakpoints == (
        Breakpoint("system[0]", 20, below_minimum=True, sent=False),
        Breakpoint("system[1]", 30, below_minimum=False),
        Breakpoint("messages[1]", 50, below_minimum=False),
    )
    assert planned.system[0] == text(PREFIX.text)
    assert planned.notices == (
        Notice(
            "prefix_below_minimum",
            "About 20 tokens up to here: this model caches no prefix shorter than 30. It gets no marker of ours.",
            "system[0]",
        ),
    )


def test_a_callers_marker_below_the_minimum_stays_and_is_told():
    planned = plan([tool("R", SHORT)], model=replace(MODEL, min_cache=30), measure=lambda piece: 10)
    assert planned.tools == (tool("R", SHORT),)
    assert planned.breakpoints == (Breakpoint("tools[0]", 10, below_minimum=True, sent=True),)
    assert codes(planned) == [("prefix_below_minimum", "tools[0]")]


@pytest.mark.parametrize(("tokenizer", "sent"), [(1, False), (2, True)])
def test_the_minimum_is_judged_in_the_models_own_tokens_and_the_size_stays_rough(tokenizer, sent):
    model = replace(MODEL, min_cache=130, tokenizer=tokenizer)
    planned = plan(messages=[user("a")], model=model, measure=lambda piece: 100)
    assert planned.breakpoints == (Breakpoint("messages[0]", 100, below_minimum=not sent, sent=sent),)


def test_one_of_ours_that_is_left_out_uses_up_no_place():
    theirs = [user(text("a", SHORT), text("b", SHORT), text("c"))]
    model = replace(MODEL, min_cache=30)
    planned = plan([tool("R")], [PREFIX, REST], theirs, model=model, measure=lambda piece: 10)
    assert [point.at for point in planned.breakpoints if point.sent] == [
        "system[1]",
        "messages[0].content[0]",
        "messages[0].content[1]",
        "messages[0]",
    ]
    assert codes(planned) == [("prefix_below_minimum", "system[0]")]


def test_nothing_behind_the_last_marker_is_measured():
    measured = []
    plan(
        [tool("Read", SHORT)],
        messages=[user("a")],
        cache=CacheOptions(enabled=False),
        measure=lambda piece: measured.append(piece) or 1,
    )
    assert measured == [tool("Read", SHORT)]


def test_sizes_are_rough_counts_unless_told_otherwise():
    assert plan(messages=[user("x" * 40)]).breakpoints == (Breakpoint("messages[0]", 10, below_minimum=False),)


# --- the request's own marker ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["anthropic", "foundry"])
def test_the_requests_own_marker_stands_for_ours_at_the_end(provider):
    planned = plan([tool("Read")], [REST], [user("a")], automatic=LONG, provider=provider)
    assert planned.automatic == LONG
    assert planned.messages == (user("a"),)
    assert planned.system == (text(REST.text, LONG),)
    assert places(planned) == ["system[0]", "cache_control"]
    assert planned.breakpoints[1].tokens == plan([tool("Read")], [REST], [user("a")]).breakpoints[-1].tokens


@pytest.mark.parametrize("provider", ["bedrock", "vertex", "custom"])
def test_where_it_is_not_taken_it_goes_to_the_end_of_the_last_message(provider):
    planned = plan([], [REST], [user("a"), user(text("b"), text(" "))], automatic=LONG, provider=provider, model=SONNET)
    assert planned.automatic is None
    assert planned.messages == (user("a"), user(text("b", LONG), text(" ")))
    moved = "This provider takes no marker for the whole request: it was moved to messages[1].content[0]."
    assert planned.notices[0] == Notice("marker_moved", moved, "cache_control")


@pytest.mark.parametrize("provider", ["anthropic", "vertex"])
def test_behind_four_of_the_callers_the_requests_own_is_dropped(provider):
    messages = [user(*(text(str(number), SHORT) for number in range(4))), user("end")]
    planned = plan(messages=messages, automatic=SHORT, provider=provider)
    assert (planned.automatic, planned.messages) == (None, tuple(messages))
    assert codes(planned) == [("marker_dropped", "cache_control"), ("marker_dropped", "messages[1]")]


def test_it_is_counted_although_the_last_block_is_marked():
    messages = [user(text("a", SHORT), text("b", SHORT))]
    planned = plan([], [PREFIX, REST], messages, automatic=SHORT)
    assert places(planned) == ["system[1]", "messages[0].content[0]", "messages[0]", "cache_control"]
    assert codes(planned) == [("marker_dropped", "system[0]")]


def test_it_is_the_last_in_the_order_of_lifetimes():
    planned = plan([tool("Read", SHORT)], messages=[user("a")], automatic=LONG)
    assert planned.automatic == SHORT
    assert codes(planned) == [("marker_ttl_changed", "cache_control")]


def test_on_a_last_block_of_another_lifetime_it_is_dropped():
    planned = plan(messages=[user(text("a", LONG))], automatic=SHORT)
    assert (planned.automatic, planned.messages) == (None, (user(text("a", LONG)),))
    assert codes(planned) == [("marker_dropped", "cache_control")]


def test_on_a_last_block_of_the_same_lifetime_it_stays():
    planned = plan(messages=[user(text("a", LONG))], automatic=LONG)
    assert (planned.automatic, planned.notices) == (LONG, ())


def test_where_the_end_is_marked_already_a_moved_one_is_dropped():
    planned = plan(messages=[user(text("a", SHORT))], automatic=LONG, provider="vertex")
    assert planned.messages == (user(text("a", SHORT)),)
    assert codes(planned) == [("marker_dropped", "cache_control")]


def test_ours_does_not_share_the_block_on_which_the_requests_own_stands():
    planned = plan(system=[REST], messages=[user(" ")], automatic=SHORT)
    assert (planned.automatic, planned.system) == (SHORT, (text(REST.text),))


@pytest.mark.parametrize("provider", ["anthropic", "vertex"])
def test_a_request_without_blocks_has_no_place_for_a_moved_one(provider):
    planned = plan(automatic=SHORT, provider=provider)
    kept = provider == "anthropic"
    assert planned.automatic == (SHORT if kept else None)
    assert planned.breakpoints == ((Breakpoint("cache_control", 0, below_minimum=False),) if kept else ())
    assert codes(planned) == ([] if kept else [("marker_dropped", "cache_control")])


@pytest.mark.parametrize("marker", [True, {"type": "eternal"}, {"type": "ephemeral", "extra": 1}])
def test_of_an_unknown_kind_it_is_dropped(marker):
    planned = plan(messages=[user("a")], automatic=marker)
    assert (planned.automatic, planned.messages) == (None, (user(text("a", SHORT)),))
    assert codes(planned) == [("marker_dropped", "cache_control")]


def test_with_the_callers_markers_off_the_requests_own_goes_too():
    planned = plan(messages=[user("a")], automatic=SHORT, cache=CacheOptions(enabled=False), callers=False)
    assert planned.automatic is None
    assert codes(planned) == [("marker_dropped", "cache_control")]


# --- where the last request ended ------------------------------------------------------------------------------------


def turn(blocks, *, before=1):
    """``before`` messages, an answer of so many blocks, and a question; ``blocks`` + 1 positions were added."""
    first = [user("q"), {"role": "assistant", "content": [text("a")]}] * before
    answer = {"role": "assistant", "content": [text(f"{number}") for number in range(blocks)]}
    return [*first[: 2 * before - 1], answer, user("next")]


@pytest.mark.parametrize(("blocks", "second"), [(18, False), (19, False), (20, True), (40, True)])
@pytest.mark.parametrize("before", [None, 1])
def test_more_than_twenty_positions_on_the_last_end_is_marked_again(blocks, second, before):
    planned = plan(messages=turn(blocks), before=before)
    assert places(planned) == (["messages[0]", "messages[2]"] if second else ["messages[2]"])


@pytest.mark.parametrize("blocks", range(15, 50))
@pytest.mark.parametrize("automatic", [None, SHORT])
def test_what_the_last_request_wrote_is_read(blocks, automatic):
    cache = PromptCache(minimum=1)
    messages = turn(blocks, before=3)
    for conversation in (messages[:5], messages):
        planned = plan([tool("Read")], [REST], conversation, automatic=automatic)
        body = {
            "model": MODEL.id,
            "tools": list(planned.tools),
            "system": list(planned.system),
            "messages": list(planned.messages),
        }
        usage = cache.use(body if planned.automatic is None else {**body, "cache_control": planned.automatic})
    written = prefixes({"model": MODEL.id, "tools": [tool("Read")], "system": [text(REST.text)], "messages": messages})
    assert usage["cache_read_input_tokens"] == written[6].tokens


def test_an_answer_in_several_messages_is_one():
    answer = {"role": "assistant", "content": [text("a")]}
    planned = plan(messages=[user("q"), *[answer] * 21, user("next")])
    assert places(planned) == ["messages[0]", "messages[22]"]


def test_a_marker_of_the_callers_in_between_finds_the_last_end():
    answer = {"role": "assistant", "content": [text(str(at), SHORT if at == 15 else None) for at in range(30)]}
    planned = plan(messages=[user("q"), answer, user("next")])
    assert places(planned) == ["messages[1].content[15]", "messages[2]"]


def test_a_marker_within_the_block_that_ended_the_last_request_does_not_find_its_end():
    result = {"type": "tool_result", "tool_use_id": "1", "content": [text("a", SHORT)]}
    answer = {"role": "assistant", "content": [text(str(at)) for at in range(30)]}
    planned = plan(messages=[user(result), answer, user("next")])
    assert places(planned) == ["messages[0].content[0].content[0]", "messages[0]", "messages[2]"]


@pytest.mark.parametrize("before", [0, 3, 9])
def test_a_request_that_had_nothing_or_everything_needs_no_second_marker(before):
    assert places(plan(messages=turn(40), before=before)) == ["messages[2]"]


def test_the_second_marker_is_worth_more_than_the_systems():
    planned = plan([tool("A", SHORT), tool("B", SHORT)], [PREFIX, REST], turn(40))
    assert places(planned) == ["tools[0]", "tools[1]", "messages[0]", "messages[2]"]
    assert codes(planned) == [("marker_dropped", "system[1]"), ("marker_dropped", "system[0]")]


# --- blocks that change ----------------------------------------------------------------------------------------------

ONE = block("One.", "org", "one")
TWO = block("Two.", "org", "two")


def test_ours_goes_from_a_changing_block_to_the_end_of_what_stays():
    planned = plan([tool("Read")], [DYNAMIC, REST], [user("a")], changing=frozenset({1}))
    assert places(planned) == ["system[0]", "messages[0]"]
    assert codes(planned) == [("marker_moved", "system[1]")]


def test_what_stands_behind_a_changing_block_changes_with_it():
    planned = plan([tool("Read"), tool("Write")], [DYNAMIC, ONE, TWO], [user("a")], changing=frozenset({0, 1}))
    assert places(planned) == ["tools[1]", "messages[0]"]
    assert codes(planned) == [("marker_moved", "system[2]"), ("marker_moved", "system[1]")]


def test_a_place_is_marked_once_and_keeps_its_scope():
    cache = CacheOptions(scope_on_wire=True)
    planned = plan(system=[STATIC, ONE], cache=cache, changing=frozenset({1, 7, -1}))
    assert planned.system == (text(STATIC.text, {"type": "ephemeral", "scope": "global"}), text(ONE.text))


@pytest.mark.parametrize("own", [HEADER, block("client=1", None, "attribution_header"), text(HEADER.text)])
def test_an_attribution_header_is_never_the_end_of_what_stays(own):
    planned = plan(system=[own, REST], changing=frozenset({1}))
    assert planned.breakpoints == ()
    assert codes(planned) == [("marker_dropped", "system[1]")]


def test_a_stable_prefix_below_the_minimum_gets_none():
    model = replace(MODEL, min_cache=20)
    planned = plan([], [DYNAMIC, REST], [user("a")], model=model, changing=frozenset({1}), measure=lambda piece: 10)
    assert planned.breakpoints == (
        Breakpoint("system[0]", 10, below_minimum=True, sent=False),
        Breakpoint("messages[0]", 30, below_minimum=False),
    )
    assert codes(planned) == [("marker_moved", "system[1]"), ("prefix_below_minimum", "system[0]")]


def test_a_callers_marker_on_a_changing_block_stays_and_is_told():
    planned = plan([tool("Read")], [text("a", LONG), text("b")], changing=frozenset({0}))
    assert planned.system == (text("a", LONG), text("b"))
    assert planned.tools == (tool("Read", LONG),)
    told = "This block, or one before it, changes from turn to turn: its marker is never read: it belongs on tools[0]."
    assert planned.notices[0] == Notice("marker_on_changing_block", told, "system[0]")


# --- the caller's system blocks --------------------------------------------------------------------------------------


def test_the_last_of_the_callers_blocks_that_takes_a_marker_is_the_end_of_the_system():
    planned = plan(system=[PREFIX, text("a"), text("b"), text(" ")])
    assert places(planned) == ["system[0]", "system[2]"]


def test_with_the_scope_off_the_callers_blocks_get_none_of_ours():
    assert places(plan(system=[text("a")], cache=CacheOptions(scope="off"))) == []


# --- providers -------------------------------------------------------------------------------------------------------


def test_an_hour_is_lowered_where_the_provider_has_none_for_the_model():
    theirs = [user(text("a", LONG), text("b"))]
    planned = plan([], [REST], theirs, CacheOptions(ttl="1h"), provider="bedrock", model=OPUS_4)
    assert planned.system == (text(REST.text, SHORT),)
    assert planned.messages == (user(text("a", SHORT), text("b", SHORT)),)
    assert codes(planned) == [
        ("marker_ttl_changed", "messages[0].content[0]"),
        ("marker_ttl_changed", "system[0]"),
        ("marker_ttl_changed", "messages[0]"),
    ]


def test_an_hour_stays_where_the_provider_has_it():
    planned = plan([], [REST], [user("a")], CacheOptions(ttl="1h"), provider="bedrock", model=SONNET)
    assert (planned.system, planned.notices) == ((text(REST.text, LONG),), ())


def test_a_beta_value_for_scopes_of_any_date_is_left_out_where_it_is_refused():
    values = ("prompt-caching-scope-2027-01-01", "files-1")
    assert plan(provider="vertex", betas=values).betas == ("files-1",)
    assert plan(provider="anthropic", betas=values).betas == values


def test_a_scope_that_the_api_does_not_know_is_removed():
    odd = {"type": "ephemeral", "scope": "galaxy"}
    planned = plan([tool("Read", odd)], cache=CacheOptions(scope_on_wire=True))
    assert planned.tools == (tool("Read", SHORT),)
    assert codes(planned) == [("marker_scope_removed", "tools[0]")]


# --- reported by users -----------------------------------------------------------------------------------------------


def test_e01_five_markers_of_the_callers_become_four_and_the_end_stays():
    system = [text("a", SHORT), text("b", LONG), text("c", SHORT)]
    planned = plan([tool("Read", LONG)], [text("a", LONG), *system[1:]], [user(text("q", SHORT))])
    assert places(planned) == ["system[0]", "system[1]", "system[2]", "messages[0]"]
    assert planned.system == (text("a", LONG), text("b", LONG), text("c", SHORT))
    assert codes(planned) == [("marker_dropped", "tools[0]")]


def test_e01_to_four_of_the_callers_none_is_added():
    messages = [user(text("q", SHORT)), user("next")]
    planned = plan([tool("Read", SHORT)], [text("a", SHORT), text("b", SHORT), REST], messages)
    assert places(planned) == ["tools[0]", "system[0]", "system[1]", "messages[0]"]
    assert planned.messages == tuple(messages)


def test_e02_an_hour_behind_five_minutes_is_lowered_across_sections():
    planned = plan([tool("Read", SHORT)], [text("a", LONG)], [user("q")], CacheOptions(ttl="1h"))
    assert (planned.tools, planned.system) == ((tool("Read", SHORT),), (text("a", SHORT),))
    assert planned.messages == (user(text("q", SHORT)),)
    assert codes(planned) == [("marker_ttl_changed", "system[0]"), ("marker_ttl_changed", "messages[0]")]


def test_e04_a_thinking_block_at_the_end_leaves_the_marker_to_another():
    thinking = {"type": "thinking", "thinking": "x", "signature": "s"}
    planned = plan(messages=[user("q"), {"role": "assistant", "content": [text("a"), thinking]}])
    assert planned.messages[1]["content"] == [text("a", SHORT), thinking]


def test_e10_the_marker_belongs_in_front_of_the_block_that_changes():
    system = [*(text(f"static {number}") for number in range(5)), text("12:00:01", SHORT)]
    planned = plan(system=system, messages=[user("q")], changing=frozenset({5}))
    assert places(planned) == ["system[4]", "system[5]", "messages[0]"]
    assert [notice.where for notice in planned.notices if notice.code == "marker_on_changing_block"] == ["system[5]"]
    assert "it belongs on system[4]." in planned.notices[0].message


@pytest.mark.parametrize(
    ("model", "tokens", "cached"),
    [("claude-opus-4-6", 1_500, False), ("claude-opus-4-8", 1_500, True), ("claude-opus-5-5", 600, True)],
)
def test_e12_each_model_has_its_own_minimum_and_below_it_is_told(model, tokens, cached):
    planned = plan(system=[block("x" * 4 * tokens, "org", "intro")], model=load_models().find(model))
    assert ("cache_control" in planned.system[0]) is cached
    assert codes(planned) == ([] if cached else [("prefix_below_minimum", "system[0]")])


def test_what_stands_in_front_of_a_block_that_changed_just_now_is_marked_too_where_there_is_room():
    tools, system, messages = [tool("Read"), tool("Write")], [REST], [user("hi")]
    once = plan(tools, system, messages, changed={0})
    assert places(once) == ["tools[1]", "system[0]", "messages[0]"]
    assert places(plan(tools, system, messages)) == ["system[0]", "messages[0]"]
    again = plan(tools, system, messages, changed={0}, changing={0})
    assert places(again) == ["tools[1]", "messages[0]"]
    assert places(plan([tool("Read", SHORT), tool("Edit", SHORT), tool("Write")], system, messages, changed={0})) == [
        "tools[0]",
        "tools[1]",
        "system[0]",
        "messages[0]",
    ]


def test_without_markers_on_the_system_prompt_none_is_put_in_front_of_it():
    assert places(plan([tool("Read")], [block("s", None)], [user("hi")], changed={0})) == ["messages[0]"]
