"""What the Messages API takes, as tables: fields of a body, of a message, of each kind of block and of a tool."""

from __future__ import annotations

COUNT_FIELDS = frozenset(
    {"cache_control", "messages", "model", "output_config", "system", "thinking", "tool_choice", "tools"}
)
CREATE_FIELDS = COUNT_FIELDS | {
    "container",
    "inference_geo",
    "max_tokens",
    "metadata",
    "service_tier",
    "stop_sequences",
    "stream",
    "temperature",
    "top_k",
    "top_p",
}
MESSAGE_FIELDS = frozenset({"role", "content"})
CACHE_CONTROL_FIELDS = frozenset({"type", "ttl", "scope"})
TOOL_FIELDS = frozenset(
    {
        "allowed_callers",
        "cache_control",
        "defer_loading",
        "description",
        "eager_input_streaming",
        "input_examples",
        "input_schema",
        "name",
        "strict",
        "type",
    }
)

BLOCK_FIELDS = {
    # kind: (required, optional), beside `type`
    "text": ({"text"}, {"cache_control", "citations"}),
    "image": ({"source"}, {"cache_control"}),
    "document": ({"source"}, {"cache_control", "title", "context", "citations"}),
    "search_result": ({"source", "title", "content"}, {"cache_control", "citations"}),
    "thinking": ({"thinking", "signature"}, set[str]()),
    "redacted_thinking": ({"data"}, set[str]()),
    "tool_use": ({"id", "name", "input"}, {"cache_control", "caller"}),
    "tool_result": ({"tool_use_id"}, {"cache_control", "content", "is_error"}),
    "server_tool_use": ({"id", "name", "input"}, {"cache_control", "caller"}),
    "web_search_tool_result": ({"tool_use_id", "content"}, {"cache_control", "caller"}),
    "web_fetch_tool_result": ({"tool_use_id", "content"}, {"cache_control", "caller"}),
}
ONLY_BY_ASSISTANT = frozenset({"thinking", "redacted_thinking", "tool_use", "server_tool_use"})
ONLY_BY_USER = frozenset({"tool_result", "image", "document", "search_result"})
THINKING = frozenset({"thinking", "redacted_thinking"})

SCOPE_BETA = "prompt-caching-scope-2026-01-05"
SYSTEM_ROLE_BETA = "mid-conversation-system"
"""How the beta value begins that lets a message have the role ``system``."""
