import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.blocks import Block
from app.core.facts import CacheOptions, Notice
from app.core.markers import SCOPE_BETA, Breakpoint, plan_markers
from tests.core.api_rules import marked, violations

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def block(text, scope, *sections):
    return Block(text, scope, sections or ("intro",), ())


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
    given_options = {"provider": "anthropic", "min_cache": 0} | options
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


def test_breakpoints_tell_how_much_stands_before_them_and_which_are_useless():
    planned = plan([tool("Read")], [PREFIX, REST], [user("one"), user("two")], min_cache=30, measure=lambda piece: 10)
    assert planned.breakpoints == (
        Breakpoint("system[0]", 20, True),
        Breakpoint("system[1]", 30, False),
        Breakpoint("messages[1]", 50, False),
    )
    assert planned.notices == (
        Notice(
            "prefix_below_minimum",
            "About 20 tokens up to here: this model caches no prefix shorter than 30.",
            "system[0]",
        ),
    )


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
    assert plan(messages=[user("x" * 40)]).breakpoints == (Breakpoint("messages[0]", 10, False),)


# --- whatever the caller sent ----------------------------------------------------------------------------------------

MARKERS = st.sampled_from(
    [
        None,
        None,
        SHORT,
        LONG,
        {"type": "ephemeral", "ttl": "5m"},
        {"type": "ephemeral", "scope": "global"},
        {"type": "x"},
    ]
)


def with_marker(values):
    return st.tuples(values, MARKERS).map(
        lambda pair: pair[0] if pair[1] is None else {**pair[0], "cache_control": pair[1]}
    )


TEXT_BLOCKS = with_marker(st.sampled_from(["", " ", "a", "words"]).map(text))
LEAVES = st.one_of(
    TEXT_BLOCKS,
    with_marker(st.just({"type": "image", "source": {"type": "url", "url": "x"}})),
    with_marker(
        st.lists(TEXT_BLOCKS, max_size=3).map(
            lambda content: {"type": "document", "source": {"type": "content", "content": content}}
        )
    ),
)
BLOCKS = st.one_of(
    LEAVES,
    with_marker(st.just({"type": "thinking", "thinking": "x", "signature": "s"})),
    with_marker(st.just({"type": "redacted_thinking", "data": "x"})),
    with_marker(st.just({"type": "tool_use", "id": "1", "name": "x", "input": {"cache_control": "a word"}})),
    with_marker(st.lists(LEAVES, max_size=3).map(lambda content: {"type": "tool_result", "content": content})),
)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    st.one_of(st.sampled_from(["", "hi"]), st.lists(BLOCKS, max_size=5)),
)
TOOLS = with_marker(
    st.builds(lambda name, later: tool(name) | ({"defer_loading": True} if later else {}), st.text(), st.booleans())
)
SYSTEMS = st.sampled_from([(), (PREFIX, REST), (HEADER, PREFIX, STATIC, DYNAMIC), (HEADER, DYNAMIC), (REST,)])
CACHES = st.builds(CacheOptions, enabled=st.booleans(), ttl=st.sampled_from(["5m", "1h"]), scope_on_wire=st.booleans())
REQUESTS = st.tuples(st.lists(TOOLS, max_size=5), SYSTEMS, st.lists(MESSAGES, max_size=5))


def stripped(value):
    """Without markers; a message's bare text and the one block it may become are the same."""
    if isinstance(value, dict):
        bare = {k: stripped(v) for k, v in value.items() if k != "cache_control" or isinstance(v, str)}
        if "role" in bare and isinstance(bare["content"], str):
            bare["content"] = [text(bare["content"])]
        return bare
    return [stripped(item) for item in value] if isinstance(value, list | tuple) else value


@given(REQUESTS, CACHES, st.sampled_from(["anthropic", "bedrock"]))
def test_every_plan_obeys_the_apis_rules_and_changes_nothing_but_markers(request_, cache, provider):
    before = copy.deepcopy(request_)
    tools, system, messages = request_
    planned = plan(tools, system, messages, cache, provider=provider)
    scope_allowed = cache.scope_on_wire and provider == "anthropic"
    assert violations(planned.tools, planned.system, planned.messages, scope_allowed=scope_allowed) == []
    assert request_ == before
    assert stripped(planned.tools) == stripped(tools)
    assert stripped(planned.messages) == stripped(messages)
    sent = list(marked(planned.tools, planned.system, planned.messages))
    assert len(planned.breakpoints) == len(sent)
    assert (SCOPE_BETA in planned.betas) == any("scope" in marker for _, _, marker in sent)
    assert [point.tokens for point in planned.breakpoints] == sorted(point.tokens for point in planned.breakpoints)


@given(REQUESTS, CACHES)
def test_a_callers_marker_that_changed_is_told(request_, cache):
    tools, system, messages = request_
    planned = plan(tools, system, messages, cache)
    theirs = [(where, marker) for where, _, marker in marked(tools, (), messages)]
    kept = [(where, marker) for where, _, marker in marked(planned.tools, (), planned.messages)]
    told = [code for code, _ in codes(planned) if code != "prefix_below_minimum"]
    assert len([row for row in theirs if row not in kept]) <= len(told)


@given(REQUESTS, CACHES)
def test_a_plan_of_a_plan_is_the_same_plan(request_, cache):
    tools, _, messages = request_
    once = plan(tools, (), messages, cache)
    twice = plan(once.tools, (), once.messages, CacheOptions(enabled=False, scope_on_wire=cache.scope_on_wire))
    assert (twice.tools, twice.messages, twice.notices) == (once.tools, once.messages, ())
