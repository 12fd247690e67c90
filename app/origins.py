"""Which web pages may call: what a browser says of the page that a request comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from app.errors import OriginRefused

PAGES = frozenset({"/docs"})
"""Where a link on any page may lead to."""

WEIGHED = frozenset({b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest"})
"""All headers that a verdict depends on."""

ALLOWED_HEADERS = (
    b"anthropic-beta, authorization, content-type, if-none-match, last-event-id, x-api-key, x-request-id, "
    b"x-upstream-api-key"
)
PERMITTED = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-headers", ALLOWED_HEADERS),
    (b"access-control-max-age", b"600"),
)
NEAR = (b"access-control-allow-private-network", b"true")
EXPOSED = (b"access-control-expose-headers", b"etag, retry-after, x-request-id")
VARY = (b"vary", b"origin")

LONGEST_ORIGIN = 300
"""Bytes; a name of the DNS has at most 255."""

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PORTS = {"http": "80", "https": "443"}
_PLACE = r"(?P<name>\[[0-9a-f:.]+]|[a-z0-9._-]+)(?::(?P<port>[0-9]{0,5}))?"
_HOST = re.compile(_PLACE)
_ORIGIN = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*)://{_PLACE}")
_OWN_SITES = frozenset({b"same-origin", b"none"})
_NAVIGATION = {(b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"document")}

Header = tuple[bytes, bytes]
Headers = Sequence[Header]


def written(origin: str) -> str | None:
    """``origin`` as browsers write it: in lower case, without the scheme's own port; None: it is no origin."""
    found = _ORIGIN.fullmatch(origin.strip().removesuffix("/").lower())
    if found is None or len(found[0]) > LONGEST_ORIGIN:
        return None
    scheme, name, port = found["scheme"], found["name"], (found["port"] or "").lstrip("0")
    return f"{scheme}://{name}" if port in {"", _PORTS.get(scheme)} else f"{scheme}://{name}:{port}"


class Origins:
    """Lets pages of this service and of the ``allowed`` origins call, and no other page.

    Programs send none of the headers that are looked at, and are not meant. Raises ValueError for what is no origin.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self._shared = {origin.encode(): _sharing(origin) for origin in map(_read, allowed)}
        self._unshared = (VARY,) if self._shared else ()

    def refusal(self, method: str, path: str, headers: Headers) -> OriginRefused | None:
        """Why the page that asks is not answered. Of several values of a header, each has to be right."""
        origins = [value for name, value in headers if name == b"origin"]
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        if not origins and _OWN_SITES.issuperset(sites):
            return None
        if origins:
            admitted = len(origins) == 1 and (origins[0] in self._shared or _is_own(origins[0], sites, headers))
        else:
            admitted = _is_navigation(method, path, headers)
        return None if admitted else _refused()

    def headers_for(self, headers: Headers) -> tuple[Header, ...]:
        """What an answer says so that a page of an allowed origin may read it."""
        if not self._shared:
            return ()
        return self._shared.get(_only_origin(headers), self._unshared)

    def preflight(self, method: str, headers: Headers) -> tuple[Header, ...] | None:
        """What a page of an allowed origin may send, beside `headers_for`; None: it did not ask for that."""
        if method != "OPTIONS" or _only_origin(headers) not in self._shared:
            return None
        asked = {name for name, _ in headers}
        if b"access-control-request-method" not in asked:
            return None
        return (*PERMITTED, NEAR) if b"access-control-request-private-network" in asked else PERMITTED


def _read(origin: str) -> str:
    known = written(origin)
    if known is None:
        raise ValueError(f"{origin!r} is no origin: write one such as https://app.example, without a path")
    return known


def _sharing(origin: str) -> tuple[Header, ...]:
    return (b"access-control-allow-origin", origin.encode()), EXPOSED, VARY


def _only_origin(headers: Headers) -> bytes:
    """Empty where there is none, or more than one."""
    origins = [value for name, value in headers if name == b"origin"]
    return origins[0] if len(origins) == 1 else b""


def _is_own(origin: bytes, sites: Sequence[bytes], headers: Headers) -> bool:
    """Whether the page is of the address it calls, or both are this machine on one port.

    Behind a proxy with TLS the scheme is not known here; a browser then says itself whether it is the same.
    """
    page, host = _parts(_ORIGIN, origin), _parts(_HOST, _host(headers))
    own_port = _PORTS.get(page.get("scheme") or "")
    if own_port is None or (page["port"] or own_port) != (host.get("port") or own_port):
        return False
    names = page["name"], host.get("name")
    return _LOOPBACK.issuperset(names) or (names[0] == names[1] and _OWN_SITES.issuperset(sites))


def _host(headers: Headers) -> bytes:
    return next((value for name, value in headers if name == b"host"), b"").lower()


def _parts(form: re.Pattern[str], given: bytes) -> dict[str, str | None]:
    """Empty where ``given`` has not this form."""
    found = form.fullmatch(given.decode("latin-1")) if len(given) <= LONGEST_ORIGIN else None
    return found.groupdict() if found else {}


def _is_navigation(method: str, path: str, headers: Headers) -> bool:
    """Whether somebody follows a link to a page, in a tab of its own."""
    names = {name for name, _ in _NAVIGATION}
    return method in {"GET", "HEAD"} and path in PAGES and {one for one in headers if one[0] in names} == _NAVIGATION


def _refused() -> OriginRefused:
    return OriginRefused(
        "A web page of another origin asks. If it is to be answered, name its origin in STRATA_ALLOWED_ORIGINS."
    )
