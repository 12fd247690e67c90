"""What may be written as the address of a Redis."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_DATABASE = re.compile(r"/?|/[0-9]{1,9}")
_REDIS_OPTIONS = {
    "redis": frozenset({"db"}),
    "rediss": frozenset({"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}),
    "unix": frozenset({"db", "password"}),
}


def is_redis_address(value: str) -> bool:
    """Whether it says where a Redis is, with no options but those that are for an address to say."""
    try:
        parts = urlsplit(value)
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        port = parts.port
    except ValueError:
        return False
    known = parts.scheme in _REDIS_OPTIONS and options.keys() <= _REDIS_OPTIONS[parts.scheme]
    numbered = all(one.isascii() and one.isdigit() for one in options.get("db", ()))
    plain = _PRINTABLE.fullmatch(value) and "#" not in value and known and numbered
    if parts.scheme == "unix":
        return bool(plain and len(parts.path) > 1 and parts.hostname is None)
    return bool(plain and parts.hostname and port != 0 and _DATABASE.fullmatch(parts.path))
