"""Who may call, and how much: host, caller, key and size of the body, before anything is read of it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import CallerRefused, HostRefused, KeyMissing, Problem, TooLarge
from app.wire.problems import MEDIA_TYPE, problem_bytes

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_HOST = re.compile(r"(?:\[(?P<address>[^]]+)]|(?P<name>[^:[\]]+))(?::\d*)?")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

LONGEST_HOST = 300
"""Bytes of a host with its port; a name of the DNS has at most 255."""

MOST_KNOWN = 1024
"""Hosts and addresses whose verdict is kept."""

Headers = Sequence[tuple[bytes, bytes]]

_WEIGHED = frozenset({b"host", b"x-api-key", b"authorization", b"content-length"})


class Admission:
    """Who may call, going by a request's head. ``keys`` empty: callers on the loopback interface only.

    ``hosts`` are names this service answers for beside the loopback ones, against DNS rebinding. Probes of health name
    no host and carry no key.
    """

    def __init__(self, *, hosts: Iterable[str], keys: Iterable[str], max_body_bytes: int) -> None:
        self.hosts = frozenset({*LOOPBACK_HOSTS, *(host.lower() for host in hosts)}) - {""}
        self.keys = tuple(_digest(key.encode()) for key in keys)
        self.max_body_bytes = max_body_bytes
        self._names_us = lru_cache(MOST_KNOWN)(self._is_own_name)
        self._is_near = lru_cache(MOST_KNOWN)(_is_loopback)

    def refusal(self, path: str, given: Headers, client: str | None) -> Problem | None:
        """Why the request does not go on. ``client`` is an address; None: a Unix socket or a caller in the process."""
        is_open = path in OPEN_PATHS
        headers = [header for header in given if header[0] in _WEIGHED]
        if not is_open and not self._is_for_us(headers):
            return HostRefused("Call it by localhost or 127.0.0.1, or name this host in STRATA_ALLOWED_HOSTS.")
        if not self.keys and client is not None and not self._is_near(client):
            return CallerRefused("No API key is configured: call from the same machine, or set STRATA_API_KEYS.")
        weighed = dict(headers)
        if self.keys and not is_open and not self._has_key(weighed):
            return KeyMissing("Send a key as x-api-key or as Authorization: Bearer.")
        length = weighed.get(b"content-length", b"0")
        return self.too_large() if length.isdigit() and int(length) > self.max_body_bytes else None

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

    def _has_key(self, headers: Mapping[bytes, bytes]) -> bool:
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        given = headers.get(b"x-api-key") or (bearer.strip() if scheme.lower() == b"bearer" else b"")
        found = [hmac.compare_digest(_digest(given), key) for key in self.keys]
        return any(found)

    def too_large(self) -> Problem:
        return TooLarge(
            f"The body may have {self.max_body_bytes:,} bytes (STRATA_MAX_BODY_BYTES): send fewer files, or use a "
            "local or git workspace."
        )


class Guard:
    """A pure ASGI layer that lets pass what ``admission`` admits, and no more of a body than it allows."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self.app = app
        self.admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client = scope.get("client")
        problem = self.admission.refusal(scope["path"], scope["headers"], client[0] if client else None)
        if problem is not None:
            await _refuse(problem, scope, send)
            return
        started = False

        async def send_noting(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, self._limited(receive), send_noting)
        except _BodyTooLargeError:
            if not started:
                await _refuse(self.admission.too_large(), scope, send)

    def _limited(self, receive: Receive) -> Receive:
        taken = 0

        async def receive_limited() -> Message:
            nonlocal taken
            message = await receive()
            if message["type"] == "http.request":
                taken += len(message.get("body", b""))
                if taken > self.admission.max_body_bytes:
                    raise _BodyTooLargeError
            return message

        return receive_limited


class _BodyTooLargeError(Exception):
    """A body without a length, or with a false one, passed the limit."""


async def _refuse(problem: Problem, scope: Scope, send: Send) -> None:
    body = problem_bytes(problem, scope.get("state", {}).get("request_id"))
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


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
