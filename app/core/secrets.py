"""Secrets hidden in text that is shown: keys, tokens, passwords. What looks like one goes, at worst too much."""

from __future__ import annotations

import re

HIDDEN = "•"

MARGIN = 8000
"""Characters around what is shown that are searched too: a secret may begin or end there."""

_SECRETS = re.compile(
    r"""
    -----BEGIN[^-]*-----[\s\S]*?(?:-----END[^-]*-----|\Z)
    | \b(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|npm|pypi|hf)[-_][A-Za-z0-9_-]{8,}
    | \bAIza[\w-]{30,}
    | (?<=hooks\.slack\.com/)[\w/-]{8,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{12,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?
    | (?<=://)[^\s/:@]{0,100}:[^\s/@]{1,200}@
    | \b[A-Za-z0-9+/_-]{40,}={0,2}
    """,
    re.VERBOSE,
)
# Bounded on purpose: unbounded runs around a name or a joint take quadratic time on hostile text.
_NAMED = re.compile(
    r"(?P<name>(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|credential|authorization|cookie)[\w-]{0,40})"
    r"(?P<joint>[\\\"']{0,4}(?:\s{0,8}[:=]\s{0,8}|\s{1,4})[\\\"']{0,4})(?P<scheme>(?:(?:basic|bearer)\s)?)(?P<value>[^\s\"',;]{4,})",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """``text`` with a dot for each character of what looks like a secret: places stay where they are."""
    return _NAMED.sub(_value_hidden, _SECRETS.sub(lambda found: HIDDEN * len(found[0]), text))


def masked_part(text: str, start: int, end: int) -> str:
    """``text[start:end]``, masked as it would be in the whole, but for secrets longer than MARGIN."""
    before = max(0, start - MARGIN)
    return masked(text[before : end + MARGIN])[start - before : end - before]


def _value_hidden(found: re.Match[str]) -> str:
    return found["name"] + found["joint"] + found["scheme"] + HIDDEN * len(found["value"])
