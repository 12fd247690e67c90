"""Names of sessions that belong to tenants: the same name of two tenants is two sessions."""

from __future__ import annotations

APART = "\x1f"
"""Between a tenant's space and the caller's name; no space holds it."""


def name_in(space: str, session: str) -> str:
    """What a session is called inside. ``space`` is the tenant's, empty where callers are not told apart."""
    return f"{space}{APART}{session}" if space or APART in session else session


def name_shown(name: str) -> str:
    """What its caller calls it."""
    space, apart, session = name.partition(APART)
    return session if apart else space


def tenant_in(name: str) -> str:
    """Whose it is, whatever roots its key has; empty where callers are not told apart."""
    space, apart, _ = name.partition(APART)
    return space.partition("/")[0] if apart else ""
