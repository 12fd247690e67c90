"""The order of tools: they stand in front of everything, so the same set must give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable

from app.core.facts import Json

MCP = "mcp__"


def is_mcp(name: str) -> bool:
    """Whether a tool of that name comes from an MCP server (``mcp__SERVER__TOOL``)."""
    return name.startswith(MCP)


def tool_name(tool: Json) -> str | None:
    """None for a tool the API knows by its type alone."""
    name = tool.get("name")
    return name if isinstance(name, str) and name else None


def tool_names(tools: Iterable[Json]) -> frozenset[str]:
    return frozenset(name for tool in tools if (name := tool_name(tool)) is not None)


def sorted_tools(tools: Iterable[Json]) -> tuple[Json, ...]:
    """Built-in tools by name (or type, where they have none), then MCP tools by server and name.

    Tools of one name keep their order.
    """
    return tuple(sorted(tools, key=_place))


def _place(tool: Json) -> tuple[bool, str, str]:
    name = tool_name(tool) or str(tool.get("type", ""))
    if not is_mcp(name):
        return (False, "", name)
    server, _, own = name.removeprefix(MCP).partition("__")
    return (True, server, own)
