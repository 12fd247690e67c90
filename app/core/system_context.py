"""What the prompt says of the repository: a snapshot, so that it does not change within a session."""

from __future__ import annotations

from app.core.facts import GitFacts, SessionSettings
from app.core.tokens import utf16_length
from app.core.units import first_units

STATUS_LIMIT = 2_000
"""UTF-16 units."""
SHOWN_COMMITS = 5
GIT_STATUS = "gitStatus"
SNAPSHOT = (
    "This is the state of the git repository when the conversation started. "
    "It is a snapshot and will not update; a change that matters is told later in the conversation."
)


def system_context(git: GitFacts | None, settings: SessionSettings) -> str | None:
    """``key: value`` per line for ``gitStatus`` and ``cacheBreaker``; None when there is neither."""
    entries = (
        (GIT_STATUS, _git_status(git) if settings.include_git_instructions else None),
        ("cacheBreaker", settings.cache_breaker),
    )
    return "\n".join(f"{key}: {value}" for key, value in entries if value) or None


def _git_status(git: GitFacts | None) -> str | None:
    """Paragraphs for what is known; None when nothing is."""
    if git is None:
        return None
    known = (
        *((f"Current branch: {git.branch}",) if git.branch else ()),
        *((f"Main branch (you will usually use this for PRs): {git.default_branch}",) if git.default_branch else ()),
        *((f"Status:\n{short_status(git.status)}",) if git.status is not None else ()),
        *(("\n".join(("Recent commits:", *git.log[:SHOWN_COMMITS])),) if git.log else ()),
    )
    return "\n\n".join((SNAPSHOT, *known)) if known else None


def short_status(status: str) -> str:
    """``(clean)``, or the status as far as the limit allows, with a word on how to see the rest."""
    whole = status.rstrip()
    if not whole:
        return "(clean)"
    if utf16_length(whole) <= STATUS_LIMIT:
        return whole
    return (
        f"{first_units(whole, STATUS_LIMIT)}\n[cut after {STATUS_LIMIT} characters: run `git status` to see the rest]"
    )
