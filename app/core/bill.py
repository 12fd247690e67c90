"""What each part of a request costs in tokens: rows that add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.core.blocks import JOINT, Block
from app.core.facts import Json
from app.core.late import Late
from app.core.message import UserContext
from app.core.tokens import BYTES_PER_TOKEN, rough, rough_tool, spread, utf16_length
from app.core.tools import tool_name

MCP_INSTRUCTIONS = "mcp_instructions"

Servers = Sequence[tuple[str, str]]
"""Name and text of each MCP server that says something."""


def block_tokens(block: Block) -> tuple[int, ...]:
    """Rough tokens of each section of a block; together the rounded count of its text."""
    return spread([(length, BYTES_PER_TOKEN) for _, length in block.parts])


def fixed_parts(
    blocks: Sequence[Block], context: UserContext, tools: Sequence[Json], servers: Servers
) -> tuple[tuple[str, int], ...]:
    """(part, rough tokens) of what stands in front of the conversation."""
    return (
        *(row for block in blocks for row in _block_rows(block, servers)),
        *((f"tool:{tool_name(tool) or index}", rough_tool(tool)) for index, tool in enumerate(tools)),
        *context.tokens(),
    )


def late_parts(late: Sequence[Late]) -> tuple[tuple[str, int, int], ...]:
    """(part, rough tokens, place) of what joined the conversation."""
    return tuple((one.part, rough(one.text, one.units_per_token), one.at) for one in late)


def _block_rows(block: Block, servers: Servers) -> Iterator[tuple[str, int]]:
    """A row for each section, and one for each MCP server's instructions; together the count of the block."""
    sizes: list[tuple[str, int]] = []
    for name, length in block.parts:
        told = _told(block, servers) if name == MCP_INSTRUCTIONS else []
        sizes.extend([(f"system:{name}", length - sum(size for _, size in told)), *told])
    counts = spread([(size, BYTES_PER_TOKEN) for _, size in sizes])
    yield from zip((name for name, _ in sizes), counts, strict=True)


def _told(block: Block, servers: Servers) -> list[tuple[str, int]]:
    """The servers whose texts the block holds: a session's block keeps those of its first turn."""
    return [
        (f"mcp:{name}", utf16_length(text) + len(JOINT)) for name, text in servers if f"{JOINT}{text}" in block.text
    ]
