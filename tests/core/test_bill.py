from app.core.bill import rows, section_tokens
from app.core.blocks import Block
from app.core.facts import Message
from app.core.late import Late
from app.core.measures import Estimated, Rough
from app.core.message import Piece, UserContext

SERVERS = (("a", "## a\nOne."), ("b", "## b\nTwo."), ("gone", "## gone\nNot here."))
TEXT = "Static 文.\n\nServers:\n\n## a\nOne.\n\n## b\nTwo.\n\nEnd."
BLOCK = Block(TEXT, None, ("intro", "mcp_instructions", "end"), (("intro", 9), ("mcp_instructions", 32), ("end", 6)))
CONTEXT = UserContext({}, (Piece("user_context", "x" * 8), Piece("memory:/a", "y" * 8), Piece("user_context", "z" * 8)))


def counted(measure, tools=()):
    return rows(measure, ((BLOCK,), CONTEXT, SERVERS), tools, (Message("user", "w" * 8),), (Late(1, "late", "v" * 8),))


def test_every_part_has_a_row():
    found = counted(Rough(), ({"name": "Read"}, {"type": "web"}))
    assert [part.name for part in found.parts] == [
        "system:intro",
        "system:mcp_instructions",
        "mcp:a",
        "mcp:b",
        "system:end",
        "tool:Read",
        "tool:1",
        "user_context",
        "memory:/a",
        "messages[0]",
        "late",
    ]
    assert dict(found.fixed)["user_context"] == 4
    assert found.late == (("late", 2, 1),)


def test_what_the_api_adds_for_tools_is_counted_once_where_it_is_counted():
    assert "tool_overhead" in dict(counted(Estimated(1), ({"name": "a"}, {"name": "b"})).fixed)
    assert "tool_overhead" not in dict(counted(Estimated(1)).fixed)


def test_sections_cost_what_their_rows_add_up_to():
    found = counted(Rough())
    assert sum(section_tokens(found).values()) == sum(
        n for name, n in found.fixed if name.startswith(("system", "mcp"))
    )
    assert set(section_tokens(found)) == {"intro", "mcp_instructions", "end"}
