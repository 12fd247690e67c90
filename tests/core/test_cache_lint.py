import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.cache_lint import CONTEXT_CHARACTERS, MOST_VOLATILE, VOLATILE, lint
from app.core.costs import Price, Prices
from app.core.facts import Usage
from app.core.models import Model
from tests.core.raw_requests import LONG, MARK, REQUESTS, nested, said, text

STATIC = "You are an agent. " * 300
MEGABYTE = 1_000_000
TOOLS = [{"name": "Bash", "description": "runs, or run_in_background"}, {"name": "Read", "description": "reads"}]


def body(*texts, system=STATIC, system_marker=MARK, marker=MARK, tools=TOOLS, **more):
    blocks = [text(system, system_marker)]
    return {"model": "m", "tools": list(tools), "system": blocks, "messages": said(*texts, marker=marker), **more}


def model(minimum=1024, tokenizer=1):
    sizes = {"api_window": 200_000, "client_window": 200_000, "max_output": 32_000}
    return Model("m", None, **sizes, cutoff=None, min_cache=minimum, tokenizer=tokenizer, family=None)


def linted(*bodies, minimum=1024, tokenizer=1, prices=Prices()):  # noqa: B008 - frozen
    count = len(bodies)
    return lint(bodies, [model(minimum, tokenizer)] * count, [None] * count, [None] * count, prices)


def found(*bodies, **more):
    return [(one.code, one.request, one.at) for one in linted(*bodies, **more).findings]


def test_a_sound_series_has_hits_and_no_findings():
    bodies = [body(*map(str, range(length))) for length in (1, 3, 5, 7)]
    result = linted(*bodies)
    assert [one.hit for one in result.comparisons] == [True] * 3
    assert result.findings == ()


def test_starts_and_usages_reach_the_comparisons():
    bodies = [body("a"), body("a", "b"), body("a", "b", "c")]
    usages = [None, Usage(), Usage()]
    known = lint(bodies, [model()] * 3, [0.0, 400.0, None], usages, Prices()).comparisons
    assert [(one.cause, one.agreed) for one in known] == [
        ("ttl_expired", None),
        ("server_side_or_unknown", False),
    ]


def test_nothing_to_lint_is_nothing_found():
    assert linted() == linted()
    assert (linted().comparisons, linted().findings) == ((), ())


def test_a_request_without_markers_is_told():
    assert found(body("a", marker=None, system_marker=None)) == [("no_marker", 0, "request")]
    assert found({"messages": []}) == [("no_marker", 0, "request")]


def test_a_marker_of_the_whole_request_is_one():
    assert found(body("a", marker=None, system_marker=None, cache_control=MARK)) == []


def test_a_fifth_marker_is_told_at_its_place():
    tools = [{"name": name, "description": STATIC, "cache_control": MARK} for name in "abc"]
    assert found(body("a", tools=tools[:2])) == []
    assert found(body("a", tools=tools)) == [("too_many_markers", 0, "messages[0].content[0]")]


def test_markers_within_a_block_count():
    inside = [text("x", MARK) for _ in range(3)]
    result = {"role": "user", "content": [{"type": "tool_result", "content": inside, "cache_control": MARK}]}
    assert found({**body("a"), "messages": [result]}) == [("too_many_markers", 0, "messages[0].content[0]")]


def test_a_longer_life_behind_a_shorter_one_is_told():
    assert found(body("a", marker=LONG)) == [("ttl_order", 0, "messages[0].content[0]")]
    assert found(body("a", system_marker=LONG)) == []


def test_a_marker_below_the_minimum_is_told_with_both_numbers():
    (finding,) = linted(body("a", system="short", marker=None)).findings
    assert (finding.code, finding.at) == ("below_minimum", "system[0]")
    assert finding.message.endswith("tokens stand up to here; m caches 1,024 or more.")


def test_the_minimum_is_judged_and_told_in_the_models_own_tokens():
    of_800 = "x" * 3200
    assert found(body("a", system=of_800, marker=None, tools=()), minimum=1040, tokenizer=2) == []
    (finding,) = linted(body("a", system=of_800[4:], marker=None, tools=()), minimum=1040, tokenizer=2).findings
    assert finding.message == "About 1,039 tokens stand up to here; m caches 1,040 or more."


def test_one_token_is_told_as_one():
    (finding,) = linted({"model": "m", "system": [text("four", MARK)], "messages": []}).findings
    assert finding.message == "About 1 token stands up to here; m caches 1,024 or more."


def test_costs_stand_beside_their_comparisons():
    bodies = [body("a"), body("a", "b"), body("a", "b", system="x" + STATIC)]
    assert linted(*bodies).costs == (None, None)
    nothing, something = linted(*bodies, prices=Prices({"m": Price(4.0)}, "EUR")).costs
    assert (nothing.amount, nothing.currency) == (0.0, "EUR")
    rewritten = linted(*bodies).comparisons[1].rewritten
    assert something.amount == pytest.approx(rewritten * 4 * 1.25 / 1e6)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("It is 2026-11-30T10:11:12Z.", "a time"),
        ("It is 2026-11-30 10:11.", "a time"),
        ("It is 10:11:12.", "a time"),
        ("Today is 2026-11-30.", "a date"),
        ("Today is 2026/11/30.", "a date"),
        ("Today is 30 November 2026.", "a date"),
        ("Today is Nov 30, 2026.", "a date"),
        ("Id 123e4567-e89b-12d3-a456-426614174000", "an id"),
        ("Id 123E4567-E89B-12D3-A456-426614174000", "an id"),
        ("Id req_011CSHoEeqs5C35K2UUq", "an id"),
        ("At 1764497000", "a Unix time"),
        ("At 1764497000123", "a Unix time"),
        ("In /home/ada/x", "a home folder"),
        ("In /Users/ada", "a home folder"),
        ("In C:\\Users\\ada", "a home folder"),
        ("In C:/Users/ada", "a home folder"),
        ("Current branch: main", "a repository's status"),
        ("On branch main", "a repository's status"),
        (" M app/a.py", "a repository's status"),
        ("?? app/a.py", "a repository's status"),
        ("AM app/a.py", "a repository's status"),
    ],
)
def test_what_varies_before_the_last_shared_marker_is_told(line, what):
    (finding,) = linted(body("a", system=f"{STATIC}\n{line}")).findings
    assert (finding.code, finding.at) == ("volatile_text", "system[0]")
    assert finding.message.startswith(f"It holds {what}:")
    assert finding.shown
    assert len(finding.shown) <= CONTEXT_CHARACTERS


@pytest.mark.parametrize(
    "line",
    [
        "run_in_background",
        "sess_of_today_only",
        "   indented",
        "  - item",
        "see https://x.org/home/page",
        "12-30 or 1.5",
        "May 5",
    ],
)
def test_what_only_looks_like_it_is_not_told(line):
    assert found(body("a", system=f"{STATIC}\n{line}\n")) == []


def test_a_folder_in_a_tool_is_told_in_its_json_spelling():
    tools = [{"name": "Read", "description": "in C:\\Users\\ada"}]
    assert found(body("a", tools=tools)) == [("volatile_text", 0, "tools[0]")]


def test_what_varies_behind_the_last_shared_marker_is_in_its_place():
    late = body("It is 2026-11-30.")
    late["system"] = [text(STATIC, MARK), text("Today is 2026-11-30.")]
    assert found(late) == []


def kinds(system):
    return [one.message.split(":")[0].removeprefix("It holds ") for one in linted(body("a", system=system)).findings]


def test_each_kind_of_what_varies_in_a_block_is_told_once():
    assert kinds(f"{STATIC} 10:11:12 in /home/ada and 10:11:13 in /home/bob") == ["a time", "a home folder"]


def test_the_date_of_a_time_is_no_further_kind():
    assert kinds(f"{STATIC} 2026-11-30 10:11:12") == ["a time"]
    assert kinds(f"{STATIC} 2026-11-30 10:11:12, since 2026-10-01") == ["a time", "a date"]


def test_no_more_kinds_are_told_than_help():
    everything = "\nOn branch main\n10:11:12 2026-11-30 req_011CSHoEeqs5C35K2UUq 1764497000 /home/ada"
    assert len(kinds(STATIC + everything)) == MOST_VOLATILE < len(VOLATILE)


def test_kinds_that_stand_in_every_request_are_told_for_the_first():
    texts = [f"{STATIC} 10:11:1{second} in /home/ada" for second in range(2)]
    told = linted(*(body("a", system=system, system_marker=None) for system in texts)).findings
    marked = linted(*(body("a", system=system) for system in texts)).findings
    assert [(one.code, one.request) for one in told] == [("changing_block", 1)]
    assert [(one.code, one.request) for one in marked] == [
        ("volatile_text", 0),
        ("volatile_text", 0),
        ("marker_on_changing_block", 1),
    ]


def test_secrets_in_what_is_shown_are_hidden():
    key = "sk-ant-abcdefgh"
    (finding,) = linted(body("a", system=f"{STATIC}{key} 2026-11-30")).findings
    assert finding.shown.endswith(f" {'•' * len(key)} 2026-11-30")


def test_tools_in_another_order_are_told_once_and_not_as_a_changing_block():
    marked = [TOOLS[0], {**TOOLS[1], "cache_control": MARK}]
    swapped = [TOOLS[1], {**TOOLS[0], "cache_control": MARK}]
    bodies = [body("a", tools=tools) for tools in (marked, swapped, marked)]
    assert found(*bodies, minimum=1) == [("tool_order", 1, "tools")]


def test_keys_in_another_order_are_told():
    turned = [dict(reversed(tool.items())) for tool in TOOLS]
    assert found(body("a"), body("a", tools=turned)) == [("key_order", 1, "tools")]


def test_other_tools_are_neither():
    assert found(body("a"), body("a", tools=TOOLS[:1])) == []


def test_tools_that_are_no_json_objects_are_compared():
    assert found(body("a", tools=["{", "x"]), body("a", tools=["{", "y"])) == []
    deep = [[{"name": "x", "input_schema": nested(3000, end)}] for end in (1, 2)]
    assert found(body("a", tools=deep[0]), body("a", tools=deep[1])) == [("changing_block", 1, "tools[0]")]


def test_a_marked_block_that_changes_is_told_once_wherever_it_stands():
    bodies = [body("a"), body("a", system=STATIC + "1", tools=TOOLS[:1]), body("a", system=STATIC + "2")]
    assert found(*bodies) == [("marker_on_changing_block", 1, "system[0]")]


def test_a_marked_tool_that_changes_is_told():
    tools = [[{"name": "x", "description": STATIC + end, "cache_control": MARK}] for end in "ab"]
    assert found(body("a", tools=tools[0]), body("a", tools=tools[1])) == [("marker_on_changing_block", 1, "tools[0]")]


def test_a_marked_block_that_is_replaced_by_an_unmarked_one_is_a_changing_block():
    assert found(body("a"), body("a", system=STATIC + "1", system_marker=None)) == [("changing_block", 1, "system[0]")]


HEADER = "x-anthropic-billing-header: version=7; turn="


def blocks(*texts, marked=(), marker=MARK, talk="a", **more):
    """A request whose system blocks at the places ``marked`` have a marker."""
    system = [text(one, MARK if at in marked else None) for at, one in enumerate(texts)]
    return {**body(talk, marker=marker), "system": system, **more}


def test_a_header_that_changes_in_front_of_a_marked_block_is_told_once():
    bodies = [blocks(f"{HEADER}{turn}", STATIC, marked=[1]) for turn in "123"]
    assert found(*bodies) == [("changing_block", 1, "system[0]")]
    (finding,) = linted(*bodies).findings
    assert finding.message == (
        "This block differs from the last request, so that no marker behind it finds what was cached: "
        "give it the same text every time, leave it out, or move it into a message."
    )


def test_each_block_that_changes_in_front_of_a_marked_one_is_told():
    bodies = [blocks(f"{HEADER}{turn}", STATIC, f"turn {turn}", "end", marked=[3]) for turn in "12"]
    assert found(*bodies) == [("changing_block", 1, "system[0]"), ("changing_block", 1, "system[2]")]


def test_what_changes_behind_all_markers_is_in_its_place():
    bodies = [blocks(STATIC, f"turn {turn}", marked=[0], marker=None) for turn in "12"]
    assert found(*bodies) == []


def test_what_changes_in_front_of_a_marked_conversation_is_told_where_the_conversation_goes_on():
    bodies = [blocks(STATIC, f"turn {turn}", marked=[0]) for turn in "12"]
    assert found(*bodies) == [("changing_block", 1, "system[1]")]
    other = blocks(STATIC, "turn 2", marked=[0], talk="another conversation")
    assert found(bodies[0], other) == []
    automatic = [{**blocks(STATIC, f"turn {turn}", marker=None), "cache_control": MARK} for turn in "12"]
    assert found(*automatic) == [("changing_block", 1, "system[1]")]


def test_a_conversation_without_messages_does_not_go_on():
    bodies = [{"model": "m", "system": [text(turn), text(STATIC, MARK), text(turn)], "messages": []} for turn in "12"]
    assert found(*bodies) == [("changing_block", 1, "system[0]")]


def test_another_model_has_a_cache_of_its_own():
    bodies = [blocks(f"{HEADER}{turn}", STATIC, marked=[1], model=turn) for turn in "12"]
    assert found(*bodies) == []


def test_a_block_that_comes_in_front_is_told_and_those_that_it_moves_are_not():
    shorter = blocks(STATIC, "one", "two", marked=[2])
    longer = blocks(f"{HEADER}1", STATIC, "one", "two", marked=[3])
    assert found(shorter, longer) == [("changing_block", 1, "system[0]")]


def test_a_tool_that_keeps_its_name_and_changes_its_text_is_told():
    tools = [[TOOLS[0], {"name": "Read", "description": f"reads {turn}"}] for turn in "12"]
    assert found(*(body("a", tools=row) for row in tools)) == [("changing_block", 1, "tools[1]")]


def test_a_tool_in_the_place_of_another_is_no_changing_block():
    assert found(body("a"), body("a", tools=[TOOLS[0], {"name": "Write"}])) == []


def test_a_fault_that_stands_in_every_request_is_told_for_the_first():
    bodies = [body("a", system=STATIC + "In /home/ada"), body("a", "b", system=STATIC + "In /home/ada")]
    assert found(*bodies) == [("volatile_text", 0, "system[0]")]


@given(st.lists(REQUESTS, max_size=3), st.integers(0, 9))
def test_any_requests_are_linted_and_nothing_is_told_twice(bodies, minimum):
    result = linted(*bodies, minimum=minimum)
    told = [(one.code, one.at, one.message if one.code == "volatile_text" else "") for one in result.findings]
    assert len(told) == len(set(told))
    assert len(result.comparisons) == max(0, len(bodies) - 1)


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1-",
        "12:",
        "2026-",
        "30 Nov",
        "Nov",
        "Nov ",
        "a",
        "f-",
        "req_",
        "run_a-",
        "/home/",
        "/Users",
        "C:\\",
        " M",
        "?? ",
        "\n M ",
        "\n",
        "_",
    ],
)
def test_a_megabyte_of_hostile_text_is_gone_through(piece):
    hostile = piece * (MEGABYTE // len(piece))
    assert len([pattern.search(hostile) for _, pattern in VOLATILE]) == len(VOLATILE)
    assert linted(body("a", system=hostile)).comparisons == ()
