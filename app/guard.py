"""Who may call, and how much: host, web page, caller, key, rate and size, before anything is read of the body."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.callers import ANYONE, CALLER, Caller, Keyring, Keys, Meters
from app.errors import CallerRefused, HostRefused, KeyMissing, Problem, RateLimited, TooLarge, TooManyAtOnce
from app.origins import WEIGHED as WEIGHED_OF_PAGES
from app.origins import Origins
from app.refusing import refuse

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_HOST = re.compile(r"(?:\[(?P<address>[^]]+)]|(?P<name>[^:[\]]+))(?::\d*)?")
_ABSOLUTE = re.compile(rb"[A-Za-z][^:/?#]*://(?P<authority>[^/?#]*)")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

LONGEST_HOST = 300
"""Bytes of a host with its port; a name of the DNS has at most 255."""

MOST_DIGITS = 18
"""Of a length; a longer one is too large in any case."""

MOST_KNOWN = 1024
"""Hosts and addresses whose verdict is kept."""

COUNTED = "counted"
"""In the scope's state of a request that `Admission.under_way` counts already."""

_STREAMS = re.compile(rb"/v1/sessions/[^/]+/events")

Headers = Sequence[tuple[bytes, bytes]]

_WEIGHED = frozenset({b"x-api-key", b"authorization"}) | WEIGHED_OF_PAGES


class Admission:
    """Who may call, going by a request's head. Without keys: callers on the loopback interface only.

    ``hosts`` are names this service answers for beside the loopback ones, against DNS rebinding. Probes of health
    carry no key and, where keys are asked for, name no host.
    """

    def __init__(
        self, *, hosts: Iterable[str], keys: Keys, meters: Meters, origins: Origins, max_body_bytes: int
    ) -> None:
        self.hosts = frozenset({*LOOPBACK_HOSTS, *(host.lower() for host in hosts)}) - {""}
        self.meters, self.origins = meters, origins
        self.max_body_bytes = max_body_bytes
        self._keys, self._ring = keys, keys.ring
        self._names_us = lru_cache(MOST_KNOWN)(self._is_own_name)
        self._is_near = lru_cache(MOST_KNOWN)(_is_loopback)

    @property
    def ring(self) -> Keyring:
        """Another object once the keys have changed: what was found out about callers does not count any more."""
        ring = self._keys.ring
        if ring is not self._ring:
            self._ring = ring
            self.meters.keep(ring)
        return ring

    def verdict(self, method: str, path: str, given: Headers, client: str | None) -> Caller | Problem:
        """The caller, or why the request does not go on. ``client`` as for `caller`."""
        caller = self.caller(method, path, given, client)
        return caller if isinstance(caller, Problem) else self.weighed(caller, given) or caller

    def caller(self, method: str, path: str, given: Headers, client: str | None) -> Caller | Problem:
        """Who calls, or why nobody may.

        ``client`` is an address; None: a Unix socket or a caller in the process.
        """
        ring, is_open = self.ring, path in OPEN_PATHS
        headers = [header for header in given if header[0] in _WEIGHED]
        if not (is_open and ring.asks) and not self._is_for_us(headers):
            return HostRefused("Call it by localhost or 127.0.0.1, or name this host in STRATA_ALLOWED_HOSTS.")
        if foreign := self.origins.refusal(method, path, headers):
            return foreign
        if not ring.asks and client is not None and not self._is_near(client):
            return CallerRefused("No API key is configured: call from the same machine, or set STRATA_API_KEYS.")
        weighed = dict(headers)
        caller = ANYONE if is_open or not ring.asks else ring.caller(_key_in(weighed))
        if caller is None:
            return KeyMissing("Send a key of this service as x-api-key or as Authorization: Bearer.")
        return caller

    def weighed(self, caller: Caller, headers: Headers) -> Problem | None:
        """Why a body of the length that is told is not taken."""
        length = dict(headers).get(b"content-length", b"0")
        too_large = length.isdigit() and (len(length) > MOST_DIGITS or int(length) > self.most_bytes(caller))
        return self.too_large(caller) if too_large else None

    def knows(self, caller: Caller) -> bool:
        """Whether the caller, who was admitted once, would be again."""
        ring = self.ring
        return caller in ring.callers.values() if ring.asks else caller == ANYONE

    def wait(self, caller: Caller) -> float:
        """Seconds after which the caller may ask; 0: now, and that it asked counts."""
        return self.meters.wait(caller)

    def most_bytes(self, caller: Caller) -> int:
        return min(self.max_body_bytes, caller.max_body_bytes or self.max_body_bytes)

    def too_large(self, caller: Caller) -> Problem:
        most = self.most_bytes(caller)
        named = "STRATA_MAX_BODY_BYTES" if most == self.max_body_bytes else "this key's max_body_bytes"
        return TooLarge(
            f"The body may have {most:,} bytes ({named}): send fewer files, or use a local or git workspace."
        )

    @contextmanager
    def under_way(self, caller: Caller, *, streams: bool) -> Iterator[None]:
        """Counts a request for as long as it lasts; ``streams``: one for events. Raises TooManyAtOnce."""
        meter = self.meters.of(caller)
        most, now = (caller.streams, meter.streams) if streams else (caller.at_once, meter.under_way)
        if most is not None and now >= most:
            what, named = ("event streams", "event_streams") if streams else ("requests", "requests_at_once")
            raise TooManyAtOnce(f"This key may have {most} {what} at once ({named}): wait until one has ended.")
        meter.streams += streams
        meter.under_way += not streams
        try:
            yield
        finally:
            meter.streams -= streams
            meter.under_way -= not streams

    def _is_for_us(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Of several hosts, all."""
        named = False
        for name, value in headers:
            if name == b"host":
                named = True
                if len(value) > LONGEST_HOST or not self._names_us(value):
                    return False
        return named

    def _is_own_name(self, host: bytes) -> bool:
        return _host_name(host) in self.hosts


class Guard:
    """A pure ASGI layer that lets pass what ``admission`` admits, and no more of a body than it allows.

    ``refused`` is told the type of each refusal.
    """

    def __init__(self, app: ASGIApp, admission: Admission, refused: Callable[[str], object]) -> None:
        self.app, self.admission, self._refused = app, admission, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        permitted = self.admission.origins.preflight(scope["method"], scope["headers"])
        if permitted is not None:
            await send({"type": "http.response.start", "status": 204, "headers": list(permitted)})
            await send({"type": "http.response.body", "body": b""})
            return
        client, path = scope.get("client"), scope["path"]
        caller = self.admission.caller(scope["method"], path, scope["headers"], client[0] if client else None)
        if isinstance(caller, Problem):
            await self._refuse(caller, scope, send)
            return
        scope.setdefault("state", {})[CALLER] = caller
        if problem := self.admission.weighed(caller, scope["headers"]) or self._too_often(caller, path):
            await self._refuse(problem, scope, send)
        else:
            await self._admitted(caller, scope, receive, send)

    def _too_often(self, caller: Caller, path: str) -> Problem | None:
        wait = 0.0 if path in OPEN_PATHS else self.admission.wait(caller)
        if not wait:
            return None
        most = f"{caller.rate.per_minute:,} times a minute (requests_per_minute)" if caller.rate else "no more"
        return RateLimited(f"This key may ask {most}: ask again after Retry-After.", seconds=wait)

    async def _admitted(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        counted = scope["state"].get(COUNTED, False)
        try:
            with nullcontext() if counted else self.admission.under_way(caller, streams=is_stream(scope)):
                await self.app(scope, self._limited(caller, receive), send_noting)
        except (TooManyAtOnce, _BodyTooLargeError) as error:
            if not started:
                problem = error if isinstance(error, Problem) else self.admission.too_large(caller)
                await self._refuse(problem, scope, send)

    async def _refuse(self, problem: Problem, scope: Scope, send: Send) -> None:
        self._refused(problem.type)
        await refuse(problem, scope, send)

    def _limited(self, caller: Caller, receive: Receive) -> Receive:
        taken, most = 0, self.admission.most_bytes(caller)

        async def receive_limited() -> Message:
            nonlocal taken
            message = await receive()
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                if taken > most:
                    raise _BodyTooLargeError
            return message

        return receive_limited


class _BodyTooLargeError(Exception):
    """A body without a length, or with a false one, passed the limit."""


def is_stream(scope: Scope) -> bool:
    """Whether it asks for a session's events, as the routes have it: a slash in a session's name is no part of that."""
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    return scope["method"] == "GET" and _STREAMS.fullmatch(path.partition(b"?")[0]) is not None


def host_in(target: bytes) -> bytes | None:
    """The host of a target in absolute form, which counts instead of the header (RFC 9112, 3.2.2); None: no host."""
    absolute = _ABSOLUTE.match(target)
    return absolute["authority"] if absolute else None


def _key_in(headers: Mapping[bytes, bytes]) -> bytes:
    scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
    return headers.get(b"x-api-key") or (bearer.strip() if scheme.lower() == b"bearer" else b"")


def _host_name(host: bytes) -> str:
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return (found["address"] or found["name"]) if found else ""


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
