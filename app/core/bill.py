"""What each part of a request costs in tokens: rows that add up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.core.blocks import JOINT, Block
from app.core.facts import Json, Message
from app.core.late import Late
from app.core.measures import Measure
from app.core.message import UserContext
from app.core.tokens import BYTES_PER_TOKEN, Rows
from app.core.tools import tool_name

MCP_INSTRUCTIONS = "mcp_instructions"
OVERHEAD = "tool_overhead"

Servers = Sequence[tuple[str, str]]
"""Name and text of each MCP server that says something."""


def section_tokens(rows: Rows) -> dict[str, int]:
    """What each section costs, the one of MCP servers with all that they say."""
    found: dict[str, int] = {}
    for name, tokens in rows.fixed:
        kind, _, own = name.partition(":")
        section = MCP_INSTRUCTIONS if kind == "mcp" else own
        if kind in {"system", "mcp"}:
            found[section] = found.get(section, 0) + tokens
    return found


def rows(
    measure: Measure,
    prompt: tuple[Sequence[Block], UserContext, Servers],
    tools: Sequence[Json],
    messages: Sequence[Message],
    late: Sequence[Late],
) -> Rows:
    """All of a request: a row for each section, server, file, tool, message and late text."""
    blocks, context, servers = prompt
    return Rows(
        fixed=(
            *(row for block in blocks for row in _block_rows(measure, block, servers)),
            *tool_rows(measure, tools),
            *_context_rows(measure, context),
        ),
        messages=tuple(measure.message(message) for message in messages),
        late=tuple((one.part, measure.texts([(one.text, one.units_per_token)])[0], one.at) for one in late),
    )


def tool_rows(measure: Measure, tools: Sequence[Json]) -> Iterator[tuple[str, int]]:
    """A row for each tool, and one for what the API adds once for all of them, where that is counted."""
    yield from ((f"tool:{tool_name(tool) or index}", measure.tool(tool)) for index, tool in enumerate(tools))
    if tools and measure.overhead:
        yield OVERHEAD, measure.overhead


def _context_rows(measure: Measure, context: UserContext) -> Iterator[tuple[str, int]]:
    counts = measure.texts([(piece.text, piece.units_per_token) for piece in context.pieces])
    together: dict[str, int] = {}
    for piece, tokens in zip(context.pieces, counts, strict=True):
        together[piece.part] = together.get(piece.part, 0) + tokens
    yield from together.items()


def _block_rows(measure: Measure, block: Block, servers: Servers) -> Iterator[tuple[str, int]]:
    """A row for each section, and one for each MCP server's instructions; together the count of the block."""
    texts = [row for name, text in _sections(block) for row in _split(name, text, servers)]
    counts = measure.texts([(text, BYTES_PER_TOKEN) for _, text in texts])
    yield from zip((name for name, _ in texts), counts, strict=True)


def _sections(block: Block) -> Iterator[tuple[str, str]]:
    """Name and text of each section, with the joint before it."""
    units = None if block.text.isascii() else block.text.encode("utf-16-le", "surrogatepass")
    start = 0
    for name, length in block.parts:
        end = start + length
        text = (
            block.text[start:end] if units is None else units[2 * start : 2 * end].decode("utf-16-le", "surrogatepass")
        )
        yield name, text
        start = end


def _split(name: str, text: str, servers: Servers) -> Iterator[tuple[str, str]]:
    """A section's row, and those of the servers whose texts it holds: a session's section keeps its first ones."""
    if name != MCP_INSTRUCTIONS:
        yield f"system:{name}", text
        return
    own, told, start = [], [], 0
    for server, words in servers:
        at = text.find(f"{JOINT}{words}", start)
        if at >= 0:
            own.append(text[start:at])
            start = at + len(JOINT) + len(words)
            told.append((f"mcp:{server}", text[at:start]))
    yield f"system:{name}", "".join((*own, text[start:]))
    yield from told
