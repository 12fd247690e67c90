"""A body for each operation that takes one, as somebody would send it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

SESSION = "s1"

_FILES = {
    "/p/CLAUDE.md": "Use tabs.",
    "/p/.claude/rules/sql.md": '---\npaths: "**/*.sql"\n---\nNo SELECT *.',
}
_WORKSPACE = {"source": "inline", "cwd": "/p", "files": _FILES}
_MESSAGES = [
    {"role": "user", "content": "Add a discount field."},
    {"role": "assistant", "content": "It is in price.py now."},
    {"role": "user", "content": "Add a test."},
]

BODIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "POST /v1/context": {
            "model": "sonnet",
            "session_id": SESSION,
            "workspace": _WORKSPACE,
            "messages": _MESSAGES[:1],
        },
        "POST /v1/attachments": {
            "session_id": SESSION,
            "workspace": _WORKSPACE,
            "touched": [{"path": "db/prices.sql", "event": "read"}],
        },
        "POST /v1/scan": {"workspace": _WORKSPACE},
        "POST /v1/tokens": {"model": "sonnet", "messages": _MESSAGES},
        "POST /v1/cache/lint": {
            "requests": [
                {"body": {"model": "claude-sonnet-5-5", "messages": _MESSAGES[:1]}},
                {"body": {"model": "claude-sonnet-5-5", "messages": _MESSAGES}},
            ]
        },
        "POST /v1/compactions": {
            "mode": "plan",
            "model": "sonnet",
            "session_id": SESSION,
            "workspace": _WORKSPACE,
            "messages": _MESSAGES,
        },
        "POST /v1/sessions/{session_id}/compactions": {
            "outcome": "ok",
            "tokens_before": 160_000,
            "tokens_after": 12_000,
        },
        "POST /v1/sessions/{session_id}/clear": {"reason": "clear"},
    }
)
"""By method and path. They may be sent in this order."""
