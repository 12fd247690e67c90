import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.cache_report import SHOWN, compared, sent
from app.core.facts import Usage
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
    assert (found.hit, found.hit_tokens, found.cause, found.agreed) == (False, 0, "model_changed", True)
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


def test_the_apis_word_against_a_cause_is_told_as_disagreement():
    found = compared(turn("a"), turn("a", model="n"), READ)
    assert (found.cause, found.agreed) == ("model_changed", False)


def test_the_first_change_tells_block_place_section_offset_and_both_texts():
    sections = ((("intro", len(STATIC)), ("where", 20)),)
    before = turn("a", system=(STATIC + "You are in /a today",), sections=sections)
    change = compared(before, turn("a", system=(STATIC + "You are in /b today",), sections=sections)).first_change
    assert (change.block, change.at, change.section) == (2, "system[0]", "where")
    assert change.offset == len(STATIC) + len("You are in /")
    assert change.before == "agent. You are in /a today"
    assert change.after == "agent. You are in /b today"


def test_sections_are_measured_in_utf16_units_and_offsets_in_characters():
    faces = "😀" * 10
    sections = ((("faces", 20), ("rest", 99999)),)
    before, after = (turn("a", system=(f"{faces}{end}{STATIC}",), sections=sections) for end in "xy")
    change = compared(before, after).first_change
    assert (change.offset, change.section) == (10, "rest")


def test_a_section_that_came_is_named_and_one_that_nobody_named_is_not():
    before = turn("a", sections=((("intro", len(STATIC)),),))
    added = turn("a", system=(STATIC + "new",), sections=((("intro", len(STATIC)), ("new", 3)),))
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


def test_a_recorded_session_of_thirty_turns_names_every_cause_once():
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
