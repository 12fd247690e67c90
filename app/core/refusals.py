"""Why a Messages API did not answer: its status, its error type and its words, as one of a few reasons."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Reason = Literal[
    "no_key",
    "unauthorized",
    "too_long",
    "invalid",
    "not_found",
    "rate_limited",
    "overloaded",
    "timeout",
    "unreachable",
    "broken_stream",
    "unreadable",
    "untrusted",
    "server_error",
]

BY_TYPE: Mapping[str, Reason] = MappingProxyType(
    {
        "authentication_error": "unauthorized",
        "permission_error": "unauthorized",
        "request_too_large": "too_long",
        "not_found_error": "not_found",
        "rate_limit_error": "rate_limited",
        "overloaded_error": "overloaded",
        "timeout_error": "timeout",
    }
)
BY_STATUS: Mapping[int, Reason] = MappingProxyType(
    {
        401: "unauthorized",
        403: "unauthorized",
        404: "not_found",
        405: "not_found",
        408: "timeout",
        413: "too_long",
        429: "rate_limited",
        504: "timeout",
        529: "overloaded",
    }
)
TOO_LONG = ("prompt is too long", "exceed context limit", "input is too long")
"""What a 400 says when the request is more than the model takes."""

ADVICE: Mapping[Reason, str] = MappingProxyType(
    {
        "no_key": "There is no API key: set ANTHROPIC_API_KEY for the service, or send a key with the request.",
        "unauthorized": "The upstream refuses the API key: check ANTHROPIC_API_KEY, or the key sent with the request.",
        "too_long": "The request is more than the model takes: compact the conversation, or leave tools out.",
        "invalid": "The upstream refuses the request: mend what it names.",
        "not_found": "The upstream has no such model or address: check the model and STRATA_UPSTREAM_URL.",
        "rate_limited": "The upstream's rate limit is reached: ask again later.",
        "overloaded": "The upstream is overloaded: ask again later.",
        "timeout": "The upstream did not answer in time: ask again, or allow it more time.",
        "unreachable": "The upstream cannot be reached: check STRATA_UPSTREAM_URL and the network.",
        "broken_stream": "The upstream's answer broke off: ask again.",
        "unreadable": "The upstream's answer is not what the Messages API says: check STRATA_UPSTREAM_URL.",
        "untrusted": "The upstream gives the same count with and without a part of the request: its count is not used.",
        "server_error": "The upstream failed: ask again later.",
    }
)
"""What each reason means, and what to do."""

MOST_QUOTED = 300


def reason_of(status: int, error_type: str | None = None, words: str = "") -> Reason:
    """The reason of an answer with this status, ``error.type`` and ``error.message``.

    The type goes before the status: an error within a stream comes with status 200.
    """
    if any(sign in words.lower() for sign in TOO_LONG):
        return "too_long"
    known = BY_TYPE.get(error_type or "") or BY_STATUS.get(status)
    if known is not None:
        return known
    if 300 <= status < 400:  # noqa: PLR2004 - redirects are not followed: a key belongs to one address
        return "not_found"
    return "invalid" if error_type == "invalid_request_error" or 400 <= status < 500 else "server_error"  # noqa: PLR2004


def told(reason: Reason, words: str | None = None, key: str | None = None) -> str:
    """The sentence for a caller, with the upstream's own words behind it, cut short and without the ``key``."""
    hidden = words.replace(key, "[key]") if words and key else words or ""
    quoted = " ".join(hidden.split())
    cut = quoted if len(quoted) <= MOST_QUOTED else f"{quoted[:MOST_QUOTED]}…"
    ended = cut if cut.endswith((".", "!", "?", "…")) else f"{cut}."
    return f"{ADVICE[reason]} It says: {ended}" if cut else ADVICE[reason]
