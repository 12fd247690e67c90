import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.cache_report import agreed, compared
from app.core.difference import SHOWN
from app.core.facts import Usage
from app.core.sent import lightened, sent
from tests.core.raw_requests import LONG, MARK, REQUESTS, nested, said, text

STATIC = "You are an agent. " * 300
MINIMUM = 1024
TOOLS = ({"name": "Read", "description": "reads"}, {"name": "Write", "description": "writes"})
NOTHING_READ, READ = Usage(input_tokens=9), Usage(input_tokens=9, cache_read_input_tokens=900)


def turn(
    *texts,
    model="m",
    system=(STATIC,),
    system_marker=MARK,
    marker=MARK,
    tools=TOOLS,
    minimum=MINIMUM,
    fields=(),
    **more,
):
    """A request marked at the end of its system prompt and of its conversation; ``more`` is what is known of it."""
    blocks = [text(one, system_marker if at == len(system) - 1 else None) for at, one in enumerate(system)]
    body = {"model": model, "system": blocks, "tools": list(tools), "messages": said(*texts, marker=marker)}
    return sent(body | dict(fields), minimum, **more)


def effort(level):
    return {"output_config": {"effort": level}}.items()


def verdict(before, after, usage=None):
    found = compared(before, after, usage)
    return found.hit, found.cause


def test_a_conversation_that_grows_reads_all_that_was_written():
    before, after = turn("a", "b"), turn("a", "b", "c", "d")
    found = compared(before, after, READ)
    assert (found.hit, found.hit_blocks, found.rewritten, found.cause) == (True, 5, 0, None)
    assert found.hit_tokens == sum(one.tokens for one in before.segments)
    assert (found.first_change, found.agreed) == (None, True)


@pytest.mark.parametrize(("added", "expected"), [(20, (True, None)), (21, (False, "markers_moved"))])
def test_a_marker_that_moves_reads_within_twenty_positions_and_not_beyond(added, expected):
    talk = [str(at) for at in range(added + 1)]
    assert verdict(turn(talk[0]), turn(*talk)) == expected


def test_a_marker_that_moved_too_far_still_reads_the_system_prompt():
    found = compared(turn("0"), turn(*map(str, range(30))))
    assert (found.hit_blocks, found.rewritten, found.first_change) == (3, 0, None)


def test_markers_taken_away_are_markers_that_moved():
    assert verdict(turn("a"), turn("a", "b", marker=None, system_marker=None)) == (False, "markers_moved")


def test_another_model_reads_nothing():
    found = compared(turn("a"), turn("a", "b", model="n"), NOTHING_READ)
    assert (found.hit, found.hit_tokens, found.cause, found.agreed) == (False, 0, "model_changed", None)
    assert found.rewritten == sum(one.tokens for one in turn("a").segments)


def test_another_model_is_the_cause_even_where_nothing_could_be_cached():
    assert verdict(turn("a", minimum=10**6), turn("a", model="n")) == (None, "model_changed")


@pytest.mark.parametrize(
    "fields",
    [
        effort("low"),
        {"thinking": {"type": "enabled"}}.items(),
        {"tool_choice": {"type": "any"}}.items(),
        {"effort": "low"}.items(),
    ],
)
def test_another_effort_keeps_tools_and_system_and_loses_the_messages(fields):
    found = compared(turn("a"), turn("a", "b", fields=fields))
    assert (found.hit, found.hit_blocks, found.cause) == (False, 3, "effort_changed")


def test_another_effort_is_no_cause_where_no_message_was_cached():
    assert verdict(turn("a", marker=None), turn("a", fields=effort("low"))) == (True, None)


def test_another_effort_is_told_before_a_message_that_changed_and_after_a_tool():
    assert verdict(turn("a"), turn("x", fields=effort("low"))) == (False, "effort_changed")
    assert verdict(turn("a"), turn("a", tools=(), fields=effort("low"))) == (False, "tools_changed")


@pytest.mark.parametrize(
    ("after", "at"),
    [
        (TOOLS[::-1], "tools[0]"),
        (TOOLS[:1], "tools[1]"),
        ((*TOOLS, {"name": "Bash"}), "tools[2]"),
        ((TOOLS[0], {**TOOLS[1], "description": "other"}), "tools[1]"),
    ],
)
def test_tools_that_changed_come_or_go_are_named(after, at):
    found = compared(turn("a"), turn("a", tools=after))
    assert (found.hit, found.cause, found.first_change.at) == (False, "tools_changed", at)
    assert found.hit_tokens == 0
    assert found.first_change.section in {"Read", "Write", "Bash"}


@pytest.mark.parametrize(
    ("after", "at"),
    [
        ((STATIC + "!",), "system[0]"),
        ((STATIC, "more"), "system[1]"),
        ((), "system[0]"),
    ],
)
def test_system_blocks_that_changed_come_or_go_are_named(after, at):
    found = compared(turn("a"), turn("a", system=after))
    assert (found.hit, found.cause, found.first_change.at) == (False, "system_changed", at)


def test_a_system_prompt_that_changed_behind_its_first_marker_is_still_read_up_to_there():
    tools = (*TOOLS, {"name": "Big", "description": STATIC, "cache_control": MARK})
    found = compared(turn("a", tools=tools), turn("a", tools=tools, system=("other",)))
    assert (found.hit, found.hit_blocks, found.cause) == (False, 3, "system_changed")


def test_instruction_files_are_told_from_conversation():
    before = turn("memory", "b", "c", context_messages=1)
    assert verdict(before, turn("memory!", "b", "c", context_messages=1)) == (False, "memory_changed")
    assert verdict(before, turn("memory", "x", "c", context_messages=1)) == (False, "messages_rewritten")
    assert verdict(turn("b"), turn("memory", "b", context_messages=1)) == (False, "memory_changed")


def test_messages_cut_off_are_rewritten():
    found = compared(turn("a", "b"), turn("a"))
    assert (found.hit, found.hit_blocks, found.cause) == (False, 3, "messages_rewritten")
    assert (found.first_change.before, found.first_change.after, found.first_change.section) == ("b", "", None)


def test_entries_end_after_their_life_from_the_start_of_the_last_request():
    before = turn("a", started=1000.0)
    assert verdict(before, turn("a", "b", started=1300.0)) == (True, None)
    assert verdict(before, turn("a", "b", started=1300.5)) == (False, "ttl_expired")
    assert verdict(before, turn("a", "b")) == (True, None)
    assert verdict(turn("a"), turn("a", "b", started=9999.0)) == (True, None)


def test_an_entry_of_an_hour_outlives_one_of_five_minutes_behind_it():
    before = turn("a", system_marker=LONG, started=0.0)
    after = turn("a", "b", system_marker=LONG, started=600.0)
    found = compared(before, after)
    assert (found.hit, found.hit_blocks, found.cause) == (False, 3, "ttl_expired")
    assert compared(before, turn("a", "b", system_marker=LONG, started=3601.0)).hit_blocks == 0


def test_a_life_that_nobody_knows_counts_as_five_minutes():
    odd = {**MARK, "ttl": "2d"}
    assert verdict(turn("a", marker=odd, started=0.0), turn("a", marker=odd, started=9.0)) == (True, None)


def test_another_scope_reads_nothing():
    found = compared(turn("a"), turn("a", system_marker={**MARK, "scope": "global"}))
    assert (found.hit, found.hit_tokens, found.cause) == (False, 0, "scope_changed")


def test_a_marker_with_a_scope_that_went_is_no_change_of_scope():
    scoped = {**MARK, "scope": "global"}
    assert verdict(turn("a", system_marker=scoped), turn("a", system_marker=None)) == (True, None)


def test_a_prefix_below_the_minimum_is_told_and_is_neither_hit_nor_miss():
    found = compared(turn("a", minimum=10**6), turn("b"), NOTHING_READ)
    assert (found.hit, found.rewritten, found.cause, found.agreed) == (None, 0, "below_minimum", None)


def test_a_request_without_markers_has_no_cause():
    bare = turn("a", marker=None, system_marker=None)
    assert verdict(bare, bare) == (None, None)


def test_the_apis_word_is_believed_where_nothing_changed():
    found = compared(turn("a"), turn("a", "b"), NOTHING_READ)
    assert (found.hit, found.hit_blocks, found.cause, found.agreed) == (False, 0, "server_side_or_unknown", False)
    assert found.rewritten == sum(one.tokens for one in turn("a").segments)


def test_where_nothing_was_expected_the_apis_word_is_neither_for_nor_against_it():
    found = compared(turn("a"), turn("a", model="n"), READ)
    assert (found.cause, found.agreed) == ("model_changed", None)


def test_the_first_change_tells_block_place_section_offset_and_both_texts():
    sections = {"system[0]": (("intro", len(STATIC)), ("where", 20))}
    before = turn("a", system=(STATIC + "You are in /a today",), sections=sections)
    change = compared(before, turn("a", system=(STATIC + "You are in /b today",), sections=sections)).first_change
    assert (change.block, change.at, change.section) == (2, "system[0]", "where")
    assert change.offset == len(STATIC) + len("You are in /")
    assert change.before == "agent. You are in /a today"
    assert change.after == "agent. You are in /b today"


def test_sections_are_measured_in_utf16_units_and_offsets_in_characters():
    faces = "😀" * 10
    sections = {"system[0]": (("faces", 20), ("rest", 99999))}
    before, after = (turn("a", system=(f"{faces}{end}{STATIC}",), sections=sections) for end in "xy")
    change = compared(before, after).first_change
    assert (change.offset, change.section) == (10, "rest")


def test_a_section_that_came_is_named_and_one_that_nobody_named_is_not():
    before = turn("a", sections={"system[0]": (("intro", len(STATIC)),)})
    added = turn("a", system=(STATIC + "new",), sections={"system[0]": (("intro", len(STATIC)), ("new", 3))})
    assert compared(before, added).first_change.section == "new"
    assert compared(before, turn("a", system=(STATIC + "new",))).first_change.section is None


def test_secrets_are_shown_as_as_many_dots():
    keys = ["sk-ant-" + letter * 9 for letter in "ab"]
    before, after = (turn(f"key {key} end") for key in keys)
    change = compared(before, after).first_change
    assert change.before == change.after == f"key {'•' * len(keys[0])} end"


def test_a_secret_that_begins_long_before_what_is_shown_is_hidden():
    block = "-----BEGIN PRIVATE KEY-----\n" + "ab/c\n" * 600 + "{}\n-----END PRIVATE KEY-----"
    change = compared(turn(block.format("x")), turn(block.format("y"))).first_change
    assert set(change.before) == {"•"}


HOSTILE = {
    "the same request again": (("a", "b"), {}, ("a", "b"), {}, (True, None)),
    "cut back to an earlier message": (("a", "b", "c"), {}, ("a",), {}, (False, "messages_rewritten")),
    "cut back and gone on": (("a", "b", "c"), {}, ("a", "x", "y", "z"), {}, (False, "messages_rewritten")),
    "one block less at the end": (("a", "b"), {}, ("a",), {}, (False, "messages_rewritten")),
    "cut back behind the last marker": (("a", "b"), {"marker": None}, ("a",), {}, (True, None)),
    "no message left": (("a",), {}, (), {}, (False, "messages_rewritten")),
    "no markers any more": (("a",), {}, ("a", "b"), {"marker": None, "system_marker": None}, (False, "markers_moved")),
    "no tools any more": (("a",), {}, ("a",), {"tools": ()}, (False, "tools_changed")),
    "a change behind all markers": (("a", "b"), {"marker": None}, ("a", "x"), {"marker": None}, (True, None)),
    "only the request's own marker": (
        ("a",),
        {"marker": None, "system_marker": None, "fields": {"cache_control": MARK}.items()},
        ("a", "b"),
        {"marker": None, "system_marker": None, "fields": {"cache_control": MARK}.items()},
        (True, None),
    ),
    "the request's own marker instead of others": (
        ("a",),
        {},
        ("a", "b"),
        {"marker": None, "system_marker": None, "fields": {"cache_control": MARK}.items()},
        (True, None),
    ),
    "an option that is left out and one that says the same": (
        ("a",),
        {"fields": {"tool_choice": {"type": "auto"}, "thinking": None}.items()},
        ("a",),
        {},
        (True, None),
    ),
    "an option with its keys in another order": (
        ("a",),
        {"fields": {"thinking": {"type": "enabled", "budget_tokens": 2000}}.items()},
        ("a",),
        {"fields": {"thinking": {"budget_tokens": 2000, "type": "enabled"}}.items()},
        (True, None),
    ),
    "another scope of a marker that wrote nothing": (
        ("a" * 9000,),
        {"system": ("short",), "system_marker": {**MARK, "scope": "global"}},
        ("a" * 9000, "b"),
        {"system": ("short",)},
        (True, None),
    ),
    "markers left out below the minimum, twice": (
        ("a",),
        {"marker": None, "system_marker": None, "left_out": True},
        ("a", "b"),
        {"marker": None, "system_marker": None, "left_out": True},
        (None, "below_minimum"),
    ),
    "markers left out below the minimum, then long enough": (
        ("a",),
        {"marker": None, "system_marker": None, "left_out": True},
        ("a", "b"),
        {},
        (None, "below_minimum"),
    ),
    "long enough, then taken to be too short": (
        ("a",),
        {},
        ("a", "b"),
        {"marker": None, "system_marker": None, "left_out": True},
        (False, "below_minimum"),
    ),
    "some markers left out": (("a",), {"left_out": True}, ("a", "b"), {}, (True, None)),
}


@pytest.mark.parametrize("case", HOSTILE.values(), ids=HOSTILE.keys())
def test_causes_are_named_rightly_in_hostile_cases(case):
    said_before, more_before, said_after, more_after, expected = case
    assert verdict(turn(*said_before, **more_before), turn(*said_after, **more_after)) == expected


def test_a_change_behind_what_was_cached_is_not_shown():
    found = compared(turn("a", "b", marker=None, started=0.0), turn("a", "x", started=301.0))
    assert (found.cause, found.first_change) == ("ttl_expired", None)


def split(found):
    return found.rewritten_5m, found.rewritten_1h, found.unwritten


def test_what_is_written_again_is_told_by_the_life_of_the_marker_that_writes_it():
    before = turn("a" * 400, system_marker=LONG)
    front = sum(one.tokens for one in before.segments[:3])
    assert split(compared(before, turn("a" * 400, model="n", system_marker=LONG))) == (100, front, 0)
    assert split(compared(before, turn("a" * 400, model="n"))) == (front + 100, 0, 0)
    assert split(compared(before, turn("b" * 400, system_marker=LONG))) == (100, 0, 0)


def test_what_no_marker_covers_any_more_is_sent_again_but_not_written():
    before = turn("a" * 400)
    found = compared(before, turn("a" * 400, marker=None, system_marker=None))
    assert split(found) == (0, 0, sum(one.tokens for one in before.segments))
    assert found.rewritten == 0


def test_what_is_not_sent_any_more_costs_nothing():
    found = compared(turn("a" * 400, "b" * 4000), turn("a" * 400))
    assert split(found) == (100, 0, 0)


def test_what_is_new_is_not_written_again():
    found = compared(turn("a" * 400), turn("x" * 400, "b" * 4000))
    assert split(found) == (100, 0, 0)


@pytest.mark.parametrize(("part", "expected"), [(0, False), (1 / 4, False), (1 / 3, True), (1, True), (9, True)])
def test_the_api_agrees_when_it_read_a_third_of_what_was_expected(part, expected):
    foreseen = compared(turn("a"), turn("a", "b"))
    usage = Usage(cache_read_input_tokens=math.ceil(foreseen.hit_tokens * part))
    assert agreed(foreseen, usage) is expected
    assert compared(turn("a"), turn("a", "b"), usage).agreed is expected


def test_nobody_agrees_without_usage_or_where_nothing_was_expected():
    assert agreed(compared(turn("a"), turn("a", "b")), None) is None
    assert agreed(compared(turn("a"), turn("a", model="n")), READ) is None


def test_the_apis_word_is_believed_up_to_the_entry_that_it_may_have_read():
    talk = ["a" * 40_000, "b"]
    before, after = turn(talk[0]), turn(*talk)
    system = sum(one.tokens for one in before.segments[:3])
    found = compared(before, after, Usage(cache_read_input_tokens=system))
    assert (found.hit, found.hit_blocks, found.cause) == (False, 3, "server_side_or_unknown")
    assert found.rewritten == 10_000


def test_the_apis_word_that_less_was_read_leaves_the_cause_that_is_known():
    found = compared(turn("a"), turn("a", fields=effort("low")), NOTHING_READ)
    assert (found.hit_blocks, found.cause, found.agreed) == (0, "effort_changed", False)


SECTIONS = {"system[0]": (("intro", len(STATIC)), ("where", 10), ("end", 3))}


@pytest.mark.parametrize(
    ("after", "section"),
    [
        (STATIC + "You are /b" + "end", "where"),
        ("x" + STATIC[1:] + "You are /b" + "end", "intro"),
        (STATIC + "You are /a" + "END", "end"),
    ],
)
@pytest.mark.parametrize("light", [(True, False), (False, True), (True, True)])
def test_a_difference_is_placed_where_the_text_is_gone(after, section, light):
    before = turn("a", system=(STATIC + "You are /a" + "end",), sections=SECTIONS)
    pair = [before, turn("a", system=(after,), sections=SECTIONS)]
    pair = [lightened(one, 100) if less else one for one, less in zip(pair, light, strict=True)]
    found = compared(*pair)
    change = found.first_change
    assert (found.cause, change.block, change.at, change.section) == ("system_changed", 2, "system[0]", section)
    assert (change.offset, change.before == "", change.after == "") == (None, *light)


def test_a_section_that_is_gone_or_came_is_named_where_the_text_is_gone():
    before = turn(
        "a", system=(STATIC, "more"), sections={"system[0]": (("intro", len(STATIC)),), "system[1]": (("more", 4),)}
    )
    without = turn("a", sections={"system[0]": (("intro", len(STATIC)),)})
    assert compared(lightened(before, 0), without).first_change.section == "more"
    assert compared(before, lightened(without, 0)).first_change.section == "more"
    longer = turn("a", system=(STATIC + "tail",), sections={"system[0]": (("intro", len(STATIC)), ("tail", 4))})
    assert compared(lightened(without, 0), longer).first_change.section == "tail"


def test_no_section_is_named_where_none_was_known():
    before = lightened(turn("a"), 0)
    assert compared(before, turn("a", system=("x",))).first_change.section is None
    assert compared(before, turn("a", system=("x",), sections={"system[0]": (("x", 1),)})).first_change.section is None
    same = turn("a", system=(STATIC + "x",), sections={"system[0]": (("intro", len(STATIC)),)})
    known = lightened(turn("a", sections={"system[0]": (("intro", len(STATIC)),)}), 0)
    assert compared(known, same).first_change.section is None


def test_tools_and_messages_are_placed_where_the_text_is_gone():
    before = lightened(turn("a", "b"), 0)
    tool = compared(before, turn("a", "b", tools=TOOLS[::-1])).first_change
    assert (tool.at, tool.section, tool.offset, tool.before) == ("tools[0]", "Read", None, "")
    message = compared(before, turn("a", "x")).first_change
    assert (message.at, message.section, message.offset, message.after) == ("messages[1].content[0]", None, None, "x")


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_never_more_is_shown_than_agreed(start, one, other):
    change = compared(turn(start + one), turn(start + other)).first_change
    if start + one == start + other:
        assert change is None
    else:
        assert max(len(change.before), len(change.after)) <= SHOWN
        assert (start + one)[: change.offset] == (start + other)[: change.offset]


@given(REQUESTS, REQUESTS, st.integers(0, 4), st.sampled_from([None, READ, NOTHING_READ]))
def test_any_two_requests_are_compared(one, other, minimum, usage):
    before, after = sent(one, minimum, started=0.0), sent(other, minimum, started=400.0)
    found = compared(before, after, usage)
    assert (found.hit is False) <= (found.cause is not None)
    assert (found.hit is True) <= (found.cause is None)
    assert 0 <= found.hit_blocks <= len(after.segments)
    lost = sum(segment.tokens for segment in before.segments) - found.hit_tokens
    assert min(split(found)) >= 0
    assert found.rewritten + found.unwritten <= max(0, lost)


@given(REQUESTS, REQUESTS, st.integers(0, 40))
def test_texts_that_are_gone_change_no_verdict(one, other, limit):
    before, after = sent(one, 0), sent(other, 0)
    whole, light = compared(before, after), compared(lightened(before, limit), after)
    shown = [
        replace(found.first_change, offset=None, before="", after="") if found.first_change else None
        for found in (whole, light)
    ]
    assert shown[0] == shown[1]
    assert replace(whole, first_change=None) == replace(light, first_change=None)


@given(REQUESTS, st.integers(0, 4))
def test_the_same_request_again_is_never_a_miss(body, minimum):
    again = sent(body, minimum)
    assert compared(again, again).hit in {True, None}


def test_an_effort_that_is_too_deep_for_the_encoder_is_compared():
    before, after = (turn("a", fields={"thinking": nested(3000, end)}.items()) for end in (1, 2))
    assert verdict(before, after) == (False, "effort_changed")


@pytest.mark.parametrize("place", ["model", "role", "text", "ttl", "scope", "tool", "system"])
def test_json_that_is_too_deep_for_the_encoder_is_compared_at_any_place(place):
    def made(end):
        given = {place: nested(3000, end)}
        marker = {key: given[key] for key in ("ttl", "scope") if key in given}
        block = {"type": "text", "text": given.get("text", "a"), "cache_control": marker}
        message = {"role": given.get("role", "user"), "content": [block]}
        more = {"model": given.get("model", "m"), "tools": [given.get("tool")], "system": [given.get("system")]}
        return sent({"messages": [message], **more}, 0, started=0.0)

    assert verdict(made(1), made(1)) == (True, None)
    assert (verdict(made(1), made(2)) == (True, None)) == (place == "ttl")


def test_a_recorded_session_of_thirty_turns_names_every_cause():
    state = {"tools": TOOLS, "system": (STATIC,), "context_messages": 1, "started": 0.0}
    talk, expected, turns = ["memory"], {}, []
    changes = {
        3: ("model_changed", {"model": "n"}),
        5: ("effort_changed", {"fields": effort("low")}),
        8: ("tools_changed", {"tools": TOOLS[:1]}),
        10: ("system_changed", {"system": (STATIC + " Be short.",)}),
        12: ("memory_changed", {}),
        14: ("messages_rewritten", {}),
        17: ("ttl_expired", {}),
        20: ("markers_moved", {}),
        23: ("scope_changed", {"system_marker": {**MARK, "scope": "org"}}),
        25: ("server_side_or_unknown", {}),
        27: ("below_minimum", {}),
        28: ("below_minimum", {}),
    }
    for index in range(30):
        cause, change = changes.get(index, (None, {}))
        state |= change | {"started": state["started"] + (301 if cause == "ttl_expired" else 60)}
        state["minimum"] = 10**6 if index == 27 else MINIMUM
        if cause == "memory_changed":
            talk[0] = "memory, edited"
        if cause == "messages_rewritten":
            talk[1] = "rewound"
        talk.extend(f"{index}-{at}" for at in range(24 if cause == "markers_moved" else 2))
        turns.append((turn(*talk, **state), NOTHING_READ if cause == "server_side_or_unknown" else None))
        expected[index] = cause
    found = {index: compared(turns[index - 1][0], turns[index][0], turns[index][1]) for index in range(1, len(turns))}
    assert {index: one.cause for index, one in found.items()} == {index: expected[index] for index in found}
    assert all(one.hit is (None if index == 28 else one.cause is None) for index, one in found.items())
    assert sorted(filter(None, expected.values())) == sorted(cause for cause, _ in changes.values())


def test_where_only_one_of_two_requests_names_its_sections_they_are_named_by_the_place():
    sections = {"system[0]": (("intro", len(STATIC)), ("where", 20))}
    named, bare = turn("a", system=(STATIC + "in /a",), sections=sections), turn("a", system=(STATIC + "in /b",))
    for before, after in ((named, bare), (bare, named)):
        assert compared(before, after).first_change.section == "where"


def test_text_added_at_the_end_of_a_section_belongs_to_it():
    def prompt(first):
        return turn(
            "a", system=(f"{STATIC}{first}rest",), sections={"system[0]": (("intro", len(STATIC + first)), ("rest", 4))}
        )

    assert compared(prompt(""), prompt("more")).first_change.section == "intro"
