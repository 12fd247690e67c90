from hypothesis import given
from hypothesis import strategies as st

from app.core.tools import is_mcp, sorted_tools, tool_name, tool_names


def tool(name):
    return {"name": name, "input_schema": {}}


NAMES = st.sampled_from(["Read", "Bash", "mcp__b__x", "mcp__a__y", "mcp__a__x", "mcp__a_b__x", "mcp__"])


def test_built_in_tools_come_first_by_name_then_mcp_tools_by_server_and_name():
    given_order = ["mcp__b__a", "Write", "mcp__a__z", "mcp__a__b", "Bash", "mcp__ab__a"]
    assert [t["name"] for t in sorted_tools(map(tool, given_order))] == [
        "Bash",
        "Write",
        "mcp__a__b",
        "mcp__a__z",
        "mcp__ab__a",
        "mcp__b__a",
    ]


def test_a_tool_without_a_name_is_placed_by_its_type():
    nameless = {"type": "browser_toolset_20260801"}
    assert sorted_tools([tool("mcp__a__b"), tool("read"), nameless, {}]) == (
        {},
        nameless,
        tool("read"),
        tool("mcp__a__b"),
    )


@given(st.lists(NAMES).flatmap(lambda names: st.tuples(st.just(names), st.permutations(names))))
def test_the_order_does_not_depend_on_the_order_given(orders):
    names, shuffled = orders
    assert sorted_tools(map(tool, names)) == sorted_tools(map(tool, shuffled))


def test_tools_of_one_name_keep_their_order():
    first, second = tool("Read") | {"description": "z"}, tool("Read") | {"description": "a"}
    assert sorted_tools([first, second]) == (first, second)


def test_names_are_those_that_are_given():
    assert tool_names([tool("Read"), {"type": "x"}, {"name": ""}, {"name": 3}, tool("mcp__a__b")]) == {
        "Read",
        "mcp__a__b",
    }
    assert tool_name({"type": "x"}) is None


def test_mcp_tools_are_known_by_their_names_start():
    assert is_mcp("mcp__docs__search")
    assert not is_mcp("mcp_docs")
    assert not is_mcp("Read__mcp__")
