import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.blocks import HEADER_START, Block, choose_mode, cut, global_scope, parted
from app.core.facts import CacheOptions
from app.core.registry import BOUNDARY, Element
from app.core.tokens import utf16_length

HEADER = "x-anthropic-billing-header: v=1"


def element(name, text):
    return Element(name, text, "static")


DEFAULT = (
    element("attribution_header", HEADER),
    element("prefix", "You are P."),
    element("intro", "I"),
    element("doing_tasks", None),
    element("actions", "A😀"),
    element("boundary", BOUNDARY),
    element("env_info", "E"),
    element("language", " \n"),
    element("append", "Z"),
)


def test_global_mode_shares_only_what_stands_before_the_boundary():
    assert cut(DEFAULT, "global") == (
        Block(HEADER, None, ("attribution_header",), (("attribution_header", 31),)),
        Block("You are P.", None, ("prefix",), (("prefix", 10),)),
        Block("I\n\nA😀", "global", ("intro", "actions"), (("intro", 1), ("actions", 5))),
        Block("E\n\nZ", None, ("env_info", "append"), (("env_info", 1), ("append", 3))),
    )


@pytest.mark.parametrize(("mode", "scope"), [("tool_based", "org"), ("org", "org"), ("off", None)])
def test_other_modes_join_everything_behind_the_prefix(mode, scope):
    parts = (("intro", 1), ("actions", 5), ("env_info", 3), ("append", 3))
    assert cut(DEFAULT, mode) == (
        Block(HEADER, None, ("attribution_header",), (("attribution_header", 31),)),
        Block("You are P.", scope, ("prefix",), (("prefix", 10),)),
        Block("I\n\nA😀\n\nE\n\nZ", scope, ("intro", "actions", "env_info", "append"), parts),
    )


def test_a_header_is_known_by_its_start_when_it_stands_in_front():
    blocks = cut((element("custom", HEADER), element("append", HEADER)), "org")
    assert [(block.sections, block.scope) for block in blocks] == [(("custom",), None), (("append",), "org")]


def test_a_header_of_another_spelling_still_stands_alone_and_unmarked():
    blocks = cut(
        (element("attribution_header", "client=1"), element("intro", "I"), element("boundary", BOUNDARY)), "global"
    )
    assert [(block.text, block.scope) for block in blocks] == [("client=1", None), ("I", "global")]


def test_without_a_boundary_nothing_is_shared_by_all():
    assert [block.scope for block in cut((element("intro", "I"), element("append", "Z")), "global")] == [None]


def test_a_callers_text_that_is_the_boundary_never_reaches_the_wire_and_moves_nothing():
    blocks = cut((*DEFAULT, element("append", BOUNDARY)), "global")
    assert [block.sections for block in blocks][2:] == [("intro", "actions"), ("env_info", "append")]
    assert all(BOUNDARY not in block.text for block in blocks)


def test_nothing_to_say_makes_no_blocks():
    assert cut((element("intro", None), element("append", " ")), "org") == ()


TEXTS = st.one_of(st.none(), st.text(max_size=6), st.just("😀"), st.just(BOUNDARY))
NAMES = ("intro", "env_info", "append", "prefix", "attribution_header", "boundary", "custom")


@given(
    st.lists(st.builds(element, st.sampled_from(NAMES), TEXTS)),
    st.sampled_from(["global", "tool_based", "org", "off"]),
)
def test_no_block_is_blank_and_parts_add_up_to_the_text(elements, mode):
    for block in cut(elements, mode):
        assert block.text.strip()
        assert BOUNDARY not in block.text.split("\n\n")
        assert tuple(name for name, _ in block.parts) == block.sections
        assert sum(length for _, length in block.parts) == utf16_length(block.text)


@pytest.mark.parametrize(
    ("provider", "cache", "boundary", "tools", "mode"),
    [
        ("anthropic", CacheOptions(), True, {"Read"}, "global"),
        ("anthropic", CacheOptions(), True, {"Read", "mcp__docs__find"}, "tool_based"),
        ("anthropic", CacheOptions(), False, {"Read"}, "org"),
        ("anthropic", CacheOptions(), False, {"mcp__docs__find"}, "org"),
        ("anthropic", CacheOptions(scope="org"), True, set(), "org"),
        ("anthropic", CacheOptions(scope="off"), True, set(), "off"),
        ("anthropic", CacheOptions(enabled=False), True, set(), "off"),
        ("bedrock", CacheOptions(), True, set(), "org"),
        ("vertex", CacheOptions(), True, set(), "org"),
        ("foundry", CacheOptions(), True, set(), "org"),
        ("custom", CacheOptions(), True, {"mcp__docs__find"}, "org"),
        ("custom", CacheOptions(enabled=False), False, set(), "off"),
    ],
)
def test_the_mode_follows_the_provider_the_options_the_boundary_and_the_tools(provider, cache, boundary, tools, mode):
    assert choose_mode(provider, cache, boundary, tools) == mode


@pytest.mark.parametrize(
    ("provider", "cache", "default_prompt", "shared"),
    [
        ("anthropic", CacheOptions(), True, True),
        ("anthropic", CacheOptions(), False, False),
        ("vertex", CacheOptions(), True, False),
        ("anthropic", CacheOptions(scope="org"), True, False),
        ("anthropic", CacheOptions(scope="off"), True, False),
        ("anthropic", CacheOptions(enabled=False), True, False),
    ],
)
def test_the_boundary_is_asked_for_only_where_all_may_share(provider, cache, default_prompt, shared):
    assert global_scope(provider, cache, default_prompt=default_prompt) is shared


MERGED = f"{HEADER_START}: x\n\nYou review."


def sections_of(blocks):
    return [(block.text, block.scope, block.sections) for block in blocks]


def test_a_header_with_other_text_behind_it_is_a_block_of_its_own():
    assert sections_of(cut(parted([element("custom", MERGED)]), "org")) == [
        (f"{HEADER_START}: x", None, ("attribution_header",)),
        ("You review.", "org", ("custom",)),
    ]


@pytest.mark.parametrize(
    "text", [f"{HEADER_START}: x", f"{HEADER_START}: x\n", f"{HEADER_START}: x\n \n", "Not one.\nx", "", None]
)
def test_a_header_alone_and_a_text_without_one_stay_as_they_are(text):
    elements = (element("custom", text), element("append", "Z"))
    assert parted(elements) == elements


def test_only_the_first_text_is_searched_for_a_header():
    elements = (element("doing_tasks", None), element("custom", MERGED), element("append", MERGED))
    assert [one.name for one in parted(elements)] == ["doing_tasks", "attribution_header", "custom", "append"]
    behind = (element("intro", "I"), element("append", MERGED))
    assert parted(behind) == behind
    assert parted(()) == ()


@pytest.mark.parametrize("name", ["attribution_header", "custom"])
def test_what_stands_behind_the_first_line_of_a_header_is_shared_with_nobody(name):
    elements = parted((element(name, MERGED), *DEFAULT[1:]))
    own = "attribution_rest" if name == "attribution_header" else name
    assert sections_of(cut(elements, "global")) == [
        (f"{HEADER_START}: x", None, ("attribution_header",)),
        ("You are P.", None, ("prefix",)),
        ("I\n\nA😀", "global", ("intro", "actions")),
        ("You review.\n\nE\n\nZ", None, (own, "env_info", "append")),
    ]


def test_the_rest_of_a_header_stands_at_the_same_place_whether_all_share_or_not():
    texts = {
        mode: [block.text for block in cut(parted((element("attribution_header", MERGED), *DEFAULT[1:])), mode)]
        for mode in ("tool_based", "org", "off")
    }
    whole = [f"{HEADER_START}: x", "You are P.", "I\n\nA😀\n\nYou review.\n\nE\n\nZ"]
    assert texts == dict.fromkeys(texts, whole)


def test_line_ends_of_windows_part_a_header_too():
    elements = parted([element("custom", f"{HEADER_START}: x\r\n\r\nYou\r\nreview.")])
    assert [one.text for one in elements] == [f"{HEADER_START}: x", "You\r\nreview."]


OWN = st.text(alphabet="xy \n\r", max_size=8)


@given(st.sampled_from(["attribution_header", "custom", "prefix"]), OWN)
def test_no_text_of_the_callers_is_ever_shared_by_all(name, own):
    for given_text in (HEADER + own, own, f"{HEADER}\n{own}"):
        elements = parted((element("attribution_header" if name == "custom" else name, given_text), *DEFAULT[2:]))
        assert [block.text for block in cut(elements, "global") if block.scope == "global"] == ["I\n\nA😀"]
