"""The prompt cache, modelled: a marked prefix is written once, and read by whoever sends the same bytes again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from tests.standin.rules import Json, blocks_of, rows

BYTES_PER_TOKEN = 4
LOOKBACK = 20
"""How many blocks before a marker are tried for an earlier write."""


def _bare(value: Any) -> Any:
    """A block without its markers: they are not part of what is cached."""
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if name != "cache_control"}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def _written(row: Json) -> bytes:
    return json.dumps(_bare(row), ensure_ascii=False, separators=(",", ":")).encode()


def size(row: Json) -> int:
    """Tokens of one block, at least one."""
    return max(1, len(_written(row)) // BYTES_PER_TOKEN)


@dataclass(frozen=True)
class Prefix:
    """All blocks up to and including one: their digest, their tokens, and the ttl of the marker that ends them."""

    digest: str
    tokens: int
    ttl: str | None


def _marker_of(row: Json) -> Json | None:
    inner = row.get("content") if row.get("type") == "tool_result" else None
    nested = [block.get("cache_control") for block in inner] if isinstance(inner, list) else []
    marked: list[Json] = [marker for marker in (*nested, row.get("cache_control")) if marker is not None]
    return marked[-1] if marked else None


def prefixes(body: Json) -> list[Prefix]:
    """One per block in the API's order; a block of a message also carries its role."""
    running, tokens = hashlib.sha256(body["model"].encode()), 0
    roles = [None] * (len(body.get("tools") or []) + len(blocks_of(body.get("system"))))
    roles += [message["role"] for message in body["messages"] for _ in blocks_of(message["content"])]
    found: list[Prefix] = []
    for (_, row), role in zip(rows(body), roles, strict=True):
        written = _written(row)
        running.update(f"\n{role} {len(written)} ".encode() + written)
        tokens += size(row)
        marker = _marker_of(row)
        found.append(Prefix(running.hexdigest(), tokens, marker.get("ttl", "5m") if marker else None))
    top = body.get("cache_control")
    if top is not None and found[-1].ttl is None:
        found[-1] = Prefix(found[-1].digest, found[-1].tokens, top.get("ttl", "5m"))
    return found


@dataclass
class PromptCache:
    """``minimum`` is in tokens: a shorter prefix is neither written nor read. Nothing expires."""

    minimum: int = 1024
    held: set[str] = field(default_factory=set)

    def forget(self) -> None:
        self.held.clear()

    def use(self, body: Json) -> Json:
        """The usage of one request; remembers the prefixes it marked."""
        found = prefixes(body)
        marked = [index for index, prefix in enumerate(found) if prefix.ttl and prefix.tokens >= self.minimum]
        read = max((self._read(found, index) for index in marked), default=0)
        written = {"5m": 0, "1h": 0}
        reached = read
        for index in marked:
            written[found[index].ttl or "5m"] += max(0, found[index].tokens - reached)
            reached = max(reached, found[index].tokens)
            self.held.add(found[index].digest)
        return {
            "input_tokens": found[-1].tokens - reached,
            "cache_creation_input_tokens": reached - read,
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written["5m"],
                "ephemeral_1h_input_tokens": written["1h"],
            },
        }

    def _read(self, found: list[Prefix], marker: int) -> int:
        tried = found[max(0, marker - LOOKBACK) : marker + 1]
        return max((each.tokens for each in tried if each.digest in self.held), default=0)
