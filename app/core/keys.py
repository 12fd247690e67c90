"""API keys as they are kept: by their SHA-256 alone."""

from __future__ import annotations

import hashlib
import re

HASHED = "sha256:"
_HASH = re.compile(r"sha256:[0-9a-f]{64}", re.IGNORECASE)


def hashed(key: str) -> str:
    """``sha256:`` and 64 hexadecimal digits; a key that is written so already is itself, in small letters.

    Raises ValueError of what only begins so: whoever wrote it meant a hash.
    """
    if _HASH.fullmatch(key):
        return key.lower()
    if key.lower().startswith(HASHED):
        raise ValueError("behind sha256: write the 64 hexadecimal digits of the key's hash")
    return HASHED + hashlib.sha256(key.encode()).hexdigest()


def digest_in(kept: str) -> bytes:
    """The SHA-256 of a key that is kept as ``kept``."""
    return bytes.fromhex(kept.removeprefix(HASHED))
